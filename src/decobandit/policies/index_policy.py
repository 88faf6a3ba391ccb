"""Policies that pull the arms of largest index, for every outcome model and batch size.

An author writes one method, `index(stage, group, stats)`. From it follow tables for compiled loops
(binary outcomes), averages over pending outcomes, and batches: unit after unit goes to the largest
index, taken at statistics as if the outcomes of units given before had come as expected. Policies
whose arms cannot be judged one by one write `values(stage, states, rng)` instead.

At a deployment every index policy takes the largest expected reward: nothing is left to learn.

Notations
    E, K    joint states, arms
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..problem import (
    DEFAULT_TIES,
    TIE_SIGNS,
    TIE_TOLERANCE,
    ArmModel,
    Problem,
    State,
    States,
    Stats,
    TieRule,
    break_tie,
    check_problem,
    tie_rule,
    tie_tolerance,
    tied_arms,
)
from ..problem.kernels.layout import slab_size
from ..problem.states import SLACK
from ..support import Cache, Floats, Ints, InvalidArgument
from .allocation import (
    Allotments,
    ArmIndex,
    Random,
    Ways,
    Weighed,
    check_turn,
    distinct_arms,
    drawn_units,
    largest_arms,
    mean_values,
    of_allowed,
    pending_in,
    pulls_made,
    restricted,
    rounded_units,
)
from .base import Context, Policy
from .kernels.batches import give_by_index, give_within

FREE_COST = 1e-9  # cost that arms without one count with, of the largest
SMALLEST_DIVISOR = 1e-300  # amount that is divided by
UNAVAILABLE_INDEX = -1e9  # index of an arm outside its windows, in units of the largest reward
UNPULLED_MEAN = 1e9  # index of an arm never pulled, for bounds on means: above them all


class IndexPolicy(Policy):
    """Pulls the arms of largest index; ties by the rule.

    Parameters
    ----------
    problem : Problem
        Problem to play.
    ties : TieRule
        How ties are broken: "least-pulled", "most-pulled", "first", "last" or "random".

    Examples
    --------
    >>> from decobandit import Problem, State
    >>> from decobandit.policies import IndexPolicy
    >>> class FewestFailures(IndexPolicy):
    ...     name = "fewest-failures"
    ...
    ...     def index(self, stage, group, stats):
    ...         return -stats[..., 1]
    >>> FewestFailures(Problem.uniform(arms=3, horizon=10)).choose(State.parse("0/1,1/1,1/2"))
    (1,)
    """

    per_cost: ClassVar[bool] = False  # whether, within a budget, indices are compared by cost

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        self.problem = check_problem(problem)
        self.check_serves(problem)
        self.ties = tie_rule(ties)
        self._tolerance = tie_tolerance(problem)
        self.batches = problem.repeat  # whether stages are shared in units
        self.scale = self._tolerance / TIE_TOLERANCE  # the largest number in the problem
        self.groups = problem.arm_groups
        self._base = np.array([group.reward_base for group in self.groups])  # (K, stages)
        self._factor = np.array([group.reward_factor for group in self.groups])
        self._stage_tables = Cache[int, Floats](1)  # stages are asked for one after the other

    @classmethod
    def make(cls, context: Context) -> Self:
        return cls(context.problem, ties=context.ties)

    # -- what arms are compared by ------------------------------------------------------------

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        """Index of arms of a group by their own statistics, (..., width) -> (...).

        At a stage before any deployment. In batches, statistics need not be whole numbers. By
        default from `stage_index`, where a policy writes that.
        """
        if not self.has_table or self.by_arm:
            raise self.no_index()
        return self._in_table(stage, self.problem.groups[group].members[0], stats)

    def values(self, stage: int, states: States, rng: Random = None) -> Floats:
        """Return the values that arms are compared by before any deployment, (E, K)."""
        return self.by_group(states, partial(self.index, stage))

    def values_at(self, stage: int, states: States, rng: Random = None) -> Floats:
        """`values`, and at a deployment expected rewards, (E, K); low outside windows."""
        if stage >= self.problem.horizon:
            return self.expected_rewards(stage, states)
        values = self.values(stage, states, rng)
        if not self.problem.has_windows:
            return values
        return np.where(self.problem.available_at(stage), values, UNAVAILABLE_INDEX * self.scale)

    def indices(self, stage: int, state: State) -> Floats | None:
        """Index of every arm in one state, (arms,); None in batches, which units decide."""
        if self.batches and stage < self.problem.horizon:
            return None
        values: Floats = self.values_at(stage, States.of(self.problem, [state]))[0]
        return values

    @property
    def by_arm(self) -> bool:
        """Whether the index of an arm depends on its own statistics alone."""
        return type(self).index is not IndexPolicy.index

    def by_group(self, states: States, compute: Callable[[int, Floats], Floats]) -> Floats:
        """`each(group, stats)` of the arms of every group together, (E, K)."""
        if len(self.problem.groups) == 1:
            return compute(0, states.of_group(0))
        values = np.empty(states.stats.shape[:2])
        for k, group in enumerate(self.problem.groups):
            values[:, group.members] = compute(k, states.of_group(k))
        return values

    def arm_stats(self, states: States) -> list[Floats]:
        """Statistics of every arm, (E, width) each."""
        return [states.stats[:, k, : group.model.width] for k, group in enumerate(self.groups)]

    @cached_property
    def beta_priors(self) -> tuple[Floats, Floats]:
        """Parameters of the priors of binary arms, (K,) each."""
        alpha, beta = ([getattr(g, name) for g in self.groups] for name in ("alpha", "beta"))
        return np.array(alpha), np.array(beta)

    @cached_property
    def binary_rewards(self) -> Floats:
        """Rewards of good and of bad outcomes of binary arms, (2, stages, K)."""
        rewards = np.array([group.rewards for group in self.groups])
        return np.ascontiguousarray(rewards.transpose(1, 2, 0))

    @cached_property
    def equal_rewards(self) -> bool:
        """Whether all arms have the same rewards at all stages played, more for larger outcomes."""
        played = slice(self.problem.horizon)
        equal = np.ptp(self._base[:, played]) == np.ptp(self._factor[:, played]) == 0.0
        return bool(equal and self._factor[0, 0] > 0.0)

    # -- rewards ------------------------------------------------------------------------------

    def means(self, states: States) -> Floats:
        """Return the expected value of the next outcome of every arm, (E, K)."""
        return self.by_group(states, lambda k, stats: self.problem.groups[k].model.mean(stats))

    def rewards(self, stage: int, means: Floats) -> Floats:
        """Return the rewards of pulls of arms with these means, (E, K)."""
        return np.asarray(self._base[:, stage] + self._factor[:, stage] * means)

    def expected_rewards(self, stage: int, states: States) -> Floats:
        """Return the expected reward of a pull of every arm, (E, K)."""
        return self.rewards(stage, self.means(states))

    def compared(self, stage: int) -> int:
        """Return the stage whose rewards are used to compare arms.

        It is the deployment in batches that earn the same for all arms.
        """
        last = self.problem.stages - 1
        if self.batches and self.problem.terminal is not None:
            flat = not np.any(self._factor[:, stage]) and np.ptp(self._base[:, stage]) == 0.0
            return last if flat else stage
        return stage

    def reward_of(self, stage: int, group: int, mean: Floats) -> Floats:
        """Return the reward of a pull at this mean at the stage of comparison, (...)."""
        arms, at = self.problem.groups[group], self.compared(stage)
        return np.asarray(arms.reward_base[at] + arms.reward_factor[at] * mean, dtype=np.float64)

    def clock(self, stage: npt.ArrayLike) -> Floats:
        """Return the time that confidence bounds use: stages so far; in batches, pulls."""
        pulls = self.problem.pulls_per_stage if self.batches else 1
        return pulls * np.asarray(stage, dtype=np.float64)

    @cached_property
    def levels(self) -> Floats:
        """log(t+1) of all stages, (horizon,): levels of bounds that are exceeded more rarely."""
        return np.log1p(self.clock(np.arange(self.problem.horizon)))

    # -- tables of binary outcomes ------------------------------------------------------------

    @property
    def has_table(self) -> bool:
        if self.problem.may_wait:
            return False
        tabled = self.by_arm or type(self).stage_index is not IndexPolicy.stage_index
        return tabled and self.problem.single_binary and not self.selects_only

    @property
    def has_own_index(self) -> bool:
        return (self.by_arm or self.has_table) and not (self.batches or self.selects_only)

    def stage_index(self, stage: int) -> Floats:
        """Index of every state of every group at a stage, (groups, slab). Read-only."""

        def make() -> Floats:
            n, g = pulls_and_good(np.arange(slab_size(stage)))
            stats, groups = np.stack([g, n - g], axis=1), range(len(self.problem.groups))
            if stage < self.problem.horizon:
                table = np.stack([self.index_table(stage, k, stats) for k in groups])
                away = [not group.available[stage] for group in self.problem.groups]
                table[away] = UNAVAILABLE_INDEX * self.scale
            else:
                table = np.stack([self._reward_at(stage, k, stats) for k in groups])
            table.flags.writeable = False
            return table

        return self._stage_tables.get_or_make(stage, make)

    def index_table(self, stage: int, group: int, stats: Floats) -> Floats:
        """Index of all states of a stage, (slab, 2) -> (slab,); faster where there is a way."""
        return self.index(stage, group, stats)

    def indices_of(self, stage: int, arm: int, stats: Floats) -> Floats:
        group = int(self.problem.group_of_arm[arm])
        if stage >= self.problem.horizon:
            return self._reward_at(stage, group, stats)
        return self.index(stage, group, np.asarray(stats, dtype=float))

    def _reward_at(self, stage: int, group: int, stats: Floats) -> Floats:
        return self.reward_of(stage, group, self.problem.groups[group].model.mean(stats))

    def arm_index(self, stage: int, group: int, stats: Stats) -> ArmIndex:
        row = np.array(stats, dtype=float)
        reward = float(self._reward_at(stage, group, row))
        if stage >= self.problem.horizon:
            return ArmIndex(reward)
        index = self.exact_index(stage, group, row)
        if not self.splits_index:
            return ArmIndex(index)
        return ArmIndex(index, reward, index - reward, self.price(stage))

    def exact_index(self, stage: int, group: int, stats: Floats) -> float:
        """Return the index of one arm at a stage before any deployment, to full precision."""
        return float(self.index(stage, group, stats[None])[0])

    # -- allocation ---------------------------------------------------------------------------

    def select(self, stage: int, state: State, rng: Random = None) -> tuple[int, ...]:
        """Positions of the arms to pull, largest index first."""
        check_turn(self.problem, stage, state)
        if self.batches or self.problem.may_wait:
            pulls = self.allocation(stage, state, rng)
            if self.batches and sum(pulls) != 1:
                raise InvalidArgument(
                    f"policy {self.name!r} shares {sum(pulls)} pulls among arms at a stage: ask "
                    "for the pulls of every arm, allocate(state)"
                )
            return tuple(np.flatnonzero(pulls).tolist())
        values = self.values_at(stage, States.of(self.problem, [state]), rng)[0]
        left, chosen = np.arange(values.size), list[int]()
        for _ in range(round(self.problem.pulls[stage])):
            tied = tied_arms(values, left, self._tolerance)
            chosen.append(break_tie(tied, state.pulls, self.ties, rng))
            left = left[left != chosen[-1]]
        return tuple(chosen)

    def allocation(self, stage: int, state: State, rng: Random = None) -> tuple[int, ...]:
        check_turn(self.problem, stage, state)
        return super().allocation(stage, state, rng)

    def allocate_many(self, stage: int, states: States, rng: Random = None) -> Ints:
        if self.selects_only:
            return super().allocate_many(stage, states, rng)
        if stage < self.problem.horizon:
            if rng is None and self.randomised:
                raise self.no_generator()
            if self.problem.may_wait:
                return self.problem.unit * self.affordable_units(stage, states, rng)
            if self.batches:
                return self.problem.unit * self.share_units(stage, states, rng)
        values = of_allowed(self.values_at(stage, states, rng), states)
        number = round(self.problem.pulls[stage])
        return largest_arms(values, pulls_made(states), number, self._tolerance, self.ties, rng)

    def share_units(self, stage: int, states: States, rng: Random) -> Ints:
        """Units of every arm of a batch, (E, K): by shares, drawn if the policy is `randomised`.

        Else each to the largest index, as expected so far.
        """
        if self.by_shares:
            shares = restricted(self.shares(stage, states), states.allowed)
            if rng is None or not self.randomised:
                return rounded_units(shares, self.problem.units)
            return drawn_units(shares, self.problem.units, rng)
        if self.ties == "random" and rng is None:
            raise InvalidArgument("ties are broken at random: pass a random generator as rng")
        parts, place = distinct_arms(states)
        index = np.concatenate([self.unit_indices(stage, k, rows) for k, rows in enumerate(parts)])
        index[np.unique(place[:, ~self.problem.available_at(stage)])] = -np.inf
        if states.allowed is not None and not states.allowed.all():
            place[~states.allowed] = len(index)
            index = np.vstack([index, np.full(self.problem.units, -np.inf)])
        given = np.empty(place.shape, dtype=np.int64)
        settings = (self.problem.unit, self._tolerance, *TIE_SIGNS[self.ties])
        draws = rng or np.random.default_rng(0)
        give_by_index(index, place, pulls_made(states), *settings, draws, 0, len(given), given)
        return given

    def shares(self, stage: int, states: States) -> Floats:
        """Share of every arm of a batch, (E, K), rows add up to 1; by default units go by index."""
        raise NotImplementedError

    @property
    def by_shares(self) -> bool:
        """Whether batches are given by `shares`."""
        return self.batches and type(self).shares is not IndexPolicy.shares

    def affordable_units(self, stage: int, states: States, rng: Random) -> Ints:
        """Units of every arm within budget or resources, (E, K): the first in order that fit."""
        order, worth = self.unit_worths(stage, states, rng)
        able = of_allowed(np.zeros(order.shape[:2]), states) >= 0.0
        worth = np.where(able[..., None], worth, -1.0)
        return self.fitting_units(stage, order, worth, states.left, pulls_made(states))

    def fitting_units(
        self, stage: int, order: Floats, worth: Floats, money: Floats, pulls: Ints
    ) -> Ints:
        """Units of every arm, (E, K), by order and worth (E, K, units) of each unit.

        money (E,): left of the budget; pulls (E, K): made so far.
        """
        problem = self.problem
        if problem.resources is None:
            uses, left = problem.costs[stage][:, None], money[:, None]
            cost = uses[:, 0]
        else:
            uses, left = problem.uses, np.tile(problem.supply[stage], (len(order), 1))
            # in parts of what there is, a pull of all pulls included
            parts = uses / np.maximum(problem.supply[stage], SMALLEST_DIVISOR)
            cost = parts.sum(axis=1) + 1.0 / problem.pulls_per_stage
        if self.per_cost:
            order = order / np.maximum(cost, FREE_COST * max(cost.max(), SMALLEST_DIVISOR))[:, None]
        units = np.zeros(order.shape[:2], np.int64)
        offered = (np.ascontiguousarray(order), worth, problem.unit * uses, left)
        settings = (problem.units, problem.resources is not None, self._tolerance, SLACK)
        give_within(*offered, pulls, *settings, units)
        return units

    def unit_worths(self, stage: int, states: States, rng: Random) -> tuple[Floats, Floats]:
        """Return what units are taken in order of, and their worth, (E, K, units) each."""
        values = self.unit_values_at(stage, states, rng)
        return values, values

    def unit_values_at(self, stage: int, states: States, rng: Random) -> Floats:
        """Index of every unit of every arm, (E, K, units that one arm may take)."""
        if not self.batches:
            return self.values_at(stage, states, rng)[..., None]
        values = np.empty((*states.stats.shape[:2], self.problem.units))
        for k, group in enumerate(self.problem.groups):
            stats = states.of_group(k)
            flat = stats.reshape(-1, stats.shape[-1])
            indices = self.unit_indices(stage, k, flat).reshape(*stats.shape[:2], -1)
            values[:, group.members] = indices if group.available[stage] else -1.0
        return values

    def unit_indices(self, stage: int, group: int, stats: Floats) -> Floats:
        """Index of every unit of a batch in every state, (S, width) -> (S, units)."""
        taken = self.problem.unit * np.arange(self.problem.units, dtype=np.float64)
        later = expected_stats(self.problem.groups[group].model, stats, taken)
        return self.index(stage, group, later)

    def allotments(self, stage: int, states: States) -> Allotments:
        """With random ties, every set of arms that they may lead to."""
        if self.problem.may_wait and stage < self.problem.horizon and not self.randomised:
            every = np.arange(len(states))  # ties go by pulls and position there
            return every, self.allocate_many(stage, states), np.ones(len(states))
        number = round(self.problem.pulls[stage])
        if self.randomised or self.ties != "random" or number == 1 or self.batches:
            return super().allotments(stage, states)
        answers: list[tuple[int, tuple[int, ...], float]] = []
        for e, values in enumerate(self.values_at(stage, states)):
            sets = {(0,) * values.size: 1.0}
            for _ in range(number):
                larger: dict[tuple[int, ...], float] = {}
                for taken, probability in sets.items():
                    tied = tied_arms(values, np.flatnonzero(np.array(taken) == 0), self._tolerance)
                    for arm in tied.tolist():
                        after = (*taken[:arm], 1, *taken[arm + 1 :])
                        larger[after] = larger.get(after, 0.0) + probability / tied.size
                sets = larger
            answers += [(e, pulls, probability) for pulls, probability in sets.items()]
        rows, pulls, probabilities = (np.array(part) for part in zip(*answers, strict=True))
        return rows, pulls, probabilities

    @property
    def has_probabilities(self) -> bool:
        if self.batches or self.selects_only:
            return not self.draws_arms
        return not self.randomised or self.is_vectorised

    # -- probabilities ------------------------------------------------------------------------

    @property
    def is_vectorised(self) -> bool:
        if self.by_shares or self.randomised:
            return self.by_shares or type(self).probabilities is not IndexPolicy.probabilities
        return self.by_arm or self.has_table or type(self).values is not IndexPolicy.values

    def probabilities(self, stage: int, states: States, rng: Random = None) -> Floats:
        if stage < self.problem.horizon and self.problem.budget is not None:
            return np.asarray(self.affordable_units(stage, states, rng) / self.problem.units)
        if stage < self.problem.horizon and self.by_shares:
            return restricted(self.shares(stage, states), states.allowed)
        if stage < self.problem.horizon and self.batches:
            return np.asarray(self.share_units(stage, states, rng) / self.problem.units)
        number = round(self.problem.pulls[stage])
        if number > 1:
            return np.asarray(self.allocate_many(stage, states, rng) / number)
        values = of_allowed(self._mean_values(stage, states, rng), states)
        if self.ties == "random":
            near = values >= values.max(axis=1, keepdims=True) - self._tolerance
            return np.asarray(near / near.sum(axis=1, keepdims=True))
        pulls = largest_arms(values, pulls_made(states), 1, self._tolerance, self.ties, rng)
        return pulls.astype(float)

    def _mean_values(self, stage: int, states: States, rng: Random) -> Floats:
        """Index of every arm, (E, K), on average over outcomes that are pending.

        A policy that compares arms otherwise uses what is known.
        """
        pending = pending_in(states)
        if not (self.has_table or (self.by_arm and pending.any())):
            return self.values_at(stage, states, rng)
        lookup = self._in_table if self.has_table else self.indices_of
        columns = [
            mean_values(self.groups[k].model, partial(lookup, stage, k), stats, pending[:, k])
            if pending[:, k].any()
            else lookup(stage, k, stats)
            for k, stats in enumerate(self.arm_stats(states))
        ]
        return np.stack(columns, axis=1)

    def _in_table(self, stage: int, arm: int, stats: Floats) -> Floats:
        good, bad = (stats[..., i].astype(np.int64) for i in (0, 1))
        n, group = good + bad, int(self.problem.group_of_arm[arm])
        return np.asarray(self.stage_index(stage)[group, n * (n + 1) // 2 + good])

    def weigh(self, stage: int, ways: Ways, taken: tuple[int, ...]) -> Weighed | None:
        """Average indices over the possible states."""
        if self.randomised or self.batches:
            return None
        values = np.array([self.indices(stage, state) for state, _ in ways], dtype=float)
        return Weighed(np.array([probability for _, probability in ways]) @ values)


def pulls_and_good(position: npt.NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return n and g of the states at n (n+1) / 2 + g."""
    # exact: the root of a square comes out without rounding, and other roots are far from integers
    n = np.floor((np.sqrt(8.0 * position + 1.0) - 1.0) / 2.0)
    return n, position - n * (n + 1.0) / 2.0


def expected_stats(model: ArmModel, stats: Floats, more: Floats) -> Floats:
    """Statistics (S, J, width) after `more` (J,) pulls whose outcomes come as expected."""
    step = np.zeros_like(stats)  # of statistics by one pull
    if model.finite and not model.ordered:
        chances, after = model.transitions(stats)
        step = (chances[..., None] * (after - stats[:, None])).sum(axis=1)
    else:
        step[:, 0] = 1.0  # pulls; the state of an own arm stays
        if not model.ordered:
            step[:, 1] = model.mean(stats)
    return np.asarray(stats[:, None] + more[:, None] * step[:, None])


def same_rewards(problem: Problem, first: int, last: int) -> bool:
    """Whether every arm has the same rewards at all stages first..last-1."""
    rewards = np.array([group.rewards for group in problem.groups])[..., first:last]
    return bool(np.all(rewards == rewards[..., :1]))
