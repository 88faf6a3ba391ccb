"""DeCo: decisions at the prices that solve the dual, eq. (DeCo_policy).

    single pulls    argmax_a  ell_t^a(n^a) + delta_t^a[mu](n^a)
    batches         maximise  sum_k Q_t(s_k; a_k)   subject to  sum_k a_k = A

Single pulls: expected reward plus value of information, both of the arm alone at prices mu.
Batches: Q_t(s; a) is the value of a units now, before their price, and of the arm alone at the
prices of later stages. Q is not always concave in a: the knapsack is solved by dynamic programming
over arms, not by marginal gains. Of equal sums one is taken that gives less to arms that stand
later.

Arms that move at rest: the index is Q(pull) - Q(rest), and where states are at the price, the parts
of them that are pulled are those of the relaxed solution (`restless.py`).

If an experiment continues beyond its planned horizon, the remaining stages are a new problem, with
the posteriors as priors and the remaining stages as horizon. Its prices are solved once, at the
planned end, and used to the true end (`ReplannedDecoPolicy`).

DeCo-repriced: batches with prices chosen again at every stage, from a family around the dual's.

    premium_t = mu_t - u (bad_t + p* (good_t - bad_t))
    mu_t(s, d) = u (bad_t + (p* + d) (good_t - bad_t)) + s premium_t,    s >= 0

mu are the prices of the dual, of units of u pulls; p* is the success probability that the price of
the deployment, or of the last stage, pays for; good and bad are rewards, averaged over arms. A
member (s, d) has the level of the best arms shifted by d, and the price of information scaled by s.
At a stage, in a state, the member is taken that minimises the dual function of what is left

    phi = sum_k V_t(s_k) + A sum_{t' >= t} mu_t'

among a grid of members: the smallest bound on what can still be earned. Then units are given as in
`deco`. phi is convex in (s, d); the search goes downhill from the prices of the dual, and tables of
members are made when they are first needed.

Rolling DeCo: at every stage, solve the dual again from the current posteriors.

The problem that is left at stage t is a problem of its own: posteriors as priors, the remaining
stages as horizon. Its dual is solved anew, starting from the prices of the first solution, and the
arm of largest index at its first stage is pulled. So the prices take the outcomes so far into
account.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..arm import ChainStates, Cones, OneArmValues, Terms
from ..prices import (
    DualSolution,
    MoneyPlan,
    joined_prices,
    money_plans,
    relaxed_solution,
    whole_solution,
)
from ..problem import (
    DEFAULT_TIES,
    Arm,
    Problem,
    State,
    States,
    Stats,
    TieRule,
    best_mean_moments,
    remaining_problem,
)
from ..support import Cache, Floats, Ints, InvalidArgument
from .allocation import EPISODES_PER_THREAD, Random, distinct_arms, in_parts, mean_values
from .base import Context, Policy
from .index_policy import IndexPolicy
from .kernels.batches import share_each
from .kernels.episodes import Episodes, pull
from .requirements import (
    Requirement,
    batches,
    binary_or_restless,
    binary_outcomes,
    known_variances,
    single_pulls,
)
from .restless import chain_places, mixed_ties

Lookup = Callable[[int, Floats], Floats]  # (group, stats): (states, columns)
SCALES = (0.0, 0.15, 0.3, 0.5, 0.75, 1.0, 1.4)
SHIFTS = 10  # on either side of none
WIDEST = 3.0  # of the shifts, in standard deviations of the best success probability
MEMBER_BYTES = 4 << 30  # of the values of all members that are kept
FEW_STATES = 64  # whose indices are found one by one, without the table of a stage


class DecoPolicy(IndexPolicy):
    """DeCo at fixed prices. Tables are recomputed as needed, never stored on disk.

    Parameters
    ----------
    problem : Problem
        Problem to play.
    prices : array_like
        One per stage, (stages,), in batches of a unit; those of a solved dual make the policy of
        the paper.
    ties : TieRule
        How ties are broken; in batches, at the deployment.
    cones : Cones, optional
        Where the terms of single states come from, instead of whole tables.
    money_price : float
        Price of the money that pulls cost, where the problem has a budget.
    resource_prices : array, optional
        Prices of the resources that pulls use, (horizon, resources), where the problem has some.

    Examples
    --------
    >>> from decobandit import Problem, State
    >>> from decobandit.policies import DecoPolicy
    >>> policy = DecoPolicy(Problem.uniform(arms=2, horizon=3), [0.6, 0.55, 0.5])
    >>> policy.choose(State.parse("0/1,0/0"))
    (1,)
    """

    name = "deco"
    symmetric = True
    plans_budget = plans_resources = True
    serves_restless = True
    requires: ClassVar[tuple[Requirement, ...]] = (known_variances,)
    at_fixed_prices = True

    def __init__(
        self,
        problem: Problem,
        prices: npt.ArrayLike,
        *,
        ties: TieRule = DEFAULT_TIES,
        cones: Cones | None = None,
        money_price: float = 0.0,
        resource_prices: Floats | None = None,
    ) -> None:
        super().__init__(problem, ties=ties)
        self.money_price = money_price
        self.resource_prices = problem.supply * 0.0 if resource_prices is None else resource_prices
        special = money_price or resource_prices is not None
        priced = problem.charged(money_price, resource_prices) if special else problem
        self.relaxation = OneArmValues(priced, prices)
        self._cones = cones
        self.cost = "tables" if self.batches else "light"
        self.splits_index = not (self.batches or problem.is_restless or problem.may_wait)
        self._chains = ChainStates(problem) if problem.is_restless else None

    @classmethod
    def of(cls, solution: DualSolution, ties: TieRule = DEFAULT_TIES) -> Self:
        return cls(
            solution.problem,
            solution.prices,
            ties=ties,
            money_price=solution.budget_price or 0.0,
            resource_prices=solution.resource_prices,
        )

    @classmethod
    def make(cls, context: Context) -> Self:
        return cls.of(context.played, context.ties)

    @classmethod
    def successor(cls, context: Context, planned: int) -> Policy:
        """Solve the dual again for the remaining stages, from the posteriors at that time."""
        problem = context.problem
        if problem.is_restless or batches(problem) is None:  # prices of the true horizon
            return cls.make(context)
        return ReplannedDecoPolicy(problem, planned, ties=context.ties)

    @property
    def prices(self) -> Floats:
        return self.relaxation.prices

    def price(self, stage: int) -> float:
        units = self.problem.unit if stage < self.problem.horizon else 1
        return float(self.prices[stage]) / units

    def live(self, cones: Cones) -> DecoPolicy:
        if self.problem.may_wait or not self.problem.single_binary:
            return self
        return DecoPolicy(self.problem, self.prices, ties=self.ties, cones=cones)

    # -- single pulls -------------------------------------------------------------------------

    def _terms(self, stage: int, group: int, stats: Stats) -> Terms:
        source = self.relaxation if self._cones is None else self._cones
        return source.terms(stage, group, stats)

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        few = self._cones is not None or stats.size <= 2 * FEW_STATES
        if not (self.problem.single_binary and few):
            return self.relaxation.index(stage, group, stats)
        rows = map(tuple, stats.reshape(-1, 2).tolist())
        single = [self._terms(stage, group, row).index for row in rows]
        return np.array(single, dtype=float).reshape(stats.shape[:-1])

    def stage_index(self, stage: int) -> Floats:
        return self.relaxation.stage_index(stage)

    @cached_property
    def _shares(self) -> Floats:
        """Parts of states at the price that the relaxed solution pulls, (stages, states)."""
        return relaxed_solution(self.problem, self.all_prices()).shares

    def all_prices(self, first: int = 0) -> Floats:
        """Prices from a stage on as a market has them, those of resources included."""
        if self.problem.resources is None:
            return self.prices[first:]
        return joined_prices(self.problem, self.prices, self.resource_prices, first)

    def values(self, stage: int, states: States, rng: Random = None) -> Floats:
        values = super().values(stage, states, rng)
        if self._chains is None or not self._chains.exact:
            return values
        tie = self.price(stage), self._shares[stage], self.scale
        return mixed_ties(self._chains, states, values, *tie)

    def indices(self, stage: int, state: State) -> Floats | None:
        if self._chains is not None:  # before arms at the price are put in order
            return np.asarray(super().values(stage, States.of(self.problem, [state]))[0])
        return super().indices(stage, state)

    # -- batches ------------------------------------------------------------------------------

    def unit_indices(self, stage: int, group: int, stats: Floats) -> Floats:
        return np.diff(self.relaxation.unit_values(stage, group, stats), axis=-1)

    # -- budgets and resources ----------------------------------------------------------------

    def unit_worths(self, stage: int, states: States, rng: Random) -> tuple[Floats, Floats]:
        """Order by what is left of a unit's worth after the prices of what it uses."""
        values = self.unit_values_at(stage, states, rng)
        if self.problem.resources is None:
            return values, values
        return values, values + self.paid(stage)[:, None]

    def paid(self, stage: int) -> Floats:
        return np.asarray(self.problem.unit * self.problem.uses @ self.resource_prices[stage])

    @cached_property
    def _plans(self) -> list[tuple[MoneyPlan, DecoPolicy]]:
        """DeCo at lower and higher prices of money, for more or less money than planned."""
        plans = money_plans(self.problem, self.money_price)
        policies = [
            type(self)(self.problem, plan.prices, ties=self.ties, money_price=plan.money_price)
            for plan in plans
        ]
        return list(zip(plans, policies, strict=True))

    def unit_values_at(self, stage: int, states: States, rng: Random) -> Floats:
        """Between the two plans that are expected to take more and less than is left."""
        if not self.money_price or stage == 0:
            return super().unit_values_at(stage, states, rng)
        ahead = np.array([plan.ahead[stage] for plan, _ in self._plans])[::-1]
        place = np.interp(states.left, np.maximum.accumulate(ahead), np.arange(ahead.size))
        place = ahead.size - 1 - place
        units = self.problem.units if self.batches else 1
        values = np.zeros((*states.stats.shape[:2], units))
        for plan in range(ahead.size):
            weight = np.maximum(1.0 - np.abs(place - plan), 0.0)
            rows, (_, policy) = weight > 0.0, self._plans[plan]
            if rows.any():
                planned = IndexPolicy.unit_values_at(policy, stage, states.rows(rows), rng)
                values[rows] += weight[rows, None, None] * planned
        return values

    def share_units(self, stage: int, states: States, rng: Random) -> Ints:
        return shared_units(self.relaxation, stage, states)


def shared_units(relaxation: OneArmValues, stage: int, states: States) -> Ints:
    """Return the units of every arm that maximise the sum of their values Q, (E, K)."""
    parts, where = distinct_arms(states)
    values = values_of_arms(relaxation.problem, parts, partial(relaxation.unit_values, stage))
    return knapsacks(values, where, states.allowed)


def values_of_arms(problem: Problem, parts: Sequence[Floats], lookup: Lookup) -> Floats:
    """Values of distinct states, joined; on average over the outcomes that a unit still misses."""
    values = []
    for k, stats in enumerate(parts):
        model = problem.groups[k].model
        units = problem.unit if model.counts_good else 1
        missing = -model.pulls(stats).astype(np.int64) % units
        values.append(mean_values(model, partial(lookup, k), stats, missing))
    return np.concatenate(values)


def knapsacks(values: Floats, where: Ints, allowed: npt.NDArray[np.bool_] | None = None) -> Ints:
    """Units of every arm that maximise the sum of their values, (E, K); by threads."""
    none = np.where(np.arange(values.shape[1]) == 0, 0.0, -np.inf)
    if allowed is not None and not allowed.all():
        where[~allowed] = len(values)
        values = np.vstack([values, none])
    units = np.empty(where.shape, dtype=np.int64)
    in_parts(
        len(where),
        EPISODES_PER_THREAD,
        lambda first, last: share_each(values, where, first, last, units),
    )
    return units


class ReplannedDecoPolicy(Policy):
    """Plays the stages from `planned` on of a problem with the true horizon; only simulated."""

    name = "deco"
    randomised = True  # only where ties are random, but it has no probabilities by state

    def __init__(
        self, problem: Problem, planned: int, *, tol: float = 1e-3, ties: TieRule = DEFAULT_TIES
    ) -> None:
        self.problem = problem
        self.planned = planned
        self._tol = tol
        self.ties = ties

    def select(self, stage: int, state: State, rng: Random = None) -> tuple[int, ...]:
        left = remaining_problem(self.problem, stage, state)
        policy = DecoPolicy(left, whole_solution(left, tol=self._tol).prices, ties=self.ties)
        return policy.select(0, State.fresh(left.n_arms), rng)

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        """Plan again in every episode, then play it to the end."""
        if (first, last) != (self.planned, self.problem.horizon):
            raise InvalidArgument(f"stages {first}..{last - 1}: must be all from {self.planned} on")
        prices = None
        for e in range(len(episodes.pulls)):
            before = _state(episodes, e)
            left = remaining_problem(self.problem, first, before)
            prices = whole_solution(left, tol=self._tol, start=prices, workers=1).prices
            policy = DecoPolicy(left, prices, ties=self.ties)
            for t in range(last - first):
                now = _state(episodes, e)
                since = State.of_counts(
                    np.subtract(now.good, before.good).tolist(),
                    np.subtract(now.bad, before.bad).tolist(),
                )
                for i, arm in enumerate(policy.select(t, since, rng)):
                    pull(episodes, e, t, i, arm)


def _state(episodes: Episodes, e: int) -> State:
    good, pulls = episodes.good[e], episodes.pulls[e]
    return State.of_counts(good.tolist(), (pulls - good).tolist())


# -- prices chosen again at every stage ----------------------------------------------------------


def price_family(problem: Problem, prices: Floats) -> Floats:
    """Return the prices of a unit of every member (s, d), (scales, shifts, stages)."""
    T, unit = problem.horizon, float(problem.unit)
    good = np.mean([group.reward_good for group in problem.groups], axis=0)
    bad = np.mean([group.reward_bad for group in problem.groups], axis=0)
    size = np.append(np.full(T, unit), 1.0)[: problem.stages]
    slope = size * (good - bad)  # (stages,) what a shift of 1 adds to each price
    last = slope[-1]
    level = (prices[-1] - size[-1] * bad[-1]) / last if last else 0.0
    base = size * bad + level * slope
    one_pull = Problem(
        horizon=1, arms=tuple(Arm(name=arm.name, prior=arm.prior) for arm in problem.arms)
    )
    first, second = best_mean_moments(one_pull)  # of the best success probability
    spread = WIDEST * float(np.sqrt(max(second - first**2, 1e-12)))
    shifts = np.linspace(-spread, spread, 2 * SHIFTS + 1) if slope.any() else np.zeros(1)
    scaled = np.array(SCALES)[:, None, None] * (prices - base)
    return np.asarray(base + shifts[:, None] * slope + scaled)


class RepricedDecoPolicy(DecoPolicy):
    """DeCo with the prices of the family that bound best what is left; its origin: `prices`."""

    name = "deco-repriced"
    symmetric = True
    at_fixed_prices = plans_budget = plans_resources = False
    requires = (batches, binary_outcomes)

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(problem, prices, ties=ties)
        family = price_family(problem, self.prices)
        self._shape = family.shape[:2]
        self.family = family.reshape(-1, problem.stages)  # by the code of a member
        self.origin = SCALES.index(1.0) * self._shape[1] + self._shape[1] // 2
        self._members = Cache[int, OneArmValues](MEMBER_BYTES, size=_bytes)

    @classmethod
    def make(cls, context: Context) -> Self:
        return cls(context.problem, context.solution.prices, ties=context.ties)

    def share_units(self, stage: int, states: States, rng: Random) -> Ints:
        chosen = self.members(stage, *distinct_arms(states))
        units = np.empty(states.stats.shape[:2], dtype=np.int64)
        for code in np.unique(chosen).tolist():
            rows = np.flatnonzero(chosen == code)
            units[rows] = shared_units(self._values_at(code), stage, states.rows(rows))
        return units

    def members(self, stage: int, parts: Sequence[Floats], where: Ints) -> Ints:
        """Return the code of the member of the smallest bound in every episode, (E,)."""
        phi = np.full((len(where), len(self.family)), np.nan)
        place = np.full(len(where), self.origin)
        moving = np.arange(len(where))
        while moving.size:
            around = self._neighbours(place[moving])
            for code in np.unique(around).tolist():
                wanted = moving[np.any(around == code, axis=1)]
                wanted = wanted[np.isnan(phi[wanted, code])]
                if wanted.size:
                    phi[wanted, code] = self._phi(code, stage, parts, where[wanted])
            least = phi[moving[:, None], around].argmin(axis=1)
            best = around[np.arange(moving.size), least]
            changes = best != place[moving]
            place[moving] = best
            moving = moving[changes]
        return place

    def _values_at(self, code: int) -> OneArmValues:
        prices = self.family[code]
        return self._members.get_or_make(
            code, lambda: OneArmValues(self.problem, prices, kept_bytes=0)
        )

    def _phi(self, code: int, stage: int, parts: Sequence[Floats], where: Ints) -> Floats:
        """Evaluate the dual function of the remaining stages in the episodes of `where`."""
        lookup = partial(self._values_at(code).values_of, stage)
        values = values_of_arms(self.problem, parts, lookup)
        left = self.problem.pulls[stage:] @ self.family[code, stage:]
        return np.asarray(values[where].sum(axis=1) + float(left))

    def _neighbours(self, codes: Ints) -> Ints:
        """Return a member and its neighbours on the grid, (codes, 9); at its ends some twice."""
        (rows, columns), (i, j) = self._shape, np.divmod(codes, self._shape[1])
        step = np.array([(0, 0)] + [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b])
        near_i = (i[:, None] + step[:, 0]).clip(0, rows - 1)
        return np.asarray(near_i * columns + (j[:, None] + step[:, 1]).clip(0, columns - 1))


def _bytes(relaxation: OneArmValues) -> int:
    stages, groups = range(relaxation.problem.horizon + 1), range(len(relaxation.problem.groups))
    return sum(relaxation.values(stage, k).nbytes for stage in stages for k in groups)


class RollingDecoPolicy(IndexPolicy):
    """DeCo with the dual solved again at every decision.

    Parameters
    ----------
    solution : DualSolution
        Of the whole problem: prices of the first stage, and where later searches start.
    tol : float
        Relative gap of the later ones.
    ties : TieRule
        How ties are broken.

    Examples
    --------
    >>> from decobandit import Problem, State, solve
    >>> from decobandit.policies import RollingDecoPolicy
    >>> policy = RollingDecoPolicy(solve(Problem.uniform(arms=3, horizon=10)))
    >>> policy.choose(State.parse("0/1,0/0,1/1"))
    (2,)
    """

    name = "deco-rolling"
    symmetric = True
    plans_budget = plans_resources = True
    cost = "solve"
    serves_restless = True
    requires = (single_pulls, binary_or_restless)
    most_ways = 16

    def __init__(
        self, solution: DualSolution, *, tol: float = 1e-4, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(solution.problem, ties=ties)
        self._first = DecoPolicy.of(solution, ties)
        self._tol = tol
        self.splits_index = not self.problem.is_restless
        self._chains = ChainStates(self.problem) if self.problem.is_restless else None

    @classmethod
    def make(cls, context: Context) -> RollingDecoPolicy:
        return cls(context.solution, tol=context.tol, ties=context.ties)

    def values(self, stage: int, states: States, rng: Random = None) -> Floats:
        return self._solved_rows(stage, states)[0]

    def unit_worths(self, stage: int, states: States, rng: Random) -> tuple[Floats, Floats]:
        if self.problem.resources is None:
            return super().unit_worths(stage, states, rng)
        values, paid = self._solved_rows(stage, states)
        return values[..., None], (values + paid)[..., None]

    def _solved_rows(self, stage: int, states: States) -> tuple[Floats, Floats]:
        """Index of every arm, and what its pull pays for resources, (E, K); equal states once."""
        flat = states.stats.reshape(len(states), -1)
        if self.problem.budget is not None:
            flat = np.column_stack([flat, states.left])
        _, first, place = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        solved = self._solved if self._chains is None else self._restless
        pairs = [solved(stage, states.rows([e])) for e in first]
        values, paid = (np.array(part, dtype=float) for part in zip(*pairs, strict=True))
        return values[place.reshape(-1)], paid[place.reshape(-1)]

    def _solved(self, stage: int, states: States) -> tuple[Floats | None, Floats]:
        state = states.state(0)
        # the deployment has no stage after it to price: there the index is the expected reward
        if stage == 0 or stage >= self.problem.horizon:
            return self._first.indices(stage, state), self._first.paid(0)
        money = None if self.problem.budget is None else float(states.left[0])
        left = remaining_problem(self.problem, stage, state, money)
        start = None if left.may_wait else self._first.prices[stage:]
        policy = DecoPolicy.of(whole_solution(left, tol=self._tol, start=start, workers=1))
        return policy.indices(0, State.fresh(left.n_arms)), policy.paid(0)

    def _restless(self, stage: int, states: States) -> tuple[Floats, Floats]:
        assert self._chains is not None
        codes, weights = chain_places(self._chains, states)
        size = self._chains.size
        masses = np.bincount(codes.ravel(), weights.ravel(), size).astype(float)
        start = self._first.all_prices(stage)
        left = relaxed_solution(self.problem, start, first=stage, masses=masses, tol=self._tol)
        price = float(left.prices[0])
        paid = left.first_costs - price
        index, pays = ((weights * x[codes]).sum(axis=-1) for x in (left.first_index - paid, paid))
        tie = price, left.shares[0], self.scale
        return mixed_ties(self._chains, states, index, *tie)[0], pays[0]
