"""The optimum of the first stages: a plain recursion over joint states, arm by arm."""

import itertools
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from decobandit.joint import count_states, exact_stages, optimum, start_optimum
from decobandit.problem import Problem, Terminal
from helpers.examples import KINDS
from helpers.oracles import expected_reward, good_chance, stage_pulls

Floats = npt.NDArray[np.float64]
Joint = tuple[tuple[int, int], ...]  # (n, g) of every arm


def by_recursion(problem: Problem, stage: int, fixed: Floats, tables: Floats) -> float:
    """Bellman's equation up to a stage; tables (J, arms, slab) after it."""
    arms, pulls = problem.arms, stage_pulls(problem)

    @cache
    def best(t: int, state: Joint) -> float:
        if t == stage:
            sums = [
                sum(table[a, n * (n + 1) // 2 + g] for a, (n, g) in enumerate(state))
                for table in tables
            ]
            return float(min(fixed + np.array(sums)))
        return max(
            pulled(t, state, chosen)
            for chosen in itertools.combinations(range(len(arms)), pulls[t])
        )

    def pulled(t: int, state: Joint, chosen: tuple[int, ...]) -> float:
        value = sum(expected_reward(problem, arms[a], t, *state[a]) for a in chosen)
        for outcomes in itertools.product((0, 1), repeat=len(chosen)):
            chance, after = 1.0, list(state)
            for a, good in zip(chosen, outcomes, strict=True):
                p = good_chance(arms[a], *state[a])
                chance *= p if good else 1.0 - p
                after[a] = (state[a][0] + 1, state[a][1] + good)
            value += chance * best(t + 1, tuple(after))
        return value

    return best(0, ((0, 0),) * len(arms))


def random_tables(problem: Problem, stage: int, seed: int) -> tuple[Floats, Floats]:
    """Three tables for every group of arms."""
    rng = np.random.default_rng(seed)
    slab = (stage + 1) * (stage + 2) // 2
    return rng.normal(size=3), rng.normal(size=(3, len(problem.groups), slab))


def ends_of(tables: Floats) -> Callable[[int, int], Floats]:
    """The tables (J, groups, slab) by group and pulls."""
    return lambda group, n: tables[:, group, n * (n + 1) // 2 : (n + 1) * (n + 2) // 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", [0, 1, 3, 4])
def test_a_start_is_what_a_plain_recursion_finds(kind: str, stage: int) -> None:
    problem = KINDS[kind](5)
    fixed, tables = random_tables(problem, stage, stage)
    found = start_optimum(problem, stage, fixed, ends_of(tables))
    wanted = by_recursion(problem, stage, fixed, tables[:, problem.group_of_arm])
    assert found == pytest.approx(wanted, abs=1e-12)


def test_arms_that_no_pull_can_reach_are_counted() -> None:
    """Seven arms in two stages: five of them stay as they are."""
    problem = Problem.uniform(arms=7, horizon=9)
    fixed, tables = random_tables(problem, 2, 8)
    wanted = by_recursion(problem, 2, fixed, tables[:, problem.group_of_arm])
    assert start_optimum(problem, 2, fixed, ends_of(tables)) == pytest.approx(wanted, abs=1e-12)


def test_with_nothing_after_it_a_start_is_an_optimum() -> None:
    problem, short = (Problem.uniform(arms=4, horizon=horizon) for horizon in (30, 9))
    nothing = np.zeros((1, 1, 55))
    found = start_optimum(problem, 9, np.zeros(1), ends_of(nothing))
    assert found == pytest.approx(optimum(short).value, abs=1e-12)


@pytest.mark.parametrize(
    ("arms", "horizon", "all_of_them"),
    [
        (5, 40, True),
        (15, 20, True),
        (2, 500, True),
        (2, 2000, False),
        (5, 100, False),
        (15, 40, False),
        (1000, 200, False),
        (1, 300, True),
    ],
)
def test_as_many_stages_as_the_budget_allows(arms: int, horizon: int, all_of_them: bool) -> None:
    problem = Problem.uniform(arms=arms, horizon=horizon)
    stages = exact_stages(problem)
    assert (stages == horizon) == all_of_them
    if not all_of_them:
        assert _work_of_start(arms, stages) <= 4e7
        assert _work_of_start(arms, stages + 1) > 4e7


def _work_of_start(arms: int, stages: int) -> int:
    """Joint states before the last stage of a start, and thrice those at it."""
    before = count_states(Problem.uniform(arms=arms, horizon=stages))[0]
    return before + 3 * (count_states(Problem.uniform(arms=arms, horizon=stages + 1))[0] - before)


def test_a_deployment_is_never_the_end_of_a_start() -> None:
    arms = Problem.uniform(arms=5, horizon=41).arms
    problem = Problem(arms=arms, horizon=41, terminal=Terminal(deploy=10.0))
    assert exact_stages(problem) <= problem.horizon
