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
MIN_DRAWS = 10  # for each control of a regression; that must differ for a spread to be trusted
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
    method: str  # of smallest error, among those whose error can be trusted
    contributions: Floats  # (draws,): their mean is the value; for paired comparisons
    inflation: float  # of the error, over that of a mean of the contributions

    @property
    def best(self) -> Estimate:
        return self.by_method[self.method]


def estimate(sample: Sample) -> Estimates:
    """Every estimate that the sample allows.

    One that hardly varies over the draws is not chosen: what it would vary by may be rare, and not
    among them.
    """
    draws = {"plain": sample.reward}
    if sample.best is not None and sample.expected_best is not None:
        draws["expected"] = sample.mean_reward - sample.best + sample.expected_best
    if sample.gap is not None and sample.upper_bound is not None:
        draws["gap"] = sample.upper_bound - sample.gap
    found = {method: _mean(each) for method, each in draws.items()}
    controls = _controls(sample, draws)
    if controls.shape[1] and enough(sample.reward.size, controls.shape[1]):
        weights, found["regression"] = Moments.of(sample.mean_reward, controls).regress()
        draws["regression"] = sample.mean_reward - np.einsum("dq,q->d", controls, weights)
    trusted = ["plain", *(method for method, each in draws.items() if _varies(each))]
    method = min(trusted, key=lambda name: found[name].standard_error)
    error = _mean(draws[method]).standard_error
    inflation = found[method].standard_error / error if error > 0.0 else 1.0
    return Estimates(found, method, draws[method], inflation)


def enough(draws: int, controls: int) -> bool:
    """Whether a regression on so many controls does more than fit the noise."""
    return draws >= MIN_DRAWS * (controls + 1)


def _varies(each: Floats) -> bool:
    """Whether enough draws differ from the others for their spread to mean something."""
    off = np.abs(each - np.median(each))
    return int(np.count_nonzero(off > SAME * np.abs(each).max())) >= MIN_DRAWS


def _controls(sample: Sample, draws: dict[str, Floats]) -> Floats:
    """Columns of mean zero: differences of estimates, and what is known of the parameters."""
    columns = [sample.mean_reward - draws["plain"]]
    if "expected" in draws and sample.best is not None and sample.expected_best is not None:
        columns.append(sample.best - sample.expected_best)
    if "gap" in draws:
        columns.append(sample.mean_reward - draws["gap"])
    every = np.column_stack([*columns, sample.controls])
    return np.asarray(every[:, [_varies(column) for column in every.T]])


def _mean(each: Floats) -> Estimate:
    spread = float(np.std(each, ddof=1)) if each.size > 1 else math.inf
    return Estimate(float(each.mean()), spread / math.sqrt(each.size))


@dataclass(frozen=True, eq=False)
class Moments:
    """What a regression of y on the controls x (known mean zero) needs, summed over draws."""

    draws: int
    y: float  # mean
    x: Floats  # (q,) means
    yy: float  # sums of products, centred at the means
    xy: Floats  # (q,)
    xx: Floats  # (q, q)

    @classmethod
    def of(cls, y: Floats, x: Floats) -> Moments:
        ybar, xbar = float(y.mean()), x.mean(axis=0)
        dy, dx = y - ybar, x - xbar
        # not by BLAS, whose last digits depend on its number of threads
        xy, xx = np.einsum("dq,d->q", dx, dy), np.einsum("dq,dr->qr", dx, dx)
        return cls(y.size, ybar, xbar, float((dy * dy).sum()), xy, xx)

    @classmethod
    def of_sums(cls, draws: int, y: float, yy: float, xy: Floats, x: Floats) -> Moments:
        """From sums of y, y^2 and y x, and the controls themselves, (draws, q)."""
        ybar, xbar = y / draws, x.mean(axis=0)
        dx = x - xbar
        xx = np.einsum("dq,dr->qr", dx, dx)
        return cls(draws, ybar, xbar, max(yy - draws * ybar**2, 0.0), xy - y * xbar, xx)

    def regress(self) -> tuple[Floats, Estimate]:
        """Weights of the controls, and the intercept with its error.

        With x centred at its known mean, the intercept is E y. Its variance is that of the
        residuals times 1/n + xbar' C^-1 xbar, C the centred second moments: how far the draws'
        controls happen to be from where they should be counts.
        """
        n, xbar = self.draws, self.x
        size = np.sqrt(np.maximum(np.diag(self.xx), 1e-300))  # controls differ in size by far
        inverse = np.linalg.pinv(self.xx / np.outer(size, size), rcond=SAME, hermitian=True)
        inverse /= np.outer(size, size)
        weights = inverse @ self.xy
        residual = max(self.yy - float(self.xy @ weights), 0.0) / max(n - 1 - xbar.size, 1)
        error = math.sqrt(residual * (1.0 / n + float(xbar @ inverse @ xbar)))
        return weights, Estimate(float(self.y - xbar @ weights), error)
