"""Arms of any model, in batches of any size, as a market: passes over their states in rows.

The a-th unit of an arm in a state has an index (`arm/kernels/units.py`), not increasing in a, so
a stage is priced and cleared as with single pulls: units in order of their index. On a grid the
dual function is too large (chords): its values are upper bounds as ever, but the reward of a
cleared flow there bounds the minimum *on the grid* from below, not the true one. The true one is
bounded by flows of the market whose values are below, on contractions (`lower`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ..arm import COARSEST, POINTS, ArmGraph, Grid, Rewards, arm_graph
from ..arm.kernels.units import (
    advance,
    follow_stage,
    offers,
    raise_values,
    settle_rows,
    stage_worth,
    stage_worths,
)
from ..problem import Group, Problem, thinned
from ..support import Floats, Ints, Pool, pool, refuse_over
from .kernels.rounds import margin
from .kernels.smooth import AROUND
from .limits import Limits, lost_part
from .market import Flow, Level, Market

SHORT_STATES = 2_000_000  # of all stages, up to which a pass takes some tenths of a second
THREADED_PULLS = 100  # that one arm may take; below, threads cost more than they save
FAINT = 1e-11  # of the largest reward and the stages: values this small are left out, and added up
COARSE_TOLERANCE = 3e-4  # at which searches on coarser grids end
COARSER = 3  # times that points are doubled from one of them to the next
COARSE_CALLS = 15  # of each: where points are few, ties keep rounds from an end
FEWEST_STAGES = 25  # of the smallest problem that a search starts from
FEWER_TOLERANCE = 1e-3  # at which searches on fewer stages end

Deal = tuple[float, float, float] | Floats  # price, slack, part of units at it; or parts of all


class Trader:
    """Equal arms in a market: values, what units are worth, and masses, by stage.

    Where an arm takes at most one step per stage on a grid, values that are `faint` above zero, or
    above those of an arm that is always pulled, are not followed; `left_out` bounds what that can
    change in all stages.
    """

    def __init__(self, problem: Problem, group: Group, graph: ArmGraph) -> None:
        self.problem, self.group, self.graph = problem, group, graph
        self.rewards = rewards = Rewards(problem, group, graph)
        T, per_stage, last = problem.horizon, rewards.per_stage, rewards.last
        sizes = [int(graph.start[per_stage * t + 1]) for t in range(T + 1)]
        self.values = [np.zeros(size) for size in sizes]
        self.worth = [np.zeros((size, rewards.units)) for size in sizes[:-1]]  # Q(s; a), a = 1 ..
        if problem.terminal is not None:
            self.worth.append((last + rewards.deploy * graph.mean)[:, None])
        self.shares = [np.zeros(size) for size in sizes]  # masses, averaged over rounds
        for share in self.shares:
            share[0] = group.count
        self._under_way = np.zeros((per_stage + 1, sizes[-1]))
        self.mass = np.zeros(sizes[-1])
        self._single = per_stage == 1
        self.faint = FAINT * rewards.largest * T if self._single and not graph.exact else 0.0
        # money that a unit costs, (stages,): the budget holds also where every stage is played
        own = problem.costs[:, group.members[0]]
        self.costs = own * np.append(np.full(T, float(problem.unit)), 1.0)[: problem.stages]
        self._base = rewards.base.copy()
        self._low, self._high = np.zeros((2, graph.rows + 2), np.int64)
        self._ground = self._slope = 0.0

    @property
    def left_out(self) -> float:
        """Bound on the error of the values of all its arms."""
        return 2.0 * self.faint * self.problem.stages * self.group.count

    def charge(self, price: float) -> None:
        """Take the price of the money that pulls cost from their rewards."""
        steps = self.graph.pulls * self.costs[: self.problem.horizon] / self.problem.unit
        self.rewards.base = self._base - price * steps

    # Backward

    def begin(self, softly: bool = False) -> None:
        """Nothing is left after the last stage, but last rewards; softly: with `settle_softly`."""
        self.values[-1][:] = self.rewards.last
        sizes = np.diff(self.graph.start)
        is_linear = self.group.terminal is None and not softly
        self._low[: sizes.size] = sizes if is_linear else 0
        self._high[: sizes.size] = -1 if is_linear else sizes
        self._ground = self._slope = 0.0

    def _later(self, stage: int) -> Floats:
        """Values after a stage; a deployment changes no state."""
        return self.rewards.last if stage == self.problem.horizon else self.values[stage + 1]

    def price(self, stage: int, part: int, parts: int) -> None:
        """Compute the worth of units at a stage from the values after it; one part of the work."""
        if stage == self.problem.horizon:
            return
        arrays, rewards = self.graph.arrays, self.rewards
        earned, after, worth = rewards.of_stage(stage), self.values[stage + 1], self.worth[stage]
        if self._single:
            table = (self._slope, self.faint, self._low, self._high)
            stage_worth(arrays, stage, *earned, *table, part, parts, after, worth.reshape(-1))
        else:
            steps, widest = self.graph.steps, self.graph.widest
            share = (widest, part, parts)
            stage_worths(arrays, rewards.units, steps, stage, *earned, *share, after, worth)

    def settle(self, stage: int, price: float) -> None:
        """Values at a stage, at its price."""
        now, worth, later = self.values[stage], self.worth[stage], self._later(stage)
        if not self._single:
            raise_values(worth, price, later, now)
            return
        deployed = stage == self.problem.horizon
        base, factor = (0.0, self.rewards.deploy) if deployed else self.rewards.of_stage(stage)[:2]
        self._ground += base - price
        self._slope += factor
        line = (self._ground, self._slope, self.faint)
        settle_rows(
            self.graph.arrays, stage, price, *line, worth, later, now, self._low, self._high
        )

    def settle_softly(self, stage: int, price: float, width: float) -> None:
        """Values at a stage where taking a part x of a unit is charged width / 2 x^2."""
        over = self.slopes(stage) - price
        part = np.clip(over, 0.0, width)
        gain = (part * (over - 0.5 * part)).sum(axis=1) / width
        self.values[stage][:] = self._later(stage)[: gain.size] + gain

    def slopes(self, stage: int) -> Floats:
        """Index of every unit in every state of a stage, (states, units)."""
        size, units = self.worth[stage].shape
        key, weight = np.empty(size * units), np.empty(size * units)
        offers(self._later(stage), self.worth[stage], np.ones(size), key, weight)
        return key.reshape(size, units)

    # Forward

    def reset(self) -> None:
        """Put the mass of all arms into their first state."""
        self.mass[:] = 0.0
        self.mass[0] = self.group.count

    def offer(self, stage: int, mass: Floats) -> tuple[Floats, Floats]:
        """Return indices and masses of all units that arms could take at a stage."""
        size, units = self.worth[stage].shape
        present = int(np.count_nonzero(mass[:size] > 0.0))
        key, weight = np.empty(present * units), np.empty(present * units)
        offers(self._later(stage), self.worth[stage], mass[:size], key, weight)
        return key, weight

    def move(self, stage: int, price: float, slack: float, part: float) -> tuple[float, float]:
        """Over one stage; units taken and reward."""
        if stage == self.problem.horizon:
            return self._deploy(price, slack, part)
        base, factor, _, _ = self.rewards.of_stage(stage)
        spent, reward = follow_stage(
            self.graph.arrays,
            self.rewards.units,
            self.graph.steps,
            stage,
            base,
            factor,
            self.values[stage + 1],
            self.worth[stage],
            price,
            slack,
            part,
            self.mass,
            self._under_way,
        )
        return float(spent), float(reward)

    def _deploy(self, price: float, slack: float, part: float) -> tuple[float, float]:
        """Return the mass deployed at a price, and its reward."""
        worth = self.worth[-1][:, 0] - self.rewards.last
        taken = self.mass * np.where(worth > price + slack, 1.0, part * (worth >= price - slack))
        return float(taken.sum()), float((taken * worth).sum())  # no BLAS: it starts threads

    def trade(self, stage: int, deal: Deal) -> tuple[float, float]:
        """Over one stage at a price, slack and part at it, or by parts; units taken and reward."""
        return self.move(stage, *deal) if isinstance(deal, tuple) else self.take(stage, deal)

    def take(self, stage: int, part: Floats) -> tuple[float, float]:
        """Take these parts of every unit, (states, units); units taken and reward."""
        mass = self.mass[: len(part)]
        taken = float((mass * part.sum(axis=1)).sum())
        if stage == self.problem.horizon:
            worth = self.worth[-1][:, 0] - self.rewards.last
            return taken, float((mass * part[:, 0] * worth).sum())
        units = part.shape[1]
        under_way = self._under_way[:: self.graph.steps, : len(part)]
        under_way[0] = mass * (1.0 - part[:, 0])
        under_way[1:units] = mass * (part[:, :-1] - part[:, 1:]).T
        under_way[units] = mass * part[:, -1]
        base, factor, _, _ = self.rewards.of_stage(stage)
        how = (stage, base, factor, self.mass, self._under_way)
        return taken, float(advance(self.graph.arrays, self.rewards.per_stage, *how))

    def finish(self) -> float:
        """Last rewards of a table."""
        if self.group.terminal is None:
            return 0.0
        return float((self.mass * self.rewards.last).sum())


class GraphMarket(Market):
    """Groups of arms that trade units of pulls over the stages; `below`: on contractions."""

    most_canonical = 100_000

    def __init__(
        self, problem: Problem, grid: Grid, *, below: bool = False, workers: int = 2
    ) -> None:
        threads = workers if problem.most_pulls >= THREADED_PULLS else 1
        super().__init__(problem.pulls, len(problem.groups), problem.horizon, threads)
        self.at_most = problem.may_wait
        self.limits = None if problem.resources is None else Limits(problem)
        if self.limits is not None:
            self.pulls = self.limits.pulls
            self.mu = np.zeros(self.pulls.size)
        if problem.budget is not None:  # one more price: that of money
            self.pulls = np.append(self.pulls, problem.budget)
            self.mu = np.zeros(self.pulls.size)
        self.problem, self._grid, self._workers = problem, grid, workers
        self.points = grid.points
        graphs = [arm_graph(problem, group, grid) for group in problem.groups]
        if below:
            graphs = [graph.lower or graph for graph in graphs]
        self._refuse_large(graphs)
        with pool(min(self.workers, self.groups)) as pooled:
            self._arms = pooled.map(partial(Trader, problem), problem.groups, graphs)

    def _refuse_large(self, graphs: list[ArmGraph]) -> None:
        problem, size = self.problem, 0.0
        units = problem.units if problem.repeat else 1
        states = 0.0
        for graph in graphs:
            per_stage = units * graph.steps
            of_stages = float(graph.start[1 : problem.horizon * per_stage + 2 : per_stage].sum())
            size += of_stages * (units + 2) + graph.size * (per_stage + 1)
            states += of_stages
        refuse_over(
            8.0 * size,
            f"solving {self.groups} kinds of arms, {states:.2g} states in all stages,",
            "use fewer stages, smaller batches, fewer classes or a coarser grid",
        )

    def release(self) -> None:
        self._arms = []

    def lower(self) -> GraphMarket | None:
        graphs = [arm_graph(self.problem, group, self._grid) for group in self.problem.groups]
        if any(graph.lower is None for graph in graphs):
            return None
        return GraphMarket(self.problem, self._grid, below=True, workers=self._workers)

    def coarser(self) -> Iterator[Level]:
        """Fewer stages and coarser grids, where there are some."""
        problem, grid = self.problem, self._grid
        if self.at_most:
            return
        lattices = not all(group.model.finite for group in problem.groups)
        if not problem.repeat and all(group.terminal is None for group in problem.groups):
            sizes = [problem.horizon]
            while sizes[-1] > FEWEST_STAGES:
                sizes.append(sizes[-1] // 2)
            for number in sizes[:0:-1]:
                yield self._level(thinned(problem, number), FEWER_TOLERANCE)
        for refine in range(COARSEST, grid.refine if lattices else COARSEST, COARSER):
            yield self._level(problem, COARSE_TOLERANCE, refine)

    def _level(self, problem: Problem, tol: float, refine: int = COARSEST) -> Level:
        grid = Grid(self.points and round(POINTS * 2.0**refine), refine)
        make = partial(GraphMarket, problem, grid, workers=self._workers)
        return Level(make, problem.horizon, tol, COARSE_CALLS)

    @property
    def unit(self) -> float:
        return max(arms.rewards.largest for arms in self._arms) or 1.0

    @property
    def left_out(self) -> float:
        return sum(arms.left_out for arms in self._arms)

    @property
    def scale(self) -> float:
        return self.unit

    @property
    def largest_price(self) -> float:
        """No price need be larger: all that units of a stage can change, for each of them.

        The relaxed value is concave in the units of a stage, so that its slope is at most twice the
        largest total reward, of pulls, of a deployment or of all tables, divided by these units.
        """
        last = max(1.0, self.problem.n_arms / self.problem.units)
        price = 2.0 * self.unit * (self.problem.unit * self.problem.horizon + last)
        return price if self.limits is None else self.limits.largest_price(price)

    @property
    def states(self) -> int:
        return self.problem.units * self._states

    @property
    def _states(self) -> int:
        """Number of states over all stages."""
        return sum(values.size for arms in self._arms for values in arms.values)

    @property
    def short(self) -> bool:
        return self._states <= SHORT_STATES

    def smoothed(self) -> SmoothTraders:
        return SmoothTraders(self)

    def remember_around(self, mu: Floats) -> None:
        """All states are remembered, whatever the prices."""

    def remember_signs(self, mu: Floats) -> None:
        """Nor is anything laid out for one pass."""

    # Passes

    def dual(self) -> float:
        """Return the dual function at the prices of the last backward pass."""
        first = sum(arms.group.count * float(arms.values[0][0]) for arms in self._arms)
        return float(first + self.pulls @ self.mu + self.left_out)

    def charge(self, price: float) -> None:
        """Set the price of money."""
        self.mu[-1] = price
        for arms in self._arms:
            arms.charge(price)

    def value_at(self, mu: Floats) -> float:
        if self.at_most:
            mu = np.maximum(mu, 0.0)
        if self.problem.budget is not None:
            self.charge(float(mu[-1]))
        return self._backward(lambda stage, threads: mu[self._rows(stage)])

    def reprice(self) -> float:
        return self._backward(self._clearing_prices)

    def soft_value_at(self, mu: Floats, width: float) -> float:
        """Backward at given prices, taking parts of units charged; the smoothed dual there."""
        return self._backward(lambda stage, threads: mu[self._rows(stage)], width)

    def _rows(self, stage: int) -> Ints:
        """Positions of the prices of a stage among all."""
        return np.array([stage]) if self.limits is None else self.limits.rows(stage)

    def _costs(self, stage: int) -> Floats:
        """Cost of a unit of every group at the prices of a stage, (groups,)."""
        if self.limits is None:
            return np.full(self.groups, self.mu[stage])
        return self.limits.costs(stage, self.mu)

    def _backward(self, prices_of: Callable[[int, Pool], Floats], width: float = 0.0) -> float:
        self.calls += 1
        self.mu = np.append(np.zeros(self.stages), self.mu[self.stages :])
        for arms in self._arms:
            arms.begin(width > 0.0)
        parts = -(-self.workers // self.groups)  # of each kind of arms
        shared = [(arms, part) for arms in self._arms for part in range(parts)]
        with pool(self.workers) as threads:
            for stage in range(self.stages - 1, -1, -1):
                threads.map(lambda pair, stage=stage: pair[0].price(stage, pair[1], parts), shared)
                self.mu[self._rows(stage)] = prices_of(stage, threads)
                for arms, cost in zip(self._arms, self._costs(stage).tolist(), strict=True):
                    if width > 0.0:
                        arms.settle_softly(stage, cost, width)
                    else:
                        arms.settle(stage, cost)
        return self.dual()

    def _clearing_prices(self, stage: int, threads: Pool) -> Floats:
        masses = [arms.shares[min(stage, self.problem.horizon)] for arms in self._arms]
        if self.limits is not None:
            return self._shared(stage, masses, threads)[0]
        key, weight = self._offers(stage, masses, threads)
        price, _ = margin(key, weight, float(self.pulls[stage]))
        return np.array([price if np.isfinite(price) else key.min(initial=0.0)])

    def _shared(
        self, stage: int, masses: list[Floats], threads: Pool
    ) -> tuple[Floats, list[Floats]]:
        """Share out the resources of a stage: prices, parts of all units (states, units)."""
        assert self.limits is not None
        pairs = threads.map(lambda arms, mass: arms.offer(stage, mass), self._arms, masses)
        key, weight = (np.concatenate(column) for column in zip(*pairs, strict=True))
        group = np.repeat(np.arange(self.groups), [own.size for own, _ in pairs])
        sharing = self.limits.share(stage, key, weight, group, self.unit)
        parts, first = [], 0
        for arms, mass in zip(self._arms, masses, strict=True):
            part = np.zeros(arms.worth[stage].shape)
            present = mass[: len(part)] > 0.0
            last = first + int(present.sum()) * part.shape[1]
            part[present] = sharing.parts[first:last].reshape(-1, part.shape[1])
            parts.append(part)
            first = last
        return sharing.prices, parts

    def _offers(self, stage: int, masses: list[Floats], threads: Pool) -> tuple[Floats, Floats]:
        pairs = threads.map(lambda arms, mass: arms.offer(stage, mass), self._arms, masses)
        if self.at_most:  # pulls that are not made are worth nothing
            pairs = [*pairs, (np.zeros(1), self.pulls[stage : stage + 1])]
        if len(pairs) == 1:  # they are long: no copy
            key, weight = pairs[0]
            return key, weight
        key, weight = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return key, weight

    def clear(self, blend: float) -> Flow:
        def decide(stage: int, threads: Pool) -> list[Deal]:
            masses = [arms.mass for arms in self._arms]
            if self.limits is not None:
                deals: list[Deal] = list(self._shared(stage, masses, threads)[1])
            else:
                offered = self._offers(stage, masses, threads)
                price, part = margin(*offered, float(self.pulls[stage]))
                deals = [(price, 0.0, part)] * self.groups
            for arms in self._arms:
                share = arms.shares[stage]
                share += blend * (arms.mass[: share.size] - share)
            return deals

        return self._forward(decide, True)

    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        def decide(stage: int, threads: Pool) -> list[Deal]:
            return [(cost, slack, at_price) for cost in self._costs(stage).tolist()]

        return self._forward(decide, False)

    def soft_flow(self, width: float) -> tuple[Floats, Floats]:
        """Forward after `soft_value_at`: units spent and loose ones, of every stage, (T,)."""
        spent, loose = np.zeros(self.stages), np.zeros(self.stages)
        for arms in self._arms:
            arms.reset()
        for stage in range(self.stages):
            for arms in self._arms:
                over = arms.slopes(stage) - self.mu[stage]
                near = np.abs(over - 0.5 * width) < (0.5 + AROUND) * width
                loose[stage] += float((arms.mass[: len(over), None] * near).sum())
                spent[stage] += arms.take(stage, np.clip(over / width, 0.0, 1.0))[0]
        return spent, loose

    def _forward(self, decide: Callable[[int, Pool], list[Deal]], feasible: bool) -> Flow:
        reward, spent = np.zeros(self.groups), np.zeros((self.groups, self.stages))
        for arms in self._arms:
            arms.reset()
        with pool(min(self.workers, self.groups)) as threads:
            for stage in range(self.stages):
                deals = decide(stage, threads)
                moves = threads.map(
                    lambda arms, deal, stage=stage: arms.trade(stage, deal), self._arms, deals
                )
                for k, (taken, gained) in enumerate(moves):
                    spent[k, stage] = taken
                    reward[k] += gained
        for k, arms in enumerate(self._arms):
            reward[k] += arms.finish()
        if self.limits is not None:
            return Flow(reward, self.limits.spent(spent), feasible)
        if not self.at_most:
            return Flow(reward, spent, feasible)
        money = np.array([own @ arms.costs for own, arms in zip(spent, self._arms, strict=True)])
        within = money.sum() <= self.pulls[-1]
        return Flow(
            reward + self.mu[-1] * money, np.column_stack([spent, money]), bool(feasible and within)
        )

    def money_by_stage(self, flow: Flow) -> Floats:
        """Return the expected money that a flow spends at each stage, (stages,)."""
        spent = flow.spent[:, : self.stages]
        costs = np.stack([arms.costs for arms in self._arms])
        return np.asarray((spent * costs).sum(axis=0))

    def bound_of(self, flow: Flow) -> float:
        """Return what a flow proves: one that overspends is mixed with making no pulls."""
        if not self.at_most:
            return flow.total
        lost = lost_part(flow.spent.sum(axis=0), self.pulls)
        return (1.0 - lost) * flow.total + lost * self._resting()

    def resting(self) -> Flow:
        """Return the flow of arms that are never pulled, nor deployed."""
        last = [arms.group.count * float(arms.rewards.last[0]) for arms in self._arms]
        return Flow(np.array(last), np.zeros((self.groups, self.pulls.size)), True)

    def _resting(self) -> float:
        """Return what is earned without any pull: last rewards, and the best deployment."""
        total = self.resting().total
        if self.problem.terminal is None:
            return total
        gains = [float(arms.worth[-1][0, 0] - arms.rewards.last[0]) for arms in self._arms]
        every = np.repeat(gains, [arms.group.count for arms in self._arms])
        return total + float(np.sort(every)[-self.problem.deployed :].sum())


class SmoothTraders:
    """A market of traders whose dual function is smoothed by a width."""

    def __init__(self, market: GraphMarket) -> None:
        self._market = market
        self.width = 1.0

    def value_at(self, mu: Floats) -> tuple[float, Floats, Floats]:
        """Return the smoothed dual at prices mu, its gradient, and the curvature per price."""
        value = self._market.soft_value_at(mu, self.width)
        spent, loose = self._market.soft_flow(self.width)
        return value, self._market.pulls - spent, loose / ((1.0 + 2.0 * AROUND) * self.width)

    def clear(self) -> tuple[Flow, float]:
        """Not needed: searches of these markets go from rounds to the master problem."""
        raise NotImplementedError
