"""Simulated arms of any kind, against exact values."""

import numpy as np
import pytest

from decobandit import (
    Arm,
    Beta,
    Categorical,
    Gamma,
    Normal,
    Payoff,
    Problem,
    Simulation,
    optimum,
    simulate,
    solve,
)  # fmt: skip
from helpers import kind_oracles
from helpers.kind_oracles import random_problem


def value(found: Simulation, name: str) -> tuple[float, float]:
    (result,) = [each for each in found.results if each.policy == name]
    return result.value, result.value_se


def test_two_normal_arms_over_two_pulls() -> None:
    """Greedy is optimal there: the second pull is of the larger posterior mean."""
    problem = Problem.uniform(arms=2, horizon=2, prior=Normal(0, 1), noise_sd=1)
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
            Arm(name="n", prior=Normal(0.5, 0.5), noise_sd=1),
            Arm(name="c", prior=Categorical([1, 1, 1]), reward=Payoff(values=[0, 0.5, 1])),
            Arm(name="g", prior=Gamma(1, 2)),
            Arm(name="b", prior=Beta(1, 1)),
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
    problem = Problem.uniform(arms=3, horizon=6, prior=Gamma(2, 1))
    one, two = (
        simulate(problem, ["thompson", "deco"], draws=600, rng=4, workers=workers)
        for workers in (1, 2)
    )
    assert [each.value for each in one.results] == [each.value for each in two.results]


def test_what_is_not_served_yet_is_refused() -> None:
    problem = Problem.uniform(arms=2, horizon=3, prior=Normal(0, 1), noise_sd=1)
    with pytest.raises(ValueError, match="true_horizon: not yet for other outcomes than good"):
        simulate(problem, "greedy", true_horizon=5)
    with pytest.raises(ValueError, match="normal arms have infinitely many states"):
        optimum(problem)
