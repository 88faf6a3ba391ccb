"""Index policies whose index has a formula: the table of a stage is one array expression.

Notations
    t       stage: the number of stages played so far; with one pull per stage, of pulls. In
            batches `clock` counts pulls
    n, g    pulls of an arm and good outcomes among them; state (n, g) is at n (n+1) / 2 + g
    a, b    posterior of the success probability: Beta(a, b) = Beta(alpha + g, beta + n - g)

An index x of the success probability is worth bad + (good - bad) x. At a deployment every policy
takes the largest expected reward, since nothing is left to learn. Terminal tables are ignored.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from ..problem import DEFAULT_TIES, TIE_TOLERANCE, Group, Problem, State, TieRule
from ..problem.kernels.layout import slab_size
from ..support import Cache, Floats
from .base import Policy
from .context import Context
from .curve import Curve, Solve, pulls_and_good, solved
from .index_policy import IndexPolicy
from .refusals import refuse_unequal_rewards

UNPULLED = (
    1e9  # index of an arm never pulled, for bounds on the success probability: above them all
)


def states(stage: int) -> tuple[Floats, Floats]:
    """n and g of every state that an arm can be in at a stage, each (slab,)."""
    return pulls_and_good(np.arange(slab_size(stage)))


def expected_reward(group: Group, stage: int, n: Floats, g: Floats) -> Floats:
    """What a pull earns on average, bad + (good - bad) a / (a + b), (slab,)."""
    good, bad = group.reward_good[stage], group.reward_bad[stage]
    mean = (group.alpha + g) / (group.alpha + group.beta + n)
    return np.asarray(bad + (good - bad) * mean, dtype=np.float64)


def same_rewards(problem: Problem, first: int, last: int) -> bool:
    """Whether every arm has the same rewards at all stages first..last-1."""
    rewards = np.array([(group.reward_good, group.reward_bad) for group in problem.groups])
    own = rewards[..., first:last]
    return bool(np.all(own == own[..., :1]))


class TablePolicy(IndexPolicy):
    """Pulls the largest index; a subclass says what the index of a group's states is.

    Parameters
    ----------
    problem : Problem
        What it is made for.
    ties : TieRule
        How ties are broken.

    Examples
    --------
    >>> from decobandit import Problem, evaluate
    >>> from decobandit.policies import TablePolicy
    >>> class MostFailures(TablePolicy):
    ...     name = "most-failures"
    ...
    ...     def group_index(self, group, stage, n, g):
    ...         return n - g
    >>> problem = Problem.uniform(arms=2, horizon=4)
    >>> evaluate(problem, MostFailures(problem)).value < evaluate(problem, "greedy").value
    True
    """

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        self.scale = self._tolerance / TIE_TOLERANCE  # the largest number in the problem
        self._groups = problem.group_of_arm
        self._tables = Cache[int, Floats](1)  # stages are asked for one after the other

    @classmethod
    def in_batches(cls, context: Context) -> Policy:
        """Unit after unit by the same index: `batches/by_index.py`."""
        from .batches.base import as_compared
        from .batches.by_index import BatchIndexPolicy

        return BatchIndexPolicy(
            context.problem, cls(as_compared(context.problem), ties=context.ties)
        )

    @property
    def has_table(self) -> bool:
        return not self.problem.repeat

    def clock(self, stage: npt.ArrayLike) -> Floats:
        """Time as bounds count it: stages so far; in batches, pulls."""
        pulls = self.problem.pulls_per_stage if self.problem.repeat else 1
        return pulls * np.asarray(stage, dtype=np.float64)

    @abstractmethod
    def group_index(self, group: Group, stage: int, n: Floats, g: Floats) -> Floats:
        """Index of states (n, g) of a group at a stage before any deployment, (states,).

        In batches, n and g need not be whole numbers.
        """

    def stage_index(self, stage: int) -> Floats:
        """Index of every state of every group at a stage, (groups, slab). Read-only."""

        def make() -> Floats:
            table = self._table(stage)
            table.flags.writeable = False
            return table

        return self._tables.get_or_make(stage, make)

    def indices(self, stage: int, state: State) -> Floats:
        table = self.stage_index(stage)
        good, pulls = np.array(state.good), np.array(state.pulls)
        own = table[self._groups, pulls * (pulls + 1) // 2 + good]
        return np.asarray(own, dtype=np.float64)

    def group_table(self, group: Group, stage: int) -> Floats:
        """Index of every state of a group at such a stage, (slab,)."""
        return self.group_index(group, stage, *states(stage))

    def _table(self, stage: int) -> Floats:
        groups = self.problem.groups
        if stage < self.problem.horizon:
            return np.stack([self.group_table(group, stage) for group in groups])
        n, g = states(stage)
        return np.stack([expected_reward(group, stage, n, g) for group in groups])


class BoundPolicy(TablePolicy):
    """Pulls the largest upper bound on the success probability, from observed frequencies alone.

    Arms never pulled come first. All arms must have the same rewards at all stages, good above bad:
    the bounds are for rewards in [0, 1], which such rewards are up to a shift and a factor.
    """

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        refuse_unequal_rewards(problem, self.name)
        super().__init__(problem, ties=ties)

    @abstractmethod
    def upper_bound(self, stage: int, n: Floats, g: Floats) -> Floats:
        """Bound in the states (n, g), n at least 1; at stage 0 there may be none."""

    def log_clock(self, stage: int) -> float:
        """log t; 0 before the first pull."""
        return math.log(max(float(self.clock(stage)), 1.0))

    def group_index(self, group: Group, stage: int, n: Floats, g: Floats) -> Floats:
        pulled = n > 0
        return self.reward_at(group, stage, pulled, self.upper_bound(stage, n[pulled], g[pulled]))

    def reward_at(
        self, group: Group, stage: int, pulled: npt.NDArray[np.bool_], bounds: Floats
    ) -> Floats:
        """Index of states by the bounds of those with pulls; arms never pulled come first."""
        x = np.full(pulled.size, UNPULLED)
        x[pulled] = bounds
        good, bad = group.reward_good[stage], group.reward_bad[stage]
        return np.asarray(bad + (good - bad) * x, dtype=np.float64)

    def _table(self, stage: int) -> Floats:
        if stage >= self.problem.horizon:
            return super()._table(stage)
        # no prior in it: one row serves all groups
        row = self.group_table(self.problem.groups[0], stage)
        return np.tile(row, (len(self.problem.groups), 1))


class PosteriorPolicy(TablePolicy):
    """Pulls the largest index that is a root in the posterior of the outcome that earns more.

    A subclass says which root, and what level each stage has; see curve.py.
    """

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        self._levels = self.levels()
        self._curves: dict[tuple[float, float, bool], Curve] = {}

    @property
    @abstractmethod
    def solve(self) -> Solve:
        """Solves for x in Beta(a, b) at a level."""

    @abstractmethod
    def levels(self) -> Floats:
        """Level of every stage before any deployment, ascending, (horizon,)."""

    def group_index(self, group: Group, stage: int, n: Floats, g: Floats) -> Floats:
        a, b = self._curve(group, stage).parameters(n, g)
        return _reward_at(group, stage, solved(self.solve, a, b, float(self._levels[stage]))[:, 0])

    def group_table(self, group: Group, stage: int) -> Floats:
        return _reward_at(group, stage, self._curve(group, stage).at(stage))

    def _curve(self, group: Group, stage: int) -> Curve:
        """One for each prior, for the probability of the outcome that earns more."""
        alpha, beta = group.alpha, group.beta
        straight = bool(group.reward_good[stage] >= group.reward_bad[stage])

        def parameters(n: Floats, g: Floats) -> tuple[Floats, Floats]:
            a, b = alpha + g, beta + n - g
            return (a, b) if straight else (b, a)

        key = (alpha, beta, straight)
        if key not in self._curves:
            self._curves[key] = Curve(self._levels, self.solve, parameters)
        return self._curves[key]


def _reward_at(group: Group, stage: int, x: Floats) -> Floats:
    """What an index x of the probability of the better outcome is worth."""
    low, high = sorted((float(group.reward_bad[stage]), float(group.reward_good[stage])))
    return np.asarray(low + (high - low) * x, dtype=np.float64)
