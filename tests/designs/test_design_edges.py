"""Designs at their edges: thresholds that are just met, rare outcomes, delays beyond the end."""

from fractions import Fraction
from itertools import product
from math import comb, factorial
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from decobandit import (
    Arm,
    BetaBernoulli,
    Design,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    load_design,
    operating_characteristics,
)
from decobandit.designs import Characteristics
from helpers.refusals import refused


def run(problem: Problem, **settings: object) -> Characteristics:
    settings = {"control": "arm-1", "policies": ["equal"]} | settings
    found = operating_characteristics(problem, Design(**settings))  # type: ignore[arg-type]
    return found.scenarios[0].policies[0]


def one(*truth: float) -> list[dict[str, object]]:
    return [{"name": "one", "truth": truth}]


def better(g: int, n: int, h: int, k: int) -> Fraction:
    """P(h of k beats g of n), uniform priors, as a fraction: a sum of beta functions."""

    def beta(a: int, b: int) -> Fraction:
        return Fraction(factorial(a - 1) * factorial(b - 1), factorial(a + b - 1))

    a, b, c, d = 1 + h, 1 + k - h, 1 + g, 1 + n - g
    parts = (beta(c + i, b + d) / ((b + i) * beta(1 + i, b) * beta(c, d)) for i in range(a))
    return sum(parts, Fraction(0))


# one pull of each arm comes to 1/6, 1/2, 5/6; two to 1/20, 1/5, 1/4, 1/2, ...
@pytest.mark.parametrize(
    ("pulls", "level"), [(2, "1/2"), (4, "19/20"), (4, "4/5"), (4, "1/2"), (6, "1/2"), (6, "7/10")]
)
def test_a_threshold_that_is_just_met_is_met(pulls: int, level: str) -> None:
    n, threshold = pulls // 2, Fraction(level)
    chance = [better(g, n, h, n) for g, h in product(range(n + 1), repeat=2)]
    truth = [
        binom.pmf(g, n, 0.3) * binom.pmf(h, n, 0.6) for g, h in product(range(n + 1), repeat=2)
    ]
    met = sum(w for w, p in zip(truth, chance, strict=True) if p >= threshold)
    assert any(p == threshold for p in chance) or level == "7/10"
    problem = Problem.uniform(arms=2, horizon=pulls)
    found = run(problem, test={"threshold": float(threshold)}, scenarios=one(0.3, 0.6))
    assert found.reject == pytest.approx(met, abs=1e-12)
    looks = {"first": pulls, "every": 1}
    for name, sign in (("superiority", 1), ("inferiority", -1), ("futility", -1)):
        level_of = threshold if sign > 0 else 1 - threshold
        found = run(problem, stop={name: float(level_of)}, looks=looks, scenarios=one(0.3, 0.6))
        stop = sum(w for w, p in zip(truth, chance, strict=True) if sign * (p - level_of) >= 0)
        assert found.stopped_by[name] == pytest.approx(stop, abs=1e-12)


def test_fishers_test_rejects_at_its_level() -> None:
    # 3 of 3 against 0 of 3: 1 of 20 tables
    assert hypergeom.pmf(3, 6, 3, 3) == pytest.approx(1 / comb(6, 3))
    for n, alpha in ((3, 1 / 20), (2, 1 / 6), (4, 1 / 70), (4, 17 / 70)):
        power = sum(
            binom.pmf(g, n, 0.2) * binom.pmf(h, n, 0.7)
            for g, h in product(range(n + 1), repeat=2)
            if _tail(g, h, n) <= Fraction(alpha).limit_denominator(100)
        )
        for kind in ("fisher", "conditional", "unconditional"):
            test = {"kind": kind, "alpha": alpha}
            found = run(Problem.uniform(arms=2, horizon=2 * n), test=test, scenarios=one(0.2, 0.7))
            assert found.reject == pytest.approx(power, abs=1e-12)


def _tail(g: int, h: int, n: int) -> Fraction:
    """P(h or more of the second arm | all good outcomes)."""
    ways = [comb(n, x) * comb(n, g + h - x) if 0 <= g + h - x <= n else 0 for x in range(n + 1)]
    return Fraction(sum(ways[h:]), sum(ways))


@pytest.mark.parametrize("truth", [(0.02, 0.12), (0.9, 0.99), (0.0, 0.1), (1.0, 1.0)])
def test_the_conditional_test_has_its_power_at_rare_rates(truth: tuple[float, float]) -> None:
    # all but a few of 100 outcomes alike: at a rate of one half that has probability 1e-20 or less
    n, power = 50, 0.0
    for g, h in product(range(n + 1), repeat=2):
        if hypergeom.sf(h - 1, 2 * n, g + h, n) <= 0.05:
            power += binom.pmf(g, n, truth[0]) * binom.pmf(h, n, truth[1])
    test = {"kind": "conditional", "alpha": 0.05}
    found = run(Problem.uniform(arms=2, horizon=2 * n), test=test, scenarios=one(*truth))
    assert found.reject == pytest.approx(power, abs=1e-9)


@pytest.mark.parametrize("delay", [3, 4, 6])
def test_looks_after_the_end_see_what_is_known_then(delay: int) -> None:
    # three pulls: arm 1, arm 2, arm 1. The first look sees one outcome, the second two
    superior = 0.8
    expected = 0.0
    for x in product(range(2), repeat=3):
        likely = np.prod([p if good else 1 - p for good, p in zip(x, (0.3, 0.6, 0.3), strict=True)])
        looks = [better(x[0], 1, 0, 0), better(x[0], 1, x[1], 1), better(x[0] + x[2], 2, x[1], 1)]
        expected += likely * any(p >= superior for p in looks)
    found = run(
        Problem.uniform(arms=2, horizon=3),
        delay=delay,
        stop={"superiority": superior},
        scenarios=one(0.3, 0.6),
        test={"threshold": 0.999},
    )
    assert found.exact
    assert found.reject == pytest.approx(expected, abs=1e-12)


def test_a_null_scenario_of_a_margin_is_where_no_arm_is_better_by_it() -> None:
    problem = Problem.uniform(arms=2, horizon=2)
    for margin, truth, null in (
        (0.1, (0.7, 0.8), True),
        (0.1, (0.7, 0.81), False),
        (-0.1, (0.3, 0.3), False),
        (-0.1, (0.3, 0.2), True),
        (-0.1, (0.3, 0.21), False),
        (0.0, (0.3, 0.3), True),
    ):
        design = Design(policies=["equal"], control="arm-1", margin=margin, scenarios=one(*truth))
        assert operating_characteristics(problem, design).scenarios[0].null == null


def test_the_smallest_threshold_may_be_small() -> None:
    # of six equal arms each is best with probability 1/6 where nothing is known
    problem = Problem(
        arms=[Arm(name=f"arm-{k}", prior=BetaBernoulli(2, 2)) for k in range(1, 7)], horizon=6
    )
    design = Design(
        policies=["equal"], stop={"superiority": 0.9}, looks={"first": 6}, scenarios=one(*[0.5] * 6)
    )
    found = operating_characteristics(problem, design, calibrate_to=0.9)
    (level,) = found.calibration
    # one pull each: with j good outcomes the good arms are likelier, the fewer the more so, and
    # all arms are equal with 0 or 6. With 5, too many trials would declare an arm
    assert level.threshold < 0.3
    assert level.type_one_error == pytest.approx(sum(comb(6, j) for j in (1, 2, 3, 4)) / 2**6)


def test_no_threshold_is_found_where_none_is_kept() -> None:
    problem = Problem.uniform(arms=1, horizon=3)
    design = Design(policies=["equal"], test={"threshold": 0.9}, scenarios=one(0.5))
    with refused("invalid_argument"):
        operating_characteristics(problem, design, calibrate_to=0.05)


@pytest.mark.parametrize("delay", [1, 2, 5])
@pytest.mark.parametrize(
    "stage",
    [
        {"arms": 2, "horizon": 4, "pulls_per_stage": 3, "repeat": True},
        {"arms": 2, "horizon": 4, "pulls_per_stage": 4, "unit": 4, "repeat": True},
        {"arms": 4, "horizon": 6, "pulls_per_stage": 2},
    ],
)
@pytest.mark.parametrize("kind", ["good-or-bad", "classes", "measurements", "counts"])
def test_pulls_that_wait_for_their_outcomes_count(
    delay: int, stage: dict[str, object], kind: str
) -> None:
    prior = {
        "classes": DirichletCategorical([1, 1, 1]),
        "measurements": NormalNormal(0, 1),
        "counts": GammaPoisson(2, 1),
    }
    truth: object = {"classes": (0.2, 0.3, 0.5), "measurements": -0.5, "counts": 1.5}.get(kind, 0.3)
    extra = {"noise_sd": 1.0} if kind == "measurements" else {}
    more = {"prior": prior[kind]} if kind in prior else {}
    if kind == "classes":
        extra = {"reward": Reward(values=[0, 1, 2])}
    problem = Problem.uniform(**stage, **more, **extra)  # type: ignore[arg-type]
    arms = problem.n_arms
    found = run(
        problem,
        control=None,
        delay=delay,
        draws=50,
        scenarios=[{"name": "one", "truth": [truth] * arms}],
    )
    each = problem.horizon * problem.pulls_per_stage / arms
    assert found.pulls == pytest.approx([each] * arms)
    assert found.pulls_sd == pytest.approx([0.0] * arms)


def test_a_loaded_design_is_computed_as_it_is(tmp_path: Path) -> None:
    lines = ["horizon = 6", "[[arms]]", 'name = "a"', "count = 2", "[design]"]
    lines += ['policies = ["equal"]', "[[design.scenarios]]", 'name = "one"', "truth = [0.2, 0.6]"]
    (tmp_path / "two.toml").write_text("\n".join(lines))
    loaded = load_design(tmp_path / "two.toml")
    found, same = operating_characteristics(loaded), operating_characteristics(*loaded)
    assert found.scenarios[0].policies[0].reject == same.scenarios[0].policies[0].reject
