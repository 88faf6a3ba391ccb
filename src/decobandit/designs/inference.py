"""Inference after adaptation: estimates and intervals that hold although outcomes chose the arms.

    sequence     confidence sequence of an arm's mean, for bounded outcomes: hedged capital with
                 predictable bets (Waudby-Smith, Ramdas 2023). It holds at all times at once, so at
                 whatever number of pulls the trial gives the arm
    ipw, aipw    mean outcome over all stages, by the probability e with which the arm was drawn:
                 plain inverse probabilities; augmented by the mean of earlier outcomes
    weighted     the latter with weights sqrt(e), and a normal interval (Hadad et al. 2021)
    odds ratio   two binary arms: given the pulls of both and the good outcomes of both together,
                 the good outcomes of one have a law with one parameter, the odds ratio, whose
                 coefficients follow from the design. Median-unbiased estimate, exact interval
    p-value      two binary arms: the conditional exact test of equal rates (`final_tests.py`)
    observed     the rate, or mean, with the interval of Clopper and Pearson: not valid here, for
                 comparison

All trials are computed side by side: E trials, T stages, K arms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..policies import BASELINE_POLICY, RuledPolicy
from ..problem import Truth, has_unknown_means
from ..support import Floats, Ints
from ..support.records import doc, record_class
from .final_tests import conditional_p_values
from .playing import Course, Endings, Flags, can_follow, follow, play
from .results import InferenceCheck, chance_se, mean_and_error, truth_values

LEVEL = 0.95
TRUNCATION = 0.5  # a bet risks at most this part of the capital
HALVINGS = 40  # of the interval that an end is searched in
MAX_LOG_ODDS = 40.0
TRIALS = 1000  # that are simulated to check the methods
MAX_ELEMENTS = 20_000_000  # trials times stages times arms
MIN_TRIALS = 100
MAX_LAW_PULLS = 150  # of a design whose law is followed for the exact methods: seconds
MAX_TRIAL_PULLS = 100  # the same where a page waits for it
WEIGHTED, EXACT = "ipw, aipw, weighted", "odds ratio, p-value"  # left out together
NOT_DRAWN = "the policy does not draw its arms: a floor in the design makes it"


class Estimates(NamedTuple):
    """Estimates of all arms in all trials, (E, K) each; nan where there is none."""

    estimate: Floats
    low: Floats
    high: Floats


@record_class()
class Inference:
    """Estimate for one arm of a trial that holds although outcomes chose the arms."""

    method: str = doc("sequence, ipw, aipw, weighted, odds ratio or p-value.")
    arm: str = doc("Name of the arm.")
    estimate: float | None = doc(
        "Of the mean outcome, or of the odds ratio to the other arm; null where there is none."
    )
    low: float | None = doc("Lower end of the 95% interval; null without one.")
    high: float | None = doc("Upper end; null without one, or if it is infinite.")
    p_value: float | None = doc("Of the exact conditional test.", default=None)


# -- which methods a design allows ----------------------------------------------------------------


def left_out(policy: RuledPolicy, most_pulls: int = MAX_LAW_PULLS) -> dict[str, str]:
    """Return the methods that a design does not allow, with the reason."""
    problem, reasons = policy.problem, dict[str, str]()
    models = [group.model for group in problem.groups]
    in_blocks = policy.name == BASELINE_POLICY and policy.rules.block is not None
    if not has_unknown_means(problem):
        return {"all methods": "arms have states of their own, and no mean to estimate"}
    if not all(np.isfinite(model.mean_range).all() for model in models):
        reasons["sequence"] = "outcomes are not bounded"
    if problem.pulls_per_stage > 1:
        reasons[WEIGHTED] = "a stage has several pulls"
    elif not (policy.randomised or in_blocks):
        reasons[WEIGHTED] = NOT_DRAWN
    elif not policy.has_probabilities or problem.budget is not None:
        reasons[WEIGHTED] = "the probabilities of the policy are not known"
    exact = _no_law(policy, most_pulls)
    if exact:
        reasons[EXACT] = exact
    elif policy.control is None:
        reasons["p-value"] = "the design has no control arm"
    return reasons


def _no_law(policy: RuledPolicy, most_pulls: int) -> str:
    """Return why the design has no law of its final states here; empty where it has one."""
    problem = policy.problem
    if problem.n_arms != 2 or not problem.is_binary:
        return "not two arms with good and bad outcomes"
    if problem.pulls_per_stage > 1 or policy.rules.delay or problem.may_wait:
        return "not one pull per stage with its outcome known before the next"
    if problem.random_horizon is not None:
        return "the horizon is random"
    if problem.horizon > most_pulls or not can_follow(policy):
        return "the states are too many, or the probabilities of the policy are not known"
    return ""


# -- confidence sequences of bounded outcomes ------------------------------------------------------


def confidence_sequence(
    outcomes: Floats, counts: Ints, ends: tuple[float, float] = (0.0, 1.0)
) -> tuple[Floats, Floats]:
    """Return the ends (R,) of 95% confidence sequences at the last outcome, all times intersected.

    outcomes (R, N) between `ends`, in order; counts (R,): how many of a row there are.
    """
    least, most = ends
    scaled = (outcomes - least) / (most - least)
    alive = np.arange(outcomes.shape[1]) < counts[:, None]
    low = _lower_end(scaled, alive)
    high = 1.0 - _lower_end(1.0 - scaled, alive)
    return least + (most - least) * low, least + (most - least) * high


def _lower_end(x: Floats, alive: Flags) -> Floats:
    """Return the largest mean (R,) at which the bets that it is larger have won 2 / alpha.

    The capital falls with the mean, so the end follows by bisection.
    """
    t = np.arange(1, x.shape[1] + 1)
    average = (0.5 + np.cumsum(x, axis=1)) / (t + 1)  # as if one outcome of 1/2 came before
    variance = (0.25 + np.cumsum((x - average) ** 2, axis=1)) / (t + 1)
    before = np.concatenate([np.full((len(x), 1), 0.25), variance[:, :-1]], axis=1)
    bets = np.sqrt(2.0 * np.log(2.0 / (1.0 - LEVEL)) / (before * t * np.log1p(t)))
    goal = np.log(2.0 / (1.0 - LEVEL))
    low, high = np.zeros(len(x)), np.ones(len(x))
    for _ in range(HALVINGS):
        mean = ((low + high) / 2.0)[:, None]
        gain = np.log1p(np.minimum(bets, TRUNCATION / mean) * (x - mean))
        capital = np.cumsum(np.where(alive, gain, 0.0), axis=1).max(axis=1, initial=0.0)
        won = capital >= goal
        low, high = np.where(won, mean[:, 0], low), np.where(won, high, mean[:, 0])
    return low


# -- weighting by allocation probabilities ---------------------------------------------------------


def weighted(course: Course, prior_means: Floats) -> dict[str, Estimates]:
    """Return estimates by inverse probabilities.

    Stages at which an arm could not be drawn have no weight for it.
    """
    drawn = course.probabilities > 0.0
    e = np.where(drawn, course.probabilities, 1.0)
    pulled = course.pulls > 0
    pulls = np.cumsum(course.pulls, axis=1) - course.pulls
    totals = np.cumsum(course.totals, axis=1) - course.totals
    guess = (prior_means + totals) / (1.0 + pulls)
    augmented = guess + np.where(pulled, (course.totals - guess) / e, 0.0)
    never = (course.pulls.sum(axis=1) == 0) | (drawn.sum(axis=1) < 2)
    none = np.full(never.shape, np.nan)

    def mean(scores: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Return the weighted mean and its standard error, (E, K)."""
        total = np.where(never, np.nan, weight.sum(axis=1))
        average = (weight * scores).sum(axis=1) / total
        squares = (weight * (scores - average[:, None])) ** 2
        return average, np.sqrt(squares.sum(axis=1)) / total

    stages = drawn.astype(float)
    ipw, _ = mean(np.where(pulled, course.totals / e, 0.0), stages)
    aipw, _ = mean(augmented, stages)
    centre, error = mean(augmented, np.where(drawn, np.sqrt(e), 0.0))
    wide = NormalDist().inv_cdf((1.0 + LEVEL) / 2.0) * error
    return {
        "ipw": Estimates(ipw, none, none),
        "aipw": Estimates(aipw, none, none),
        "weighted": Estimates(centre, centre - wide, centre + wide),
    }


# -- two binary arms, exactly ----------------------------------------------------------------------


def odds_ratios(null: Endings, arm: int, pulls: Ints, good: Ints) -> Estimates:
    """Return median-unbiased odds ratios of an arm to the other, with intervals, (E,).

    pulls, good (E, 2). Given the pulls n, m of both arms and all good outcomes s, the good outcomes
    g of the arm have a law in proportion to C(n, g, m, s - g) ratio^g, where C counts the ways of
    the design to end there, weighted by its allocation probabilities: read off the endings `null`
    under a common rate.
    """

    def condition(pulls: Ints, good: Ints) -> Ints:
        base = 1 << 20
        return np.asarray((pulls[:, 0] * base + pulls[:, 1]) * base + good.sum(axis=1))

    ends = null.stats[:, :, 0].astype(np.int64)
    codes = condition(null.pulls, ends)
    order = np.lexsort((ends[:, arm], codes))
    codes, ends, log_ways = codes[order], ends[order, arm], np.log(null.weight[order])
    rows = np.column_stack([condition(pulls, good), good[:, arm]])
    distinct, place = np.unique(rows, axis=0, return_inverse=True)
    code, observed = distinct.T
    first = np.searchsorted(codes, code)
    size = np.searchsorted(codes, code, side="right") - first
    every = np.arange(size.max(initial=1))
    there, inside = every < size[:, None], size > 0
    at = np.minimum(first[:, None] + every, len(codes) - 1)
    g, weight = np.where(there, ends[at], 0), np.where(there, log_ways[at], -np.inf)
    is_least = inside & (observed == ends[at[:, 0]])
    is_most = inside & (observed == ends[np.minimum(first + np.maximum(size, 1), len(ends)) - 1])

    def root(tail: float, above: bool) -> Floats:
        """Return the log odds ratio at which P(as many or more, or fewer) is `tail`."""
        beyond = there & (g >= observed[:, None] if above else g <= observed[:, None])
        low, high = np.full(len(g), -MAX_LOG_ODDS), np.full(len(g), MAX_LOG_ODDS)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            log = weight + middle[:, None] * g
            chance = np.exp(log - log.max(axis=1, keepdims=True))
            too_high = ((chance * beyond).sum(axis=1) / chance.sum(axis=1) > tail) == above
            low, high = np.where(too_high, low, middle), np.where(too_high, middle, high)
        return np.asarray((low + high) / 2.0)

    tail = (1.0 - LEVEL) / 2.0
    low = np.where(is_least, -np.inf, root(tail, True))
    high = np.where(is_most, np.inf, root(tail, False))
    from_above, from_below = root(0.5, True), root(0.5, False)
    middle = np.where(is_least, from_below, (from_above + from_below) / 2.0)
    middle = np.where(is_most, from_above, middle)
    columns = (
        np.where((is_least & is_most) | ~inside, np.nan, middle),
        np.where(inside, low, np.nan),
        np.where(inside, high, np.nan),
    )
    return Estimates(*(np.exp(column)[place.reshape(-1)] for column in columns))


# -- all methods -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Exact:
    """The exact methods of one design of two arms."""

    policy: RuledPolicy
    null: Endings

    @property
    def arm(self) -> int:
        """The arm whose odds are divided by those of the other: not control."""
        return 1 if self.policy.control is None else 1 - self.policy.control

    def odds_ratio(self, pulls: Ints, good: Ints, arm: int | None = None) -> Estimates:
        """Return the ratio of the odds of an arm to those of the other in each trial, (E,)."""
        return odds_ratios(self.null, self.arm if arm is None else arm, pulls, good)

    def p_values(self, ends: Endings) -> Floats:
        """Return the p-value of each trial, (E,)."""
        return conditional_p_values(self.policy, ends, self.null)[:, self.arm]


@lru_cache(maxsize=16)
def exact_methods(policy: RuledPolicy) -> Exact:
    """Follow a design of two arms under a common rate."""
    return Exact(policy, follow(policy, None))


def estimates_of(
    policy: RuledPolicy, course: Course, reasons: dict[str, str]
) -> dict[str, Estimates]:
    """Return the estimates of the arms' means by every method that is not left out."""
    problem = policy.problem
    models = [group.model for group in problem.arm_groups]
    counts = course.counts
    trials, arms = counts.shape
    none = np.full((trials, arms), np.nan)
    sums = np.where(
        np.arange(course.outcomes.shape[2]) < counts[..., None], course.outcomes, 0.0
    ).sum(axis=2)
    rate = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    low, high = none, none
    if problem.is_binary:  # Clopper and Pearson
        from scipy.special import betaincinv

        tail, bad = (1.0 - LEVEL) / 2.0, counts - sums
        low = np.where(sums > 0, betaincinv(np.maximum(sums, 1), bad + 1, tail), 0.0)
        high = np.where(bad > 0, betaincinv(sums + 1, np.maximum(bad, 1), 1.0 - tail), 1.0)
        low, high = (np.where(counts > 0, end, np.nan) for end in (low, high))
    results = {"observed": Estimates(rate, low, high)}
    if "sequence" not in reasons:
        low, high = none.copy(), none.copy()
        for k, model in enumerate(models):
            rows = course.outcomes[:, k], counts[:, k]
            low[:, k], high[:, k] = confidence_sequence(*rows, model.mean_range)
        results["sequence"] = Estimates(none, low, high)
    if WEIGHTED not in reasons:
        means = [float(model.mean(np.array(model.initial(), dtype=float))) for model in models]
        results |= weighted(course, np.array(means))
    return results


# -- checks by simulation of the design ------------------------------------------------------------


def check_inference(
    policy: RuledPolicy, truth: Truth, draws: int, seed: tuple[int, ...], *, null: bool
) -> tuple[tuple[InferenceCheck, ...], dict[str, str]]:
    """Return bias and coverage of all methods over simulated trials; and what is left out."""
    problem, reasons = policy.problem, left_out(policy)
    trials = min(draws, TRIALS, MAX_ELEMENTS // (problem.most_pulls * problem.n_arms))
    if "all methods" in reasons or trials < min(draws, MIN_TRIALS):
        return (), reasons or {"all methods": "trials are too long, or arms too many"}
    courses = list[Course]()
    ends = play(policy, truth, trials, seed, courses=courses)
    course = Course.joined(courses)
    means, names = truth_values(problem, truth), [arm.name for arm in problem.arms]
    rows = [
        _checked(method, names[k], Estimates(*(column[:, k] for column in results)), means[k])
        for method, results in estimates_of(policy, course, reasons).items()
        for k in range(problem.n_arms)
    ]
    if EXACT not in reasons:
        exact = exact_methods(policy)
        p = np.array(means)
        if ((p > 0.0) & (p < 1.0)).all():
            odds = p / (1.0 - p)
            ratio = odds[exact.arm] / odds[1 - exact.arm]
            results = exact.odds_ratio(ends.pulls, ends.stats[:, :, 0].astype(np.int64))
            rows.append(_checked("odds ratio", names[exact.arm], results, ratio))
        if null and "p-value" not in reasons:
            above = (exact.p_values(ends) > 1.0 - LEVEL).mean()  # where both rates are equal
            share, error = float(above), float(chance_se(above, trials))
            none = (None, None, None)
            row = InferenceCheck("p-value", names[exact.arm], trials, *none, share, error, None)
            rows.append(row)
    return tuple(rows), reasons


def _checked(method: str, arm: str, results: Estimates, truth: float) -> InferenceCheck:
    """Return bias and coverage of estimates and intervals, (E,) each, of one quantity."""
    estimated, bounded = ~np.isnan(results.estimate), ~np.isnan(results.low)
    bias = bias_se = below = coverage = coverage_se = width = None
    if estimated.any():
        off = results.estimate[estimated] - truth
        below = float((off < 0.0).mean() + 0.5 * (off == 0.0).mean())
        if method != "odds ratio" and len(off) > 1:  # its mean may be infinite
            bias, bias_se = mean_and_error(off)
    if bounded.any():
        low, high = results.low[bounded], results.high[bounded]
        covered = np.asarray((low <= truth) & (truth <= high)).mean()
        coverage, coverage_se = float(covered), float(chance_se(np.asarray(covered), len(low)))
        width = None if method == "odds ratio" else float(np.mean(high - low))
    trials = int((estimated | bounded).sum())
    return InferenceCheck(method, arm, trials, bias, bias_se, below, coverage, coverage_se, width)
