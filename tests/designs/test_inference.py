"""Inference after adaptation: against confseq, scipy and brute force, and by coverage."""

import itertools
from functools import lru_cache
from math import log, log1p, sqrt
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, contingency, nchypergeom_fisher

from decobandit import Arm, Design, NormalNormal, Problem, make_policy, operating_characteristics
from decobandit.designs.final_tests import (
    COMMON_RATES,
    conditional_p_values,
    unconditional_p_values,
)
from decobandit.designs.inference import (
    Exact,
    check_inference,
    confidence_sequence,
    left_out,
    weighted,
)
from decobandit.designs.playing import Course, Endings, follow, play
from decobandit.policies import RuledPolicy
from decobandit.problem import Rules, States

TRIALS = 10_000
Z = 3.5  # standard errors of a share that a test allows


def ruled(policy: str, horizon: int, arms: int = 2, **rules: Any) -> RuledPolicy:
    problem = Problem.uniform(arms=arms, horizon=horizon)
    return RuledPolicy(make_policy(problem, policy), Rules(**{"control": "arm-1", **rules}))


def at_most_errors(misses: Any, share: float) -> bool:
    """Whether a share of errors is at most this, up to chance."""
    room = Z * sqrt(share * (1.0 - share) / len(misses))
    return float(np.mean(misses)) <= share + room


# -- confidence sequences ------------------------------------------------------------------------

# confseq 0.0.11: betting_cs(x, running_intersection=True, breaks=200000), after n outcomes
CONFSEQ = [
    ([float(i * i % 7 < 3) for i in range(60)], 60, (0.536495, 0.87479)),
    ([float(i * i % 7 < 3) for i in range(60)], 20, (0.41840, 0.94342)),
    ([i * 37 % 101 / 100 for i in range(40)], 40, (0.36110, 0.62578)),
    ([i * 37 % 101 / 100 for i in range(40)], 20, (0.28732, 0.659245)),
]


@pytest.mark.parametrize(("outcomes", "number", "ends"), CONFSEQ)
def test_a_sequence_is_that_of_confseq(
    outcomes: list[float], number: int, ends: tuple[float, float]
) -> None:
    low, high = confidence_sequence(np.array([outcomes]), np.array([number]))
    assert (low[0], high[0]) == pytest.approx(ends, abs=2e-5)


def plain_sequence(outcomes: list[float], points: int) -> tuple[float, float]:
    """Means that no bet has refuted so far, on a grid; outcome by outcome."""
    inside = []
    for m in (i / points for i in range(1, points)):
        up = down = top = total = square = 0.0
        variance = 0.25
        for t, x in enumerate(outcomes, start=1):
            bet = sqrt(2 * log(2 / 0.05) / (variance * t * log(1 + t)))
            up += log1p(min(bet, 0.5 / m) * (x - m))
            down += log1p(-min(bet, 0.5 / (1 - m)) * (x - m))
            top = max(top, up, down)
            total += x
            square += (x - (0.5 + total) / (t + 1)) ** 2
            variance = (0.25 + square) / (t + 1)
        if top < log(2 / 0.05):
            inside.append(m)
    return inside[0], inside[-1]


def test_a_sequence_is_that_of_a_plain_program() -> None:
    rng = np.random.default_rng(5)
    rows = np.concatenate([rng.random((3, 50)) < 0.2, rng.random((3, 50))]).astype(float)
    low, high = confidence_sequence(2 * rows - 1, np.full(6, 50), (-1.0, 1.0))
    for row, *ends in zip(rows.tolist(), low, high, strict=True):
        first, last = plain_sequence(row, 2000)
        assert ends == pytest.approx([2 * first - 1, 2 * last - 1], abs=2.1e-3)


@pytest.mark.parametrize("p", [0.05, 0.5])
def test_a_sequence_holds_at_all_times_at_once(p: float) -> None:
    x = (np.random.default_rng(6).random((TRIALS, 100)) < p).astype(float)
    low, high = confidence_sequence(x, np.full(TRIALS, 100))
    assert at_most_errors((low > p) | (high < p), 0.05)
    # stopped where the mean so far is largest: the worst for an interval of a fixed number
    count = 10 + (np.cumsum(x, axis=1) / np.arange(1, 101))[:, 9:].argmax(axis=1)
    low, high = confidence_sequence(x, count)
    assert at_most_errors((low > p) | (high < p), 0.05)


def test_a_sequence_covers_in_adaptive_trials() -> None:
    policy, truth = ruled("deco", 40), (0.3, 0.6)
    courses: list[Course] = []
    play(policy, truth, TRIALS, (1,), courses=courses)
    course = Course.joined(courses)
    for k, p in enumerate(truth):
        low, high = confidence_sequence(course.outcomes[:, k], course.counts[:, k])
        assert at_most_errors((low > p) | (high < p), 0.05)


# -- by allocation probabilities -----------------------------------------------------------------


def adaptive_course(paths: Any, truth: tuple[float, float]) -> tuple[Course, Any]:
    """Return trials with these arms and outcomes, (E, T, 2), and their probabilities."""
    trials, stages = paths.shape[:2]
    e, pulls, totals = (np.zeros((trials, stages, 2)) for _ in range(3))
    chance = np.ones(trials)
    for row, path in enumerate(paths):
        lead = 0
        for t, (arm, good) in enumerate(path):
            first = min(max(0.5 + 0.2 * lead, 0.1), 0.9)
            e[row, t] = first, 1 - first
            pulls[row, t, arm], totals[row, t, arm] = 1, good
            chance[row] *= e[row, t, arm] * (truth[arm] if good else 1 - truth[arm])
            lead += (1 if good else -1) * (1 if arm == 0 else -1)
    outcomes = np.zeros((trials, 2, stages))
    return Course(e, pulls.astype(int), totals, outcomes, pulls.sum(axis=1).astype(int)), chance


def test_inverse_probabilities_are_unbiased_by_enumeration() -> None:
    truth, prior_means = (0.3, 0.6), np.array([0.5, 0.4])
    paths = np.array(list(itertools.product(itertools.product((0, 1), (0, 1)), repeat=4)))
    course, chance = adaptive_course(paths, truth)
    assert chance.sum() == pytest.approx(1.0)
    never = course.counts == 0
    score = course.totals / course.probabilities
    assert chance @ score.mean(axis=1) == pytest.approx(truth)
    found = weighted(course, prior_means)
    assert np.array_equal(np.isnan(found["ipw"].estimate), never)
    ipw = np.where(never, 0.0, found["ipw"].estimate)  # without a pull all scores are 0
    assert chance @ ipw == pytest.approx(truth)
    guesses = np.where(never, prior_means, found["aipw"].estimate)
    assert chance @ guesses == pytest.approx(truth)


def test_weighted_estimates_are_those_of_a_plain_program() -> None:
    rng = np.random.default_rng(3)
    paths = rng.integers(0, 2, (1, 30, 2))
    course, _ = adaptive_course(paths, (0.5, 0.5))
    course.probabilities[0, 7] = 0.0, 1.0  # an arm that could not be drawn has no weight
    course.pulls[0, 7], course.totals[0, 7] = (0, 1), (0.0, 1.0)
    found = weighted(course, np.array([0.5, 0.4]))["weighted"]
    for k, prior in enumerate((0.5, 0.4)):
        scores, weights, n, total = [], [], 0, 0.0
        for t in range(30):
            e = course.probabilities[0, t, k]
            guess = (prior + total) / (1 + n)
            if course.pulls[0, t, k]:
                n, total = n + 1, total + course.totals[0, t, k]
            if e > 0.0:
                made = course.pulls[0, t, k]
                scores.append(guess + made * (course.totals[0, t, k] - guess) / e)
                weights.append(sqrt(e))
        centre = sum(w * x for w, x in zip(weights, scores, strict=True)) / sum(weights)
        squares = sum((w * (x - centre)) ** 2 for w, x in zip(weights, scores, strict=True))
        wide = 1.959963984540054 * sqrt(squares) / sum(weights)
        ends = found.estimate[0, k], found.low[0, k], found.high[0, k]
        assert ends == pytest.approx((centre, centre - wide, centre + wide))


def test_weighted_intervals_cover_in_long_trials() -> None:
    policy, truth = ruled("thompson", 200, floor=0.2), (0.4, 0.5)
    courses: list[Course] = []
    play(policy, truth, TRIALS, (2,), courses=courses)
    found = weighted(Course.joined(courses), np.array([0.5, 0.5]))["weighted"]
    misses = (found.low > truth) | (found.high < truth)
    # a normal limit: 200 pulls are not infinitely many
    for k in range(2):
        assert at_most_errors(misses[:, k], 0.065)
        assert not at_most_errors(misses[:, k], 0.03)


# -- two binary arms, exactly --------------------------------------------------------------------


def test_equal_arms_have_the_intervals_of_scipy() -> None:
    policy = ruled("equal", 20)
    exact = Exact(policy, follow(policy, None))
    for control, arm in ((2, 7), (5, 6), (0, 4), (3, 10)):
        good = np.array([[control, arm]])
        found = exact.odds_ratio(np.array([[10, 10]]), good)
        table = [[arm, 10 - arm], [control, 10 - control]]
        ends = contingency.odds_ratio(table).confidence_interval(0.95)
        assert (found.low[0], found.high[0]) == pytest.approx((ends.low, ends.high), rel=1e-6)
        if control > 0 and arm < 10:
            # the middle of the ends of the interval of level 0, on the scale of logarithms
            halves = [
                bisected(
                    lambda r, x=x, s=arm + control: nchypergeom_fisher.sf(x, 20, 10, s, r), 0.5
                )
                for x in (arm - 1, arm)
            ]
            assert found.estimate[0] == pytest.approx(sqrt(halves[0] * halves[1]), rel=1e-6)


def bisected(rising: Any, level: float) -> float:
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(np.exp(middle)) < level else (low, middle)
    return float(np.exp(low))


def test_coefficients_are_those_of_all_paths() -> None:
    policy = ruled("thompson", 4)
    null = follow(policy, None)
    states = np.hstack([null.pulls, null.stats[:, :, 0]]).astype(int).tolist()
    law = dict(zip(map(tuple, states), np.log(null.weight), strict=True))
    ways: dict[tuple[int, ...], float] = {}
    for path in itertools.product(itertools.product((0, 1), (0, 1)), repeat=4):
        n, g, weight = [0, 0], [0, 0], 1.0
        for arm, good in path:
            second = better(tuple(n), tuple(g))
            weight *= second if arm else 1 - second
            n[arm] += 1
            g[arm] += good
        key = (*n, *g)
        ways[key] = ways.get(key, 0.0) + weight
    for (n0, n1, g0, g1), weight in ways.items():
        other = ways.get((n0, n1, g0 + 1, g1 - 1))
        if other is None:
            continue
        ratio = law[n0, n1, g0, g1] - law[n0, n1, g0 + 1, g1 - 1]
        assert ratio == pytest.approx(log(weight / other), abs=1e-9)


@lru_cache
def better(n: tuple[int, ...], g: tuple[int, ...]) -> float:
    """P(second arm better than the first), uniform priors, by quadrature."""
    first, second = (beta(1 + g[k], 1 + n[k] - g[k]) for k in range(2))
    return float(quad(lambda x: second.pdf(x) * first.cdf(x), 0.0, 1.0)[0])


ROLES = [
    ruled("deco", 12, floor=0.15, looks={"first": 6, "every": 3}, stop={"superiority": 0.95}),
    ruled("thompson", 12),
    ruled("equal", 12, block=4, looks={"first": 6, "every": 3}, stop={"superiority": 0.9}),
]


@pytest.mark.parametrize("policy", ROLES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("truth", [(0.3, 0.3), (0.2, 0.6), (0.9, 0.5)])
def test_exact_intervals_cover_exactly(policy: RuledPolicy, truth: tuple[float, float]) -> None:
    ends = follow(policy, truth)
    exact = Exact(policy, follow(policy, None))
    found = exact.odds_ratio(ends.pulls, ends.stats[:, :, 0].astype(int))
    ratio = truth[1] / (1 - truth[1]) * (1 - truth[0]) / truth[0]
    assert ends.weight @ (found.low > ratio) <= 0.025 + 1e-9
    assert ends.weight @ (found.high < ratio) <= 0.025 + 1e-9
    there = ~np.isnan(found.estimate)
    assert (found.low[there] <= found.estimate[there]).all()
    assert (found.estimate[there] <= found.high[there]).all()
    if truth[0] == truth[1]:
        assert ends.weight @ (exact.p_values(ends) <= 0.05) <= 0.05 + 1e-9


def test_the_p_value_is_that_of_the_conditional_test() -> None:
    policy = ruled("thompson", 10)
    ends: Endings = follow(policy, (0.3, 0.5))
    exact = Exact(policy, follow(policy, None))
    assert np.array_equal(exact.p_values(ends), conditional_p_values(policy, ends)[:, 1])


@pytest.mark.parametrize("policy", ROLES[1:], ids=lambda policy: policy.name)
def test_unconditional_p_values_are_the_largest_of_all_rates(policy: RuledPolicy) -> None:
    ends = follow(policy, (0.3, 0.6))
    statistic = policy.statistic(States(policy.problem, ends.stats))[:, 1]
    largest = np.zeros(len(statistic))
    for rate in COMMON_RATES[::20]:
        null = follow(policy, (rate, rate))
        beyond = policy.statistic(States(policy.problem, null.stats))[:, 1]
        at_least = beyond >= statistic[:, None] - 1e-9
        largest = np.maximum(largest, at_least @ null.weight)
    found = unconditional_p_values(policy, ends)[:, 1]
    assert (found >= largest - 1e-9).all()  # over more rates
    for rate in (0.05, 0.31, 0.77):
        null = follow(policy, (rate, rate))
        for alpha in (0.01, 0.05, 0.2):
            declared = unconditional_p_values(policy, null)[:, 1] <= alpha
            assert null.weight @ declared <= alpha + 1e-3  # rates lie between those of the grid
    assert (largest.max(), found.max()) == pytest.approx((1.0, 1.0))


# -- in designs ----------------------------------------------------------------------------------


def test_methods_are_left_out_with_the_reason() -> None:
    assert left_out(ruled("deco", 20)) == {
        "ipw, aipw, weighted": "the policy does not draw its arms: a floor in the design makes it"
    }
    assert left_out(ruled("deco", 20, floor=0.1)) == {}
    assert left_out(ruled("equal", 20, block=2)) == {}
    assert left_out(ruled("thompson", 20, control=None)) == {
        "p-value": "the design has no control arm"
    }
    assert set(left_out(ruled("thompson", 20, arms=3))) == {"odds ratio, p-value"}
    assert set(left_out(ruled("thompson", 20, delay=2))) == {"odds ratio, p-value"}
    assert set(left_out(ruled("thompson", 500))) == {"odds ratio, p-value"}
    arms = [Arm(name=name, prior=NormalNormal(0, 1), noise_sd=1.0) for name in ("arm-1", "b")]
    normal = Problem(arms=arms, horizon=10)
    policy = RuledPolicy(make_policy(normal, "greedy"), Rules(control="arm-1"))
    assert left_out(policy)["sequence"] == "outcomes are not bounded"


def test_checks_are_of_the_very_design() -> None:
    policy = ruled("deco", 30, floor=0.2, looks={"first": 10, "every": 5}, stop={"futility": 0.1})
    rows, reasons = check_inference(policy, (0.4, 0.4), 1000, (7,), null=True)
    assert reasons == {}
    found = {(row.method, row.arm): row for row in rows}
    exact = follow(policy, (0.4, 0.4))
    for k, arm in enumerate(("arm-1", "arm-2")):
        rate = exact.stats[:, k, 0] / np.maximum(exact.pulls[:, k], 1)
        pulled = exact.weight * (exact.pulls[:, k] > 0)
        bias = pulled @ (rate - 0.4) / pulled.sum()
        observed = found["observed", arm]
        assert observed.bias is not None
        assert observed.bias_se is not None
        assert abs(observed.bias - bias) <= Z * observed.bias_se
        assert 0.0 < observed.bias_se < 0.02
        sequence = found["sequence", arm]
        assert (sequence.bias, sequence.below) == (None, None)
        assert sequence.coverage is not None
        assert sequence.coverage > 0.95
        assert found["ipw", arm].coverage is None
        assert found["weighted", arm].coverage is not None
    odds = found["odds ratio", "arm-2"]
    assert odds.bias is None
    assert odds.coverage is not None
    assert odds.coverage > 0.95
    p_value = found["p-value", "arm-2"].coverage
    assert p_value is not None
    assert p_value > 0.95 - Z * 0.007


def test_results_carry_the_checks_where_asked_for() -> None:
    problem = Problem.uniform(arms=3, horizon=12)
    design = Design(
        policies=["thompson"], scenarios=[{"name": "one", "truth": [0.2, 0.6, 0.4]}], draws=200
    )
    assert operating_characteristics(problem, design).scenarios[0].policies[0].inference == ()
    result = operating_characteristics(problem, design, inference=True)
    (row,) = result.scenarios[0].policies
    assert {one.method for one in row.inference} == {
        *("observed", "sequence", "ipw", "aipw", "weighted")
    }
    assert all(one.trials <= 200 for one in row.inference)
    assert set(row.inference_left_out) == {"odds ratio, p-value"}
    tree = result.to_dict()["scenarios"][0]["policies"][0]
    assert tree["inference"][0]["method"] == "observed"
    frame = result.to_frame("inference", kind="pyarrow")
    assert frame["method"].to_pylist() == [one.method for one in row.inference]
