"""A market of traders: stages are priced and cleared one after the other, all traders together.

It serves every model and batch size, resources, money, and arms that move at rest. On a grid the
dual function is too large (chords): its values are upper bounds as ever, but the reward of a
cleared flow there bounds the minimum *on the grid* from below, not the true one. The true one is
bounded by flows of the market whose values are below, on contractions (`lower`).

No price need be larger in size than all that units of a stage can change, for each of them: the
relaxed value is concave in the units of a stage, so that its slope is at most twice the largest
total reward, of pulls, of a deployment or of all tables, divided by these units. Arms that move at
rest lose at most twice the largest reward per stage left, for one may do what another does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ..arm import COARSEST, EXACT, ArmGraph, ChainStates, Grid, arm_graph
from ..problem import Group, Problem, thinned
from ..support import Floats, Pool, pool, refuse_over
from .kernels.smooth import AROUND
from .limits import Limits, joined, split
from .revealed import revealed_groups
from .search import Flow, Level, Market, Search, halved, rounds
from .traders import (
    MAX_PROGRAM_STATES,
    ChainTrader,
    Deal,
    GraphTrader,
    Offers,
    Trader,
    bundles,
    optimal_occupations,
)

SHORT_STATES = 2_000_000  # of all stages, up to which a pass takes some tenths of a second
THREADED_PULLS = 100  # that one arm may take; below, threads cost more than they save
COARSE_TOLERANCE = 3e-4  # at which searches on coarser grids end
COARSER = 3  # times that points are doubled from one of them to the next
COARSE_CALLS = 15  # of each: where points are few, ties keep rounds from an end
FEWEST_STAGES = 25  # of the smallest problem that a search starts from
FEWER_TOLERANCE = 1e-3  # at which searches on fewer stages end
SHARE_TOLERANCE, SHARE_CALLS = 1e-6, 60  # of rounds for the parts of states that are pulled

Decide = Callable[[int, Pool], list[Deal]]  # of every trader at a stage


class StageMarket(Market):
    """Traders that price and clear stage by stage; `below`: on contractions.

    Arms that move at rest may begin at stage `first`, with `masses` (states,) of arms in every
    state; by default with those of the problem before its first stage. `every`: with indices of
    states, too, that they cannot reach.
    """

    def __init__(
        self,
        problem: Problem,
        grid: Grid = EXACT,
        *,
        below: bool = False,
        workers: int = 2,
        first: int = 0,
        masses: Floats | None = None,
        every: bool = False,
    ) -> None:
        threads = workers if problem.most_pulls >= THREADED_PULLS else 1
        threads = 1 if problem.is_restless else threads
        groups, beyond_grid = revealed_groups(problem, below=below)
        super().__init__(problem.pulls[first:], len(groups), problem.horizon - first, threads)
        self.at_most = problem.may_wait
        self.most_canonical = 0 if problem.is_restless or problem.may_wait else 100_000
        self.limits = Limits(problem, groups, first)
        self.pulls = self.limits.pulls
        self.mu = np.zeros(self.pulls.size)
        self.problem, self._grid, self._workers = problem, grid, workers
        self._several = problem.most_pulls > problem.horizon  # pulls of an arm at a stage
        self._lacks_lower = False
        self.traders: Sequence[Trader] = (
            self._chains(first, masses, below, every)
            if problem.is_restless
            else self._graphs(groups, below)
        )
        self.unit = self.scale = max(trader.largest for trader in self.traders) or 1.0
        self.left_out = beyond_grid + sum(trader.left_out for trader in self.traders)
        last = max(1.0, problem.n_arms / problem.units)
        useful = 2.0 * self.unit * (problem.unit * problem.horizon + last)
        self.largest_price = self.limits.largest_price(useful)
        self._states = sum(trader.states for trader in self.traders)  # of all stages
        self.states, self.short = problem.units * self._states, self._states <= SHORT_STATES

    def _chains(self, first: int, masses: Floats | None, below: bool, every: bool) -> list[Trader]:
        states = ChainStates(self.problem, self._grid, below=below)
        self.points = 0 if states.exact else self._grid.per_row
        masses = states.first_masses if masses is None else masses
        part = float(self.pulls[: self.stages].max()) / float(masses.sum())
        part = min(part, self.limits.even_part)
        return [ChainTrader(self.problem, states, masses, first, part, every=every)]

    def _graphs(self, groups: Sequence[Group], below: bool) -> list[Trader]:
        problem = self.problem
        graphs = [arm_graph(problem, group, self._grid) for group in groups]
        self.points = 0 if all(graph.exact for graph in graphs) else self._grid.per_row
        self._lacks_lower = any(graph.lower is None for graph in graphs)
        if below:
            graphs = [graph.lower or graph for graph in graphs]
        self._refuse_large(graphs)
        runs = bundles(graphs, alone=self._several)
        parts = [(groups[run], graphs[run]) for run in runs]
        with pool(min(self._workers, len(parts))) as threads:
            return threads.map(lambda part: GraphTrader(problem, *part), parts)

    def _refuse_large(self, graphs: list[ArmGraph]) -> None:
        units, size, states = self.problem.most_units, 0.0, 0.0
        for graph in graphs:
            per_stage = units * graph.steps
            ends = slice(1, self.problem.horizon * per_stage + 2, per_stage)
            of_stages = float(graph.start[ends].sum())
            size += of_stages * (units + 2) + graph.size * (per_stage + 1)
            states += of_stages
        refuse_over(
            8.0 * size,
            f"solving {self.groups} kinds of arms, {states:.2g} states in all stages,",
            "use fewer stages, smaller batches, fewer classes or a coarser grid",
        )

    def release(self) -> None:
        self.traders = []

    def lower(self) -> StageMarket | None:
        if self._lacks_lower:
            return None
        return StageMarket(self.problem, self._grid, below=True, workers=self._workers)

    def coarser(self) -> Iterator[Level]:
        """Fewer stages and coarser grids, where there are some."""
        problem, grid = self.problem, self._grid
        if self.at_most or problem.is_restless:
            return
        lattices = not all(group.model.finite for group in problem.groups)
        if not self._several and all(group.terminal is None for group in problem.groups):
            for number in halved(problem.horizon, FEWEST_STAGES):
                yield self._level(thinned(problem, number), FEWER_TOLERANCE)
        for refine in range(COARSEST, grid.refine if lattices else COARSEST, COARSER):
            yield self._level(problem, COARSE_TOLERANCE, refine)

    def _level(self, problem: Problem, tol: float, refine: int = COARSEST) -> Level:
        grid = Grid(self._grid.points, refine)
        make = partial(StageMarket, problem, grid, workers=self._workers)
        return Level(make, problem.horizon, tol, COARSE_CALLS)

    # Backward

    def value_at(self, mu: Floats) -> float:
        if self.at_most:
            mu = np.maximum(mu, 0.0)
        if self.limits.has_budget:
            self.mu[-1] = mu[-1]
        return self.backward(lambda stage, threads: mu[self.limits.rows[stage]])

    def reprice(self) -> float:
        """Set prices at which the averaged masses clear; the price of money stays as it is."""
        return self.backward(lambda stage, threads: self._shared(stage, threads, averaged=True)[0])

    def costs(self, stage: int) -> Floats:
        """Cost of a unit of every group at the prices of a stage, (groups,)."""
        return self.limits.costs(stage, self.mu)

    def _by_trader(self, values: Floats) -> list[Floats]:
        """Split values of all groups into those of each trader."""
        return split(values, [trader.groups for trader in self.traders])

    def backward(self, prices_of: Callable[[int, Pool], Floats], width: float = 0.0) -> float:
        """Go backward, smoothed where there is a width; return the dual."""
        self.calls += 1
        self.mu = self.mu.copy()
        for trader in self.traders:
            trader.begin(softly=width > 0.0)
        parts = -(-self.workers // len(self.traders))  # of the work of each
        shared = [(trader, part) for trader in self.traders for part in range(parts)]
        with pool(self.workers) as threads:
            for stage in range(self.stages - 1, -1, -1):
                threads.map(lambda pair, stage=stage: pair[0].price(stage, pair[1], parts), shared)
                self.mu[self.limits.rows[stage]] = prices_of(stage, threads)
                costs = self._by_trader(self.costs(stage))
                for trader, cost in zip(self.traders, costs, strict=True):
                    trader.settle(stage, cost, width)
        first = sum(trader.value() for trader in self.traders)
        return float(first + self.pulls @ self.mu + self.left_out)

    def offers(self, stage: int, threads: Pool, *, averaged: bool) -> list[Offers]:
        """Return the offers of every trader."""
        return threads.map(lambda trader: trader.offers(stage, averaged=averaged), self.traders)

    def _shared(self, stage: int, threads: Pool, *, averaged: bool) -> tuple[Floats, list[Deal]]:
        """Share out a stage: its prices, and the deal of every trader."""
        offers = self.offers(stage, threads, averaged=averaged)
        return self.limits.share(stage, offers, self.mu, self.unit)

    # Forward

    def clear(self, blend: float) -> Flow:
        def decide(stage: int, threads: Pool) -> list[Deal]:
            return self._shared(stage, threads, averaged=False)[1]

        return self.forward(decide, True, blend)

    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        def decide(stage: int, threads: Pool) -> list[Deal]:
            return [Deal(cost, slack, at_price) for cost in self._by_trader(self.costs(stage))]

        return self.forward(decide, False)

    def forward(self, decide: Decide, feasible: bool, blend: float = 0.0) -> Flow:
        """Move all masses, which join the averages with the weight `blend`."""
        spent, reward = np.zeros((self.stages, self.groups)), np.zeros(self.groups)
        for trader in self.traders:
            trader.reset()
        with pool(min(self.workers, len(self.traders))) as threads:
            for stage in range(self.stages):
                deals = decide(stage, threads)
                moves = threads.map(
                    lambda trader, deal, stage=stage: trader.trade(stage, deal, blend),
                    self.traders,
                    deals,
                )
                spent[stage] = joined([taken for taken, _ in moves])
                reward += joined([gained for _, gained in moves])
        reward += joined([trader.last_rewards() for trader in self.traders])
        amounts = self.limits.spent(spent.T)
        if self.limits.has_budget:
            feasible = bool(feasible and amounts[:, -1].sum() <= self.pulls[-1])
        return Flow(reward, amounts, feasible)

    def money_by_stage(self, flow: Flow) -> Floats:
        """Return the expected money that a flow spends at each stage, (stages,)."""
        return np.asarray((flow.spent[:, : self.stages] * self.limits.money).sum(axis=0))

    def soft_value(self, mu: Floats, width: float) -> tuple[float, Floats, Floats]:
        """Return the smoothed dual, without resources and money."""
        value = self.backward(lambda stage, threads: mu[stage : stage + 1], width)
        loose = np.zeros(self.stages)

        def decide(stage: int, threads: Pool) -> list[Deal]:
            deals = []
            for offer in self.offers(stage, threads, averaged=False):
                over = offer.key - mu[stage]
                near = np.abs(over - 0.5 * width) < (0.5 + AROUND) * width
                loose[stage] += float(offer.weight[near].sum())
                parts = np.clip(over / width, 0.0, 1.0)
                deals.append(Deal(np.zeros(offer.number.size), parts=parts))
            return deals

        spent = self.forward(decide, False).spent.sum(axis=0)
        return value, self.pulls - spent, loose / ((1.0 + 2.0 * AROUND) * width)

    # What flows prove

    def bound_of(self, flow: Flow) -> float:
        """Return what a flow proves: one that overspends is mixed with making no pulls."""
        if not self.at_most:
            return flow.total
        spent = flow.spent.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lost = 1.0 - float(np.where(spent > self.pulls, self.pulls / spent, 1.0).min())
        return (1.0 - lost) * flow.total + lost * self._rest_reward

    def resting(self) -> Flow:
        """Return the flow of arms that are never pulled, nor deployed."""
        none = [Deal(np.full(trader.groups, np.inf)) for trader in self.traders]
        return self.forward(lambda stage, threads: none, True)

    @cached_property
    def _rest_reward(self) -> float:
        """Reward of arms that are never pulled: last rewards, and the best deployment."""
        total, problem = self.resting().total, self.problem
        if problem.terminal is None:
            return total
        means = [
            float(group.model.mean(np.array([group.model.initial()]))[0])
            for group in problem.groups
        ]
        gains = np.repeat(means, [group.count for group in problem.groups])
        return total + problem.terminal.deploy * float(np.sort(gains)[-problem.deployed :].sum())

    def optimal_flow(self) -> tuple[Floats, Flow] | None:
        (trader, *_) = self.traders
        if not isinstance(trader, ChainTrader):
            return None
        if self._states > MAX_PROGRAM_STATES or self.at_most:
            return None
        optimum = optimal_occupations(
            trader.chains, trader.factors, trader.first_masses, self.pulls
        )
        if optimum is None:
            return None
        prices, parts = optimum
        return prices, self.forward(lambda stage, threads: [trader.deal(parts[stage])], False)


class RelaxedSolution(NamedTuple):
    """Prices from a stage on, the values of states there, and the parts of them that are pulled."""

    prices: Floats  # (stages,)
    first_index: Floats  # (states,) at the first of these stages
    first_costs: Floats  # (states,) of a pull there, resources included
    shares: Floats  # (stages, states)


def relaxed_solution(
    problem: Problem,
    prices: Floats,
    *,
    first: int = 0,
    masses: Floats | None = None,
    tol: float = SHARE_TOLERANCE,
) -> RelaxedSolution:
    """Return a relaxed solution of the stages from `first` on, by rounds from these prices.

    The arms of the problem move at rest. masses (states,): arms in every state then, by default
    those before the first stage. Rounds end where they no longer narrow the gap: ties are the
    business of the shares.
    """
    market = StageMarket(problem, first=first, masses=masses, every=True)
    search = Search(market, lambda line: None)
    rounds(search, prices, tol, SHARE_CALLS)
    (trader,) = market.traders
    assert isinstance(trader, ChainTrader)
    shares = trader.shares(np.array([market.costs(stage) for stage in range(market.stages)]))
    market.value_at(search.prices)
    return RelaxedSolution(search.prices, *trader.first_terms(market.costs(0)), shares)
