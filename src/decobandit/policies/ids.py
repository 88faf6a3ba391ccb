"""Information-directed sampling: least squared regret per bit learnt about which arm is best.

    min over distributions q of (sum_a q_a Delta_a)^2 / sum_a q_a g_a
    Delta_a = E[max_b p_b] - E[p_a]                           expected regret
    g_a     = sum_i p*(i) kl(E[p_a | i is best], E[p_a])      what an outcome of a tells

Russo and Van Roy, Learning to optimize via information-directed sampling, Operations Research 2018:
two arms are enough for the minimum. p*(i) is the chance that arm i is best. Chances and means are
those of the posteriors on a grid, see `kernels.information`. One pull per stage; all arms must have
the same rewards at all stages, good above bad.
"""

from __future__ import annotations

import numpy as np

from ..problem import Problem, State
from .asked_states import check_turn
from .kernels.episodes import Episodes
from .kernels.information import decide, fill_row, make_grid, make_rows, make_scratch, play
from .randomised import RandomisedPolicy
from .records import Distribution
from .refusals import refuse_several_pulls, refuse_unequal_rewards

LEAST_POINTS = 10


class IdsPolicy(RandomisedPolicy):
    """Pulls one of two arms, those of the least squared regret per gain."""

    name = "ids"
    symmetric = True
    cost = "decision"
    by_variance = False
    kind_place = "decobandit.policies.kinds.information:KindIdsPolicy"

    def __init__(self, problem: Problem, *, points: int = 1000) -> None:
        refuse_several_pulls(problem, self.name)
        refuse_unequal_rewards(problem, self.name)
        if points < LEAST_POINTS:
            raise ValueError(f"points: {points} of the grid; must be at least {LEAST_POINTS}")
        super().__init__(problem)
        self.grid = make_grid(points)

    def pair(self, stage: int, state: State) -> tuple[int, int, float]:
        """Two arms, and the chance of the first, at a stage before any deployment."""
        check_turn(self.problem, stage, state)
        size = self.problem.n_arms, self.grid.x.size
        rows = make_rows(*size)
        for arm, (a, b) in enumerate(zip(*self.arms.posterior(state), strict=True)):
            fill_row(arm, a, b, self.grid, rows)
        first, second, q = decide(self.grid, rows, make_scratch(*size), self.by_variance)
        return int(first), int(second), float(q)

    def draw(self, stage: int, state: State, rng: np.random.Generator) -> tuple[int, ...]:
        first, second, q = self.pair(stage, state)
        return (first if rng.random() < q else second,)

    def distribution(self, stage: int, state: State) -> Distribution:
        """The arms that may be pulled, with their probabilities."""
        if stage >= self.problem.horizon:
            check_turn(self.problem, stage, state)
            return [(self.deploy(stage, state), 1.0)]
        first, second, q = self.pair(stage, state)
        return [((first,), 1.0)] if first == second else [((first,), q), ((second,), 1.0 - q)]

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        """Play stages first..last-1 of all episodes."""
        size = self.problem.n_arms, self.grid.x.size
        play(
            episodes, last - first, self.arms.alpha, self.arms.beta, self.by_variance, self.grid,
            make_rows(*size), make_scratch(*size), rng,
        )  # fmt: skip
