"""From simulated draws to an expected value and its standard error, four ways.

    plain        mean of the rewards
    expected     mean regret at the true success probabilities, under the exact expected best
    gap          upper bound minus the mean of the gap terms (Theorem 1)
    regression   the mean rewards regressed on controls whose mean is known: all of the above,
                 and functions of the parameters alone

A draw is one choice of the parameters; the episodes that share it are averaged first, so that draws
are independent and their spread gives the error. The regression is biased of the order of one over
the number of draws, far below its error; it is offered from MIN_DRAWS per control on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MIN_DRAWS = 10  # for each control, below which a regression fits the noise
SAME = 1e-10  # a control that varies less than this part of its size is a constant


@dataclass(frozen=True)
class Estimate:
    """An expected total reward."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Sample:
    """What one policy did in every draw, averaged over the episodes of the draw."""

    reward: Floats  # (draws,) from the outcomes
    mean_reward: Floats  # (draws,) from the true means of the pulled arms
    best: Floats | None  # (draws,) from the true means of the best arms; None: not defined
    expected_best: float | None  # its expectation
    gap: Floats | None  # (draws,) gap terms; None where the identity does not hold
    upper_bound: float | None  # that they are taken from
    controls: Floats  # (draws, q) functions of the parameters, of mean zero


@dataclass(frozen=True, eq=False)
class Estimates:
    """All estimates of one value, and what each draw adds to the best of them."""

    by_method: dict[str, Estimate]
    method: str  # of smallest error
    contributions: Floats  # (draws,): their mean is the value; for paired comparisons

    @property
    def best(self) -> Estimate:
        return self.by_method[self.method]


def estimate(sample: Sample) -> Estimates:
    """Every estimate that the sample allows."""
    draws = {"plain": sample.reward}
    if sample.best is not None and sample.expected_best is not None:
        draws["expected"] = sample.mean_reward - sample.best + sample.expected_best
    if sample.gap is not None and sample.upper_bound is not None:
        draws["gap"] = sample.upper_bound - sample.gap
    found = {method: _mean(each) for method, each in draws.items()}
    controls = _controls(sample, draws)
    if sample.reward.size >= MIN_DRAWS * (controls.shape[1] + 1) and controls.shape[1]:
        moments = Moments.of(sample.mean_reward, controls)
        weights, found["regression"] = moments.regress()
        draws["regression"] = sample.mean_reward - np.einsum("dq,q->d", controls, weights)
    method = min(found, key=lambda name: found[name].standard_error)
    return Estimates(found, method, draws[method])


def _controls(sample: Sample, draws: dict[str, Floats]) -> Floats:
    """Columns of mean zero: differences of estimates, and what is known of the parameters."""
    columns = [sample.mean_reward - draws["plain"]]
    if "expected" in draws and sample.best is not None and sample.expected_best is not None:
        columns.append(sample.best - sample.expected_best)
    if "gap" in draws:
        columns.append(sample.mean_reward - draws["gap"])
    every = np.column_stack([*columns, sample.controls])
    size = np.maximum(np.abs(sample.mean_reward).max(), 1e-300)
    return np.asarray(every[:, np.ptp(every, axis=0) > SAME * size])


def _mean(each: Floats) -> Estimate:
    spread = float(np.std(each, ddof=1)) if each.size > 1 else math.inf
    return Estimate(float(each.mean()), spread / math.sqrt(each.size))


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over draws that a regression of y on the controls x (known mean zero) needs."""

    draws: int
    y: float
    yy: float
    xy: Floats  # (q,)
    x: Floats  # (q,)
    xx: Floats  # (q, q)

    @classmethod
    def of(cls, y: Floats, x: Floats) -> Moments:
        # not by BLAS, whose last digits depend on its number of threads
        xy, xx = np.einsum("dq,d->q", x, y), np.einsum("dq,dr->qr", x, x)
        return cls(y.size, float(y.sum()), float((y * y).sum()), xy, x.sum(axis=0), xx)

    def regress(self) -> tuple[Floats, Estimate]:
        """Weights of the controls, and the intercept with its error.

        With x centred at its known mean, the intercept is E y. Its variance is that of the
        residuals times 1/n + xbar' C^-1 xbar, C the centred second moments: how far the draws'
        controls happen to be from where they should be counts.
        """
        n, xbar, ybar = self.draws, self.x / self.draws, self.y / self.draws
        spread = self.xx - n * np.outer(xbar, xbar)
        size = np.sqrt(np.maximum(np.diag(spread), 1e-300))  # controls differ in size by far
        inverse = np.linalg.pinv(spread / np.outer(size, size), rcond=SAME, hermitian=True)
        inverse /= np.outer(size, size)
        cross = self.xy - n * xbar * ybar
        weights = inverse @ cross
        free = max(n - 1 - xbar.size, 1)
        residual = max(self.yy - n * ybar**2 - float(cross @ weights), 0.0) / free
        error = math.sqrt(residual * (1.0 / n + float(xbar @ inverse @ xbar)))
        return weights, Estimate(float(ybar - xbar @ weights), error)
