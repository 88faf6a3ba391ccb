"""`decobandit.testing.check_policy` passes all policies in all corners, and fails broken ones."""

from typing import Any

import numpy as np
import pytest

from decobandit import Policy, Problem, make_policy
from decobandit.policies import POLICIES, IndexPolicy, serving
from decobandit.problem import DirichletCategorical, GammaPoisson, NormalNormal, Reward
from decobandit.testing import check_policy

GRADES: dict[str, Any] = {
    "prior": DirichletCategorical((1, 2, 1)),
    "reward": Reward(values=(0, 1, 3)),
}
NORMAL: dict[str, Any] = {"prior": NormalNormal(0, 1), "noise_sd": 1.0}
BATCH: dict[str, Any] = {"pulls_per_stage": 4, "unit": 2, "repeat": True}
CORNERS = {
    "binary": Problem.uniform(arms=3, horizon=3),
    "several": Problem.uniform(arms=3, horizon=3, pulls_per_stage=2),
    "classes": Problem.uniform(arms=3, horizon=3, **GRADES),
    "normal": Problem.uniform(arms=3, horizon=3, **NORMAL),
    "counts": Problem.uniform(arms=3, horizon=3, prior=GammaPoisson(2, 2)),
    "batches": Problem.uniform(arms=3, horizon=2, **BATCH),
    "batches of classes": Problem.uniform(arms=3, horizon=2, **GRADES, **BATCH),
    "batches of normal": Problem.uniform(arms=3, horizon=2, **NORMAL, **BATCH),
}
CASES = [(corner, name) for corner, own in CORNERS.items() for name in serving(own, POLICIES)]


@pytest.mark.parametrize(("corner", "name"), CASES)
def test_policies_of_the_catalogue_hold_in_every_corner(corner: str, name: str) -> None:
    check_policy(make_policy(CORNERS[corner], name))


class First(Policy):
    name = "first"

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def select(self, stage: int, state: Any, rng: Any = None) -> tuple[int, ...]:
        return (0,)


class Symmetric(First):
    name = "symmetric"
    symmetric = True

    def select(self, stage: int, state: Any, rng: Any = None) -> tuple[int, ...]:
        return (0 if max(state.pulls) > 0 else 1,)


class TooMany(First):
    name = "too-many"

    def allocate_many(self, stage: int, states: Any, rng: Any = None) -> np.ndarray:
        return np.ones(states.stats.shape[:2], dtype=np.int64)


class Whim(First):
    name = "whim"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.asked = 0

    def select(self, stage: int, state: Any, rng: Any = None) -> tuple[int, ...]:
        self.asked += 1
        return (self.asked % 2,)


class Halves(IndexPolicy):
    name = "halves"

    def index(self, stage: int, group: int, stats: Any) -> np.ndarray:
        return -stats[..., 1]

    def probabilities(self, stage: int, states: Any, rng: Any = None) -> np.ndarray:
        return np.full(states.stats.shape[:2], 0.5)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (Symmetric, "declares symmetry"),
        (TooMany, "do not add up to 1"),
        (Whim, "same seed, other pulls"),
        (Halves, "probabilities do not sum to one"),
    ],
)
def test_broken_policies_are_told_what_they_break(broken: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_policy(broken(Problem.uniform(arms=3, horizon=3)))
    check_policy(First(Problem.uniform(arms=3, horizon=3)))
