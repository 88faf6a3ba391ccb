"""DeCo asked again after the planned end: the dual solved anew from each episode's posteriors.

Where an experiment goes on beyond its planned horizon, the stages that are left are a problem of
their own: posteriors as priors, the stages left as horizon. Its prices are solved once, at the
planned end, and followed to the true one.
"""

from __future__ import annotations

import numpy as np

from ..dual import solve
from ..kernels.episodes import Episodes, pull
from ..problem import Problem
from ..state import State
from .base import DEFAULT_TIES, TieRule
from .deco import DecoPolicy
from .rolling import remaining_problem


class ReplannedDecoPolicy:
    """Plays the stages from `planned` on of a problem with the true horizon; only simulated."""

    name = "deco"
    randomised = True  # only where ties are broken at random, but it cannot be asked state by state

    def __init__(
        self, problem: Problem, planned: int, *, tol: float = 1e-3, ties: TieRule = DEFAULT_TIES
    ) -> None:
        self.problem = problem
        self.planned = planned
        self._tol = tol
        self._ties = ties

    def choose(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """The choice if the planned end were now."""
        left = remaining_problem(self.problem, stage, state)
        policy = DecoPolicy(left, solve(left, tol=self._tol).prices, ties=self._ties)
        return policy.choose(0, State.fresh(left.number_of_arms), rng)

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        """Plan again in every episode, then play it to the end."""
        if (first, last) != (self.planned, self.problem.horizon):
            raise ValueError(f"stages {first}..{last - 1}: must be all from {self.planned} on")
        prices = None
        for e in range(len(episodes.pulls)):
            before = _state(episodes, e)
            left = remaining_problem(self.problem, first, before)
            prices = solve(left, tol=self._tol, start=prices, threads=1).prices
            policy = DecoPolicy(left, prices, ties=self._ties)
            for t in range(last - first):
                now = _state(episodes, e)
                seen = State(
                    tuple(np.subtract(now.good, before.good).tolist()),
                    tuple(np.subtract(now.bad, before.bad).tolist()),
                )
                for i, arm in enumerate(policy.choose(t, seen, rng)):
                    pull(episodes, e, t, i, arm)


def _state(episodes: Episodes, e: int) -> State:
    good, pulls = episodes.good[e], episodes.pulls[e]
    return State(tuple(good.tolist()), tuple((pulls - good).tolist()))
