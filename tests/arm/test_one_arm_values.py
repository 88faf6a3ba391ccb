"""Value tables at given prices: any stage, in any order, with all stages kept or only a few."""

import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from decobandit.arm import OneArmValues
from decobandit.arm.one_arm_values import _Slabs
from decobandit.problem import Problem
from decobandit.problem.kernels.layout import slab_size
from helpers.examples import KINDS, largest_reward, random_prices
from helpers.oracles import OneArm, dual
from helpers.refusals import refused

HORIZON = 21
KEEP = {"all stages kept": 2**30, "a chain kept": 0}


def shuffled(stages: int) -> list[int]:
    return [int(t) for t in np.random.default_rng(7).permutation(stages + 1)] * 2


ORDERS: dict[str, Callable[[int], Iterable[int]]] = {
    "forward": lambda stages: range(stages + 1),
    "backward": lambda stages: range(stages, -1, -1),
    "shuffled": shuffled,
    "to and fro": lambda stages: [0, stages, 1, stages - 1, 0, stages // 2, stages // 3, 0],
}


def oracles(problem: Problem, prices: list[float]) -> list[OneArm]:
    """The one-arm problem of every group."""
    first = [group.members[0] for group in problem.groups]
    return [OneArm(problem, problem.arms[arm], prices) for arm in first]


@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_the_recursion(kind: str, order: str, keep: str) -> None:
    problem = KINDS[kind](HORIZON)
    prices = random_prices(problem, 0)
    relaxation = OneArmValues(problem, prices, kept_bytes=KEEP[keep])
    arms = oracles(problem, prices)
    for stage in ORDERS[order](problem.stages):
        values = [relaxation.values(stage, group) for group in range(len(arms))]
        assert {table.size for table in values} == {slab_size(stage)}
        tolerance = 1e-12 * largest_reward(problem) * HORIZON
        for found, arm in zip(values, arms, strict=True):
            np.testing.assert_allclose(found, arm.slab(stage), rtol=0, atol=tolerance)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("horizon", [1, 2, 21, 128])
def test_a_chain_of_stages_stays_short(horizon: int, order: str) -> None:
    relaxation = OneArmValues(
        Problem.uniform(arms=2, horizon=horizon), [0.6] * horizon, kept_bytes=0
    )
    for stage in ORDERS[order](horizon):
        relaxation.values(stage, 0)
        assert isinstance(relaxation._tables, _Slabs)
        assert len(relaxation._tables._kept[0]) <= math.log2(horizon) + 3


def test_all_stages_are_kept_up_to_the_bytes_allowed() -> None:
    problem = KINDS["heterogeneous"](5)
    needed = 8 * 3 * sum((t + 1) * (t + 2) // 2 for t in range(6))  # three groups of doubles
    for allowed in (needed, needed - 1):
        relaxation = OneArmValues(problem, [0.5] * 5, kept_bytes=allowed)
        relaxation.values(0, 0)
        assert isinstance(relaxation._tables, _Slabs)
        assert (len(relaxation._tables._kept[0]) == 6) == (allowed == needed)


@pytest.mark.parametrize("kind", KINDS)
def test_terms_are_expected_reward_and_value_of_information(kind: str) -> None:
    problem = KINDS[kind](6)
    prices = random_prices(problem, 1)
    relaxation = OneArmValues(problem, prices)
    unit = 1e-12 * largest_reward(problem)
    for k, arm in enumerate(oracles(problem, prices)):
        for t, n, g in [(0, 0, 0), (3, 0, 0), (3, 3, 0), (4, 3, 2), (5, 5, 5), (5, 1, 1)]:
            terms = relaxation.terms(t, k, (g, n - g))
            assert terms.expected_reward == pytest.approx(arm.ell(t, n, g), abs=unit)
            assert terms.value_of_information == pytest.approx(arm.delta(t, n, g), abs=unit)
            assert terms.index == pytest.approx(arm.index(t, n, g), abs=unit)


@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("kind", KINDS)
def test_stage_index_lists_the_index_of_every_state(kind: str, keep: str) -> None:
    problem = KINDS[kind](7)
    prices = random_prices(problem, 2)
    relaxation = OneArmValues(problem, prices, kept_bytes=KEEP[keep])
    for stage in range(problem.stages):
        table = relaxation.stage_index(stage)
        assert table.shape == (len(problem.groups), slab_size(stage))
        for k, arm in enumerate(oracles(problem, prices)):
            states = [(n, g) for n in range(stage + 1) for g in range(n + 1)]
            expected = [arm.index(stage, n, g) for n, g in states]
            unit = 1e-12 * largest_reward(problem)
            np.testing.assert_allclose(table[k], expected, rtol=0, atol=unit)
            terms = [relaxation.terms(stage, k, (g, n - g)).index for n, g in states]
            assert table[k].tolist() == terms


@pytest.mark.parametrize("kind", KINDS)
def test_value_is_the_dual_function(kind: str) -> None:
    problem = KINDS[kind](7)
    prices = random_prices(problem, 3)
    assert OneArmValues(problem, prices).value() == pytest.approx(dual(problem, prices), rel=1e-12)


@pytest.mark.parametrize("prices", [[], [0.5] * 2, [0.5] * 4, [[0.5] * 3], [0.5, math.nan, 0.5]])
def test_prices_are_one_finite_number_per_stage(prices: list[float]) -> None:
    with refused("invalid_argument", "prices"):
        OneArmValues(Problem.uniform(arms=2, horizon=3), prices)


@pytest.mark.parametrize("stage", [-1, 4])
def test_stages_are_those_of_the_problem(stage: int) -> None:
    relaxation = OneArmValues(Problem.uniform(arms=2, horizon=3), [0.5] * 3)
    with refused("invalid_argument", "stage"):
        relaxation.values(stage, 0)
