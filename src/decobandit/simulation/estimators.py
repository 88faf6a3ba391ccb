"""From simulated draws to an expected value and its standard error, four ways.

    plain        mean of the rewards
    expected     mean regret at the true success probabilities, under the exact expected best
    gap          upper bound minus the mean of the gap terms (Theorem 1)
    regression   the mean rewards regressed on controls whose mean is known: all of the above,
                 rewards by the posterior means of the arms that are pulled, and functions of the
                 parameters alone

A draw is one choice of the parameters; the episodes that share it are averaged first, so that draws
are independent and their spread gives the error. The regression is biased of the order of one over
the number of draws, far below its error; it is offered from MIN_DRAWS per control on. Draws may
have weights of mean 1 (`proposals`): what they add to an estimate is weighted.

A spread is worth what was seen to vary. The regression leaves out controls in which few draws
decide, and `honest_error` adds to the spread:

    few draws decide        where k of n draws differ from the others, by M, the estimate and its
                            error are low together; k + 9 instead of k in the variance k M^2 / n^2
                            makes up for it. M is the third over the second central moment, so that
                            ordinary samples hardly notice: variances get 1 + 9 skewness^2 / n
    hardly any draw differs what happens in one draw of n may not have been drawn: 3 / n (the rule
                            of three) times how far apart the rewards of two episodes can be
    outcomes too rare       to be among the episodes: their chance, times the same
    RESOLUTION              times the same, always: no smaller error is claimed
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..support import Floats, former_attribute

MIN_DRAWS = 10  # for each control of a regression; that must differ for a spread to be trusted
CONSTANT_WITHIN = 1e-10  # a control that varies less than this part of its size is a constant
MIN_DECIDING = 5  # draws, in effect, that must decide the spread of an estimate or a control
LEAST_FREE = 0.1  # of a residual: one of less is not more than ten times as large without the fit
UNSEEN_EVENTS = 3.0  # that may have been due, where none was drawn: the rule of three
RESOLUTION = 1e-6  # of the range of rewards, the smallest standard error
ROUNDING = 1e-14  # part of the sum of squares of y below which residuals are rounding errors


@dataclass(frozen=True)
class Estimate:
    """An expected value, and its standard error."""

    value: float
    value_se: float

    standard_error = former_attribute("standard_error", "value_se")


@dataclass(frozen=True)
class Missed:
    """What draws may have missed."""

    range: float  # how far apart the rewards of two episodes can be
    span: float  # how far what a draw adds can be from what others add
    chance: float = 0.0  # of an outcome that is too rare to have been seen

    def error(self, draws: int, *, varied: bool) -> float:
        """To be added to a standard error; `varied`: whether enough draws differed."""
        due = UNSEEN_EVENTS / draws
        missed = self.span * math.hypot(min(self.chance, due), 0.0 if varied else due)
        return math.hypot(missed, min(RESOLUTION * self.range, self.span))


@dataclass(frozen=True, eq=False)
class Sample:
    """What one policy did in every draw, averaged over the episodes of the draw."""

    reward: Floats  # (draws,) from the outcomes
    mean_reward: Floats  # (draws,) from the true means of the pulled arms
    predicted: Floats | None  # (draws,) from their posterior means; None: drawn from no prior
    best: Floats | None  # (draws,) from the true means of the best arms; None: not defined
    expected_best: float | None  # its expectation
    gap: Floats | None  # (draws,) gap terms; None where the identity does not hold
    upper_bound: float | None  # that they are taken from
    controls: Floats  # (draws, q) functions of the parameters, of mean zero, weighted
    weights: Floats  # (draws,) of mean 1
    missed: Missed


@dataclass(frozen=True, eq=False)
class Estimates:
    """All estimates of one value, and what each draw adds to the best of them."""

    by_method: dict[str, Estimate]
    method: str  # of smallest error
    contributions: Floats  # (draws,): their mean is the value; for paired comparisons
    inflation: float  # of the error, over that of a mean of the contributions
    missed: Missed

    @property
    def best(self) -> Estimate:
        return self.by_method[self.method]


def estimate(sample: Sample) -> Estimates:
    """Every estimate that the sample allows."""
    w = sample.weights
    draws = {"plain": w * sample.reward}
    if sample.best is not None and sample.expected_best is not None:
        draws["expected"] = w * (sample.mean_reward - sample.best) + sample.expected_best
    if sample.gap is not None and sample.upper_bound is not None:
        draws["gap"] = sample.upper_bound - w * sample.gap
    inflation = dict.fromkeys(draws, 1.0)
    fitted = regression(w * sample.mean_reward, _controls(sample))
    if fitted is not None:
        draws["regression"], inflation["regression"] = fitted
    found = {
        method: mean_estimate(each, sample.missed, inflation=inflation[method])
        for method, each in draws.items()
    }
    method = min(found, key=lambda name: found[name].value_se)
    return Estimates(found, method, draws[method], inflation[method], sample.missed)


def regression(y: Floats, controls: Floats) -> tuple[Floats, float] | None:
    """What each draw adds to a regression of y on controls of mean zero, and `inflation`.

    Controls are made orthogonal one after the other. Of each, what the ones before do not explain
    is left out where a few draws decide in it: fitted to these, the residuals would look smaller
    than they are. None if no control is left, or if there are too many.
    """
    x = controls[:, [_varies(column) for column in controls.T]]
    if not x.shape[1] or not enough(*x.shape):
        return None
    each, distance, pull = y, 0.0, np.full(y.size, 1.0 / y.size)
    fitted: list[Floats] = []
    for column in x.T:
        rest = column
        for axis in fitted:
            rest = rest - _product(rest, axis) * axis
        if not _decided_by_many(rest, column):
            continue
        axis = rest / math.sqrt(_product(rest, rest))
        fitted.append(axis)
        each = each - _product(each, axis) * axis
        distance += float(axis.mean()) ** 2
        pull = pull + (axis - axis.mean()) ** 2
    return each, _inflation(each, pull, distance, len(fitted))


def _product(one: Floats, other: Floats) -> float:
    """Centred. Not by BLAS, whose last digits depend on its number of threads."""
    return float(((one - one.mean()) * (other - other.mean())).sum())


def _decided_by_many(rest: Floats, column: Floats) -> bool:
    """Whether what is left of a control is more than rounding, and of many draws in effect."""
    square = _product(rest, rest)
    if square <= CONSTANT_WITHIN * _product(column, column):
        return False
    return _deciding(rest) >= MIN_DECIDING


def _inflation(each: Floats, pull: Floats, distance: float, fitted: int) -> float:
    """Of the error of a mean of residuals: controls were fitted, and are off their known means.

    pull: the leverage of every draw, by which the fit has drawn its residual towards zero. The
    jackknife divides by one minus it; where it is more than twice the usual, by a power of that up
    to 2 (HC4: Cribari-Neto, Asymptotic inference under heteroskedasticity of unknown form, 2004),
    for draws that decide their own fit are those of large residuals. distance: xbar' C^-1 xbar, C
    the centred sums of products.
    """
    off = each - each.mean()
    square = float((off**2).sum())
    if square == 0.0:
        return 1.0
    power = np.clip(pull * each.size / (fitted + 1) / 2.0, 1.0, 2.0)
    undone = off / np.maximum(1.0 - pull, LEAST_FREE) ** power
    return math.sqrt(float((undone**2).sum()) / square * (1.0 + each.size * distance))


def mean_estimate(each: Floats, missed: Missed, *, inflation: float = 1.0) -> Estimate:
    """The mean of what draws add, and an error that can be relied on."""
    return Estimate(float(each.mean()), honest_error(each, missed, inflation=inflation))


def honest_error(each: Floats, missed: Missed, *, inflation: float = 1.0) -> float:
    """Standard error of the mean, `inflation` times that by the spread, and what may be missing."""
    n, off = each.size, each - each.mean()
    second, third = float((off**2).mean()), float((off**3).mean())
    variance = (inflation * _spread(each)) ** 2
    if second > 0.0:
        variance += (UNSEEN_EVENTS * (third / second) / n) ** 2
    return math.hypot(math.sqrt(variance), missed.error(n, varied=_varies(each)))


def enough(draws: int, controls: int) -> bool:
    """Whether a regression on so many controls does more than fit the noise."""
    return draws >= MIN_DRAWS * (controls + 1)


def _varies(each: Floats) -> bool:
    """Whether enough draws differ from the others for their spread to mean something."""
    off = np.abs(each - np.median(each))
    many = int(np.count_nonzero(off > CONSTANT_WITHIN * np.abs(each).max())) >= MIN_DRAWS
    return many and _deciding(each) >= MIN_DECIDING


def _deciding(each: Floats) -> float:
    """How many draws decide the spread, in effect: k, if k of very many differ from the others."""
    off = (each - each.mean()) ** 2
    return float(off.sum()) ** 2 / max(float((off**2).sum()), 1e-300)


def _controls(sample: Sample) -> Floats:
    """Columns of mean zero: differences of estimates, and what is known of the parameters."""
    columns = [sample.mean_reward - sample.reward]
    if sample.predicted is not None:
        columns.append(sample.mean_reward - sample.predicted)
    if sample.best is not None and sample.expected_best is not None:
        columns.append(sample.best - sample.expected_best)
    if sample.gap is not None and sample.upper_bound is not None:
        columns.append(sample.mean_reward - (sample.upper_bound - sample.gap))
    own = sample.weights[:, None] * np.column_stack(columns)
    return np.column_stack([sample.controls, own])


def _spread(each: Floats) -> float:
    """Standard error of the mean, by the spread alone."""
    return float(np.std(each, ddof=1)) / math.sqrt(each.size) if each.size > 1 else math.inf


@dataclass(frozen=True, eq=False)
class Moments:
    """Of controls x of known mean zero, over draws: for regressions of many y on them."""

    draws: int
    mean: Floats  # (q,)
    inverse: Floats  # (q, q) of the sums of products, centred at the means

    @classmethod
    def of(cls, x: Floats) -> Moments:
        """Of controls (draws, q)."""
        mean = x.mean(axis=0)
        dx = x - mean
        xx = np.einsum("dq,dr->qr", dx, dx)
        size = np.sqrt(np.maximum(np.diag(xx), 1e-300))  # controls differ in size by far
        scaled = xx / np.outer(size, size)
        inverse = np.linalg.pinv(scaled, rcond=CONSTANT_WITHIN, hermitian=True)
        return cls(len(x), mean, inverse / np.outer(size, size))

    def regress(self, y: float, yy: float, xy: Floats) -> tuple[Floats, Estimate]:
        """Weights of the controls, and the intercept with its error; from sums of y, y^2 and y x.

        With x centred at its known mean, the intercept is E y. Its variance is that of the
        residuals times 1/n + xbar' C^-1 xbar, C the centred second moments: how far the draws'
        controls happen to be from where they should be counts.
        """
        n, xbar, ybar = self.draws, self.mean, y / self.draws
        square, product = max(yy - n * ybar**2, 0.0), xy - y * xbar  # centred
        weights = self.inverse @ product
        left = max(square - float(product @ weights), ROUNDING * square)
        residual = left / max(n - 1 - xbar.size, 1)
        error = math.sqrt(residual * (1.0 / n + float(xbar @ self.inverse @ xbar)))
        return weights, Estimate(float(ybar - xbar @ weights), error)
