"""Designs compare arms by the expected reward of a pull: against enumeration and closed forms."""

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import beta, betainc, ndtr

from decobandit import Arm, BetaBernoulli, Design, Problem, Reward, operating_characteristics
from decobandit.designs import Characteristics
from decobandit.problem import (
    DirichletCategorical,
    GammaPoisson,
    InvalidProblem,
    NormalNormal,
    Terminal,
)
from helpers.refusals import refused

DRAWS = 4000


def two_arms(rewards: list[Any], prior: Any = None, horizon: int = 8, **more: Any) -> Problem:
    arms = [
        Arm(name=name, prior=prior or BetaBernoulli(1, 1), reward=reward, **more)
        for name, reward in zip(("control", "new"), rewards, strict=True)
    ]
    return Problem(arms=arms, horizon=horizon)


def run(problem: Problem, truth: list[Any], **settings: Any) -> tuple[bool, Characteristics]:
    extra = {key: settings.pop(key) for key in ("exact",) if key in settings}
    settings = {"policies": ["equal"], "draws": DRAWS, "control": "control"} | settings
    design = Design(scenarios=[{"name": "one", "truth": truth}], **settings)
    (scenario,) = operating_characteristics(problem, design, **extra).scenarios
    return scenario.null, scenario.policies[0]


# -- good and bad outcomes: all ends of equal allocation ----------------------------------------

TRUTH = (0.35, 0.6)
PAIR = [stats.binom.pmf(range(3), 2, p) for p in TRUTH]  # good ones of two outcomes
BINARY = {
    "equal": [Reward(), Reward()],
    "fewer are better": [Reward(good=-1), Reward(good=-1)],
    "bad outcomes earn": [Reward(good=0, bad=2), Reward(good=0, bad=2)],
    "new earns half": [Reward(), Reward(good=0.5)],
    "new earns more": [Reward(), Reward(good=3, bad=-1)],
    "opposite": [Reward(), Reward(good=0, bad=1)],
    "safe control": [Reward(good=0.55, bad=0.55), Reward()],
    "safe new arm": [Reward(), Reward(good=0.55, bad=0.55)],
}


def better(rewards: list[Reward], good: tuple[int, int], n: int, margin: float) -> float:
    """P(expected reward of new > that of control + margin), uniform priors.

    Gauss-Legendre quadrature of polynomials between kinks: exact.
    """
    base = [float(r.bad) for r in rewards]  # type: ignore[arg-type]
    slope = [float(r.good) - float(r.bad) for r in rewards]  # type: ignore[arg-type]
    a, b = zip(*((1 + g, 1 + n - g) for g in good), strict=True)

    def exceeds(x: Any) -> Any:  # P(reward of new > x)
        if slope[1] == 0.0:
            return np.asarray(base[1] > x, float)
        below = betainc(a[1], b[1], np.clip((x - base[1]) / slope[1], 0.0, 1.0))
        return 1.0 - below if slope[1] > 0.0 else below

    if slope[0] == 0.0:
        return float(exceeds(base[0] + margin))
    cuts = [(x - margin - base[0]) / slope[0] for x in (base[1], base[1] + slope[1])]
    nodes, weights = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for low, high in pairwise([0.0, *sorted(p for p in cuts if 0.0 < p < 1.0), 1.0]):
        p, half = (low + high) / 2 + (high - low) / 2 * nodes, (high - low) / 2
        density = p ** (a[0] - 1) * (1 - p) ** (b[0] - 1) / beta(a[0], b[0])
        total += half * weights @ (density * exceeds(base[0] + slope[0] * p + margin))
    return total


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_equal_allocation_comes_to_what_all_ends_come_to(name: str, margin: float) -> None:
    """A look after 4 outcomes and a posterior test after 8, by the rewards."""
    rewards, truth, n = BINARY[name], TRUTH, 4
    base = np.array([float(r.bad) for r in rewards])  # type: ignore[arg-type]
    slope = np.array([float(r.good) for r in rewards]) - base  # type: ignore[arg-type]
    worth = base + slope * truth
    reject = select = stopped = 0.0
    for first, second in product(product(range(3), repeat=2), repeat=2):
        weight = float(np.prod([PAIR[k][first[k]] for k in (0, 1)]))
        early = better(rewards, first, 2, margin) >= 0.9
        good = tuple(first[k] + (0 if early else second[k]) for k in (0, 1))
        if early and second != (0, 0):
            continue  # counted once
        if not early:
            weight *= float(np.prod([PAIR[k][second[k]] for k in (0, 1)]))
        pulls = 2 if early else n
        stopped += weight * early
        reject += weight * (early or better(rewards, good, n, margin) >= 0.8)
        expected = base + slope * (1 + np.array(good)) / (2 + pulls)
        tied = abs(expected[0] - expected[1]) < 1e-12
        select += weight * (0.5 if tied else np.argmax(expected) == np.argmax(worth))
    rules = {
        "margin": margin,
        "looks": {"first": 4, "every": 4},
        "stop": {"superiority": 0.9},
        "test": {"threshold": 0.8},
    }
    null, exact = run(two_arms(rewards), list(truth), **rules)
    assert exact.exact
    assert null == (worth[1] <= worth[0] + margin)
    assert exact.reject == pytest.approx(reject, abs=1e-9)
    assert exact.stopped == pytest.approx(stopped, abs=1e-9)
    assert exact.select_best == pytest.approx(select, abs=1e-9)
    assert exact.best_share == pytest.approx(0.5)
    _, drawn = run(two_arms(rewards), list(truth), exact=False, **rules)
    assert drawn.errors is not None
    for key in ("reject", "stopped", "select_best"):
        error = drawn.errors[key]
        assert getattr(drawn, key) == pytest.approx(getattr(exact, key), abs=4.5 * error)  # type: ignore[operator]


@pytest.mark.parametrize("policy", ["greedy", "thompson", "deco"])
def test_an_arm_that_earns_less_is_not_declared_by_its_success_probability(policy: str) -> None:
    problem = two_arms([Reward(), Reward(good=0.4)], horizon=24)
    rules = {"policies": [policy], "burn_in": 6, "stop": {"superiority": 0.95}}
    null, found = run(problem, [0.4, 0.8], **rules)  # earns 0.32 instead of 0.4
    assert null
    assert found.exact
    assert found.reject < 0.06
    by_outcome, other = run(problem, [0.4, 0.8], compare="outcome", **rules)
    assert not by_outcome
    assert other.reject > 0.4
    assert other.best_share == pytest.approx(1.0 - (found.best_share or 0.0), abs=0.2)


# -- counts, measurements, classes, mixed outcomes ----------------------------------------------


def test_fewer_events_are_better_where_their_factor_is_negative() -> None:
    """Ends of equal allocation are pairs of Poisson sums; P(better) is a beta integral."""
    n, level, factor = 8, 0.95, -1.0
    problem = two_arms([Reward(factor=factor)] * 2, prior=GammaPoisson(2, 1), horizon=2 * n)

    def fewer(truth: tuple[float, float]) -> float:
        sums = np.arange(100)
        weight = np.outer(*(stats.poisson.pmf(sums, n * rate) for rate in truth))
        one, two = 2.0 + sums[:, None], 2.0 + sums[None, :]  # shapes; the rates are equal
        return float(weight[betainc(two, one, 0.5) >= level].sum())

    for truth, null in (((1.0, 2.5), True), ((2.0, 1.2), False)):
        is_null, found = run(problem, list(truth), test={"threshold": level}, draws=1000)
        assert is_null == null
        assert found.errors is not None
        assert found.reject == pytest.approx(fewer(truth), abs=4.5 * found.errors["reject"])
        harmful = found.reject_by_arm[1] if truth[1] > truth[0] else 0.0
        assert harmful < 0.01


@pytest.mark.parametrize(("factor", "margin"), [(-1.0, 0.0), (-2.0, 0.3), (0.5, -0.2)])
@pytest.mark.parametrize("kind", ["posterior", "z"])
def test_power_of_measurements_is_that_of_their_rewards(
    factor: float, margin: float, kind: str
) -> None:
    n, prior_weight = 10, 1.0 if kind == "posterior" else 0.0
    problem = two_arms(
        [Reward(factor=factor)] * 2, prior=NormalNormal(0, 1), horizon=2 * n, noise_sd=1
    )
    level = {"threshold": 0.975} if kind == "posterior" else {"alpha": 0.025}
    truth = [0.0, 0.7 * np.sign(factor)]
    shrunk = n / (n + prior_weight)
    mean, sd = factor * truth[1] * shrunk, abs(factor) * np.sqrt(2 * n) / (n + prior_weight)
    least = margin + stats.norm.ppf(0.975) * abs(factor) * np.sqrt(2 / (n + prior_weight))
    for way in (1.0, -1.0):
        _, found = run(problem, [0.0, way * truth[1]], margin=margin, test={"kind": kind, **level})
        assert found.errors is not None
        power = stats.norm.sf(least, way * mean, sd)
        assert found.reject == pytest.approx(power, abs=4.5 * found.errors["reject"])


def test_a_z_test_of_unequal_factors_is_of_mean_rewards() -> None:
    n, truth = 12, (1.0, -0.6)
    problem = two_arms(
        [Reward(factor=1), Reward(factor=-2)], prior=NormalNormal(0, 1), horizon=2 * n, noise_sd=1
    )
    _, found = run(problem, list(truth), test={"kind": "z", "alpha": 0.05})
    sd = np.sqrt((1 + 4) / n)
    power = stats.norm.sf(stats.norm.ppf(0.95), (1.2 - 1.0) / sd)
    assert found.errors is not None
    assert found.reject == pytest.approx(power, abs=4.5 * found.errors["reject"])


def test_classes_are_compared_by_value_times_factor() -> None:
    """Six outcomes of three classes, all ends; P(better) from draws of both Dirichlet laws."""
    values, n = np.array([0.0, 1.0, 3.0]), 3
    problem = two_arms(
        [Reward(values=list(values), factor=-1)] * 2,
        prior=DirichletCategorical([1, 1, 1]),
        horizon=2 * n,
    )
    truth = [[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]
    ends = [end for end in product(range(n + 1), repeat=3) if sum(end) == n]
    one, two = ([stats.multinomial.pmf(end, n, p) for end in ends] for p in truth)
    rng = np.random.default_rng(4)
    first, second = (
        [rng.dirichlet(1.0 + np.array(end), 40_000) @ values for end in ends] for _ in range(2)
    )
    beats = np.array([[(new < old).mean() for new in second] for old in first])
    likely = np.sort(beats[beats > 0.75].ravel())
    widest = int(np.diff(likely).argmax())
    level = float(likely[widest : widest + 2].mean())  # no end is near this threshold
    assert likely[widest + 1] - level > 0.01
    reject = float(np.outer(one, two)[beats >= level].sum())
    null, found = run(problem, truth, test={"threshold": level})
    assert not null
    assert found.exact
    assert found.reject == pytest.approx(reject, abs=1e-9)
    assert run(problem, truth[::-1], test={"threshold": level})[0]


def test_mixed_outcomes_are_compared_in_units_of_reward() -> None:
    """A chance worth 10 against a measurement that counts -2 times: critical sums by bisection."""
    n, level, truth = 6, 0.9, (0.5, -2.9)
    arms = [
        Arm(name="control", reward=Reward(good=10)),
        Arm(name="new", prior=NormalNormal(-2, 1), noise_sd=1, reward=Reward(factor=-2)),
    ]
    nodes, weights = np.polynomial.legendre.leggauss(60)
    p, weights = (nodes + 1) / 2, weights / 2
    sd = np.sqrt(1 / (1 + n))
    power = 0.0
    for good in range(n + 1):
        density = stats.beta(1 + good, 1 + n - good).pdf(p) * weights

        def beats(total: float, density: Any = density) -> float:  # P(-2 m > 10 p)
            return float(density @ ndtr((-5 * p - (total - 2) / (1 + n)) / sd))

        low, high = -60.0, 60.0  # beats falls in the sum
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if beats(middle) >= level else (low, middle)
        power += stats.binom.pmf(good, n, truth[0]) * stats.norm.cdf(low, n * truth[1], np.sqrt(n))
    problem = Problem(arms=arms, horizon=2 * n)
    null, found = run(problem, list(truth), test={"threshold": level})
    assert not null  # 5.8 against 5
    assert found.errors is not None
    assert found.reject == pytest.approx(power, abs=4.5 * found.errors["reject"])
    assert run(problem, list(truth), test={"threshold": level}, compare="outcome")[0]


# -- tests of outcomes --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fisher", "conditional", "unconditional"])
def test_tests_of_rates_turn_round_where_fewer_are_better(kind: str) -> None:
    """Counting the bad outcomes in place of the good ones is the same trial."""
    test = {"kind": kind, "alpha": 0.1}
    _, one = run(two_arms([Reward(good=-2)] * 2, horizon=14), [0.7, 0.2], test=test)
    _, two = run(two_arms([Reward()] * 2, horizon=14), [0.3, 0.8], test=test)
    assert one.reject == pytest.approx(two.reject, abs=1e-12)
    assert one.reject > 0.4
    null, harmful = run(two_arms([Reward(good=-2)] * 2, horizon=14), [0.2, 0.7], test=test)
    assert null
    assert harmful.reject < 0.002


@pytest.mark.parametrize(
    ("rewards", "rules", "said"),
    [
        ([Reward(), Reward(good=0.5)], {"test": {"kind": "fisher"}}, "must be posterior where"),
        ([Reward(), Reward(bad=0.1)], {"test": {"kind": "conditional"}}, "must be posterior where"),
        ([Reward()] * 2, {"test": {"kind": "fisher"}, "margin": 0.1}, "margin: 0.1 is not allowed"),
        ([Reward(good=0)] * 2, {}, "must be outcome: pulls of every arm earn"),
        ([Reward()] * 2, {"compare": "mean"}, "must be one of reward, outcome"),
        ([Reward(good=9)] * 2, {"margin": 9.5}, "must be a number between -9 and 9"),
    ],
)
def test_comparisons_without_a_meaning_are_refused(
    rewards: list[Reward], rules: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidProblem, match=said):
        run(two_arms(rewards), [0.5, 0.5], **rules)


def test_the_outcome_may_be_compared_where_it_earns_nothing() -> None:
    problem = two_arms([Reward(good=0)] * 2)
    usual = run(two_arms([Reward()] * 2), [0.2, 0.7])[1]
    assert run(problem, [0.2, 0.7], compare="outcome")[1].reject == usual.reject
    # before a deployment pulls may earn nothing: what is deployed is compared
    deployed = problem.model_copy(update={"terminal": Terminal(deploy=5)})
    assert run(deployed, [0.2, 0.7])[1].reject == pytest.approx(usual.reject)


def test_rewards_of_stages_count_by_their_mean() -> None:
    rewards = [Reward(good=[1.0, 0.5] * 4), Reward(good=[0.25, 0.75] * 4)]
    steady = [Reward(good=0.75), Reward(good=0.5)]
    one, two = (
        run(two_arms(each), [0.4, 0.7], test={"threshold": 0.7}) for each in (rewards, steady)
    )
    assert one[0] == two[0]
    assert one[1].reject == pytest.approx(two[1].reject, abs=1e-12)
    assert one[1].select_best == pytest.approx(two[1].select_best or 0.0, abs=1e-12)


# -- calibration --------------------------------------------------------------------------------


def test_a_simulated_calibration_keeps_the_true_type_one_error() -> None:
    """Exceeded in at most 5% of seeds; the error reported is of other draws, hence unbiased.

    At equal shares the z-test has a type I error of its alpha: what is fitted is what is true.
    """
    rate, seeds, draws = 0.05, 200, 400
    problem = two_arms([Reward(factor=-1)] * 2, prior=NormalNormal(0, 1), horizon=4, noise_sd=1)
    true, reported = list[float](), list[float]()
    for seed in range(seeds):
        design = Design(
            policies=["equal"],
            control="control",
            draws=draws,
            seed=seed,
            test={"kind": "z"},
            scenarios=[{"name": "null", "truth": [1.0, 1.0]}],
        )
        (level,) = operating_characteristics(problem, design, calibrate_to=rate).calibration
        true.append(level.threshold)
        reported.append(level.type_one_error)
    over = int(np.sum(np.array(true) > rate))
    assert 1 <= over <= stats.binom.ppf(0.999, seeds, 0.05)  # near 5%: no more is given away
    variance = np.array(true) * (1 - np.array(true)) / draws
    assert abs(np.sum(np.array(reported) - true)) < 4.0 * np.sqrt(variance.sum())


def test_too_few_draws_cannot_show_a_type_one_error() -> None:
    design = Design(
        policies=["equal"],
        control="control",
        draws=50,
        test={},
        scenarios=[{"name": "null", "truth": [0.3, 0.3]}],
    )
    with refused("invalid_argument"):
        operating_characteristics(
            two_arms([Reward()] * 2, horizon=20), design, calibrate_to=0.05, exact=False
        )


@pytest.mark.parametrize(
    ("horizon", "available"),
    [({"survival": [1.0, 0.7, 0.4, 0.2]}, None), (4, [2, 4])],
    ids=["random end", "windows"],
)
def test_rewards_are_those_of_pulls_that_are_made(horizon: object, available: object) -> None:
    """Neither weighted by the probability of their stage, nor charged for other windows."""
    arms = [
        Arm(name="a", prior=NormalNormal(0, 1), noise_sd=0.01),
        Arm(name="b", prior=NormalNormal(0, 1), noise_sd=0.01, available=available),
    ]
    problem, truth = Problem(arms=arms, horizon=horizon), [2.0, 5.0]
    scenarios = [{"name": "s", "truth": truth}]
    design = Design(policies=["equal"], draws=4000, seed=1, scenarios=scenarios)
    (row,) = operating_characteristics(problem, design).scenarios[0].policies
    assert row.good == pytest.approx(np.dot(row.pulls, truth), abs=0.01)
