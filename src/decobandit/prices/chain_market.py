"""Arms that move at rest as a market: passes over the states of all groups at once.

Rounds, master problem and certificate are those of any market. A stage is priced at the average
masses by the index Q(pull) - Q(rest) of every state, and cleared in order of it. No price need be
larger in size than 2 T times the largest reward: a price beyond all indices of its stage may be
moved to the nearest of them without raising the dual, and values of two states differ by at most
twice the largest reward per stage left, for one arm may do what the other does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..arm import EXACT, POINTS, ChainStates, Grid, refuse_large_chains, stage_factors
from ..arm.kernels.chains import decide, move, settle, stage_margins
from ..problem import Problem
from ..support import Floats, Ints
from .kernels.rounds import margin
from .limits import Limits, lost_part
from .market import Flow, Market, Smoothed
from .occupations import MAX_STATES, flow_of_parts, optimal_occupations
from .search import Search, rounds

SHARE_TOLERANCE, SHARE_CALLS = 1e-6, 60  # of rounds for the parts of states that are pulled
SHORT_STATES = 2_000_000  # of all stages, up to which a pass takes some tenths of a second


class ChainMarket(Market):
    """Groups of arms that trade pulls, each arm moving whether it is pulled or not.

    From stage `first` on, with `masses` (states,) of arms in every state; by default those of the
    problem before its first stage.
    """

    def __init__(
        self,
        problem: Problem,
        grid: Grid = EXACT,
        *,
        below: bool = False,
        first: int = 0,
        masses: Floats | None = None,
    ) -> None:
        pulls = problem.pulls[first:]
        super().__init__(pulls, len(problem.groups), pulls.size, 1)
        self.at_most = problem.may_wait
        self.limits = None if problem.resources is None else Limits(problem, first)
        if self.limits is not None:
            self.pulls = self.limits.pulls
            self.mu = np.zeros(self.pulls.size)
        states_of_arms = ChainStates(problem, grid, below=below)
        self.problem, self._grid, self._chains = problem, grid, states_of_arms.arrays
        self.points = 0 if states_of_arms.exact else round(POINTS * 2.0**grid.refine)
        self._group = np.repeat(np.arange(self.groups), np.diff(self._chains.start))  # (states,)
        self._factors = stage_factors(problem)[first:]
        self._masses = states_of_arms.first_masses if masses is None else masses
        states = self._masses.size
        refuse_large_chains(problem, states, 5)
        rewards = np.concatenate([self._chains.rest_reward, self._chains.pull_reward])
        self._largest = float(np.abs(rewards).max() * np.abs(self._factors).max())
        self._index = np.zeros((self.stages, states))
        self._first_values = np.zeros(states)
        # averaged over rounds; before the first, every arm is pulled equally often
        self._mass, self._pulled = np.zeros((2, self.stages, states))
        self._passed, self._taken = np.zeros((2, self.stages, states))  # of the last forward pass
        part = float(pulls.max()) / float(self._masses.sum())
        self._pulled_equally(part if self.limits is None else min(part, self.limits.even_part))
        self._blend(1.0)

    @property
    def unit(self) -> float:
        return self._largest or 1.0

    @property
    def scale(self) -> float:
        return self.unit

    @property
    def largest_price(self) -> float:
        price = 2.0 * self.unit * self.stages
        return price if self.limits is None else self.limits.largest_price(price)

    @property
    def states(self) -> int:
        return self._index.size

    @property
    def short(self) -> bool:
        return self.states <= SHORT_STATES

    def release(self) -> None:
        self._index = self._mass = self._pulled = self._passed = self._taken = np.zeros((0, 0))

    def lower(self) -> ChainMarket:
        """Return the market on contractions."""
        return ChainMarket(self.problem, self._grid, below=True)

    def remember_around(self, mu: Floats) -> None:
        """All states are remembered, whatever the prices."""

    def remember_signs(self, mu: Floats) -> None:
        """Nor is anything laid out for one pass."""

    def smoothed(self) -> Smoothed:
        raise NotImplementedError("searches of these markets go from rounds to the master problem")

    # Backward

    def value_at(self, mu: Floats) -> float:
        if self.at_most:
            mu = np.maximum(mu, 0.0)
        return self._backward(lambda stage: mu[self._rows(stage)])

    def reprice(self) -> float:
        def prices_of(stage: int) -> Floats:
            if self.limits is not None:
                return self._shared(stage, self._mass[stage])[0]
            return np.array(self._clearing(stage, self._mass[stage])[:1])

        return self._backward(prices_of)

    def _rows(self, stage: int) -> Ints:
        """Positions of the prices of a stage among all."""
        return np.array([stage]) if self.limits is None else self.limits.rows(stage)

    def costs(self, stage: int) -> Floats:
        """Cost of a pull in every state at the prices of a stage, (states,)."""
        if self.limits is None:
            return np.full(self._group.size, self.mu[stage])
        return self.limits.costs(stage, self.mu)[self._group]

    def _backward(self, prices_of: Callable[[int], Floats]) -> float:
        self.calls += 1
        self.mu = np.zeros(self.pulls.size)
        later, rest, now = np.zeros((3, self._masses.size))
        for stage in range(self.stages - 1, -1, -1):
            stage_margins(self._chains, self._factors[stage], later, rest, self._index[stage])
            self.mu[self._rows(stage)] = prices_of(stage)
            settle(rest, self._index[stage], self.costs(stage), now)
            later, now = now, later
        self._first_values = later
        return float((self._masses * later).sum() + (self.pulls * self.mu).sum())

    def _clearing(self, stage: int, mass: Floats) -> tuple[float, float]:
        """Return the price at which masses (states,) spend the pulls, and the part at it."""
        present = mass > 0.0
        key = self._index[stage][present]
        price, part = margin(key, mass[present], float(self.pulls[stage]))
        return (float(price) if np.isfinite(price) else float(key.min())), float(part)

    def _shared(self, stage: int, mass: Floats) -> tuple[Floats, Floats]:
        """Share out the resources of a stage among masses (states,): prices, and masses pulled."""
        assert self.limits is not None
        present = np.flatnonzero(mass)
        key, weight = self._index[stage][present], mass[present]
        sharing = self.limits.share(stage, key, weight, self._group[present], self.unit)
        pulled = np.zeros(mass.size)
        pulled[present] = sharing.parts * weight
        return sharing.prices, pulled

    # Forward

    def clear(self, blend: float) -> Flow:
        def fill(stage: int, mass: Floats, pulled: Floats) -> None:
            if self.limits is not None:
                pulled[:] = self._shared(stage, mass)[1]
                return
            price, part = self._clearing(stage, mass)
            decide(self._index[stage], np.full(mass.size, price), 0.0, part, mass, pulled)

        flow = self._forward(fill, True)
        self._blend(blend)
        return flow

    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        def fill(stage: int, mass: Floats, pulled: Floats) -> None:
            decide(self._index[stage], self.costs(stage), slack, at_price, mass, pulled)

        return self._forward(fill, False)

    def _pulled_equally(self, part: float) -> Flow:
        """Return the flow that pulls the same part of all arms at every stage."""

        def fill(stage: int, mass: Floats, pulled: Floats) -> None:
            pulled[:] = part * mass

        return self._forward(fill, False)

    def resting(self) -> Flow:
        """Return the flow of arms that are never pulled."""
        return self._pulled_equally(0.0)

    def bound_of(self, flow: Flow) -> float:
        """Return what a flow proves: one that overspends is mixed with making no pulls."""
        lost = lost_part(flow.spent.sum(axis=0), self.pulls) if self.at_most else 0.0
        return flow.total if not lost else (1.0 - lost) * flow.total + lost * self._rest_reward

    @cached_property
    def _rest_reward(self) -> float:
        return self.resting().total

    def _forward(self, fill: Callable[[int, Floats, Floats], None], feasible: bool) -> Flow:
        """Move all masses; fill(stage, mass, pulled): how much of them is pulled, (states,)."""
        reward, spent = np.zeros(self.groups), np.zeros((self.stages, self.groups))
        mass, after = self._masses.copy(), np.zeros(self._masses.size)
        for stage, factor in enumerate(self._factors):
            fill(stage, mass, self._taken[stage])
            self._passed[stage] = mass
            move(self._chains, factor, mass, self._taken[stage], after, spent[stage], reward)
            mass, after = after, mass
        units = spent.T
        return Flow(reward, units if self.limits is None else self.limits.spent(units), feasible)

    def _blend(self, blend: float) -> None:
        """Let the masses of the last forward pass join the averages."""
        for average, last in ((self._mass, self._passed), (self._pulled, self._taken)):
            for stage in range(self.stages):  # row by row: temporary arrays stay small
                average[stage] += blend * (last[stage] - average[stage])

    def optimal_flow(self) -> tuple[Floats, Flow] | None:
        if self.states > MAX_STATES or self.limits is not None:
            return None
        market = (self._chains, self._factors, self._masses)
        optimum = optimal_occupations(*market, self.pulls)
        if optimum is None:
            return None
        prices, parts = optimum
        return prices, flow_of_parts(*market, parts)

    def first_index(self) -> Floats:
        """Index of every state at the first stage, at the prices of the last pass, (states,)."""
        return np.asarray(self._index[0])

    def shares(self) -> Floats:
        """Part of the average mass of every state that is pulled, (stages, states).

        The averages are a feasible relaxed solution, as good as the flows that they are made of. A
        state without mass has the part that its index says.
        """
        some = self._mass > 1e-9
        costs = self.mu[:, None]
        if self.limits is not None:
            costs = np.array([self.costs(stage) for stage in range(self.stages)])
        by_index = (self._index > costs).astype(float)
        return np.where(some, self._pulled / np.where(some, self._mass, 1.0), by_index)


class RelaxedSolution(NamedTuple):
    """Prices from a stage on, what states are worth there, and parts of them that are pulled."""

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

    masses (states,): arms in every state then, by default those before the first stage. Rounds end
    where they no longer narrow the gap: ties are the business of the shares.
    """
    market = ChainMarket(problem, first=first, masses=masses)
    search = Search(market, lambda line: None)
    rounds(search, prices, tol, SHARE_CALLS)
    shares = market.shares()
    market.value_at(search.prices)
    return RelaxedSolution(search.prices, market.first_index(), market.costs(0), shares)
