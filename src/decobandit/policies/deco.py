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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Self

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
from ..problem import DEFAULT_TIES, Problem, State, States, Stats, TieRule, remaining_problem
from ..support import Floats, Ints, InvalidArgument
from .allocation import ArmIndex, Random, distinct_arms, in_parts
from .base import Policy
from .context import Context
from .index_policy import IndexPolicy
from .kernels.batch_units import share_each
from .kernels.episodes import Episodes, pull
from .requirements import Requirement, batches, known_variances
from .restless import mixed_ties
from .shares import EPISODES_PER_THREAD


def limit_prices(solution: DualSolution) -> dict[str, Any]:
    """Return the prices of money and of resources, where a solution has some."""
    prices = {
        "money_price": solution.budget_price,
        "resource_prices": solution.resource_prices,
    }
    return {name: price for name, price in prices.items() if price is not None}


Lookup = Callable[[int, Floats], Floats]  # (group, stats): (states, columns)
FEW_STATES = 8  # whose indices are found one by one, without the table of a stage


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
    def make(cls, context: Context) -> Self:
        solution = context.played if cls.at_fixed_prices else context.solution
        return cls(context.problem, solution.prices, ties=context.ties, **limit_prices(solution))

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

    def terms(self, stage: int, state: State) -> list[Terms]:
        """Return expected reward and value of information of every arm; binary outcomes."""
        return [
            self._terms(stage, int(group), good, bad)
            for group, good, bad in zip(
                self.problem.group_of_arm, state.good, state.bad, strict=True
            )
        ]

    def _terms(self, stage: int, group: int, good: int, bad: int) -> Terms:
        source = self.relaxation if self._cones is None else self._cones
        return source.terms(stage, group, (good, bad))

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        if not self.problem.single_binary:
            return self.relaxation.index(stage, group, stats)
        g, b = (stats[..., i].astype(np.int64) for i in (0, 1))
        if self._cones is not None or g.size <= FEW_STATES:
            single = [
                self._terms(stage, group, int(x), int(y)).index
                for x, y in zip(g.ravel(), b.ravel(), strict=True)
            ]
            return np.array(single).reshape(g.shape)
        n = g + b
        return np.asarray(self.stage_index(stage)[group, n * (n + 1) // 2 + g])

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
        if self.problem.single_binary:
            return np.array([terms.index for terms in self.terms(stage, state)])
        return super().indices(stage, state)

    def arm_index(self, stage: int, group: int, stats: Stats) -> ArmIndex:
        if not (self.problem.single_binary and self.splits_index):
            return super().arm_index(stage, group, stats)
        terms = self._terms(stage, group, int(stats[0]), int(stats[1]))
        return ArmIndex(
            terms.index,
            expected_reward=terms.expected_reward,
            value_of_information=terms.value_of_information,
            price=self.price(stage),
        )

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
        """Return what a unit of every arm pays for resources at a stage, (K,)."""
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
    """Return `lookup(group, stats)` (S, columns) of the states of every group, joined.

    Where some outcomes of a unit of binary arms are pending, the average over what they may be.
    """
    values = []
    for k, stats in enumerate(parts):
        model = problem.groups[k].model
        missing = (-model.pulls(stats) % problem.unit).astype(np.int64)
        if not model.counts_good or not missing.any():
            values.append(lookup(k, stats))
            continue
        averages = np.empty(len(stats), dtype=object)
        for count in np.unique(missing).tolist():
            rows = np.flatnonzero(missing == count)
            law = model.ahead(stats[rows], count, problem.unit)
            assert law is not None  # fewer than a unit are missing
            weights, ahead = law
            columns = lookup(k, ahead.reshape(-1, model.width)).reshape(*weights.shape, -1)
            averages[rows] = list((weights[..., None] * columns).sum(axis=1))
        values.append(np.stack(averages.tolist()))
    return np.concatenate(values)


def knapsacks(values: Floats, where: Ints, allowed: npt.NDArray[np.bool_] | None = None) -> Ints:
    """Units of every arm that maximise the sum of their values, (E, K); by threads.

    Arms that are not allowed get none; where (E, K) is changed for them.
    """
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
        """Choose as if the planned end were now."""
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
                since = State(
                    tuple(np.subtract(now.good, before.good).tolist()),
                    tuple(np.subtract(now.bad, before.bad).tolist()),
                )
                for i, arm in enumerate(policy.select(t, since, rng)):
                    pull(episodes, e, t, i, arm)


def _state(episodes: Episodes, e: int) -> State:
    good, pulls = episodes.good[e], episodes.pulls[e]
    return State(tuple(good.tolist()), tuple((pulls - good).tolist()))
