"""The dual function and its minimiser, with a certificate.

    phi(mu) = sum_a V_0^a[mu] + sum_t m_t mu_t  >=  value of every policy, for every mu

`solve` minimises phi by rounds of a market. A round is one pass backward, in which the price of
each stage is set so that the arms, with the average masses of the earlier rounds, demand exactly
its pulls; and one pass forward, in which arms are pulled in order of index until exactly those
pulls are made. The first gives phi(mu), an upper bound; the second a feasible relaxed solution,
whose reward is a lower bound on min phi. At a fixed point the two meet. Where rounds stall (several
states share one price) phi is smoothed and a quasi-Newton method goes on; for the last digits a
master problem mixes the flows found so far and proposes the next prices. Measurements are in
`docs/decisions/0001-market-rounds.md` and `0016-smoothed-dual.md`.
"""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arm import GRID_STATES, POINTS, grid_of, price_array
from ..problem import Problem, check_problem, refuse_features
from ..support import (
    Floats,
    InvalidArgument,
    Progress,
    Report,
    Stopwatch,
    obeys_workers,
    worker_count,
)
from ..support.frames import Shown
from ..support.records import doc, record_class
from .band_market import band_market
from .limits import Limits
from .rounding import proved_above, proved_below
from .search import HistoryLine, Market, Search, minimise, start_prices
from .solution import DualSolution
from .stage_market import StageMarket

LOWER_CALLS = 100  # passes for the lower bound of a grid, at most
MONEY_STEPS = 14  # bisections of the price of money, before the master problem
MONEY_PARTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.2, 3.2, 5.0)  # of its price, in plans
PLAN_ROUNDS = 6  # for the prices of a plan
MIN_COST = 1e-6  # smaller costs do not bound the price of money
QUICK_STATES = 5e7  # of a pass over all stages, up to which a dual takes a few seconds
QUICK_ROW_STATES = 2e7  # the same for non-binary outcomes
BATCH_STATE_COST = 10.0  # in states of single pulls


def market_of(problem: Problem, grid: int | None = None, workers: int | None = None) -> Market:
    """Return the market of a problem; `grid`, `workers` as in `solve`."""
    used, threads = grid_of(problem, grid), worker_count(workers)
    if problem.single_binary and not problem.may_wait:
        return band_market(problem, threads)
    return StageMarket(problem, used, workers=threads)


@record_class()
class DualValue(Shown):
    """The dual function at given prices, and a subgradient of it.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.prices import dual_value
    >>> dual_value(Problem.uniform(arms=2, horizon=2), [0.0, 0.0])
    DualValue(value=2, reward=2)
    """

    value: float = doc("An upper bound on what any policy can earn, but for rounding.")
    gradient: Floats = doc(
        "(stages,) pulls allowed minus expected pulls of the relaxed policy; then, with a budget, "
        "the budget minus expected costs."
    )
    reward: float = doc(
        "Expected reward of the relaxed policy: value = reward + gradient . prices."
    )


def dual_value(
    problem: Problem,
    prices: npt.ArrayLike,
    *,
    budget_price: float = 0.0,
    grid: int | None = None,
    workers: int | None = None,
) -> DualValue:
    """Evaluate the dual function and its gradient at given prices.

    The gradient is exact: expected pulls are pushed forward, not simulated. At a kink it is one of
    the subgradients, that of the policy which pulls where the index is strictly above the price.

    Parameters
    ----------
    problem : Problem
        Bandit problem to relax.
    prices : array_like
        One per stage, and one for the deployment where there is one, (stages,). With a budget,
        none is negative.
    budget_price : float
        Price of money, where there is a budget.
    grid, workers
        As in `solve`.

    Returns
    -------
    DualValue

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.prices import dual_value
    >>> round(dual_value(Problem.uniform(arms=2, horizon=3), [0.6, 0.55, 0.5]).value, 6)
    1.733333
    """
    refuse_features(check_problem(problem), "dual_value", "resources")
    mu, pulls = price_array(prices, problem), problem.pulls
    if problem.budget is not None:
        mu, pulls = np.append(mu, budget_price), np.append(pulls, problem.budget)
        if mu.min() < 0.0:
            raise InvalidArgument("prices: none may be negative with a budget", field="prices")
    market = market_of(problem, grid, workers)
    market.remember_signs(mu)
    value = market.value_at(mu)
    flow = market.relaxed(at_price=0.0)
    return DualValue(value, pulls - flow.spent.sum(axis=0), flow.total)


@obeys_workers
def solve(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_calls: int = 500,
    start: npt.ArrayLike | None = None,
    grid: int | None = None,
    workers: int | None = None,
    progress: Report | None = None,
) -> DualSolution:
    """Minimise the dual function: prices, and a certified bound on what any policy can earn.

    A keyboard interrupt ends the search: the best solution so far is returned, with its gap and
    `interrupted` set. Long problems that have no bounds yet get rough ones: the upper one is then
    that of arms with known success probabilities, above the dual function at the prices; the lower
    one is the reward of a policy that learns nothing. Batches and non-binary outcomes have none,
    and the interrupt is raised.

    Parameters
    ----------
    problem : Problem
        Bandit problem to relax.
    tol : float
        Relative gap between the bounds at which the search ends.
    max_calls : int
        Backward passes after which it ends anyway.
    start : array_like, optional
        Prices to begin with, one per stage.
    grid : int, optional
        Grid points per stage for batch problems (0: every state; default: every state if feasible)
        and for normal and Poisson arms (default: about 512, 1,024 beyond 200 pulls). Both bounds
        hold on a grid, but their gap need not close: the search ends when the prices are the best
        for the grid, to `tol`.
    workers : int, optional
        Threads that share the work; all processors by default.
    progress : callable, optional
        Called after every round with the number of passes and the bounds.

    Returns
    -------
    DualSolution

    Raises
    ------
    ValueError
        If a setting is not allowed, or the problem needs more memory than there is.

    Examples
    --------
    >>> from decobandit import Problem, solve
    >>> solution = solve(Problem.uniform(arms=5, horizon=20))
    >>> solution.converged
    True
    >>> round(solution.upper_bound, 1)
    14.7
    """
    check_problem(problem)
    if not isinstance(tol, Real) or not 0.0 <= tol < np.inf:
        rule = "must be zero or positive, and finite"
        raise InvalidArgument(f"tol: {tol} is not allowed; {rule}", field="tol")
    if not isinstance(max_calls, Real):
        rule = "must be a whole number"
        raise InvalidArgument(f"max_calls: {max_calls!r} is not allowed; {rule}", field="max_calls")
    first_prices = None if start is None else price_array(start, problem, name="start")
    clock = Stopwatch()
    history: list[HistoryLine] = []

    def note(line: HistoryLine) -> None:
        history.append(line)
        if progress is not None:
            coarse = "coarse start, " if line.stages < market.stages else ""
            gap = "gap to the best on this grid" if market.points else "gap"
            text = (
                f"{coarse}{line.stages} stages, {line.calls} passes: "
                f"bound {line.upper_bound:.6f}, {gap} {line.relative_gap:.1e}"
            )
            progress(Progress("solve", line.calls, note=text))

    market = market_of(problem, grid, workers)
    search = Search(market, note)
    interrupted = False
    try:
        first = start_prices(search, max_calls) if first_prices is None else first_prices
        # of money or resources: none
        first = np.append(first, np.zeros(market.pulls.size - first.size))
        if isinstance(market, StageMarket) and problem.budget is not None:
            first = price_money(search, market)
        minimise(search, first, tol, max_calls)
    except KeyboardInterrupt:
        interrupted = True
        _certify(search)
    search.check()
    lower: float | None = min(search.lower, search.upper)
    reached = 0.0 if search.met else search.gap
    if market.points:
        lower, interrupted = _bound_below(search, tol, interrupted)
    prices = search.prices
    prices.flags.writeable = False
    budget_price = None if problem.budget is None else float(prices[-1])
    limited = None if problem.resources is None else Limits(problem).resource_prices(prices)
    charged = (budget_price or 0.0, limited)
    return DualSolution(
        problem=problem,
        multipliers=prices[: problem.horizon],
        deployment_price=float(prices[problem.horizon]) if problem.terminal is not None else None,
        budget_price=budget_price,
        resource_prices=limited,
        upper_bound=proved_above(problem, prices[: problem.stages], search.upper, *charged),
        lower_bound=None if lower is None else proved_below(problem, lower),
        tol=tol,
        grid=market.points,
        search_gap=reached if market.points else None,
        oracle_calls=search.calls,
        seconds=clock.seconds(),
        interrupted=interrupted,
        history=tuple(history),
        stopped=search.stopped or None,
    )


def price_money(search: Search, market: StageMarket) -> Floats:
    """Search for the price of money at which cleared flows keep to the budget, by bisection."""

    def overspends(price: float) -> bool:
        market.mu[-1] = price
        search.saw_value(market.reprice())
        return not market.clear(1.0).feasible

    low, high = 0.0, market.unit / max(market.pulls[-1], 1e-12)
    if not overspends(0.0):
        return search.prices
    while overspends(high) and high < market.largest_price / MIN_COST:
        low, high = high, 2.0 * high
    for _ in range(MONEY_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if overspends(middle) else (low, middle)
    return search.prices


def at_money_price(market: StageMarket, price: float, number: int) -> tuple[float, Floats]:
    """Go some rounds at a price of money: the least dual, and the money spent by stage, (stages,).

    The market keeps the last prices.
    """
    market.mu[-1] = price
    problem, values = market.problem, []
    for k in range(number):
        value = market.reprice()
        values.append(proved_above(problem, market.mu[: problem.stages], value, price))
        flow = market.clear(1.0 if k == 0 else 2.0 / (k + 2.0))
    return min(values), market.money_by_stage(flow)


class MoneyPlan(NamedTuple):
    """Prices at a price of money, and the money that they are expected to take."""

    money_price: float
    prices: Floats  # (stages,)
    ahead: Floats  # (stages,) expected to be spent from each stage on


def money_plans(problem: Problem, price: float, workers: int | None = None) -> list[MoneyPlan]:
    """Return plans around a price of money, from none on, for whatever money is left later."""
    market = market_of(problem, None, workers)
    assert isinstance(market, StageMarket)
    plans = []
    for part in MONEY_PARTS if price else (0.0,):
        _, money = at_money_price(market, part * price, PLAN_ROUNDS)
        ahead = np.cumsum(money[::-1])[::-1]
        plans.append(MoneyPlan(part * price, market.mu[: problem.stages].copy(), ahead))
    return plans


def whole_solution(problem: Problem, **options: Any) -> DualSolution:
    """Solve the dual, raising KeyboardInterrupt instead of returning an interrupted solution."""
    solution = solve(problem, **options)
    if solution.interrupted:
        raise KeyboardInterrupt
    return solution


def is_quick(problem: Problem) -> bool:
    """Whether the dual is solved within seconds: with one kind of arms, up to 669 stages.

    A search is a few dozen passes; bounds not requested are computed only if one is short.
    """
    groups, stages, units = problem.groups, problem.stages, problem.most_units
    if problem.is_restless:  # the same states at every stage, of beliefs on a grid
        most = GRID_STATES / stages
        states = stages * sum(min(one.model.states(problem.horizon), most) for one in groups)
        return bool(states <= QUICK_ROW_STATES)
    if problem.is_binary:
        cost = 1.0 if problem.single_binary else BATCH_STATE_COST * problem.units
        return len(groups) * stages * problem.most_pulls**2 * cost / 6 <= QUICK_STATES
    total = 0.0
    for group in groups:
        most = inf if group.model.finite else POINTS
        rows = [min(group.model.states(n), most) for n in range(problem.most_pulls)]
        total += float(np.cumsum(rows)[:: units * problem.unit].sum())
    return units * total <= QUICK_ROW_STATES


def _bound_below(search: Search, tol: float, interrupted: bool) -> tuple[float | None, bool]:
    """Return a lower bound on the dual minimum over every state, and whether it was interrupted.

    Flows of the search bound the minimum on its grid, whose values are too large; here a market
    with values below is cleared, from the best prices.
    """
    if interrupted and not search.market.short:
        return None, interrupted
    search.market.release()  # the lower one needs as much memory
    market = search.market.lower()
    if market is None:
        return None, interrupted
    below = Search(market, lambda line: None)
    try:
        minimise(below, search.prices, tol, 1 if interrupted else LOWER_CALLS)
    except KeyboardInterrupt:
        interrupted = True
        below.prices = search.prices
        _certify(below)
    search.calls_before += below.calls
    below.upper = search.upper
    below.check()
    return min(below.lower, search.upper), interrupted


def _certify(search: Search) -> None:
    """Compute bounds for a search that was interrupted before it had any.

    They come from passes if these are short, otherwise from rough bounds; without either, the
    interrupt is raised.
    """
    market = search.market
    if np.isfinite(search.lower):
        return
    if market.short:
        if not search.prices.size:
            search.saw_value(market.reprice())
        market.remember_around(search.prices)
        search.saw_value(market.value_at(search.prices))
        search.saw_bound(market.clear(1.0).total)
        return
    rough = market.rough_bounds(search.prices)
    if rough is None:
        raise KeyboardInterrupt
    prices, upper, lower = rough
    if upper < search.upper:
        search.upper, search.prices = upper, prices
    search.saw_bound(lower)
