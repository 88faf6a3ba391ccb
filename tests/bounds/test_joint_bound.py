"""The joint bound: between the optimum and the dual upper bound, at any stage and prices."""

import tomllib
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from decobandit.bounds import BoundValue, bound
from decobandit.bounds import upper_bounds as module
from decobandit.bounds.upper_bounds import price_paths
from decobandit.joint import exact_stages, optimum
from decobandit.prices import DualSolution, dual_value, solve
from decobandit.problem import DirichletCategorical, Problem, Reward
from helpers.examples import KINDS, at_stake, random_prices

CLASSES: dict[str, Any] = {"prior": DirichletCategorical([1, 1]), "reward": Reward(values=[0, 1])}


def joint_bound(problem: Problem, solution: DualSolution) -> BoundValue | None:
    """The joint bound, or the optimum where all stages are followed."""
    return bound(problem, solution=solution, kinds=("joint", "optimum")).of("joint", "optimum")


def at_prices(problem: Problem, prices: list[float]) -> DualSolution:
    """A solution that has these prices and their bound."""
    mu, horizon = np.array(prices), problem.horizon
    return replace(
        solve(problem, tol=1e-2),
        multipliers=mu[:horizon],
        deployment_price=mu[-1] if mu.size > horizon else None,
        upper_bound=dual_value(problem, mu).value,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", [1, 3, 5])
def test_it_is_between_the_optimum_and_the_dual(
    kind: str, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = KINDS[kind](6)
    exact, rounding = optimum(problem).value, 1e-12 * at_stake(problem)
    monkeypatch.setattr(module, "exact_stages", lambda problem: stage)
    for solution in (solve(problem), at_prices(problem, random_prices(problem, stage))):
        found = joint_bound(problem, solution)
        assert found is not None
        assert found.details["exact_stages"] == stage
        assert exact - rounding <= found.value <= solution.upper_bound + rounding


def test_more_stages_give_a_smaller_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The minimum over price paths is an upper bound of its own stage before, so none can rise."""
    problem = Problem.uniform(arms=3, horizon=20)
    solution, found = solve(problem), []
    for stage in (1, 5, 10, 15, 19, 20):
        monkeypatch.setattr(module, "exact_stages", lambda problem, stage=stage: stage)
        joint = joint_bound(problem, solution)
        assert joint is not None
        found.append(joint.value)
    assert found == sorted(found, reverse=True)
    assert found[0] < solution.upper_bound - 0.1
    assert found[-1] == optimum(problem).value


def test_the_prices_of_the_dual_are_one_of_the_paths() -> None:
    for kind in KINDS.values():
        problem = kind(9)
        prices = np.array(random_prices(problem, 3))
        assert np.abs(price_paths(problem, prices) - prices).max(axis=1).min() < 1e-12


def published() -> list[tuple[int, int, float]]:
    """Rows of the paper's Table 1, with what its best policy earns."""
    text = files("decobandit.paper").joinpath("published.toml").read_text("utf-8")
    return [
        (
            row["arms"],
            row["horizon"],
            max(v for k, v in row.items() if k not in ("arms", "horizon")),
        )
        for row in tomllib.loads(text)["table1"]
    ]


@pytest.mark.parametrize(("arms", "horizon", "value"), published())
def test_best_bounds_are_within_one_percent_of_the_published_policies(
    arms: int, horizon: int, value: float
) -> None:
    problem = Problem.uniform(arms=arms, horizon=horizon)
    best = bound(problem, kinds=("joint", "optimum"))[0]
    assert value * (1.0 - 1e-3) < best.value < 1.01 * value
    assert best.kind == ("joint" if (arms, horizon) == (15, 40) else "optimum")


def test_no_scenarios_are_drawn_where_the_joint_bound_goes_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[int] = []

    def counted(*_: object, draws: int, **__: object) -> None:
        drawn.append(draws)
        raise RuntimeError

    monkeypatch.setattr(module, "estimate_bound", counted)
    assert bound(Problem.uniform(arms=5, horizon=70))[0].kind == "joint"  # 36 of 70 stages
    assert drawn == []
    with pytest.raises(RuntimeError):
        bound(KINDS["heterogeneous"](100))  # 20 or so
    assert drawn == [module.DEFAULT_DRAWS]


@pytest.mark.parametrize(
    ("problem", "best"),
    [
        # 1 and 3 pulls of two fresh arms, then 4 of the better: E[largest posterior mean] = 37/60
        (Problem.uniform(arms=2, horizon=2, pulls_per_stage=4, repeat=True), 2 + 4 * 37 / 60),
        (Problem.uniform(arms=2, horizon=2, **CLASSES), 13 / 12),
    ],
    ids=["batches", "classes"],
)
def test_small_batches_and_classes_are_bounded_by_their_optimum(
    problem: Problem, best: float
) -> None:
    smallest = bound(problem)[0]
    assert smallest.kind == "optimum"
    assert smallest.value == pytest.approx(best, abs=1e-12)


def test_what_is_long_to_count_is_bounded_by_prices() -> None:
    assert exact_stages(Problem.uniform(arms=2, horizon=300, **CLASSES)) == 0
    assert exact_stages(Problem.uniform(arms=200, horizon=9, pulls_per_stage=2, repeat=True)) == 0
