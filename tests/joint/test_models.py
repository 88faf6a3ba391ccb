"""The exact optimum of every outcome model and batch size, against all histories."""

from itertools import product

import numpy as np
import pytest

from decobandit import evaluate, make_policy, optimum, solve
from decobandit.joint import ArmStates, count_states, start_optimum
from decobandit.problem import Arm, NormalNormal, Problem
from helpers.histories import (
    CURE,
    GRADES,
    OTHER,
    OWN,
    SMALL,
    Seen,
    best_by_histories,
    by_histories,
    state_of,
)
from helpers.refusals import refused


@pytest.mark.parametrize("name", SMALL)
def test_the_optimum_is_the_best_of_all_histories(name: str) -> None:
    problem = SMALL[name]
    best = best_by_histories(problem)
    assert optimum(problem).value == pytest.approx(best, abs=1e-9)
    assert best <= solve(problem).upper_bound + 1e-9
    assert by_histories(problem, "optimal")[0] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("name", SMALL)
def test_a_start_is_the_best_of_all_histories_up_to_a_stage(name: str) -> None:
    problem, rng = SMALL[name], np.random.default_rng(5)
    layers = [ArmStates(group, problem.unit) for group in problem.groups]
    fixed = rng.normal(size=3)
    tables = {
        (k, n): rng.normal(size=(3, layers[k].size(n)))
        for k in range(len(layers))
        for n in range(problem.pulls_per_stage + 1)
    }

    def ended(seen: Seen) -> float:
        total, stats = fixed.copy(), state_of(problem, seen).stats
        for arm, k in enumerate(problem.group_of_arm.tolist()):
            n = len(seen[arm])
            total += tables[k, n][:, layers[k].number(n, stats[arm])]
        return float(total.min())

    found = start_optimum(problem, 1, fixed, lambda k, n: tables[k, n])
    assert found == pytest.approx(best_by_histories(problem, 1, ended), abs=1e-9)


def test_foretold_states_are_those_that_are_stored() -> None:
    equal = Problem(arms=[GRADES, GRADES.model_copy(update={"name": "b"})], horizon=3)
    listed = [
        (a, b)
        for n in range(4)
        for k in range(n + 1)
        if n - k >= k  # of exchangeable arms, the one with more pulls stands first
        for a, b in product(_compositions(n - k, 3), _compositions(k, 3))
    ]
    assert count_states(equal)[0] == len(listed)
    assert optimum(equal).states == len(listed)


def _compositions(n: int, parts: int) -> list[tuple[int, ...]]:
    return [c for c in product(range(n + 1), repeat=parts) if sum(c) == n]


def test_what_is_too_large_or_infinite_is_refused_at_once() -> None:
    with refused("too_large"):
        optimum(Problem(arms=[GRADES, OTHER, CURE], horizon=150))
    with refused("unsupported"):
        optimum(
            Problem(arms=[CURE, Arm(name="n", prior=NormalNormal(0, 1), noise_sd=1)], horizon=3)
        )


def test_ties_of_sets_go_to_the_least_pulled_arms_then_to_the_first() -> None:
    arms = [OWN.model_copy(update={"name": name}) for name in "abc"]
    policy = make_policy(Problem(arms=arms, horizon=2, pulls_per_stage=2), "optimal")
    problem = policy.problem
    assert set(policy.select(0, state_of(problem, ((), (), ())))) == {0, 1}
    assert set(policy.select(1, state_of(problem, (("fine",), ("fine",), ())))) == {0, 2}
    assert evaluate(problem, policy).value == pytest.approx(optimum(problem).value, abs=1e-12)
