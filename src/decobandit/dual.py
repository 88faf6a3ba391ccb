"""The dual function and its minimiser, with a certificate.

    phi(mu) = sum_a V_0^a[mu] + sum_t m_t mu_t  >=  value of every policy, for every mu

`solve` minimises phi by letting the market find its prices. A round is one pass backward, in which
each stage's price is set so that the arms, where the rounds before have put them on average, spend
exactly its pulls; and one pass forward, in which arms are pulled in order of index until exactly
those pulls are spent. The first gives phi(mu), an upper bound; the second a feasible relaxed
solution, whose reward is a lower bound on min phi. At a fixed point the two meet. Where rounds
stop helping (several states share one price) a master problem mixes the flows found so far and
points to the next prices. `docs/decisions/0001-market-rounds.md` has the measurements.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .market import Market, arms_of, check_prices
from .memory import refuse_over
from .problem import Problem
from .search import Progress, Report, Search, minimise, relative_gap, start_prices

BYTES_PER_ROW_PAIR = 60.0  # slabs, rows of bands and scratch, per kind of arms and stage squared
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DualValue:
    """The dual function at given multipliers, and a subgradient of it."""

    value: float
    gradient: Floats  # (stages,) pulls allowed minus expected pulls of the relaxed policy
    reward: float  # expected reward of the relaxed policy: value = reward + gradient . prices


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class DualSolution:
    """Multipliers with certified bounds: lower_bound <= min phi <= upper_bound.

    No policy earns more than `upper_bound`. `multipliers` has one price per stage;
    `deployment_price` is that of the final choice, where the problem has one.
    """

    problem: Problem
    multipliers: Floats  # (horizon,)
    deployment_price: float | None
    upper_bound: float
    lower_bound: float
    tol: float
    oracle_calls: int  # backward passes, those on coarser problems included
    seconds: float
    interrupted: bool
    history: tuple[Progress, ...]

    @property
    def relative_gap(self) -> float:
        return relative_gap(self.upper_bound, self.lower_bound)

    @property
    def converged(self) -> bool:
        return self.relative_gap <= self.tol

    @property
    def prices(self) -> Floats:
        """All prices, (stages,): the multipliers, then the deployment price if there is one."""
        if self.deployment_price is None:
            return self.multipliers
        return np.append(self.multipliers, self.deployment_price)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `deco solve --json` prints them."""
        result: dict[str, Any] = {
            "arms": self.problem.number_of_arms,
            "horizon": self.problem.horizon,
            "pulls_per_stage": self.problem.pulls_per_stage,
            "upper_bound": self.upper_bound,
            "lower_bound": self.lower_bound,
            "relative_gap": self.relative_gap,
            "tol": self.tol,
            "converged": self.converged,
            "interrupted": self.interrupted,
            "multipliers": self.multipliers.tolist(),
            "oracle_calls": self.oracle_calls,
            "seconds": self.seconds,
        }
        if self.deployment_price is not None:
            result["deployment_price"] = self.deployment_price
        return result

    def __repr__(self) -> str:
        return (
            f"DualSolution({self.problem.number_of_arms} arms, horizon {self.problem.horizon}: "
            f"{self.lower_bound:.6f} <= minimum <= {self.upper_bound:.6f}, "
            f"relative gap {self.relative_gap:.1e}, {self.oracle_calls} oracle calls, "
            f"{self.seconds:.2f} s)"
        )


def dual_value(problem: Problem, prices: npt.ArrayLike, *, threads: int | None = None) -> DualValue:
    """The dual function at `prices`, one per stage (and one for the deployment), and its gradient.

    The gradient is exact: expected pulls are pushed forward, not simulated. At a kink it is one of
    the subgradients, that of the policy which pulls where the index is strictly above the price.
    """
    mu = np.asarray(prices, dtype=float)
    check_prices(mu, problem)
    market = _market(problem, threads)
    market.remember_signs(mu)
    value = market.value_at(mu)
    flow = market.relaxed(at_price=0.0)
    return DualValue(value, problem.pulls - flow.spent.sum(axis=0), flow.total)


def solve(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_calls: int = 500,
    start: npt.ArrayLike | None = None,
    threads: int | None = None,
    progress: Report | None = None,
) -> DualSolution:
    """Minimise the dual function to a relative gap of `tol`, or as far as `max_calls` go.

    `start` are prices to begin with, one per stage. `progress` is called with the bounds after
    every round. A keyboard interrupt ends the search: the best solution so far is returned, with
    its honest gap and `interrupted` set.
    """
    if not 0.0 <= tol < np.inf:
        raise ValueError(f"tol: {tol} is not allowed; must be zero or positive, and finite")
    given = None if start is None else np.asarray(start, dtype=float)
    if given is not None:
        check_prices(given, problem, name="start")
    began = time.perf_counter()
    history: list[Progress] = []

    def report(line: Progress) -> None:
        history.append(line)
        if progress is not None:
            progress(line)

    search = Search(_market(problem, threads), report)
    interrupted = False
    try:
        first = start_prices(search, problem.horizon, max_calls) if given is None else given
        minimise(search, first, tol, max_calls)
    except KeyboardInterrupt:
        interrupted = True
        _certify(search)
    search.check()
    prices = search.prices
    prices.flags.writeable = False
    return DualSolution(
        problem=problem,
        multipliers=prices[: problem.horizon],
        deployment_price=float(prices[-1]) if problem.stages > problem.horizon else None,
        upper_bound=search.upper,
        lower_bound=search.upper if search.met else search.lower,
        tol=tol,
        oracle_calls=search.calls,
        seconds=time.perf_counter() - began,
        interrupted=interrupted,
        history=tuple(history),
    )


def _market(problem: Problem, threads: int | None) -> Market:
    kinds, stages = len(problem.groups), problem.stages
    refuse_over(
        BYTES_PER_ROW_PAIR * kinds * stages**2,
        f"solving {kinds} kinds of arms over {stages} stages",
        "use fewer kinds of arms or a shorter horizon",
    )
    return Market(arms_of(problem), problem.pulls, threads=threads or os.cpu_count() or 1)


def _certify(search: Search) -> None:
    """Bounds for a search that was interrupted before it had any."""
    market = search.market
    if np.isfinite(search.lower):
        return
    if not search.prices.size:
        search.saw_value(market.reprice())
    market.remember_around(search.prices)
    search.saw_value(market.value_at(search.prices))
    search.saw_bound(market.clear(1.0).total)
