"""DeCo in plain Python, the first page of the theory, against the fast code."""

import importlib.util
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from decobandit import Arm, BetaBernoulli, Problem, State, make_policy
from decobandit import solve as fast_solve
from decobandit.policies import DecoPolicy
from decobandit.prices import dual_value

FILE = Path(__file__).parents[1] / "docs" / "theory" / "deco.py"
Priors = list[tuple[float, float]]


def read() -> Any:
    """The file as a module: it is documentation, and so not on the path."""
    spec = importlib.util.spec_from_file_location("plain_deco", FILE)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain = read()


def problem_of(priors: Priors, horizon: int) -> Problem:
    arms = tuple(
        Arm(name=f"arm-{a}", prior=BetaBernoulli(good=good, bad=bad))
        for a, (good, bad) in enumerate(priors)
    )
    return Problem(arms=arms, horizon=horizon)


def random_case(seed: int) -> tuple[Priors, int, list[float], random.Random]:
    """Priors, horizon and prices; no index falls on a price, so that there is one subgradient."""
    rng = random.Random(seed)
    priors = [(rng.uniform(0.3, 4.0), rng.uniform(0.3, 4.0)) for _ in range(rng.randint(1, 4))]
    horizon = rng.randint(1, 9)
    return priors, horizon, [rng.uniform(0.1, 0.9) for _ in range(horizon)], rng


def random_states(rng: random.Random, arms: int, stage: int) -> list[tuple[int, int]]:
    """`stage` pulls spread over the arms, with any outcomes."""
    counts = [[0, 0] for _ in range(arms)]
    for _ in range(stage):
        rng.choice(counts)[rng.randint(0, 1)] += 1
    return [(good, bad) for good, bad in counts]


def test_it_is_short() -> None:
    assert len(FILE.read_text(encoding="utf-8").splitlines()) <= 80


def test_it_needs_nothing() -> None:
    assert "import" not in FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("seed", range(12))
def test_dual_function_and_subgradient_agree(seed: int) -> None:
    priors, horizon, prices, _ = random_case(seed)
    bound, gradient = plain.dual(priors, prices)
    fast = dual_value(problem_of(priors, horizon), prices)
    assert bound == pytest.approx(fast.value, abs=1e-12)
    assert gradient == pytest.approx(fast.gradient.tolist(), abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_indices_and_choices_agree(seed: int) -> None:
    priors, horizon, prices, rng = random_case(seed)
    policy = DecoPolicy(problem_of(priors, horizon), prices)
    index, _, _ = plain.backward(priors, horizon, lambda t, _: prices[t])
    for stage in range(horizon):
        states = random_states(rng, len(priors), stage)
        state = State.of_counts(*zip(*states, strict=True))
        own = [index[stage][a, s] for a, s in enumerate(states)]
        assert own == pytest.approx(policy.indices(stage, state).tolist(), abs=1e-12)
        assert (plain.choose(priors, prices, stage, states),) == policy.select(stage, state)


@pytest.mark.parametrize(
    ("priors", "horizon", "tolerance"),
    [
        ([(1, 1)] * 3, 8, 1e-12),
        ([(2, 1), (1, 1), (1, 3.5)], 9, 1e-12),
        ([(1, 1)] * 2, 10, 1e-4),  # states that share a price: rounds alone do not mix them well
        ([(1, 1)] * 5, 12, 1e-3),
    ],
)
def test_both_certificates_hold_each_other(priors: Priors, horizon: int, tolerance: float) -> None:
    prices, upper, lower = plain.solve(priors, horizon)
    assert (upper - lower) / upper <= tolerance
    # each upper bound is above each lower bound, whoever computed them
    fast = fast_solve(problem_of(priors, horizon), tol=1e-7)
    assert lower <= fast.upper_bound + 1e-12
    assert fast.lower_bound <= upper + 1e-12
    # and the prices prove what they are said to prove
    assert dual_value(fast.problem, prices).value == pytest.approx(upper, abs=1e-12)


def test_an_episode_by_the_plain_policy_is_one_by_the_fast_policy() -> None:
    priors: Priors = [(1, 1)] * 3
    problem, horizon = problem_of(priors, 8), 8
    solution = fast_solve(problem)
    policy, rng = make_policy(solution.problem, "deco", solution=solution), random.Random(7)
    states = [(0, 0)] * 3
    for stage in range(horizon):
        arm = plain.choose(priors, policy.prices.tolist(), stage, states)
        assert (arm,) == policy.select(stage, State.of_counts(*zip(*states, strict=True)))
        good, bad = states[arm]
        states[arm] = (good + 1, bad) if rng.random() < 0.6 else (good, bad + 1)
