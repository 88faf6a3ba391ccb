"""The master problem: the best mixture of flows found so far, by linear programming (HiGHS).

    maximise    sum_ki  w_ki reward_ki
    subject to  sum_ki  w_ki spent_ki[t] = pulls[t]   (price of stage t: its dual; or at most)
                sum_i   w_ki = 1 for every group k,  w >= 0

Every column is a policy of one group, so a solution is a feasible randomised relaxed policy and its
value a lower bound on the dual minimum; its dual prices are the next prices to try. It does not
depend on bandits.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from ..support import Floats

# after new columns the old basis is still feasible: the primal simplex method goes on from there
PRIMAL_SIMPLEX = 4
TOLERANCE, PRESOLVE = 1e-10, "off"
# the bound of a mixture is computed from its residual, so that a larger tolerance does no harm
OTHER_WAYS = ((PRESOLVE, TOLERANCE), ("choose", TOLERANCE), (PRESOLVE, 10.0 * TOLERANCE))
LONGEST_RUN = 0.5  # seconds until the solver returns, so that Ctrl-C works, and goes on
UNUSED_SOLVES = 10  # after which a column that is not part of the mixture is dropped
FEWEST_DROPPED = 50  # columns, at a time


@dataclass(frozen=True)
class Mixture:
    """Solution of the master problem."""

    bound: float
    prices: Floats


class Master:
    """Columns are added, and dropped where they have not been of use for long.

    Each solve starts from the basis of the one before. What is dropped is found again if it is
    needed: a bound that was proven stays.
    """

    def __init__(
        self,
        pulls: Floats,
        groups: int,
        *,
        unit: float = 1.0,
        largest_price: float,
        at_most: bool = False,
    ) -> None:
        self._pulls, self._at_most = pulls, at_most
        self._unit = unit  # of rewards: the solver's tolerances are absolute
        self._largest_price = largest_price
        self._group = np.zeros(0, np.int64)  # of every column, as what it earns and spends
        self._earned, self._spent = np.zeros(0), np.zeros((0, pulls.size))
        self._unused = np.zeros(0, np.int64)  # solves since it was part of the mixture
        self._lp = highspy.Highs()
        self._lp.setOptionValue("output_flag", False)
        self._lp.setOptionValue("simplex_strategy", PRIMAL_SIMPLEX)
        self._set(PRESOLVE, TOLERANCE)
        empty = np.array([], dtype=np.int32)
        for row, right in enumerate((*pulls, *np.ones(groups))):
            least = -highspy.kHighsInf if at_most and row < pulls.size else right
            self._lp.addRow(least, right, 0, empty, empty.astype(float))
        self._lp.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def add(self, reward: Floats, spent: Floats) -> None:
        """One column per group: reward (G,), spent (G, T)."""
        stages = self._pulls.size
        for k, (earned, pulls) in enumerate(zip(reward, spent, strict=True)):
            rows = np.append(np.flatnonzero(pulls), stages + k).astype(np.int32)
            entries = np.append(pulls[pulls != 0.0], 1.0)
            self._lp.addCol(earned / self._unit, 0.0, highspy.kHighsInf, rows.size, rows, entries)
        self._group = np.append(self._group, np.arange(reward.size))
        self._earned = np.append(self._earned, reward)
        self._spent = np.concatenate([self._spent, spent])
        self._unused = np.append(self._unused, np.zeros(reward.size, np.int64))

    @property
    def columns(self) -> int:
        """How many there are now."""
        return self._earned.size

    def solve(self) -> Mixture | None:
        """Return the best mixture, or None if the solver did not find one."""
        if not self._solved() and not any(self._solved_again(*way) for way in OTHER_WAYS):
            return None
        solution = self._lp.getSolution()
        prices = self._unit * np.array(solution.row_dual)[: self._pulls.size]
        weights = np.maximum(np.array(solution.col_value), 0.0)
        mixture = Mixture(self._bound(weights), prices)
        self._drop(weights, np.abs(np.array(solution.col_dual)))
        return mixture

    def _drop(self, weights: Floats, reduced_costs: Floats) -> None:
        """Forget columns that have had neither weight nor a reduced cost of zero for long."""
        used = (weights > 0.0) | (reduced_costs <= TOLERANCE)
        self._unused = np.where(used, 0, self._unused + 1)
        idle = self._unused >= UNUSED_SOLVES
        if np.count_nonzero(idle) < FEWEST_DROPPED:
            return
        gone = np.flatnonzero(idle).astype(np.int32)
        self._lp.deleteCols(gone.size, gone)
        self._group, self._earned = self._group[~idle], self._earned[~idle]
        self._spent, self._unused = self._spent[~idle], self._unused[~idle]

    def _solved_again(self, presolve: str, tolerance: float) -> bool:
        """From scratch: that may succeed where the old basis fails."""
        self._lp.clearSolver()
        self._set(presolve, tolerance)
        try:
            return self._solved()
        finally:
            self._set(PRESOLVE, TOLERANCE)

    def _set(self, presolve: str, tolerance: float) -> None:
        self._lp.setOptionValue("presolve", presolve)
        self._lp.setOptionValue("primal_feasibility_tolerance", tolerance)
        self._lp.setOptionValue("dual_feasibility_tolerance", tolerance)

    def _solved(self) -> bool:
        """Run the solver to the end, in runs of limited time."""
        while True:
            self._lp.setOptionValue("time_limit", self._lp.getRunTime() + LONGEST_RUN)
            self._lp.run()
            status = self._lp.getModelStatus()
            if status != highspy.HighsModelStatus.kTimeLimit:
                return bool(status == highspy.HighsModelStatus.kOptimal)

    def _bound(self, weights: Floats) -> float:
        """Value of the mixture with normalised weights, less the largest effect of its residual.

        phi(mu) >= reward - mu . residual for all mu, and some minimiser has no price larger than
        `largest_price`.
        """
        shares = weights / np.bincount(self._group, weights)[self._group]
        mixed = shares > 0.0
        reward = float(np.sum(shares[mixed] * self._earned[mixed]))
        spent = np.sum(shares[mixed, None] * self._spent[mixed], axis=0)  # no BLAS: it has threads
        excess = spent - self._pulls
        missed = np.maximum(excess, 0.0) if self._at_most else np.abs(excess)
        return reward - self._largest_price * float(missed.sum())
