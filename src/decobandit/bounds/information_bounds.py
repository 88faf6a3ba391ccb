"""The information-relaxation bound: outcomes are known in advance, with a penalty for using them.

A scenario fixes the parameters and all outcomes, by pull: any outcome model, any batch size. With
V values of single arms at prices mu, no policy earns more than the expectation of the maximum, over
all allocations in the scenario, of

    sum_t sum over pulled arms of  ell_t - w (V_{t+1}(s') - E[V_{t+1}(s') | s])  + last rewards

ell the posterior expected reward, for every w (`docs/theory/information-bound.md`). At w = 1 it is
at most the Lagrangian bound. ell gives the tightest bound: at (2, 20), w = .4, on common scenarios
12.63; with the true mean in place of a fifth of ell 12.66, with the outcome 12.73.

Arms that take several units at once have E[V(s') | s, u] = Q(s; u) - ell(s, u). Values on a grid of
posterior means bound this expectation from above, which only raises what is maximised.

Within a budget B, or resources R_t, pulls need not be made: arms that earn nothing take what is
left. Instead of a knapsack in every scenario, every pull pays lambda times its cost, and rho_t
times what it uses, in ell and in V alike, and lambda B + sum_t rho_t R_t is added: no allocation
within the limits pays more.

`kernels.allocation` maximises exactly, or from above where a search is stopped. The weight is
chosen on a pilot sample, and the bound estimated from a fresh one. Controls of mean zero reduce its
error: those of `World`, and two martingales, the penalties and the true minus posterior rewards of
the greedy policy. No scenario exceeds w times the Lagrangian bound plus 1 - w times the largest
rewards, which limits what may be missed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arm import OneArmValues
from ..joint import ArmStates, distinct_rows
from ..prices import DualSolution
from ..problem import Problem
from ..simulation import (
    CHUNK,
    Chunk,
    Estimate,
    World,
    check_sizes,
    mean_estimate,
    outcomes_of,
    regression,
)
from ..support import (
    Floats,
    Ints,
    InvalidArgument,
    Pool,
    Progress,
    Report,
    Rng,
    Stopwatch,
    pool,
    refuse_over,
    seed_of,
    silent,
    worker_count,
)
from .kernels.allocation import MAX_NODES, STEPS, best_allocations, lay_out_stage, martingales, row

WEIGHTS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
MAX_POPS = 5000  # nodes expanded by one search
MAX_CHOICES = 1000  # allocations of a stage; beyond, nothing is searched
WAVE_BYTES = 256 * 2**20  # of the tables of scenarios that are under way together
PILOT_STEPS = 20  # bounds that are only compared may be looser


def check_settings(draws: int | None, weight: float | None, pops: int = MAX_POPS) -> None:
    """Refuse settings that make no bound."""
    if draws:
        check_sizes(draws, 1)
    if weight is not None and not 0.0 <= weight <= 1.0:
        raise InvalidArgument(f"weight: {weight} is not allowed; must be 0 to 1", field="weight")
    if pops < 0:
        raise InvalidArgument(f"pops: {pops} is not allowed; must be zero or more", field="pops")


def estimate_bound(
    problem: Problem,
    solution: DualSolution,
    *,
    draws: int,
    rng: Rng,
    weight: float | None,
    pops: int,
    workers: int | None,
    progress: Report | None,
) -> tuple[Estimate, dict[str, Any]]:
    """Estimate the information bound from scenarios; also the settings, for JSON.

    The scenarios are the same for every weight.
    """
    clock, seed = Stopwatch(), seed_of(rng)
    world = World(problem, draws=CHUNK + draws, per_draw=1, seed=seed)
    with pool(worker_count(workers)) as threads:
        scenarios = _Scenarios(world, solution, pops, threads, progress or silent)
        if weight is None:
            weight = _choose_weight(scenarios)
        estimate, proven = scenarios.estimate(weight, slice(CHUNK, None), "information bound")
    details = {
        "weight": weight,
        "draws": draws,
        "seed": seed,
        "stopped_early": 1.0 - proven,
        "seconds": clock.seconds(),
    }
    return estimate, details


def _choose_weight(scenarios: _Scenarios) -> float:
    """Return the best weight on the pilot sample: from the middle downhill, by convexity."""

    @cache
    def value(place: int) -> float:
        part = slice(0, CHUNK)
        return scenarios.estimate(WEIGHTS[place], part, "choosing the weight", pilot=True)[0].value

    place = len(WEIGHTS) // 2
    step = -1 if value(place - 1) < value(place) else 1
    while 0 <= place + step < len(WEIGHTS) and value(place + step) < value(place):
        place += step
    return WEIGHTS[place]


class _Tables(NamedTuple):
    """Scenarios as `kernels.allocation` has them."""

    ell: Floats  # (S, U, cells, K)
    surprise: Floats  # (S, U, cells, K)
    last: Floats  # (S, K, units + 1)


class _Scenarios:
    """Scenarios of a world, laid out in waves that fit into memory, and solved in threads."""

    def __init__(
        self, world: World, solution: DualSolution, pops: int, threads: Pool, report: Report
    ) -> None:
        problem = self._problem = world.problem
        self._world, self._threads, self._report = world, threads, report
        self._values = OneArmValues(solution.priced, solution.prices)
        groups = [self._values.problem.groups[k] for k in problem.group_of_arm]
        self._base = np.array([group.reward_base for group in groups])  # (arms, stages) less costs
        self._fixed = self._values.problem.charged_supply
        self._lagrangian, self._prices = solution.upper_bound, solution.prices
        self._pulls = problem.pulls.astype(np.int64)
        self._most = self._values.units  # of one arm at a stage
        idle = math.ceil(int(problem.pulls.max()) / self._most) if problem.may_wait else 0
        self._columns = problem.n_arms + idle
        arms, ways = self._columns, {*self._pulls.tolist()}
        several = self._most > 1
        self._choices = max(math.comb(arms + (m - 1) * several, m) for m in ways)
        self._pops = pops if self._choices <= MAX_CHOICES else 0
        self._wave = self._size_of_wave()

    def _size_of_wave(self) -> int:
        """Return how many scenarios to lay out together."""
        arms, stages, workers = self._columns, self._problem.stages, self._threads.workers
        bytes_of_table = 8.0 * arms * self._most * row(stages + 1, self._most)
        size = int(min(CHUNK, max(workers, WAVE_BYTES // bytes_of_table)))
        nodes = min(MAX_NODES, self._pops * self._choices)
        refuse_over(
            2 * size * bytes_of_table + workers * (2 * bytes_of_table + nodes * (2.0 * arms + 50)),
            f"the information bound of {arms} arms over {stages} stages",
            "shorten the horizon, enlarge the unit or use fewer workers",
        )
        return size

    def estimate(
        self, weight: float, part: slice, what: str, *, pilot: bool = False
    ) -> tuple[Estimate, float]:
        """Bound some of the world's scenarios: the estimate, and the share that is solved exactly.

        A pilot sample takes less effort.
        """
        world = self._world
        first, last, _ = part.indices(world.draws)
        bound, proven = np.empty(last - first), np.empty(last - first, np.bool_)
        weights, sums = np.empty(last - first), np.empty((last - first, 2))
        drawn = []
        for place, chunk, rows in self._waves(first, last):
            here = slice(place.start - first, place.stop - first)
            tables = self._lay_out(chunk, rows)
            drawn.append(chunk.means[rows])
            weights[here] = chunk.weights[rows]
            true = np.zeros((len(drawn[-1]), self._columns, self._problem.stages))
            true[:, : self._problem.n_arms] = self._base + world.factor * drawn[-1][..., None]
            true[..., : self._problem.horizon] *= self._problem.unit
            martingales(true, self._pulls, tables.ell, tables.surprise, sums[here])
            pops, steps = (0, PILOT_STEPS) if pilot else (self._pops, STEPS)
            limits = (weight, steps, pops, self._choices)
            self._solve(tables, limits, bound[here], proven[here])
            self._report(Progress(what, here.stop, last - first))
        means = np.concatenate(drawn)
        control_values, sizes = world.controls(means, weights)
        sums = sums[:, ~np.isnan(sums).any(axis=0)]  # arms without parameters have no true mean
        controls = np.column_stack([control_values, weights[:, None] * sums])
        _, size, most = world.extremes
        sizes = np.append(sizes, np.full(sums.shape[1], size))
        weighted = weights * (bound + self._fixed)
        fitted = regression(weighted, controls, sizes)
        terms = weighted if fitted is None else fitted
        most = max(most, 0.0) + self._fixed if self._problem.may_wait else most
        ceiling = weight * self._lagrangian + (1.0 - weight) * most  # on every scenario
        span = float(weights.max()) * max(ceiling - float(terms.mean()), 0.0)
        missed = replace(world.missed(means, weights), span=span)
        return mean_estimate(terms, missed), float(np.mean(proven))

    def _waves(self, first: int, last: int) -> Iterator[tuple[slice, Chunk, slice]]:
        """Yield scenarios first..last-1: which, their chunk, and their rows in it."""
        size = self._world.chunk_draws
        while first < last:
            number = first // size
            stop = min(last, first + self._wave, (number + 1) * size)
            rows = slice(first - number * size, stop - number * size)
            yield slice(first, stop), self._world.chunk(number), rows
            first = stop

    def _lay_out(self, chunk: Chunk, rows: slice) -> _Tables:
        problem, most = self._problem, self._most
        size, stages = rows.stop - rows.start, problem.stages
        shape = (size, most, row(stages, most), self._columns)
        last = np.zeros((size, self._columns, stages * most + 1))
        tables = _Tables(np.empty(shape), np.empty(shape), last)
        for table in tables[:2]:  # of pulls that are not made
            table[..., problem.n_arms :] = 0.0
        tables.ell[:, :, row(problem.horizon, most) :, problem.n_arms :] = -np.inf
        paths = [_Paths(self._values, chunk, rows, k) for k in range(len(problem.groups))]
        parts = self._parts(size)
        for path in paths:
            reached = slice(problem.horizon * most + 1)
            rewards = path.group.last_rewards(path.stats)
            last[:, path.members, reached] = rewards[path.place[..., reached]]
            for t in reversed(range(stages)):  # values are computed backward: each stage once
                self._threads.map(partial(path.lay_out, t, path.tables(t), tables), parts)
        return tables

    def _parts(self, size: int) -> list[slice]:
        """Return several parts for each thread: scenarios take different times."""
        edges = np.linspace(0, size, min(size, 4 * self._threads.workers) + 1).round().astype(int)
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]

    def _solve(
        self,
        tables: _Tables,
        limits: tuple[float, int, int, int],
        bound: Floats,
        proven: npt.NDArray[np.bool_],
    ) -> None:
        def solve_part(part: slice) -> None:
            table = _Tables(*(table[part] for table in tables))
            best_allocations(*table, self._pulls, self._prices, *limits, bound[part], proven[part])

        self._threads.map(solve_part, self._parts(bound.size))


class _Paths:
    """States of the arms of a group in scenarios, by units; `place` has their rows in `stats`."""

    def __init__(self, values: OneArmValues, chunk: Chunk, rows: slice, number: int) -> None:
        problem = values.problem
        self.values, self.number, self.group = values, number, problem.groups[number]
        self.members = np.array(self.group.members)
        self._arm = ArmStates(self.group, problem.unit) if self.group.model.ordered else None
        units, shape = problem.horizon * values.units, (rows.stop - rows.start, self.members.size)
        # one unit more per stage than an arm can have: of a deployed arm, not looked at
        self.place = np.zeros((*shape, units + values.units + 1), np.int64)
        model, outcomes = self.group.model, outcomes_of(problem, chunk)[number]
        e, member = (axis.ravel() for axis in np.indices(shape))
        stats = np.tile(np.array(model.initial(), dtype=float), (e.size, 1))
        levels, self._starts = [stats[:1]], [0, 1]
        for n in range(units):
            stats = outcomes.after(e + rows.start, member, n * problem.unit, problem.unit, stats)
            every = np.arange(e.size)
            first, place = distinct_rows(stats) if model.finite else (every, every)
            self.place[..., n + 1] = self._starts[-1] + place.reshape(shape)
            levels.append(stats[first])
            self._starts.append(self._starts[-1] + len(levels[-1]))
        self.stats = np.concatenate(levels)

    def tables(self, t: int) -> tuple[Floats, Floats, Floats]:
        """Return, by row, V_{t+1} (rows,), value and expected reward of units (rows, U)."""
        problem, group, most = self.values.problem, self.group, self.values.units
        base, factor = group.reward_base[t], group.reward_factor[t]
        stats = self.stats[: self._starts[t * most + 1]]
        if t == problem.horizon:
            reward = (base + factor * group.model.mean(stats))[:, None]
            return np.zeros(len(stats)), reward, reward
        after = self.stats[: self._starts[(t + 1) * most + 1]]
        later = self.values.values_of(t + 1, self.number, after)
        worth = self.values.unit_values(t, self.number, stats)[:, 1:]
        pulls = problem.unit * np.arange(1, most + 1)
        reward = base * pulls + factor * self._expected(stats, pulls)
        return later, np.ascontiguousarray(worth), reward

    def lay_out(
        self, t: int, by_row: tuple[Floats, Floats, Floats], tables: _Tables, part: slice
    ) -> None:
        """Fill a stage of some scenarios from `tables(t)`."""
        ell, surprise = tables.ell[part], tables.surprise[part]
        lay_out_stage(t, self.members, self.place[part], *by_row, ell, surprise)

    def _expected(self, stats: Floats, pulls: Ints) -> Floats:
        """Return the expected sum of outcome values for each number of pulls, (rows, U)."""
        if self._arm is None:
            return np.asarray(self.group.model.mean(stats)[:, None] * pulls)
        had = self.group.model.pulls(stats).astype(np.int64)
        sums = np.empty((len(stats), pulls.size))
        for n in np.unique(had).tolist():
            rows = had == n
            place = self._arm.number(n, stats[rows])
            columns = [self._arm.expected(n, count)[place] for count in pulls.tolist()]
            sums[rows] = np.stack(columns, axis=1)
        return sums
