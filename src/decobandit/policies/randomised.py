"""Common parts of randomised policies, and the arrays of a problem by arm."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ..problem import Problem, State, break_tie, tie_tolerance, tied_arms
from ..support import Floats, InvalidArgument
from .allocation import check_turn
from .base import Policy
from .requirements import binary_outcomes


class ArmArrays:
    """Priors (arms,) and rewards (stages, arms) of a problem, arm by arm."""

    def __init__(self, problem: Problem) -> None:
        groups = [problem.groups[k] for k in problem.group_of_arm]
        self.alpha = np.array([group.alpha for group in groups])
        self.beta = np.array([group.beta for group in groups])
        self.good = np.ascontiguousarray(np.transpose([group.reward_good for group in groups]))
        self.bad = np.ascontiguousarray(np.transpose([group.reward_bad for group in groups]))

    def posterior(self, state: State) -> tuple[Floats, Floats]:
        """Beta(a, b) of every arm: a and b, each (arms,)."""
        return self.alpha + np.array(state.good), self.beta + np.array(state.bad)

    def expected_reward(self, stage: int, state: State) -> Floats:
        """Return bad + (good - bad) a / (a + b) of every arm, (arms,)."""
        a, b = self.posterior(state)
        spread = self.good[stage] - self.bad[stage]
        return np.asarray(self.bad[stage] + spread * (a / (a + b)), dtype=np.float64)


class RandomisedPolicy(Policy):
    """Draws its arms; at a deployment takes the largest expected reward.

    Ties there: the arm pulled least so far, then the first.

    Parameters
    ----------
    problem : Problem
        Problem to play.

    Examples
    --------
    >>> from decobandit import Problem, simulate
    >>> from decobandit.policies import RandomisedPolicy
    >>> class Anything(RandomisedPolicy):
    ...     name = "anything"
    ...
    ...     def draw(self, stage, state, rng):
    ...         return (int(rng.integers(self.problem.n_arms)),)
    >>> problem = Problem.uniform(arms=2, horizon=4)
    >>> simulate(problem, Anything(problem), draws=50, per_draw=1).results[0].policy
    'anything'
    """

    randomised = True
    requires = (binary_outcomes,)

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.arms = ArmArrays(problem)
        self._tolerance = tie_tolerance(problem)

    @abstractmethod
    def draw(self, stage: int, state: State, rng: np.random.Generator) -> tuple[int, ...]:
        """Positions of the arms to pull at a stage before any deployment."""

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """Positions of the arms to pull, drawn with `rng`."""
        check_turn(self.problem, stage, state)
        if stage >= self.problem.horizon:
            return self.deploy(stage, state)
        if rng is None:
            raise InvalidArgument(
                f"policy {self.name!r} draws arms: pass a random generator as rng", field="rng"
            )
        return self.draw(stage, state, rng)

    def deploy(self, stage: int, state: State) -> tuple[int, ...]:
        """Return the arm to deploy."""
        rewards = self.arms.expected_reward(stage, state)
        tied = tied_arms(rewards, range(rewards.size), self._tolerance)
        return (break_tie(tied, state.pulls, self.ties),)
