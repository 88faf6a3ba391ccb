"""DeCo in batches with prices chosen again at every stage, from a family around the dual's.

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

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..arm import ChainStates, OneArmValues
from ..prices import DualSolution, relaxed_solution, whole_solution
from ..problem import (
    DEFAULT_TIES,
    Arm,
    Problem,
    State,
    States,
    TieRule,
    best_mean_moments,
    remaining_problem,
)
from ..support import Cache, Floats, Ints
from .allocation import Random, distinct_arms
from .context import Context
from .deco import DecoPolicy, limit_prices, shared_units, values_of_arms
from .index_policy import IndexPolicy
from .requirements import batches, binary_or_restless, binary_outcomes, single_pulls
from .restless import chain_places, mixed_ties

SCALES = (0.0, 0.15, 0.3, 0.5, 0.75, 1.0, 1.4)
SHIFTS = 10  # on either side of none
WIDEST = 3.0  # of the shifts, in standard deviations of the best success probability
MEMBER_BYTES = 4 << 30  # of the values of all members that are kept


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
    at_fixed_prices = plans_resources = False
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
            for code in np.unique(around[around >= 0]).tolist():
                wanted = moving[np.any(around == code, axis=1)]
                wanted = wanted[np.isnan(phi[wanted, code])]
                if wanted.size:
                    phi[wanted, code] = self._phi(code, stage, parts, where[wanted])
            around_phi = np.where(around >= 0, phi[moving[:, None], np.maximum(around, 0)], np.inf)
            best = around[np.arange(moving.size), around_phi.argmin(axis=1)]
            changes = best != place[moving]
            place[moving] = best
            moving = moving[changes]
        return place

    def _values_at(self, code: int) -> OneArmValues:
        """Return the values at the prices of a member."""
        prices = self.family[code]
        return self._members.get_or_make(
            code, lambda: OneArmValues(self.problem, prices, kept_bytes=0)
        )

    def _phi(self, code: int, stage: int, parts: Sequence[Floats], where: Ints) -> Floats:
        """Evaluate the dual function of the remaining stages in the episodes of `where`."""
        relaxation = self._values_at(code)

        def lookup(k: int, stats: Floats) -> Floats:
            return relaxation.values_of(stage, k, stats)[:, None]

        values = values_of_arms(self.problem, parts, lookup)[:, 0]
        left = self.problem.pulls[stage:] @ self.family[code, stage:]
        return np.asarray(values[where].sum(axis=1) + float(left))

    def _neighbours(self, codes: Ints) -> Ints:
        """Return a member and its neighbours on the grid, (codes, 9); -1 outside the grid."""
        rows, columns = self._shape
        i, j = np.divmod(codes, columns)
        step = np.array([(0, 0)] + [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b])
        ni, nj = i[:, None] + step[:, 0], j[:, None] + step[:, 1]
        inside = (ni >= 0) & (ni < rows) & (nj >= 0) & (nj < columns)
        return np.where(inside, ni * columns + nj, -1)


def _bytes(relaxation: OneArmValues) -> int:
    """Return the bytes of the values at all stages."""
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
        self._first = _deco(solution, ties)
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
        """Both in one joint state, at prices of the stages left."""
        state = states.state(0)
        # the deployment has no stage after it to price: there the index is the expected reward
        if stage == 0 or stage >= self.problem.horizon:
            return self._first.indices(stage, state), self._first.paid(0)
        money = None if self.problem.budget is None else float(states.left[0])
        left = remaining_problem(self.problem, stage, state, money)
        start = None if left.may_wait else self._first.prices[stage:]
        policy = _deco(whole_solution(left, tol=self._tol, start=start, workers=1))
        return policy.indices(0, State.fresh(left.n_arms)), policy.paid(0)

    def _restless(self, stage: int, states: States) -> tuple[Floats, Floats]:
        """Return both for arms that move at rest, ties by shares."""
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


def _deco(solution: DualSolution, ties: TieRule = DEFAULT_TIES) -> DecoPolicy:
    """DeCo at the prices of a solution."""
    return DecoPolicy(solution.problem, solution.prices, ties=ties, **limit_prices(solution))
