"""Designs of arms with other outcomes than good or bad, against closed forms."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from decobandit import Design, evaluate, operating_characteristics
from decobandit.designs import Characteristics
from decobandit.designs.final_tests import mean_p_values
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    NormalNormal,
    Problem,
    ProblemError,
    Reward,
    Rules,
)

LAB = [Arm(name=name, prior=NormalNormal(0, 1), noise_sd=1) for name in ("control", "new")]
OWN_STATES = {"s": {"mean": 1, "next": {"x": (1.0, "s")}}}
OWN = [Arm(name="a", prior=MarkovArm(first="s", states=OWN_STATES))]
DRAWS = 4000


def found_in(problem: Problem, truth: list[Any], policy: str, **rules: Any) -> Characteristics:
    scenario = {"name": "one", "truth": truth}
    design = Design(policies=[policy], draws=DRAWS, scenarios=[scenario], **rules)
    return operating_characteristics(problem, design).scenarios[0].policies[0]


def test_power_of_a_posterior_test_of_normal_arms_is_the_closed_form() -> None:
    """Posterior N(sum / (1 + n), 1 / (1 + n)) each: their difference is normal, too."""
    n, apart = 20, 0.8
    test = {"kind": "posterior", "threshold": 0.975}
    found = found_in(
        Problem(arms=LAB, horizon=2 * n), [0.0, apart], "equal", control="control", test=test
    )
    mean, sd = n * apart / (1 + n), np.sqrt(2 * n) / (1 + n)
    least = stats.norm.ppf(0.975) * np.sqrt(2 / (1 + n))
    power = stats.norm.sf(least, mean, sd)
    assert found.errors is not None
    assert found.reject == pytest.approx(power, abs=4 * found.errors["reject"])
    assert found.good == pytest.approx(n * apart, abs=4 * found.errors["good"])
    assert found.good_sd == pytest.approx(np.sqrt(2 * n), rel=0.06)
    assert found.pulls == pytest.approx((n, n))
    chosen = stats.norm.sf(0, mean, sd)
    assert found.select_best == pytest.approx(chosen, abs=4 * found.errors["select_best"])
    assert found.bias[1] == pytest.approx(0.0, abs=4 * found.errors["bias"][1])
    assert found.rmse[1] == pytest.approx(1 / np.sqrt(n), rel=0.06)


def test_power_of_a_z_test_is_the_closed_form() -> None:
    """36 patients on each arm of the trial of Williamson and Villar: 80% at a level of 5%."""
    n, noise, apart, margin = 36, 0.64, 0.374, 0.1
    arms = [
        Arm(name=name, prior=NormalNormal(5, 0.1), noise_sd=noise) for name in ("control", "new")
    ]
    problem, spread = Problem(arms=arms, horizon=2 * n), noise * np.sqrt(2 / n)
    for by in (0.0, margin):  # whatever the prior
        found = found_in(
            problem,
            [0.155, 0.155 + apart],
            "equal",
            control="control",
            margin=by,
            test={"kind": "z", "alpha": 0.05},
        )
        power = stats.norm.sf(stats.norm.ppf(0.95) - (apart - by) / spread)
        assert found.errors is not None
        assert found.reject == pytest.approx(power, abs=4 * found.errors["reject"])
    assert stats.norm.sf(stats.norm.ppf(0.95) - apart / spread) == pytest.approx(0.80, abs=0.005)


def test_p_values_of_a_z_test_by_hand() -> None:
    noise = {"a": 1, "b": 2, "c": 1}
    arms = [Arm(name=name, prior=NormalNormal(0, 1), noise_sd=sd) for name, sd in noise.items()]
    problem = Problem(arms=arms, horizon=20)
    pulls = np.array([[4, 9, 0], [0, 5, 5]])
    known = np.zeros((2, 3, 2))
    known[..., 0], known[..., 1] = pulls, [[2.0, 18.0, 0.0], [0.0, 5.0, 5.0]]
    found = mean_p_values(problem, pulls, known, 0, Rules(margin=0.5), "z")
    # means 0.5 and 2, variances 1/4 and 4/9: one above the margin
    assert found[0, 1] == pytest.approx(stats.norm.sf(1.0 / np.sqrt(1 / 4 + 4 / 9)))
    assert found[0, 0] == found[0, 2] == 1.0  # control; no outcome of the third
    assert np.all(found[1] == 1.0)  # none of control


def test_levels_of_other_tests_are_calibrated() -> None:
    scenarios = [{"name": "null", "truth": [0.0, 0.0]}, {"name": "one", "truth": [0.0, 0.8]}]
    design = Design(
        policies=["equal"],
        draws=DRAWS,
        scenarios=scenarios,
        control="control",
        test={"kind": "z", "alpha": 0.2},
    )
    found = operating_characteristics(Problem(arms=LAB, horizon=40), design, calibrate_to=0.05)
    (own,) = found.calibration
    assert own.what == "test.alpha"
    # p-values of equal shares are uniform where nothing works: the level is the type I error, and
    # that of 95% confidence 1.64 standard errors below 0.05
    error = np.sqrt(0.05 * 0.95 / DRAWS)
    assert own.threshold == pytest.approx(0.05 - 1.64 * error, abs=4 * error)
    assert own.type_one_error == pytest.approx(own.threshold, abs=4 * own.type_one_error_se)
    assert own.confidence == 0.95
    null = found.scenarios[0].policies[0]
    assert own.type_one_error == null.reject
    power = stats.norm.sf(stats.norm.ppf(1 - own.threshold) - 0.8 * np.sqrt(10))
    each = found.scenarios[1].policies[0]
    assert each.errors is not None
    assert each.reject == pytest.approx(power, abs=4 * each.errors["reject"])


def test_counts_earn_their_rates_and_adaptive_policies_find_the_better_arm() -> None:
    arms = [Arm(name=name, prior=GammaPoisson(2, 1)) for name in ("a", "b", "c")]
    problem = Problem(arms=arms, horizon=30)
    equal = found_in(problem, [1.0, 2.0, 3.0], "equal")
    assert equal.errors is not None
    assert equal.good == pytest.approx(60.0, abs=4 * equal.errors["good"])
    assert equal.good_sd == pytest.approx(np.sqrt(60.0), rel=0.06)
    adaptive = found_in(problem, [1.0, 2.0, 3.0], "thompson")
    assert adaptive.best_share is not None
    assert adaptive.best_share > 0.5
    assert adaptive.good > equal.good


def test_looks_stop_trials_and_the_burn_in_is_kept() -> None:
    problem = Problem(arms=LAB, horizon=40)
    rules = {
        "control": "control",
        "burn_in": 5,
        "looks": {"first": 20, "every": 10},
        "stop": {"superiority": 0.975},
    }
    large = found_in(problem, [0.0, 3.0], "greedy", **rules)
    assert large.stopped > 0.9
    assert large.size < 30
    assert large.pulls[0] >= 5
    none = found_in(problem, [0.0, 0.0], "equal", **rules)
    assert none.reject < 0.2
    assert none.select_best is None  # all arms are equal


def test_calibration_keeps_the_type_one_error() -> None:
    design = Design(
        policies=["equal"],
        draws=DRAWS,
        control="control",
        test={"kind": "posterior", "threshold": 0.9},
        scenarios=[{"name": "null", "truth": [0.0, 0.0]}],
    )
    found = operating_characteristics(Problem(arms=LAB, horizon=20), design, calibrate_to=0.05)
    assert found.scenarios[0].null
    assert found.scenarios[0].policies[0].reject <= 0.05 + 1e-12  # a sum of weights
    # closed form: the posterior difference has sd sqrt(2 n) / (1 + n), judged by sqrt(2 / (1 + n))
    exact = stats.norm.cdf(stats.norm.ppf(0.95) * np.sqrt(10 / 11))
    assert found.calibration[0].threshold == pytest.approx(exact, abs=0.01)


WEAR = {
    "new": {"mean": 1.0, "next": {"fine": (0.7, "new"), "worn": (0.3, "old")}},
    "old": {"mean": 0.2, "next": {"fine": (0.9, "old"), "mended": (0.1, "new")}},
}
MACHINES = [Arm(name=name, prior=MarkovArm(first="new", states=WEAR)) for name in "ab"]


@pytest.mark.parametrize(
    "shape", [{}, {"pulls_per_stage": 2}, {"pulls_per_stage": 4, "repeat": True, "unit": 2}]
)
def test_a_design_of_own_states_earns_what_an_exact_evaluation_says(shape: dict[str, Any]) -> None:
    mixed = [*MACHINES, Arm(name="c", prior=BetaBernoulli(2, 1))]
    problem, truth = Problem(arms=mixed, horizon=5, **shape), ["-", "-", 0.6]
    found = found_in(problem, truth, "deco")
    exact = evaluate(problem, "deco", truth=truth)
    assert found.errors is not None
    assert not found.exact
    assert found.good == pytest.approx(exact.value, abs=4.5 * found.errors["good"])
    assert found.good_sd == pytest.approx(exact.variance**0.5, rel=0.06)
    arms = zip(found.pulls, exact.arm_pulls, found.errors["pulls"], strict=True)
    for seen, expected, error in arms:
        assert seen == pytest.approx(expected, abs=4.5 * error + 1e-9)
    assert (found.best_share, found.select_best, found.reject) == (None, None, 0.0)
    assert found.bias[:2] == found.rmse[:2] == (None, None)


def test_own_states_obey_floor_burn_in_and_delay() -> None:
    problem = Problem(arms=MACHINES, horizon=2)
    found = found_in(problem, ["-", "-"], "greedy", burn_in=1)
    assert found.pulls == pytest.approx((1.0, 1.0))
    assert (found.good, found.good_sd) == (pytest.approx(2.0), pytest.approx(0.0, abs=1e-9))
    three = Problem(arms=MACHINES, horizon=3)
    # both are pulled; with a floor, the better one with 0.8: the first of two equal ones
    found = found_in(three, ["-", "-"], "greedy", burn_in=1, floor=0.2)
    both_old, mixed = 0.3 * 0.3, 2 * 0.3 * 0.7
    third = both_old * 0.2 + mixed * (0.8 * 1.0 + 0.2 * 0.2) + 0.7 * 0.7
    assert found.good == pytest.approx(2.0 + third, abs=4.5 * found.errors["good"])
    # nothing is known in time: a, then b, then a again, which is old with 0.3
    late = found_in(three, ["-", "-"], "greedy", delay=2)
    assert late.pulls == pytest.approx((2.0, 1.0))
    assert late.good == pytest.approx(2.0 + 0.7 + 0.3 * 0.2, abs=4.5 * late.errors["good"])


@pytest.mark.parametrize(
    ("arms", "rules", "truth", "said"),
    [
        (LAB, {"test": {"kind": "fisher"}, "control": "control"}, [0, 0], "must be posterior"),
        (LAB, {"test": {"kind": "z"}}, [0, 0], "must be posterior where there is no control"),
        (LAB, {}, [0, [1, 2]], "must be a finite number, the mean"),
        (
            [Arm(name="a", prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 2]))],
            {},
            [0.5],
            "must be 2 probabilities that sum to 1",
        ),
        (
            [Arm(name="a", prior=BetaBernoulli(1, 1)), LAB[0]],
            {},
            [1.5, 0],
            "must be a number from 0 to 1",
        ),
        (OWN, {}, [1], 'must be "-": Markov arms have no parameters'),
        (OWN, {"stop": {"superiority": 0.9}}, ["-"], "design.stop: .* no unknown mean to compare"),
        (OWN, {"test": {"kind": "posterior"}}, ["-"], "design.test: .* no unknown mean to compare"),
        (LAB, {}, [0, "-"], "must be a finite number, the mean"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arms: list[Arm], rules: dict[str, Any], truth: list[Any], said: str
) -> None:
    with pytest.raises(ProblemError, match=said):
        found_in(Problem(arms=arms, horizon=10), truth, "equal", **rules)
