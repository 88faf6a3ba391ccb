"""The optimal policy: one step of look-ahead on the exact values of all joint states.

For problems small enough that these values can be kept, 8 bytes for each state of each stage, and
whose outcomes are finitely many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from ..joint import TIED, JointValues, ShapeValues, TwoArmChoices, optimum, tied_shares
from ..problem import (
    DEFAULT_TIES,
    TIE_SIGNS,
    TIE_TOLERANCE,
    Problem,
    State,
    States,
    TieRule,
    break_tie,
)
from ..support import Floats, Ints, InvalidArgument, Report, Unsupported
from .allocation import Distribution, Ways, Weighed, distinct_rows, sole_arm
from .index_policy import IndexPolicy
from .requirements import finite_outcomes


class OptimalPolicy(IndexPolicy):
    """Pulls the arms of largest expected reward in all.

    Ties are values closer than 1e-12 of what is at stake.

    Parameters
    ----------
    problem : Problem
        A small one: the values of all joint states are kept.
    ties : TieRule
        How ties are broken. With several pulls per stage: the arms pulled least so far, then those
        that stand first.
    limit_bytes, progress, workers
        As in `optimum`.

    Raises
    ------
    TooLarge
        If the values do not fit.

    Examples
    --------
    >>> from decobandit import Problem, State
    >>> from decobandit.policies import OptimalPolicy
    >>> policy = OptimalPolicy(Problem.uniform(arms=2, horizon=4))
    >>> round(policy.value, 6), policy.choose(State.parse("0/1,0/0"))
    (2.277778, (1,))
    """

    name = "optimal"
    symmetric = True
    serves_restless = True
    requires = (finite_outcomes,)
    cost = "decision"

    def __init__(
        self,
        problem: Problem,
        *,
        ties: TieRule = DEFAULT_TIES,
        limit_bytes: int | None = None,
        progress: Report | None = None,
        workers: int | None = None,
    ) -> None:
        super().__init__(problem, ties=ties if problem.pulls_per_stage == 1 else DEFAULT_TIES)
        self._group = problem.group_of_arm.tolist()
        self.optimum = optimum(
            problem, keep=True, limit_bytes=limit_bytes, progress=progress, workers=workers
        )
        tables = self.optimum.tables
        assert tables is not None
        self._shapes = tables if isinstance(tables, ShapeValues) else None
        self._tables = tables if isinstance(tables, JointValues) else None

    @property
    def value(self) -> float:
        """The value of the policy, which is the optimum."""
        return self.optimum.value

    def values(self, stage: int, states: States, rng: np.random.Generator | None = None) -> Floats:
        """Return the expected reward to go of a pull; in batches, units of the best allocation."""
        if self._shapes is None:
            rows, place = distinct_rows(states)
            single = [self.action_values(stage, rows.state(e)) for e in range(len(rows))]
            return np.array(single)[place]
        if self.problem.units == 1:
            worths = self._shapes.worths(stage, states)
            return np.asarray(worths @ np.array(self._shapes.allotments))
        return self._shapes.choices(stage, states, self._tolerance).astype(float)

    def indices(self, stage: int, state: State) -> Floats | None:
        if self._tables is None:
            return super().indices(stage, state)
        single = self._pulls(stage, state) == 1
        return self.action_values(stage, state) if single else None

    def allocate_many(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Ints:
        if self._shapes is None:
            return super(IndexPolicy, self).allocate_many(stage, states, rng)
        if stage < self.problem.horizon and self.batches:
            return self.problem.unit * self._shapes.choices(stage, states, self._tolerance)
        return super().allocate_many(stage, states, rng)

    def action_values(self, stage: int, state: State) -> Floats:
        """Return the expected reward to go of a pull of each arm, then the best pulls; (arms,)."""
        if self._pulls(stage, state) != 1:
            raise InvalidArgument(
                f"stage {stage} pulls {self._pulls(stage, state)} arms; single arms have no value"
            )
        arms = range(self.problem.n_arms)
        values: dict[object, float] = {}
        for arm in arms:
            kind = self._kind(arm, state)
            if kind not in values:
                values[kind] = self.value_of((arm,), stage, state)
        return np.array([values[self._kind(arm, state)] for arm in arms])

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """Positions of the arms to pull, the least pulled first."""
        if self._shapes is not None:
            units = self.allocation(stage, state, rng)
            if self.batches:
                return sole_arm(units, self.name)
            return tuple(np.flatnonzero(units).tolist())
        number, pulls = self._pulls(stage, state), state.pulls
        if number == 1:
            return (break_tie(self._tied(stage, state), pulls, self.ties, rng),)
        choices: dict[object, tuple[float, tuple[int, ...]]] = {}
        for arms in self._sets(pulls, number):
            kinds = tuple(sorted(self._kind(arm, state) for arm in arms))
            if kinds not in choices:
                choices[kinds] = self.value_of(arms, stage, state), arms
        best = max(value for value, _ in choices.values())
        least = self._least(best)
        return next(arms for value, arms in choices.values() if value >= least)

    @property
    def has_distribution(self) -> bool:
        return self._tables is not None and self.problem.pulls_per_stage == 1

    def distribution(self, stage: int, state: State) -> Distribution:
        tied = self._tied(stage, state)
        if self.ties != "random":
            return [((break_tie(tied, state.pulls, self.ties),), 1.0)]
        return [((arm,), 1.0 / tied.size) for arm in tied.tolist()]

    def _tied(self, stage: int, state: State) -> npt.NDArray[np.intp]:
        """Return the best arms if one is pulled."""
        values = self.action_values(stage, state)
        return np.flatnonzero(values >= self._least(float(values.max())))

    def probabilities(
        self, stage: int, states: States, rng: np.random.Generator | None = None
    ) -> Floats:
        dropped = states.allowed is not None and not np.all(states.allowed)
        if dropped or (states.pending is not None and np.any(states.pending)):
            raise Unsupported(
                f"policy {self.name!r} is optimal where all outcomes are known and all arms can be "
                "pulled: not with a delay, a share of control, or arms that are dropped",
                field="policy",
            )
        if self._shapes is not None:
            if self.problem.units == 1:
                return super().probabilities(stage, states, rng)
            chosen = self.allocate_many(stage, states, rng)
            return np.asarray(chosen / chosen.sum(axis=1, keepdims=True))
        if self._dense is None:
            return super(IndexPolicy, self).probabilities(stage, states, rng)
        pulls = states.pulls
        choices = self._dense.at(stage, pulls, states.good)
        if self.ties == "random":
            return tied_shares(choices)
        by_pulls, by_position = TIE_SIGNS[self.ties]
        second = by_pulls * (pulls[:, 0] - pulls[:, 1])  # positive: arm 2 wins the tie
        wins = (second > 0) | ((second == 0) & (by_position < 0))
        return tied_shares(np.where(choices == TIED, wins, choices).astype(np.int8))

    @cached_property
    def _dense(self) -> TwoArmChoices | None:
        """All choices, for two arms and one pull."""
        problem = self.problem
        single = problem.pulls_per_stage == 1
        two = single and problem.n_arms == 2 and problem.terminal is None
        return TwoArmChoices(problem) if two else None

    def weigh(self, stage: int, ways: Ways, taken: tuple[int, ...]) -> Weighed | None:
        """By the exact value of every set of arms that has those taken in it."""
        if self._tables is None:
            return super().weigh(stage, ways, taken)
        number = round(self.problem.pulls[stage])
        pulls = ways[0][0].pulls  # the same in all ways: outcomes differ, pulls do not
        sets = [arms for arms in self._sets(pulls, number) if set(taken) <= set(arms)]
        worth = np.array(
            [
                sum(chance * self.value_of(arms, stage, state) for state, chance in ways)
                for arms in sets
            ]
        )
        least = self._least(float(worth.max()))
        best = sets[int(np.flatnonzero(worth >= least)[0])]
        values = np.full(len(pulls), -np.inf)
        for arms, value in zip(sets, worth, strict=True):
            values[list(arms)] = np.maximum(values[list(arms)], value)
        single = number == 1
        return Weighed(
            values,
            arm=next(arm for arm in best if arm not in taken),
            what="value of this pull and all that follow"
            if single
            else "value of the best set with it",
            tied=tuple(np.flatnonzero(values >= least).tolist()) if single else (),
        )

    def _sets(self, pulls: Sequence[int], number: int) -> Iterator[tuple[int, ...]]:
        """Return sets of arms to pull; the first of tied ones has the least pulled arms."""
        order = sorted(range(len(pulls)), key=lambda arm: (pulls[arm], arm))
        return combinations(order, number)

    def _least(self, best: float) -> float:
        """Values from here on are tied with the best."""
        return best - max(self._tolerance, TIE_TOLERANCE * abs(best))

    def _pulls(self, stage: int, state: State) -> int:
        """Arms to pull; a ValueError if the state cannot be that of the beginning of the stage."""
        state.check(self.problem)
        problem = self.problem
        if not 0 <= stage < problem.stages:
            raise InvalidArgument(
                f"stage: {stage} is not allowed; must be 0..{problem.stages - 1}", field="stage"
            )
        if state.total != stage * problem.pulls_per_stage:
            raise InvalidArgument(
                f"{state.total} pulls in all; must be {stage * problem.pulls_per_stage} "
                f"before stage {stage}"
            )
        return int(problem.pulls[stage])

    def _kind(self, arm: int, state: State) -> tuple[int, int, int]:
        """Equal for arms that are worth the same."""
        return self._group[arm], state.good[arm], state.bad[arm]

    def value_of(self, arms: tuple[int, ...], stage: int, state: State) -> float:
        """Return the expected reward of these pulls and of all that follows."""
        assert self._tables is not None
        total = 0.0
        for outcomes in product((True, False), repeat=len(arms)):
            chance, earned, after = 1.0, 0.0, state
            for arm, good in zip(arms, outcomes, strict=True):
                group = self.problem.groups[self._group[arm]]
                p = (group.alpha + state.good[arm]) / (group.alpha + group.beta + state.pulls[arm])
                chance *= p if good else 1.0 - p
                earned += float((group.reward_good if good else group.reward_bad)[stage])
                after = after.after(arm, good)
            total += chance * (earned + self._tables.value(stage + 1, after))
        return total
