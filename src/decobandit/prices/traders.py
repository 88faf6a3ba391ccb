"""Traders of a market: groups of arms whose passes are computed together, stage by stage.

A `GraphTrader` has arms of any model, in batches of any size, that stay as they are at rest. The
a-th unit of an arm in a state has an index (`arm/kernels/units.py`), not increasing in a, so that a
stage is priced and cleared as with single pulls: units in order of their index. A `ChainTrader` has
arms that move at rest: the index of a state is Q(pull) - Q(rest).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arm import ArmGraph, ChainStates, Rewards, refuse_large_chains, stage_factors
from ..arm.kernels.chains import Chains, move, reach_further, stage_margins
from ..problem import Group, Problem
from ..support import Floats, Ints
from .kernels.trading import Graphs, offer_stage, price_stage, settle_stage, trade_stage

NEGLIGIBLE = 1e-11  # of the largest reward and the stages: values this small are left out
MAX_BUNDLE_STATES = 50_000  # of groups that are traded together: a call costs more than few states
MAX_PROGRAM_STATES = 1000  # of all stages: the program takes some tenths of a second
METHODS = ("highs-ds", "highs-ipm")  # the second where the first gives up
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
EMPTY_MASS = 1e-12  # of an arm: a state with less is not pulled


class Offers(NamedTuple):
    """Units that arms may take at a stage, of states with mass, in the order of states."""

    key: Floats  # index of each
    weight: Floats  # mass
    number: Ints  # (groups,) how many there are


class Deal(NamedTuple):
    """Units that are taken: those above a cost, and a part of those within slack of it."""

    cost: Floats  # (groups,) of a unit
    slack: float = 0.0
    at_cost: float = 0.0  # this part
    parts: Floats = np.empty(0)  # of every offer, instead


# -- arms that stay as they are at rest ------------------------------------------------------------


def bundles(graphs: Sequence[ArmGraph], *, alone: bool) -> list[slice]:
    """Return runs of groups that are traded together: small ones, if none is to be alone."""
    runs, first, states = list[slice](), 0, 0
    for k, graph in enumerate(graphs):
        if k > first and (alone or states + graph.size > MAX_BUNDLE_STATES):
            runs.append(slice(first, k))
            first, states = k, 0
        states += graph.size
    return [*runs, slice(first, len(graphs))]


class GraphTrader:
    """Groups of arms on graphs of their states.

    There are the masses of the pass under way, expected numbers of arms by state, and averages over
    passes, at which prices are set. states: of all stages; largest: the largest reward of a pull,
    in size.

    Where an arm takes at most one step per stage on a grid, values that are `faint` above zero, or
    above those of an arm that is always pulled, are not followed; `left_out` bounds what that can
    change in all stages.
    """

    def __init__(
        self, problem: Problem, groups: Sequence[Group], graphs: Sequence[ArmGraph]
    ) -> None:
        rewards = [Rewards(problem, *pair) for pair in zip(groups, graphs, strict=True)]
        T = self._horizon = problem.horizon
        self._units, self._steps = rewards[0].units, graphs[0].steps
        self._single = rewards[0].per_stage == 1
        self._graphs = _joined(graphs)
        self._counts = np.array([group.mass for group in groups])
        self._has_table = np.array([group.terminal is not None for group in groups])
        # places of a stage's states, (T + 1, groups + 1)
        ends = [r.per_stage * np.arange(T + 1) + 1 for r in rewards]
        sizes = [graph.start[end] for graph, end in zip(graphs, ends, strict=True)]
        self._places = np.concatenate(
            [np.zeros((T + 1, 1), np.int64), np.cumsum(sizes, axis=0).T], axis=1
        )
        self._every = self._places[-1]
        self._last = np.concatenate(
            [r.last[: size[-1]] for r, size in zip(rewards, sizes, strict=True)]
        )
        totals = self._places[:, -1].tolist()
        self._values = [np.zeros(total) for total in totals]
        self._worth = [np.zeros((total, self._units)) for total in totals[:-1]]  # Q(s; a)
        if problem.terminal is not None:
            mean = np.concatenate([g.mean[: s[-1]] for g, s in zip(graphs, sizes, strict=True)])
            self._worth.append((self._last + problem.terminal.deploy * mean)[:, None])
        self._averages = [np.zeros(total) for total in totals]
        for average, places in zip(self._averages, self._places, strict=True):
            average[places[:-1]] = self._counts
        self._mass = np.zeros(totals[-1])
        self._under_way = np.zeros((rewards[0].per_stage + 1) * totals[-1])
        terms = [[r.base, r.factor, r.rise, r.fall] for r in rewards]
        self._terms = np.ascontiguousarray(np.transpose(terms, (2, 1, 0)))  # (T, 4, groups)
        self._deploy = problem.terminal.deploy if problem.terminal is not None else 0.0
        self._sizes = [np.diff(graph.start) for graph in graphs]
        shape = (len(groups), max(size.size for size in self._sizes) + 1)
        self._low, self._high = np.zeros((2, *shape), np.int64)
        self._ground, self._slope = np.zeros((2, len(groups)))
        on_grid = np.array([self._single and not graph.exact for graph in graphs])
        largest = np.array([r.largest for r in rewards])
        self._faint = np.where(on_grid, NEGLIGIBLE * T * largest, 0.0)
        self.groups, self.states = len(groups), sum(totals)
        self.largest = float(largest.max())
        self.left_out = 2.0 * problem.stages * float((self._faint * self._counts).sum())

    def begin(self, *, softly: bool = False) -> None:
        """Start a backward pass: after the last stage there are last rewards alone."""
        self._values[-1][:] = self._last
        for k, sizes in enumerate(self._sizes):
            is_linear = not self._has_table[k] and not softly
            self._low[k, : sizes.size] = sizes if is_linear else 0
            self._high[k, : sizes.size] = -1 if is_linear else sizes
        self._ground[:] = self._slope[:] = 0.0

    def _later(self, stage: int) -> tuple[Ints, Floats]:
        """Return places and values after a stage; a deployment changes no state."""
        if stage == self._horizon:
            return self._every, self._last
        return self._places[stage + 1], self._values[stage + 1]

    def price(self, stage: int, part: int, parts: int) -> None:
        """Compute indices at a stage from the values after it; one part of the work."""
        if stage == self._horizon:
            return
        places, later = self._later(stage)
        line = (self._slope, self._faint, self._low, self._high)
        how = (self._graphs, self._units, self._steps, stage, self._terms[stage], *line)
        now = self._places[stage]
        price_stage(*how, (part, parts), now, places, later, self._worth[stage])

    def settle(self, stage: int, cost: Floats, width: float) -> None:
        """Compute values at a stage, at the cost of a unit (groups,).

        Where there is a width, taking a part x of a unit is charged width / 2 x^2.
        """
        if width > 0.0:
            self._settle_softly(stage, cost, width)
            return
        places, later = self._later(stage)
        deployed = stage == self._horizon
        self._ground += (0.0 if deployed else self._terms[stage, 0]) - cost
        self._slope += self._deploy if deployed else self._terms[stage, 1]
        line = (self._ground, self._slope, self._faint, self._low, self._high)
        now, tables = self._places[stage], (later, self._worth[stage], self._values[stage])
        settle_stage(self._graphs, self._single, stage, cost, *line, now, places, *tables)

    def _settle_softly(self, stage: int, cost: Floats, width: float) -> None:
        now = self._places[stage]
        every = self._offers(stage, now, np.ones(now[-1]))
        units = self._worth[stage].shape[1]
        over = (every.key - np.repeat(cost, every.number)).reshape(-1, units)
        part = np.clip(over, 0.0, width)
        gain = (part * (over - 0.5 * part)).sum(axis=1) / width
        places, later = self._later(stage)
        parts = [later[a : a + n] for a, n in zip(places, np.diff(now), strict=False)]
        self._values[stage][:] = np.concatenate(parts) + gain

    def value(self) -> float:
        """Return the value of all arms before the first stage, after a backward pass."""
        return float((self._counts * self._values[0][self._places[0, :-1]]).sum())

    def offers(self, stage: int, *, averaged: bool) -> Offers:
        """Return the offers of the averaged masses, or of those under way."""
        if averaged:
            at = min(stage, self._horizon)
            return self._offers(stage, self._places[at], self._averages[at])
        return self._offers(stage, self._every, self._mass)

    def _offers(self, stage: int, at: Ints, mass: Floats) -> Offers:
        now, worth = self._places[stage], self._worth[stage]
        places, later = self._later(stage)
        key, weight = np.empty((2, worth.size))
        count = np.zeros(now.size - 1, np.int64)
        total = offer_stage(now, places, at, later, worth, mass, key, weight, count)
        return Offers(key[:total], weight[:total], count)

    def reset(self) -> None:
        """Put all arms into their first states."""
        self._mass[:] = 0.0
        self._mass[self._every[:-1]] = self._counts

    def trade(self, stage: int, deal: Deal, blend: float) -> tuple[Floats, Floats]:
        """Move masses over a stage; return units taken and rewards, (groups,) each.

        blend: weight at which they join the averages.
        """
        deployed = stage == self._horizon
        spent, reward = np.zeros((2, self._counts.size))
        places, later = self._later(stage)
        trade_stage(
            self._graphs,
            1 if deployed else self._steps,
            stage,
            deployed,
            self._terms[min(stage, self._horizon - 1)],
            (self._places[stage], places, self._every),
            later,
            self._worth[stage],
            (deal.cost, deal.slack, deal.at_cost, deal.parts),
            blend,
            self._averages[stage],
            (self._mass, self._under_way),
            (spent, reward),
        )
        return spent, reward

    def last_rewards(self) -> Floats:
        """Return last rewards of the final masses, (groups,)."""
        return np.add.reduceat(self._mass * self._last, self._every[:-1])


def _joined(graphs: Sequence[ArmGraph]) -> Graphs:
    arrays = [graph.arrays for graph in graphs]
    fields = ("start", "mean", "at", "weights", "to", "up", "down")
    columns = [[getattr(one, name) for one in arrays] for name in fields]
    ends = [np.cumsum([0, *(part.size for part in column)]) for column in columns[:-1]]
    return Graphs(
        np.array([one.layout for one in arrays]),
        np.array([one.even for one in arrays], np.uint8),
        np.array(ends),
        *(column[0] if len(column) == 1 else np.concatenate(column) for column in columns),
    )


# -- arms that move at rest ------------------------------------------------------------------------


class ChainTrader:
    """All groups of a problem whose arms move at rest, from stage `first` on: see `GraphTrader`.

    masses (states,): of arms in every state then. Averages begin with an equal `part` of all arms
    pulled at every stage. Indices are those of the states that arms may be in at a stage, or of
    `every` state.
    """

    left_out = 0.0

    def __init__(
        self,
        problem: Problem,
        states: ChainStates,
        masses: Floats,
        first: int,
        part: float,
        *,
        every: bool = False,
    ) -> None:
        self.chains, self.first_masses = states.arrays, masses
        sizes = np.diff(self.chains.start)
        self.groups = sizes.size
        self._group = np.repeat(np.arange(sizes.size), sizes)  # (states,)
        refuse_large_chains(problem, masses.size, 3)
        self.factors = stage_factors(problem)[first:]
        rewards = np.concatenate([self.chains.rest_reward, self.chains.pull_reward])
        self.largest = float(np.abs(rewards).max() * np.abs(self.factors).max())
        shape = (len(self.factors), masses.size)
        self.states = shape[0] * shape[1]
        self._index, self._average, self._pulled = np.zeros((3, *shape))
        self._later, self._rest, self._now = np.zeros((3, masses.size))
        self._reached = np.full(shape, every)
        self._reached[0] |= masses > 0.0
        for stage in range(shape[0] - 1):
            reach_further(self.chains, self._reached[stage], self._reached[stage + 1])
        self.reset()
        for stage in range(shape[0]):
            self.trade(stage, Deal(np.zeros(sizes.size), np.inf, part), 1.0)

    def begin(self, *, softly: bool = False) -> None:
        self._now[:] = 0.0

    def price(self, stage: int, part: int, parts: int) -> None:
        self._later, self._now = self._now, self._later
        how = (self._reached[stage], self._later, self._rest, self._index[stage])
        stage_margins(self.chains, self.factors[stage], *how)

    def settle(self, stage: int, cost: Floats, width: float) -> None:
        over = self._index[stage] - cost[self._group]
        if width > 0.0:
            part = np.clip(over, 0.0, width)
            self._now[:] = self._rest + part * (over - 0.5 * part) / width
        else:
            self._now[:] = self._rest + np.maximum(over, 0.0)

    def value(self) -> float:
        return float((self.first_masses * self._now).sum())

    def offers(self, stage: int, *, averaged: bool) -> Offers:
        mass = self._average[stage] if averaged else self._mass
        present = np.flatnonzero(mass > 0.0)
        count = np.bincount(self._group[present], minlength=self.groups)
        return Offers(self._index[stage][present], mass[present], count)

    def reset(self) -> None:
        self._mass, self._after = self.first_masses.copy(), np.zeros(self.first_masses.size)

    def trade(self, stage: int, deal: Deal, blend: float) -> tuple[Floats, Floats]:
        mass = self._mass
        if deal.parts.size:
            pulled = np.zeros(mass.size)
            pulled[mass > 0.0] = deal.parts * mass[mass > 0.0]
        else:
            over = self._index[stage] - deal.cost[self._group]
            at_cost = np.where(over >= -deal.slack, deal.at_cost * mass, 0.0)
            pulled = np.where(over > deal.slack, mass, at_cost)
        if blend:
            self._average[stage] += blend * (mass - self._average[stage])
            self._pulled[stage] += blend * (pulled - self._pulled[stage])
        spent, reward = np.zeros((2, self.groups))
        move(self.chains, self.factors[stage], mass, pulled, self._after, spent, reward)
        self._mass, self._after = self._after, mass
        return spent, reward

    def deal(self, parts: Floats) -> Deal:
        """Return the deal that pulls parts (states,) of the masses under way."""
        return Deal(np.zeros(self.groups), parts=parts[self._mass > 0.0])

    def last_rewards(self) -> Floats:
        return np.zeros(self.groups)

    def first_terms(self, cost: Floats) -> tuple[Floats, Floats]:
        """Return index and cost of every state at the first stage; cost (groups,)."""
        return np.asarray(self._index[0]), np.asarray(cost[self._group])

    def shares(self, costs: Floats) -> Floats:
        """Part of the average mass of every state that is pulled, (stages, states).

        The averages are a feasible relaxed solution, as good as the flows that they are made of. A
        state without mass has the part that its index says; costs (stages, groups).
        """
        some = self._average > 1e-9
        by_index = (self._index > costs[:, self._group]).astype(float)
        return np.where(some, self._pulled / np.where(some, self._average, 1.0), by_index)


# -- one linear program --------------------------------------------------------------------------


def optimal_occupations(
    chains: Chains, factors: Floats, masses: Floats, pulls: Floats
) -> tuple[Floats, Floats] | None:
    """Return optimal prices (T,) and parts of every state that are pulled, (T, N); None if none.

    The relaxed problem of few states as one linear program over occupations:

        x[t, a, s]  expected arms in state s at stage t that rest (a = 0), are pulled (a = 1)
        maximise    sum of x[t, a, s] f[t] r_a(s)
        subject to  sum_s x[t, 1, s] = pulls[t]                             (dual: price of stage t)
                    sum_a x[t, a, s'] = sum_{a, s} x[t-1, a, s] P_a(s, s'), first masses at t = 0

    Where many states share one price, rounds stall and mixtures of whole flows converge slowly;
    here every state is split by itself. Beyond some thousand states the program is slower.
    factors (T, groups): of rewards; masses (N,): of arms before the first stage.
    """
    from scipy.optimize import linprog  # late: scipy takes half a second to load
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    stages, states = pulls.size, masses.size
    rewards = np.stack([chains.rest_reward, chains.pull_reward])
    gains = np.repeat(factors, np.diff(chains.start), axis=1)[:, None, :] * rewards
    unit = float(np.abs(gains).max()) or 1.0
    sides = (
        (chains.rest_weight, chains.rest_to, chains.rest_at),
        (chains.pull_weight, chains.pull_to, chains.pull_at),
    )
    rest, pull = (csr_array(side, shape=(states, states)).T for side in sides)
    here, before = eye_array(states), eye_array(stages, k=-1)
    pulled = csr_array(np.repeat([[0.0, 1.0]], states, axis=1))  # of every action and state
    balance = kron(eye_array(stages), hstack([here, here])) - kron(before, hstack([rest, pull]))
    rows = vstack([kron(eye_array(stages), pulled), balance])
    right = np.concatenate([pulls, masses, np.zeros((stages - 1) * states)])
    cost = -gains.ravel() / unit
    for method in METHODS:
        solved = linprog(cost, A_eq=rows, b_eq=right, method=method, options=EXACT)
        if solved.status == 0:
            break
    else:
        return None
    occupied = np.maximum(solved.x, 0.0).reshape(gains.shape)
    mass = occupied.sum(axis=1)
    parts = np.where(mass > EMPTY_MASS, occupied[:, 1] / np.maximum(mass, EMPTY_MASS), 0.0)
    return -unit * solved.eqlin.marginals[:stages], parts


Trader = GraphTrader | ChainTrader
