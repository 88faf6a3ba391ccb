"""From simulated draws to an expected value and its standard error.

    plain        mean of the rewards
    expected     mean regret at the true success probabilities, under the exact expected best
    gap          upper bound minus the mean of the gap terms (Theorem 1)
    regression   the mean rewards regressed on controls whose mean is known: all of the above,
                 rewards by the posterior means of the arms that are pulled, and functions of the
                 parameters alone
    range        mean of the rewards at the true success probabilities, with a bound on its error;
                 only where there are too few draws to tell

A draw is one choice of the parameters; the episodes that share it are averaged first, so that draws
are independent and their spread gives the error. Draws may have weights of mean 1
(`worlds.Proposal`). The regression is cross-fitted: the weights of the controls that correct a draw
are fitted to other draws. It is offered from MIN_DRAWS per control on, and leaves out
uninformative controls (`usable`). Variation below CONSTANT_WITHIN of the summed terms is rounding.

A spread measures only the variation that was drawn. `mean_estimate` adds to it:

    few draws decide        where k of n draws differ from the others, by M, the estimate and its
                            error are low together; k + 9 instead of k in the variance k M^2 / n^2
                            makes up for it. M^2 is the variance times the squared skewness or the
                            excess kurtosis, so that ordinary samples hardly notice
    hardly any draw differs what happens in one draw of n may not have been drawn: 3 / n (the rule
                            of three) times how far apart the rewards of two episodes can be. Also
                            where fewer than MIN_DECIDING draws make up most of the spread, or it is
                            less than RESOLUTION of that range
    outcomes too rare       to be among the episodes: their chance, times the same
    RESOLUTION              times the same, always: no smaller error is claimed

No mean of n draws has a larger standard error than half that range over the square root of n: that
is reported where it is less than the above, or for fewer than MIN_DRAWS draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..support import Floats, InvalidArgument

ErrorKind = Literal["spread", "range"]
MIN_DRAWS = 10  # for each control of a regression; that must differ for a spread to be trusted
CONSTANT_WITHIN = 1e-10  # what varies by less than this part of its terms is a constant
MIN_DECIDING = 10  # draws, in effect, that must decide the spread of an estimate or a control
MIN_SHARE = 0.15  # of the draws, for the same, where they are few
FOLDS = 5  # of the draws of a regression
MAX_Z = 4.0  # of the mean of a control, which is zero
INDEPENDENT = 1e-8  # part of the variance of a control that the ones before must leave
UNSEEN_EVENTS = 3.0  # that may have been due, where none was drawn: the rule of three
RESOLUTION = 1e-6  # of the range of rewards, the smallest standard error
ROUNDING = 1e-14  # part of what is summed that may be rounding


@dataclass(frozen=True)
class Estimate:
    """An expected value, and its standard error."""

    value: float
    value_se: float
    # what most of the error is from: the spread of the draws, or the range of the rewards, which
    # bounds it where draws are too few, or differ too little, to tell
    value_se_kind: ErrorKind = "spread"


@dataclass(frozen=True)
class Missed:
    """Bounds on the effect of events too rare to be among the draws."""

    range: float  # how far apart the rewards of two episodes can be
    span: float  # how far what a draw adds can be from what others add
    size: float  # of the terms that are summed, which rounding is a part of
    middle: float  # between the smallest and the largest rewards
    chance: float = 0.0  # of an outcome that is too rare to have been seen

    def bound(self, draws: int) -> float:
        """Return the largest standard error of the mean of rewards, within half the range.

        Squares of weights are at most span / range.
        """
        return math.sqrt(self.range * self.span / draws) / 2.0 + ROUNDING * self.size

    def error(self, draws: int, *, varied: bool) -> float:
        """Return what to add to a standard error; `varied`: whether enough draws differed."""
        due = UNSEEN_EVENTS / draws
        missed = self.span * math.hypot(min(self.chance, due), 0.0 if varied else due)
        return math.hypot(missed, min(RESOLUTION * self.range, self.span), ROUNDING * self.size)


@dataclass(frozen=True, eq=False)
class Sample:
    """Results of one policy in every draw, averaged over its episodes."""

    reward: Floats  # (draws,) from the outcomes
    mean_reward: Floats  # (draws,) from the true means of the pulled arms
    predicted: Floats | None  # (draws,) from their posterior means; None: drawn from no prior
    best: Floats | None  # (draws,) from the true means of the best arms; None: not defined
    expected_best: float | None  # its expectation
    gap: Floats | None  # (draws,) gap terms; None where the identity does not hold
    upper_bound: float | None  # that they are taken from
    controls: Floats  # (draws, q) functions of the parameters, of mean zero, weighted
    control_sizes: Floats  # (q,) of the terms that each is the difference of
    weights: Floats  # (draws,) of mean 1
    missed: Missed


@dataclass(frozen=True, eq=False)
class Estimates:
    """All estimates of one value, and what each draw adds to the best of them."""

    by_method: dict[str, Estimate]
    method: str  # of smallest error
    contributions: Floats  # (draws,): their mean is the value; for paired comparisons
    missed: Missed

    @property
    def best(self) -> Estimate:
        return self.by_method[self.method]

    def minus(self, other: Estimates) -> Estimate:
        contributions = self.contributions - other.contributions
        chance = min(self.missed.chance + other.missed.chance, 1.0)
        difference = mean_estimate(contributions, replace(self.missed, chance=chance))
        # of draws that do not differ little is known, but no more than of draws not in common
        apart = math.hypot(self.best.value_se, other.best.value_se)
        if contributions.size >= MIN_DRAWS and difference.value_se <= apart:
            return difference
        kinds = {self.best.value_se_kind, other.best.value_se_kind}
        return Estimate(difference.value, apart, "range" if "range" in kinds else "spread")


def estimate(sample: Sample) -> Estimates:
    """Compute every estimate that the sample allows."""
    w = sample.weights
    draws = {"plain": w * sample.reward}
    if sample.best is not None and sample.expected_best is not None:
        draws["expected"] = w * (sample.mean_reward - sample.best) + sample.expected_best
    if sample.gap is not None and sample.upper_bound is not None:
        draws["gap"] = sample.upper_bound - w * sample.gap
    fitted = regression(w * sample.mean_reward, *_controls(sample))
    if fitted is not None:
        draws["regression"] = fitted
    by_method = {method: mean_estimate(values, sample.missed) for method, values in draws.items()}
    method = min(by_method, key=lambda name: by_method[name].value_se)
    bound = sample.missed.bound(w.size)
    if w.size < MIN_DRAWS or bound < by_method[method].value_se:
        draws["range"] = w * (sample.mean_reward - sample.missed.middle) + sample.missed.middle
        by_method["range"] = Estimate(float(draws["range"].mean()), bound, "range")
        method = "range"
    return Estimates(by_method, method, draws[method], sample.missed)


def regression(y: Floats, controls: Floats, sizes: Floats) -> Floats | None:
    """Return what each draw adds to a regression of y on controls of mean zero, by cross-fitting.

    The weights of the controls are fitted to the draws of all folds but the draw's own, so that the
    estimate is unbiased and no draw is explained by itself. sizes (q,): of the terms that a control
    is the difference of. None if there is no control to be used.
    """
    x = controls[:, usable(controls, sizes)]
    if not x.shape[1]:
        return None
    fold, residual = np.arange(y.size) % FOLDS, y.copy()
    for number in range(FOLDS):
        training, test = fold != number, fold == number
        moments = Moments.of(x[training])
        weights = moments.weights(y[training].sum(), np.einsum("d,dq->q", y[training], x[training]))
        residual[test] -= np.einsum("dq,q->d", x[test], weights)
    return residual


def mean_estimate(values: Floats, missed: Missed) -> Estimate:
    """Return the mean of what draws add, and an error that can be relied on.

    By the spread of what draws add, more where few of them decide, and by what may be missing.
    """
    n, off = values.size, values - values.mean()
    second, third, fourth = (float((off**power).mean()) for power in (2, 3, 4))
    variance = _spread(values) ** 2
    if second > 0.0:
        largest = max((third / second) ** 2, fourth / second - 3.0 * second)
        variance += UNSEEN_EVENTS**2 * largest / n**2
    spread = math.sqrt(variance)
    varied = _varies(values, missed.size) and spread >= RESOLUTION * missed.range
    unseen = missed.error(n, varied=varied)
    kind: ErrorKind = "range" if unseen > spread else "spread"
    return Estimate(float(values.mean()), math.hypot(spread, unseen), kind)


def term_errors(first: Floats, second: Floats, draws: int) -> Floats:
    """Return standard errors of means of nonnegative terms, from sums of both powers.

    Terms that happen in k of the draws count as if they had happened in k + 9, as in
    `mean_estimate`; those that never happened, as if they were as large as the largest others.
    """
    mean = first / draws
    variance = np.maximum(second / draws - mean**2, ROUNDING * second / draws)
    typical = np.divide(variance, mean, out=np.zeros_like(mean), where=mean > 0.0)
    typical = np.where(mean > 0.0, typical, typical.max())
    return np.sqrt(variance / max(draws - 1, 1) + (UNSEEN_EVENTS * typical / draws) ** 2)


def check_draws(draws: int) -> None:
    """Refuse too few draws for an estimate of their spread."""
    if draws < MIN_DRAWS:
        raise InvalidArgument(
            f"draws: {draws} is not allowed; must be {MIN_DRAWS} or more for a simulated gap, "
            "whose error is by the spread of the draws",
            field="draws",
        )


def usable(controls: Floats, sizes: Floats) -> list[int]:
    """Numbers of the controls (draws, q) to be used; none where they are too many.

    Left out are those that vary by rounding of their terms only, or in a few draws only; those that
    are far from their mean, zero, since what makes up for it was not drawn; and what the ones
    before explain. sizes (q,): of the terms that each is the difference of.
    """
    columns: list[int] = []
    axes: list[Floats] = []
    for j, size in enumerate(sizes.tolist()):
        column = controls[:, j]
        if not _varies(column, size) or abs(column.mean()) > MAX_Z * _spread(column):
            continue
        rest = centred = column - column.mean()
        for axis in axes:
            rest = rest - (rest * axis).sum() * axis  # BLAS would depend on its threads
        square = float((rest**2).sum())
        if square > INDEPENDENT * float((centred**2).sum()):
            columns.append(j)
            axes.append(rest / math.sqrt(square))
    return columns if len(controls) >= MIN_DRAWS * (len(columns) + 1) else []


def _spread(values: Floats) -> float:
    return float(np.std(values, ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.inf


def _varies(values: Floats, size: float) -> bool:
    """Whether enough draws differ from the others for their spread to mean something.

    size: of the terms that were summed. Differences of a small part of it are rounding.
    """
    off = np.abs(values - np.median(values))
    many = int(np.count_nonzero(off > CONSTANT_WITHIN * size)) >= MIN_DRAWS
    squares = (values - values.mean()) ** 2
    deciding = float(squares.sum()) ** 2 / max(float((squares**2).sum()), 1e-300)
    return many and deciding >= min(MIN_DECIDING, MIN_SHARE * values.size)


def _controls(sample: Sample) -> tuple[Floats, Floats]:
    """Return columns of mean zero (differences of estimates, functions of parameters); sizes."""
    columns = [sample.mean_reward - sample.reward]
    if sample.predicted is not None:
        columns.append(sample.mean_reward - sample.predicted)
    if sample.best is not None and sample.expected_best is not None:
        columns.append(sample.best - sample.expected_best)
    if sample.gap is not None and sample.upper_bound is not None:
        columns.append(sample.mean_reward - (sample.upper_bound - sample.gap))
    weighted = sample.weights[:, None] * np.column_stack(columns)
    sizes = np.append(sample.control_sizes, np.full(len(columns), sample.missed.size))
    return np.column_stack([sample.controls, weighted]), sizes


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of controls x of known mean zero over draws, for regressions of many y."""

    draws: int
    mean: Floats  # (q,)
    inverse: Floats  # (q, q) of the sums of products, centred at the means

    @classmethod
    def of(cls, x: Floats) -> Moments:
        mean = x.mean(axis=0)
        dx = x - mean
        xx = np.einsum("dq,dr->qr", dx, dx)
        size = np.sqrt(np.maximum(np.diag(xx), 1e-300))  # controls differ in size by far
        scaled = xx / np.outer(size, size)
        inverse = np.linalg.pinv(scaled, rcond=CONSTANT_WITHIN, hermitian=True)
        return cls(len(x), mean, inverse / np.outer(size, size))

    def weights(self, y: float, xy: Floats) -> Floats:
        return np.asarray(self.inverse @ (xy - y * self.mean))

    def regress(self, y: float, yy: float, xy: Floats) -> tuple[Floats, Estimate]:
        """Return weights of the controls, and the intercept with its error; from sums of products.

        With x centred at its known mean, the intercept is E y. Its variance is that of the
        residuals times 1/n + xbar' C^-1 xbar, C the centred second moments: how far the draws'
        controls happen to be from where they should be counts.
        """
        n, xbar, ybar = self.draws, self.mean, y / self.draws
        square, product = max(yy - n * ybar**2, 0.0), xy - y * xbar  # centred
        weights = self.weights(y, xy)
        left = max(square - float(product @ weights), ROUNDING * yy)
        residual = left / max(n - 1 - xbar.size, 1)
        error = math.sqrt(residual * (1.0 / n + float(xbar @ self.inverse @ xbar)))
        return weights, Estimate(float(ybar - xbar @ weights), error)
