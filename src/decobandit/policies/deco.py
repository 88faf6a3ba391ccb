"""DeCo: pull the arm of largest index at the prices that solve the dual, eq. (DeCo_policy).

    argmax_a  ell_t^a(n^a) + delta_t^a[mu](n^a)

expected reward plus value of information, both of the arm alone at prices mu.

If an experiment continues beyond its planned horizon, the remaining stages are a new problem, with
the posteriors as priors and the remaining stages as horizon. Its prices are solved once, at the
planned end, and used to the true end (`ReplannedDecoPolicy`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arm import Cones, OneArmValues, Terms
from ..prices import DualSolution, at_canonical_prices, whole_solution
from ..problem import DEFAULT_TIES, Problem, State, TieRule, remaining_problem
from ..support import Floats, shown
from .base import Policy
from .context import Context
from .fixed_prices import FixedPricePolicy
from .index_policy import IndexPolicy
from .kernels.episodes import Episodes, pull
from .records import ArmIndex


class DecoPolicy(FixedPricePolicy, IndexPolicy):
    """DeCo at fixed prices. Tables are recomputed as needed, never stored on disk.

    Parameters
    ----------
    problem : Problem
        What it is made for.
    prices : array_like
        One per stage, (stages,); those of a solved dual make the policy of the paper.
    ties : TieRule
        How ties are broken.
    cones : Cones, optional
        Where the terms of single states come from, instead of whole tables.

    Examples
    --------
    >>> from decobandit import DecoPolicy, Problem, State
    >>> policy = DecoPolicy(Problem.uniform(arms=2, horizon=3), [0.6, 0.55, 0.5])
    >>> policy.choose(State.parse("0/1,0/0"))
    (1,)
    """

    name = "deco"
    kind_place = "decobandit.policies.kinds.rules:KindDecoPolicy"
    kind_batch_place = "decobandit.policies.kinds.batches:KindBatchDecoPolicy"
    batch_place = "decobandit.policies.batches.deco:BatchDecoPolicy"
    splits_index = True
    relaxation: OneArmValues

    def __init__(
        self,
        problem: Problem,
        prices: npt.ArrayLike,
        *,
        ties: TieRule = DEFAULT_TIES,
        cones: Cones | None = None,
    ) -> None:
        super().__init__(problem, ties=ties)
        self.relaxation = OneArmValues(problem, prices)
        self._source = self.relaxation if cones is None else cones
        self._groups = problem.group_of_arm

    @classmethod
    def successor(cls, context: Context, planned: int) -> Policy:
        """The dual solved again for the stages left, from the posteriors of that moment."""
        return ReplannedDecoPolicy(context.problem, planned, ties=context.ties)

    def live(self, cones: Cones) -> DecoPolicy:
        return DecoPolicy(self.problem, self.prices, ties=self.ties, cones=cones)

    def tables_at(self, prices: Floats) -> OneArmValues | None:
        return self.relaxation if np.array_equal(prices, self.prices) else None

    def terms(self, stage: int, state: State) -> list[Terms]:
        """Expected reward and value of information of every arm."""
        return [
            self._source.terms(stage, int(group), (good, bad))
            for group, good, bad in zip(self._groups, state.good, state.bad, strict=True)
        ]

    def indices(self, stage: int, state: State) -> Floats:
        return np.array([terms.index for terms in self.terms(stage, state)])

    def index_of(self, stage: int, group: int, good: int, bad: int) -> float:
        return self._source.terms(stage, group, (good, bad)).index

    def arm_index(self, stage: int, group: int, good: int, bad: int) -> ArmIndex:
        terms = self._source.terms(stage, group, (good, bad))
        return ArmIndex(
            terms.index,
            expected_reward=terms.expected_reward,
            value_of_information=terms.value_of_information,
            price=self.price(stage),
        )

    def stage_index(self, stage: int) -> Floats:
        return self.relaxation.stage_index(stage)


def deco(solution: DualSolution, *, ties: TieRule = DEFAULT_TIES) -> DecoPolicy:
    """The DeCo policy of a solved dual, at canonical prices.

    They are the same for every solution of a problem, whatever its tolerance; `DecoPolicy` plays
    the prices of a solution itself. Problems with millions of states have no canonical prices:
    there both are the same.

    Parameters
    ----------
    solution : DualSolution
        Problem and prices, as `solve` gives them.
    ties : TieRule
        How ties are broken.

    Returns
    -------
    DecoPolicy

    Examples
    --------
    >>> from decobandit import Problem, State, deco, solve
    >>> policy = deco(solve(Problem.uniform(arms=3, horizon=10)))
    >>> policy.choose(State.parse("0/1,0/0,1/1"))
    (2,)
    """
    if not isinstance(solution, DualSolution):
        raise TypeError(
            f"solution: {shown(solution)} is not a decobandit.DualSolution; solve(problem) makes "
            'one, and make_policy(problem, "deco") does both'
        )
    return DecoPolicy(solution.problem, at_canonical_prices(solution).prices, ties=ties)


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

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """The choice if the planned end were now."""
        left = remaining_problem(self.problem, stage, state)
        policy = DecoPolicy(left, whole_solution(left, tol=self._tol).prices, ties=self.ties)
        return policy.select(0, State.fresh(left.n_arms), rng)

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        """Plan again in every episode, then play it to the end."""
        if (first, last) != (self.planned, self.problem.horizon):
            raise ValueError(f"stages {first}..{last - 1}: must be all from {self.planned} on")
        prices = None
        for e in range(len(episodes.pulls)):
            before = _state(episodes, e)
            left = remaining_problem(self.problem, first, before)
            prices = whole_solution(left, tol=self._tol, start=prices, workers=1).prices
            policy = DecoPolicy(left, prices, ties=self.ties)
            for t in range(last - first):
                now = _state(episodes, e)
                seen = State(
                    tuple(np.subtract(now.good, before.good).tolist()),
                    tuple(np.subtract(now.bad, before.bad).tolist()),
                )
                for i, arm in enumerate(policy.select(t, seen, rng)):
                    pull(episodes, e, t, i, arm)


def _state(episodes: Episodes, e: int) -> State:
    good, pulls = episodes.good[e], episodes.pulls[e]
    return State(tuple(good.tolist()), tuple((pulls - good).tolist()))
