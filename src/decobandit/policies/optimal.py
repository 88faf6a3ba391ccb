"""The optimal policy: one step of look-ahead on the exact values of all joint states.

For problems small enough that these values can be kept, 8 bytes for each state of each stage, and
whose outcomes are finitely many.
"""

from __future__ import annotations

import numpy as np

from ..joint import optimum
from ..problem import DEFAULT_TIES, TIE_TOLERANCE, Problem, State, States, TieRule
from ..support import Floats, Ints, Report, Unsupported
from .allocation import Random, Ways, Weighed
from .index_policy import IndexPolicy
from .requirements import finite_outcomes


class OptimalPolicy(IndexPolicy):
    """Pulls the arms of largest expected reward in all.

    Ties are values closer than 1e-12 of what is at stake.

    Parameters
    ----------
    problem : Problem
        A small one: the values of all joint states are kept.
    ties : TieRule
        How ties are broken. With several pulls per stage: the arms pulled least so far, then those
        that stand first.
    limit_bytes, progress, workers
        As in `optimum`.

    Raises
    ------
    TooLarge
        If the values do not fit.

    Examples
    --------
    >>> from decobandit import Problem, State
    >>> from decobandit.policies import OptimalPolicy
    >>> policy = OptimalPolicy(Problem.uniform(arms=2, horizon=4))
    >>> round(policy.value, 6), policy.choose(State.parse("0/1,0/0"))
    (2.277778, (1,))
    """

    name = "optimal"
    symmetric = True
    serves_restless = True
    requires = (finite_outcomes,)
    cost = "decision"

    def __init__(
        self,
        problem: Problem,
        *,
        ties: TieRule = DEFAULT_TIES,
        limit_bytes: int | None = None,
        progress: Report | None = None,
        workers: int | None = None,
    ) -> None:
        super().__init__(problem, ties=ties if problem.pulls_per_stage == 1 else DEFAULT_TIES)
        self.optimum = optimum(
            problem, keep=True, limit_bytes=limit_bytes, progress=progress, workers=workers
        )
        assert self.optimum.tables is not None
        self._tables = self.optimum.tables
        self._allotments = np.array(self._tables.allotments)  # (A, K) units

    @property
    def value(self) -> float:
        return self.optimum.value

    def values(self, stage: int, states: States, rng: Random = None) -> Floats:
        """Return the expected reward to go of a pull; of several, units of the best allotment."""
        if self.problem.units > 1:
            return self._best_units(stage, states).astype(float)
        worths = self._tables.worths(stage, states)
        best = worths.max(axis=1, keepdims=True)
        tied = np.where(worths >= self._least(best), best, worths)
        return np.asarray(tied @ self._allotments)

    def indices(self, stage: int, state: State) -> Floats | None:
        several = stage < self.problem.horizon and self.problem.pulls_per_stage > 1
        return None if several else super().indices(stage, state)

    def share_units(self, stage: int, states: States, rng: Random) -> Ints:
        return self._best_units(stage, states)

    def _best_units(self, stage: int, states: States) -> Ints:
        """Units of the best allotment, (E, K); of tied ones, most to the arm pulled least."""
        worths = self._tables.worths(stage, states)
        tied = worths >= self._least(worths.max(axis=1, keepdims=True))
        order = np.argsort(states.pulls, axis=1, kind="stable")
        orders, place = np.unique(order, axis=0, return_inverse=True)
        chosen = np.empty(len(worths), np.int64)
        for number, arms in enumerate(orders):
            rows = place.reshape(-1) == number
            ranked = np.lexsort(-self._allotments[:, arms[::-1]].T)
            chosen[rows] = ranked[tied[rows][:, ranked].argmax(axis=1)]
        return np.asarray(self._allotments[chosen])

    def _least(self, best: Floats) -> Floats:
        """Values from here on are tied with the best."""
        return best - np.maximum(self._tolerance, TIE_TOLERANCE * np.abs(best))

    def probabilities(self, stage: int, states: States, rng: Random = None) -> Floats:
        dropped = states.allowed is not None and not np.all(states.allowed)
        if dropped or (states.pending is not None and np.any(states.pending)):
            raise Unsupported(
                f"policy {self.name!r} is optimal where all outcomes are known and all arms can be "
                "pulled: not with a delay, a share of control, or arms that are dropped",
                field="policy",
            )
        return super().probabilities(stage, states, rng)

    def weigh(self, stage: int, ways: Ways, taken: tuple[int, ...]) -> Weighed | None:
        """Return the exact value of the best set with each arm and those taken."""
        if stage >= self.problem.horizon or self.batches:
            return super().weigh(stage, ways, taken)
        states = States.of(self.problem, [state for state, _ in ways])
        worths = np.array([probability for _, probability in ways]) @ self._tables.worths(
            stage, states
        )
        worths[(self._allotments[:, list(taken)] == 0).any(axis=1)] = -np.inf
        values = np.where(self._allotments > 0, worths[:, None], -np.inf).max(axis=0)
        tied = worths >= self._least(worths.max())
        # of tied sets the one of the arms pulled least so far, which are the same in all ways
        order = np.argsort(states.pulls[0], kind="stable")
        best = np.flatnonzero(tied)[np.lexsort(-self._allotments[tied][:, order[::-1]].T)[0]]
        wanted = [arm for arm in order.tolist() if self._allotments[best, arm]]
        arm = next(arm for arm in wanted if arm not in taken)
        if self.problem.units > 1:
            return Weighed(values, arm=arm, what="value of the best set with it")
        alike = tuple(np.flatnonzero(self._allotments[tied].any(axis=0)).tolist())
        what = "value of this pull and all that follow"
        return Weighed(values, arm=arm, what=what, tied=alike)
