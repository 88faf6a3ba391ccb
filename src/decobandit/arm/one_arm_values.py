"""One-arm problems at given prices: values of states, indices, and what units are worth.

Every model and batch size has the same definitions (`kernels/units.py`); states in rows serve all
of them. Single pulls of good and bad outcomes have a faster sweep of their own over triangular
slabs (`kernels/backward.py`), which needs no graph. Tables of all their stages would need
horizon^3 / 6 numbers. If that is too much, only some stages are stored, each half as far from the
requested stage as the one before; the others are swept again when they are needed. Walking
through the stages in order costs a factor of log2(horizon) / 2 over one sweep, and memory stays at
about log2(horizon) slabs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from ..problem import Problem, check_problem
from ..problem.kernels.layout import slab_size
from ..support import (
    Cache,
    Floats,
    InvalidArgument,
    legs,
    obeys_workers,
    pool,
    refuse_over,
    shown,
    worker_count,
)
from .arm_states import Grid, Rewards, arm_graph, grid_of
from .chains import ChainStates, refuse_large_chains, stage_factors
from .kernels.backward import index_terms, stage_index, sweep
from .kernels.chains import stage_margins
from .kernels.units import raise_values, stage_worths

KEPT_BYTES = 256 * 2**20  # of slabs, up to which those of all stages are kept
TABLE_BYTES = 1 << 30  # of what units are worth, of all stages and groups


def price_array(prices: npt.ArrayLike, problem: Problem, *, name: str = "prices") -> Floats:
    """Return the prices as a checked array, (stages,)."""
    try:
        array = np.array(prices, dtype=float)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"{name}: {shown(prices)} is not allowed; must be {problem.stages} numbers, "
            "one per stage",
            field=name,
        ) from None
    check_prices(array, problem, name=name)
    return array


def check_prices(prices: Floats, problem: Problem, *, name: str = "prices") -> None:
    """Refuse what is not one finite number per stage."""
    if prices.shape != (problem.stages,):
        raise InvalidArgument(
            f"{name}: {prices.size} given, the problem has {problem.stages} stages", field=name
        )
    if not np.all(np.isfinite(prices)):
        raise InvalidArgument(f"{name}: all must be finite", field=name)


@dataclass(frozen=True)
class Terms:
    """The worth of a pull: expected reward now, and value of information."""

    expected_reward: float
    value_of_information: float

    @property
    def index(self) -> float:
        return self.expected_reward + self.value_of_information


def sweep_back(
    prior: tuple[float, float],
    rewards: tuple[Floats, Floats],
    prices: Floats,
    V: Floats,
    start: int,
    stop: int,
) -> None:
    """Turn V = V_start into V_stop, in place, as `kernels.backward.sweep`, in legs."""
    for above, below in legs(start, stop, slab_size(start)):
        sweep(*prior, *rewards, prices, V, above, below)


class OneArmValues:
    """One-arm problems of all groups at fixed prices.

    Parameters
    ----------
    problem, prices, grid
        As in `dual_value`.
    workers : int, optional
        Threads that share the groups; all processors by default.
    kept_bytes : int, optional
        Memory up to which tables are kept; beyond, some are computed again.

    Raises
    ------
    ValueError
        If the prices do not fit, as in `dual_value`, or tables need more memory than there is.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.arm import OneArmValues
    >>> values = OneArmValues(Problem.uniform(arms=2, horizon=3), [0.6, 0.55, 0.5])
    >>> values.terms(stage=0, group=0, stats=(0, 0)).expected_reward
    0.5
    """

    @obeys_workers
    def __init__(
        self,
        problem: Problem,
        prices: npt.ArrayLike,
        *,
        grid: int | None = None,
        workers: int | None = None,
        kept_bytes: int | None = None,
    ) -> None:
        self.problem = check_problem(problem)
        self.prices = price_array(prices, problem)
        self.units = problem.most_units
        self._tables: _Tables
        if problem.is_restless:
            self._tables = _Chains(problem, self.prices, grid_of(problem, grid))
        elif problem.single_binary:
            grid_of(problem, grid)
            self._tables = _Slabs(
                problem, self.prices, KEPT_BYTES if kept_bytes is None else kept_bytes
            )
        else:
            self._tables = _Rows(
                problem,
                self.prices,
                grid,
                worker_count(workers),
                TABLE_BYTES if kept_bytes is None else kept_bytes,
            )

    def value(self) -> float:
        """Return the dual function at these prices."""
        groups = self.problem.groups
        first = sum(group.count * self._tables.first_value(k) for k, group in enumerate(groups))
        return float(first + self.problem.pulls @ self.prices + self.problem.charged_supply)

    def values(self, stage: int, group: int) -> Floats:
        """V of all states that an arm of a group can be in at a stage 0 .. stages.

        In the order of its graph: of good and bad outcomes after single pulls, state (n, g) is at
        n(n+1)/2 + g.
        """
        if not 0 <= stage <= self.problem.stages:
            raise InvalidArgument(
                f"stage: {stage} is not allowed; must be 0..{self.problem.stages}", field="stage"
            )
        return self._tables.values(stage, group)

    def table(self, stage: int, group: int) -> Floats:
        """Index of all states of a group at a stage, of the first unit where there are several."""
        return self._tables.index(stage, group)

    def stage_index(self, stage: int) -> Floats:
        """Return the index of all states of all groups of a binary problem, (groups, slab)."""
        return np.stack([self.table(stage, k) for k in range(len(self.problem.groups))])

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        """V of arms of a group with these statistics, (..., width) -> (...)."""
        return self._tables.read(self.values(stage, group)[:, None], group, stats)[0][..., 0]

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        """Index of arms of a group with these statistics, (..., width) -> (...).

        Beyond the ends of a grid it changes as the reward of a pull does.
        """
        stats = np.asarray(stats)
        table = self.table(stage, group)[:, None]
        index, beyond = self._tables.read(table, group, stats)
        return index[..., 0] + self._tables.beyond(stage, group, stats) if beyond else index[..., 0]

    def unit_values(self, stage: int, group: int, stats: Floats) -> Floats:
        """Q(s; a): what 0, 1, .. units are worth before their price, (..., width) -> (..., A + 1).

        Between two points of a grid on their chord, beyond its ends as at the end.
        """
        worth = self._tables.worth(stage, group)
        idle = self._tables.idle(stage, group)[: len(worth), None]
        return self._tables.read(np.concatenate([idle, worth], axis=1), group, stats)[0]

    def terms(self, stage: int, group: int, stats: Sequence[float]) -> Terms:
        """Return expected reward and value of information of a pull of one arm, stats (width,).

        Of the pulls of a first unit on average, where there are units. Of an arm that moves at
        rest the second is all that a pull changes but its reward.
        """
        return self._tables.terms(stage, group, np.asarray(stats, dtype=float))


class _Tables(ABC):
    """Values and indices of all states of a group at a stage."""

    problem: Problem

    @abstractmethod
    def values(self, stage: int, group: int) -> Floats:
        """V of all states."""

    @abstractmethod
    def index(self, stage: int, group: int) -> Floats:
        """Index of all states."""

    @abstractmethod
    def read(self, table: Floats, group: int, stats: Floats) -> tuple[Floats, bool]:
        """Read a table over states, (states, columns); and whether some are beyond a grid."""

    def first_value(self, group: int) -> float:
        """Value of one arm before the first stage."""
        return float(self.values(0, group)[0])

    def idle(self, stage: int, group: int) -> Floats:
        """Q of all states without a pull."""
        return self.values(stage + 1, group)

    def worth(self, stage: int, group: int) -> Floats:
        """Q of all states with 1, 2, .. units, (states, units)."""
        index = self.index(stage, group)
        return (self.idle(stage, group)[: index.size] + index)[:, None]

    def beyond(self, stage: int, group: int, stats: Floats) -> Floats | float:
        """Reward of a unit less that at the end of the grid."""
        return 0.0

    def terms(self, stage: int, group: int, stats: Floats) -> Terms:
        """Terms of a pull, of the pulls of a unit on average."""
        arms = self.problem.groups[group]
        mean = float(arms.model.mean(stats))
        reward = float(arms.reward_base[stage] + arms.reward_factor[stage] * mean)
        index, beyond = self.read(self.index(stage, group)[:, None], group, stats)
        total = float(index[0]) + (float(self.beyond(stage, group, stats)) if beyond else 0.0)
        return Terms(reward, total / self.pulls(stage) - reward)

    def pulls(self, stage: int) -> int:
        """Return the pulls of a unit."""
        return self.problem.unit if stage < self.problem.horizon else 1


class _Slabs(_Tables):
    """Single pulls of good and bad outcomes."""

    def __init__(self, problem: Problem, prices: Floats, kept_bytes: int) -> None:
        self.problem, self.prices = problem, prices
        stages = problem.stages
        bytes_of_all = 8 * len(problem.groups) * sum(slab_size(t) for t in range(stages + 1))
        self._keep_all = bytes_of_all <= kept_bytes
        lasts = [group.terminal for group in problem.groups]
        none = np.zeros(slab_size(stages))
        self._kept = [{stages: none if last is None else last} for last in lasts]

    def values(self, stage: int, group: int) -> Floats:
        tables = self._kept[group]
        while stage not in tables:
            later = min(t for t in list(tables) if t > stage)  # other threads add some
            step = later - 1 if self._keep_all else (later + stage) // 2
            V = tables[later].copy()
            arm = self.problem.groups[group]
            rewards = arm.reward_good, arm.reward_bad
            sweep_back((arm.alpha, arm.beta), rewards, self.prices, V, later, step)
            tables[step] = V[: slab_size(step)].copy()
            if not self._keep_all:
                tables = self._kept[group] = self._thinned(tables, stage)
        return tables[stage]

    def _thinned(self, tables: dict[int, Floats], stage: int) -> dict[int, Floats]:
        """Later stages only, each about twice as far away as the one before, and the last."""
        chain, reach = {self.problem.stages: tables[self.problem.stages]}, -1
        for t in sorted(tables):
            if t >= stage and t - stage >= reach:
                chain[t] = tables[t]
                reach = max(1, int(1.5 * (t - stage)))
        return chain

    def index(self, stage: int, group: int) -> Floats:
        arm, index = self.problem.groups[group], np.empty(slab_size(stage))
        good, bad = arm.reward_good[stage], arm.reward_bad[stage]
        stage_index(arm.alpha, arm.beta, good, bad, stage, self.values(stage + 1, group), index)
        return index

    def read(self, table: Floats, group: int, stats: Floats) -> tuple[Floats, bool]:
        good = np.asarray(stats[..., 0], dtype=np.int64)
        pulls = good + np.asarray(stats[..., 1], dtype=np.int64)
        place = pulls * (pulls + 1) // 2 + good
        if np.any((good < 0) | (good > pulls) | (place >= len(table))):
            raise InvalidArgument(
                "good and bad outcomes of an arm: not possible at this stage", field="stats"
            )
        return np.asarray(table[place]), False

    def terms(self, stage: int, group: int, stats: Floats) -> Terms:
        good, bad = int(stats[0]), int(stats[1])
        if min(good, bad) < 0 or good + bad > stage:
            raise InvalidArgument(
                f"{good} good, {bad} bad: not possible at stage {stage}", field="stats"
            )
        arm, V = self.problem.groups[group], self.values(stage + 1, group)
        rewards = arm.reward_good[stage], arm.reward_bad[stage]
        ell, delta = index_terms(arm.alpha, arm.beta, *rewards, good + bad, good, V)
        return Terms(float(ell), float(delta))


class _Rows(_Tables):
    """Any model, any batch size, on graphs of states."""

    def __init__(
        self, problem: Problem, prices: Floats, grid: int | None, workers: int, kept_bytes: int
    ) -> None:
        self.problem, self.prices = problem, prices
        used = grid_of(problem, grid)
        self.graphs = [arm_graph(problem, group, used) for group in problem.groups]
        pairs = zip(problem.groups, self.graphs, strict=True)
        self.rewards = [Rewards(problem, group, graph) for group, graph in pairs]
        states = float(sum(sum(self._sizes(k)) for k in range(len(self.graphs))))
        refuse_over(
            8.0 * states,
            f"tables of {states:.2g} states in all stages",
            "use larger units, fewer stages, fewer classes",
        )
        self._worth = Cache[tuple[int, int], Floats](kept_bytes, size=lambda table: table.nbytes)
        with pool(min(workers, len(self.graphs))) as threads:
            self._values = list(threads.map(self._swept, range(len(self.graphs))))

    def _sizes(self, k: int) -> list[int]:
        """States of every stage 0 .. horizon."""
        per_stage, start = self.rewards[k].per_stage, self.graphs[k].start
        return [int(start[per_stage * t + 1]) for t in range(self.problem.horizon + 1)]

    def _swept(self, k: int) -> list[Floats]:
        values = [self.rewards[k].last]
        for t in range(self.problem.stages - 1, -1, -1):
            worth = self._made_worth(t, k, values[-1])
            now = np.empty(len(worth))
            raise_values(worth, self.prices[t], values[-1], now)
            values.append(now)
        return values[::-1]

    def _made_worth(self, stage: int, k: int, later: Floats) -> Floats:
        """Q(s; a), a = 1 .. units, of all states of a group at a stage."""
        graph, rewards = self.graphs[k], self.rewards[k]
        if stage == self.problem.horizon:  # the deployment
            return np.asarray(later + rewards.deploy * graph.mean)[:, None]
        worth = np.empty((int(graph.start[rewards.per_stage * stage + 1]), rewards.units))
        how = (rewards.units, graph.steps, stage, *rewards.of_stage(stage), graph.widest)
        stage_worths(graph.arrays, *how, 0, 1, later, worth)
        return worth

    def values(self, stage: int, group: int) -> Floats:
        return self._values[group][stage]

    def worth(self, stage: int, group: int) -> Floats:
        return self._worth.get_or_make(
            (stage, group), lambda: self._made_worth(stage, group, self.values(stage + 1, group))
        )

    def index(self, stage: int, group: int) -> Floats:
        worth = self.worth(stage, group)
        gained = worth - self.values(stage + 1, group)[: len(worth), None]
        return np.asarray((gained / np.arange(1.0, worth.shape[1] + 1.0)).max(axis=1))

    def read(self, table: Floats, group: int, stats: Floats) -> tuple[Floats, bool]:
        return self.graphs[group].read(table, stats)

    def beyond(self, stage: int, group: int, stats: Floats) -> Floats:
        graph, arms = self.graphs[group], self.problem.groups[group]
        factor = self.pulls(stage) * float(arms.reward_factor[stage])
        nearest = graph.read(graph.mean[:, None], stats)[0][..., 0]
        return np.asarray(factor * (arms.model.mean(stats) - nearest))


class _Chains(_Tables):
    """Arms that move at rest."""

    def __init__(self, problem: Problem, prices: Floats, grid: Grid) -> None:
        self.problem = problem
        self.states = ChainStates(problem, grid)
        states, T = self.states.size, problem.stages
        refuse_large_chains(problem, states, 2)
        factors, sizes = stage_factors(problem), np.diff(self.states.arrays.start)
        # what a pull earns in any state: less than nothing where it pays for resources
        bases = np.repeat([group.reward_base for group in problem.groups], sizes, axis=0).T
        self._values, self._rest = np.zeros((T + 1, states)), np.zeros((T, states))
        self._index, every = np.zeros((T, states)), np.ones(states, np.bool_)
        for t in range(T - 1, -1, -1):
            later, rest, index = self._values[t + 1], self._rest[t], self._index[t]
            stage_margins(self.states.arrays, factors[t], every, later, rest, index)
            index += bases[t]
            self._values[t] = rest + np.maximum(index - prices[t], 0.0)

    def _of_group(self, table: Floats, group: int) -> Floats:
        start = self.states.arrays.start
        return table[start[group] : start[group + 1]]

    def values(self, stage: int, group: int) -> Floats:
        return self._of_group(self._values[stage], group)

    def first_value(self, group: int) -> float:
        return float((self.states.arms[group].first * self.values(0, group)).sum())

    def idle(self, stage: int, group: int) -> Floats:
        return self._of_group(self._rest[stage], group)

    def index(self, stage: int, group: int) -> Floats:
        return self._of_group(self._index[stage], group)

    def read(self, table: Floats, group: int, stats: Floats) -> tuple[Floats, bool]:
        state, weight = self.states.arms[group].places(np.asarray(stats))
        return np.asarray((weight[..., None] * table[state]).sum(axis=-2)), False


# -- single states ---------------------------------------------------------------------------------

PARTS, SHORTEST = 12, 16  # stretches between checkpoints; stages of one at least


class Cones:
    """Terms near the states that a trial has reached: fast `OneArmValues` for few states.

    V is kept at few stages, the checkpoints, by one sweep over all states, when they are needed.
    From a state, only those that it leads to before the next checkpoint matter: a small cone, swept
    for every question, so that no digit depends on earlier ones. A horizon of 1000 takes about
    18 MB for each group. Threads may share it.
    """

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, workers: int | None = None
    ) -> None:
        """workers: threads that sweep the groups; all processors by default."""
        self.problem = problem
        self._workers = workers
        self.prices = np.array(prices, dtype=float)
        check_prices(self.prices, problem)
        self._step = max(SHORTEST, -(-problem.stages // PARTS))
        none = np.zeros(slab_size(problem.stages))
        lasts = [group.terminal for group in problem.groups]
        self._kept = [{problem.stages: none if last is None else last} for last in lasts]
        self._lock = Lock()

    def terms(self, stage: int, group: int, stats: Sequence[float]) -> Terms:
        """Return expected reward and value of information of a pull of one arm of a group."""
        arm, (a, b, V) = self.problem.groups[group], self._swept(stage, group, stats, after=1)
        zero = np.int64(0)
        ell, delta = index_terms(a, b, arm.reward_good[stage], arm.reward_bad[stage], zero, zero, V)
        return Terms(float(ell), float(delta))

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        """Return V of several states, good and bad outcomes each, (J, 2) -> (J,)."""
        return np.array([self.value(stage, group, counts) for counts in stats])

    def value(self, stage: int, group: int, stats: Sequence[float] | Floats) -> float:
        """V_stage of one arm of a group: what it earns from here on beyond the price of its pulls.

        The sum over the arms, and the price of all pulls from here on, bound what any policy can
        still earn.
        """
        return float(self._swept(stage, group, stats, after=0)[2][0])

    def _swept(
        self, stage: int, group: int, stats: Sequence[float] | Floats, *, after: int
    ) -> tuple[float, float, Floats]:
        """Return the posterior of a state, and V of the cone from it, at the stage `after` this."""
        good, bad = (int(x) for x in stats)
        last = self.problem.stages - after
        if not 0 <= stage <= last:
            raise InvalidArgument(
                f"stage: {stage} is not allowed; must be 0..{last}", field="stage"
            )
        if min(good, bad) < 0 or good + bad > stage:
            raise InvalidArgument(
                f"{good} good, {bad} bad: not possible at stage {stage}", field="stats"
            )
        top = min(self.problem.stages, -(-(stage + after) // self._step) * self._step)
        with self._lock:
            if top not in self._kept[group]:  # all groups will be needed
                with pool(worker_count(self._workers, most=len(self._kept))) as threads:
                    threads.map(lambda k: self._sweep_to(top, k), range(len(self._kept)))
        arm, left = self.problem.groups[group], slice(stage, top)
        V = slab_part(self._kept[group][top], good + bad, good, top - stage)
        prior = arm.alpha + good, arm.beta + bad
        rewards = arm.reward_good[left], arm.reward_bad[left]
        sweep_back(prior, rewards, self.prices[left], V, top - stage, after)
        return *prior, V

    def _sweep_to(self, stage: int, group: int) -> None:
        """Make the checkpoints of a group down to a stage."""
        arm, kept = self.problem.groups[group], self._kept[group]
        while (lowest := min(kept)) > stage:
            below, V = (lowest - 1) // self._step * self._step, kept[lowest].copy()
            rewards = arm.reward_good, arm.reward_bad
            sweep_back((arm.alpha, arm.beta), rewards, self.prices, V, lowest, below)
            kept[below] = V[: slab_size(below)].copy()


def slab_part(slab: Floats, pulls: int, good: int, rows: int) -> Floats:
    """Copy the states within `rows` pulls of a state to a slab of their own."""
    starts = [slab_size(pulls + n - 1) + good for n in range(rows + 1)]
    return np.concatenate([slab[start : start + n + 1] for n, start in enumerate(starts)])
