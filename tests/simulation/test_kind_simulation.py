"""Simulated arms of any kind, against exact values."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, poisson

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    optimum,
    simulate,
    solve,
)
from decobandit.problem import MarkovArm
from decobandit.simulation import Simulation
from decobandit.simulation.kernels.outcomes import draw_counts
from helpers import kind_oracles
from helpers.kind_oracles import random_problem
from helpers.refusals import refused


def value(found: Simulation, name: str) -> tuple[float, float]:
    (result,) = [each for each in found.results if each.policy == name]
    return result.value, result.value_se


def test_two_normal_arms_over_two_pulls() -> None:
    """Greedy is optimal there: the second pull is of the larger posterior mean."""
    problem = Problem.uniform(arms=2, horizon=2, prior=NormalNormal(0, 1), noise_sd=1)
    mean, error = value(simulate(problem, "greedy", draws=4000, per_draw=5, rng=3), "greedy")
    assert mean == pytest.approx(0.2820947918, abs=4 * error)
    assert error < 0.03


@pytest.mark.parametrize("seed", range(3))
def test_greedy_earns_what_the_recursion_says(seed: int) -> None:
    problem = random_problem(np.random.default_rng([seed, 99]))

    def exact(t: int, state: tuple[kind_oracles.ArmState, ...]) -> float:
        arms = list(zip(problem.arms, state, strict=True))
        if t == problem.horizon:
            if problem.terminal is None:
                return 0.0
            return problem.terminal.deploy * max(kind_oracles.mean(a, s) for a, s in arms)
        worth = [kind_oracles.reward(a, t, s) for a, s in arms]
        pulled = np.argsort(worth, kind="stable")[::-1][: problem.pulls_per_stage]
        ways = [((), 1.0)]
        for k, (arm, s) in enumerate(arms):
            after = kind_oracles.successors(arm, s) if k in pulled else [(s, 1.0)]
            ways = [((*own, to), p * q) for own, p in ways for to, q in after]
        return sum(worth[k] for k in pulled) + sum(p * exact(t + 1, own) for own, p in ways)

    expected = exact(0, tuple(map(kind_oracles.first_state, problem.arms)))
    mean, error = value(simulate(problem, "greedy", draws=3000, rng=seed), "greedy")
    assert mean == pytest.approx(expected, abs=4 * error + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_that_of_the_recursion(seed: int) -> None:
    problem = random_problem(np.random.default_rng([seed, 5]))
    assert optimum(problem).value == pytest.approx(kind_oracles.best_value(problem), abs=1e-12)


def test_no_simulated_policy_beats_the_bound() -> None:
    problem = Problem(
        horizon=15,
        arms=[
            Arm(name="n", prior=NormalNormal(0.5, 0.5), noise_sd=1),
            Arm(name="c", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 0.5, 1])),
            Arm(name="g", prior=GammaPoisson(1, 2)),
            Arm(name="b", prior=BetaBernoulli(1, 1)),
        ],
    )
    solution = solve(problem)
    names = ["deco", "fh-gittins", "thompson", "greedy", "knowledge-gradient", "equal"]
    found = simulate(problem, names, draws=1000, solution=solution)
    assert found.upper_bound == solution.upper_bound
    for name in names:
        mean, error = value(found, name)
        assert mean <= solution.upper_bound + 4 * error
    assert value(found, "deco")[0] > value(found, "equal")[0]


def test_the_same_seed_gives_the_same_numbers_whatever_the_workers() -> None:
    problem = Problem.uniform(arms=3, horizon=6, prior=GammaPoisson(2, 1))
    one, two = (
        simulate(problem, ["thompson", "deco"], draws=600, rng=4, workers=workers)
        for workers in (1, 2)
    )
    assert [each.value for each in one.results] == [each.value for each in two.results]


# -- every corner: models x single pulls, several arms, batches ------------------------------------

OWN = MarkovArm.model_validate(
    {
        "first": "new",
        "states": {
            "new": {"mean": 0.4, "next": {"up": (0.5, "good"), "down": (0.5, "bad")}},
            "good": {"mean": 0.9, "next": {"stay": (0.8, "good"), "fall": (0.2, "bad")}},
            "bad": {"mean": 0.1, "next": {"stay": (0.9, "bad"), "rise": (0.1, "new")}},
        },
    }
)
MODELS: dict[str, dict[str, Any]] = {
    "binary": {"prior": BetaBernoulli(1, 1)},
    "classes": {"prior": DirichletCategorical([1, 1, 1]), "reward": Reward(values=[0, 0.5, 1])},
    "normal": {"prior": NormalNormal(0.5, 0.5), "noise_sd": 1},
    "counts": {"prior": GammaPoisson(1, 2)},
    "own": {"prior": OWN},
}
SIZES: dict[str, dict[str, Any]] = {
    "single": {},
    "several": {"pulls_per_stage": 2},
    "batches": {"pulls_per_stage": 4, "unit": 2, "repeat": True},
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("model", MODELS)
def test_every_estimate_of_a_corner_agrees(model: str, size: str) -> None:
    """By outcomes, true means, gap terms and controls; the regret ends where the curve does."""
    problem = Problem.uniform(arms=3, horizon=4, **MODELS[model], **SIZES[size])
    found = simulate(problem, ["greedy", "equal"], draws=3000, per_draw=2, bound=True)
    for result in found.results:
        by_method = result.estimates.by_method
        assert ("gap" in by_method) == (model in ("binary", "classes", "own"))
        for estimate in by_method.values():
            apart = np.hypot(estimate.value_se, result.value_se)
            assert abs(estimate.value - result.value) < 4.5 * apart + 1e-9
        assert found.upper_bound is not None
        assert result.value < found.upper_bound + 4.5 * result.value_se
        assert (result.curve is None) == (model == "own")  # states of one's own have no best arm
        if result.curve is not None:
            assert result.regret is not None
            error = np.hypot(result.curve.regret_se[-1], result.value_se)
            assert result.curve.regret[-1] == pytest.approx(result.regret, abs=4.5 * error)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("model", ["binary", "classes", "normal", "counts"])
def test_the_same_beliefs_are_no_wrong_ones(model: str, size: str) -> None:
    """A true prior and a true horizon that are those of the problem change nothing."""
    problem = Problem.uniform(arms=3, horizon=4, **MODELS[model], **SIZES[size])
    name = "deco" if (model, size) == ("binary", "batches") else "greedy"
    settings: dict[str, Any] = {"draws": 300, "rng": 2, "bound": False}
    (usual,) = simulate(problem, name, **settings).results
    prior = MODELS[model]["prior"]
    (same,) = simulate(problem, name, truth_prior=prior, true_horizon=4, **settings).results
    assert same.value == usual.value
    (longer,) = simulate(problem, name, true_horizon=6, **settings).results
    assert usual.curve is not None
    assert longer.curve is not None
    assert longer.curve.regret[3] == pytest.approx(usual.curve.regret[3], abs=1e-9)
    (shorter,) = simulate(problem, name, true_horizon=3, **settings).results
    assert shorter.curve is not None
    assert shorter.curve.regret[2] == pytest.approx(usual.curve.regret[2], abs=1e-9)


def test_a_wrong_prior_of_classes_is_that_of_the_truth() -> None:
    """Equal pulls earn the mean of the true prior, whatever was believed."""
    problem = Problem.uniform(arms=2, horizon=6, **MODELS["classes"])
    true = DirichletCategorical([1, 2, 5])
    (found,) = simulate(problem, "equal", truth_prior=true, draws=4000).results
    assert found.value == pytest.approx(6 * (2 * 0.5 + 5) / 8, abs=4.5 * found.value_se)
    with refused("invalid_argument", "truth_prior"):
        simulate(problem, "equal", truth_prior=BetaBernoulli(1, 1))


@pytest.mark.parametrize("model", ["classes", "counts", "own"])
def test_tables_play_what_the_loop_over_arrays_plays(model: str) -> None:
    """Episodes that are kept are played stage by stage, others by compiled tables."""
    problem = Problem.uniform(arms=3, horizon=5, pulls_per_stage=2, **MODELS[model])
    names, sizes = ["greedy", "fh-gittins"], {"draws": 1000, "per_draw": 3}
    tables = simulate(problem, names, bound=True, **sizes)
    arrays = simulate(problem, names, bound=True, keep_episodes=True, **sizes)
    for one, two in zip(tables.results, arrays.results, strict=True):
        for method in ("plain", "gap", "expected"):
            if method in one.estimates.by_method:
                mine, other = (own.estimates.by_method[method].value for own in (one, two))
                assert mine == pytest.approx(other, abs=1e-9)


def test_counts_drawn_from_keys_are_poisson() -> None:
    """Small means by their chances, large ones by rejection."""
    keys = np.random.default_rng(5).integers(2**64, size=40_000, dtype=np.uint64)
    none, one = np.zeros(keys.size, np.int64), np.ones(keys.size, np.int64)
    for mean in (0.3, 5.0, 11.9, 12.1, 60.0, 5000.0):
        drawn = np.zeros((keys.size, 2))
        draw_counts(keys, none, one, np.full(keys.size, mean), drawn)
        edges = np.unique(poisson.ppf(np.linspace(0.02, 0.98, 25), mean))
        seen = np.histogram(drawn[:, 1], np.concatenate([[-1], edges, [np.inf]]) + 0.5)[0]
        expected = keys.size * np.diff(np.concatenate([[0.0], poisson.cdf(edges, mean), [1.0]]))
        assert ((seen - expected) ** 2 / expected).sum() < chi2.isf(1e-4, len(expected) - 1)
