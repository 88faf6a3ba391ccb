"""The master problem: the best mixture of flows found so far, by linear programming (HiGHS).

    maximise    sum_ki  w_ki reward_ki
    subject to  sum_ki  w_ki spent_ki[t] = pulls[t]   (price of stage t: its dual)
                sum_i   w_ki = 1 for every group k,  w >= 0

Every column is a policy of one group, so a solution is a feasible randomised relaxed policy and its
value a lower bound on the dual minimum; its dual prices are the next prices to try. It does not
depend on bandits.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
TOLERANCE, PRESOLVE = 1e-10, "choose"
# presolve with so small a tolerance may call a feasible problem infeasible; the bound of a mixture
# is computed from its residual, so that a larger tolerance does no harm
OTHER_WAYS = ((PRESOLVE, TOLERANCE), ("off", TOLERANCE), ("off", 10.0 * TOLERANCE))


@dataclass(frozen=True)
class Mixture:
    """Solution of the master problem."""

    bound: float
    prices: Floats


class Master:
    """Columns are only ever added: each solve starts from the basis of the one before."""

    def __init__(
        self, pulls: Floats, groups: int, *, unit: float = 1.0, largest_price: float
    ) -> None:
        self._pulls = pulls
        self._unit = unit  # of rewards: the solver's tolerances are absolute
        self._largest_price = largest_price
        self._columns: list[tuple[int, float, Floats]] = []
        self._lp = highspy.Highs()
        self._lp.setOptionValue("output_flag", False)
        self._set(PRESOLVE, TOLERANCE)
        empty = np.array([], dtype=np.int32)
        for right in (*pulls, *np.ones(groups)):
            self._lp.addRow(right, right, 0, empty, empty.astype(float))
        self._lp.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def add(self, reward: Floats, spent: Floats) -> None:
        """One column per group: reward (G,), spent (G, T)."""
        stages = self._pulls.size
        for k, (earned, pulls) in enumerate(zip(reward, spent, strict=True)):
            rows = np.append(np.flatnonzero(pulls), stages + k).astype(np.int32)
            entries = np.append(pulls[pulls != 0.0], 1.0)
            self._lp.addCol(earned / self._unit, 0.0, highspy.kHighsInf, rows.size, rows, entries)
            self._columns.append((k, float(earned), pulls.copy()))

    def solve(self) -> Mixture | None:
        """The best mixture, or None where the solver did not find one."""
        if not self._solved() and not any(self._solved_again(*way) for way in OTHER_WAYS):
            return None
        solution = self._lp.getSolution()
        prices = self._unit * np.array(solution.row_dual)[: self._pulls.size]
        return Mixture(self._bound(np.array(solution.col_value)), prices)

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
        self._lp.run()
        return bool(self._lp.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def _bound(self, weights: Floats) -> float:
        """Value of the mixture with normalised weights, less the largest effect of its residual.

        phi(mu) >= reward - mu . residual for all mu, and some minimiser has no price larger than
        `largest_price`.
        """
        weights = np.maximum(weights, 0.0)
        totals = np.zeros(1 + max(k for k, _, _ in self._columns))
        for weight, (k, _, _) in zip(weights, self._columns, strict=True):
            totals[k] += weight
        reward, residual = 0.0, -self._pulls.copy()
        for weight, (k, earned, pulls) in zip(weights, self._columns, strict=True):
            if weight > 0.0:
                reward += weight / totals[k] * earned
                residual += weight / totals[k] * pulls
        return float(reward - self._largest_price * np.abs(residual).sum())
