"""Minimising the dual function of a market: rounds, descent of a smoothed dual, master problem.

It depends on markets, not on problems: bounds and prices of one market, from given start prices.

The master problem is the best mixture of flows so far, by linear programming (HiGHS):

    maximise    sum_ki  w_ki reward_ki
    subject to  sum_ki  w_ki spent_ki[t] = pulls[t]   (price of stage t: its dual; or at most)
                sum_i   w_ki = 1 for every group k,  w >= 0

Every column is a policy of one group, so a solution is a feasible randomised relaxed policy and its
value a lower bound on the dual minimum; its dual prices are the next prices to try.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import highspy
import numpy as np

from ..support import Flags, Floats
from .descent import Descent


@dataclass(frozen=True)
class Flow:
    """Reward (G,) and pulls (G, T) of a forward pass."""

    reward: Floats
    spent: Floats
    feasible: bool  # spends exactly the pulls of every stage
    narrow_stages: int = 0

    @property
    def total(self) -> float:
        return float(self.reward.sum())


class Level(NamedTuple):
    """A coarser market that a search starts from: fewer stages, or fewer states."""

    make: Callable[[], Market]
    stages: int  # before any deployment
    tol: float  # at which its search ends
    calls: int  # backward passes that it may take


class Market(ABC):
    """Groups of arms that trade pulls over the stages, with the masses of past rounds."""

    unit: float  # largest reward in size, by which linear programs are scaled
    scale: float  # of the width of ties
    largest_price: float  # bound on the size of useful prices
    states: int  # of groups and stages, counted once per unit
    short: bool  # whether a few passes take about a second
    points = 0  # states per row of its grids, 0 where all are states
    at_most = False  # whether pulls, and money, need not all be spent: prices are not negative
    most_canonical = 0  # states up to which there are canonical prices
    left_out = 0.0  # bound on the error of the values of all arms, which is part of the dual
    top: float | None = None  # best reward, towards which coarser prices are extrapolated
    descends = False  # whether the smoothed dual is of use in a search
    follows_coarser = True  # whether coarser prices are better than those of fresh arms in any case

    def __init__(self, pulls: Floats, groups: int, regular: int, workers: int) -> None:
        self.pulls = np.array(pulls, dtype=float)  # writable: kernels compile once, not twice
        self.groups, self.stages, self.regular = groups, self.pulls.size, regular
        self.workers = workers
        self.calls = 0
        self.mu = np.zeros(self.stages)

    def resting(self) -> Flow:
        """Return the flow of arms that are never pulled, where that is allowed (`at_most`)."""
        raise NotImplementedError

    def bound_of(self, flow: Flow) -> float:
        """Return what a flow proves: no dual is below the reward of a feasible one."""
        return flow.total

    def coarser(self) -> Iterator[Level]:
        """Yield coarser markets to start from, each level from the one before."""
        return iter(())

    def lower(self) -> Market | None:
        """On a grid, a market whose values are lower bounds; None where there is none."""
        return None

    @abstractmethod
    def release(self) -> None:
        """Free all tables; no pass may follow."""

    def rough_bounds(self, prices: Floats) -> tuple[Floats, float, float] | None:
        """Return prices, an upper and a lower bound that need no pass, if there are any.

        The upper bound is at least the dual at the prices.
        """
        return None

    def remember_around(self, mu: Floats) -> None:  # noqa: B027  # not needed where all is kept
        """Make room for passes at prices around mu."""

    def remember_signs(self, mu: Floats) -> None:  # noqa: B027
        """Make room for passes at prices mu alone."""

    @abstractmethod
    def value_at(self, mu: Floats) -> float:
        """Go backward at given prices and return the dual there."""

    @abstractmethod
    def reprice(self) -> float:
        """Go backward, setting prices at which the remembered masses clear; return the dual."""

    @abstractmethod
    def clear(self, blend: float) -> Flow:
        """Go forward, spending exactly the pulls of every stage; masses join the averages."""

    @abstractmethod
    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        """Go forward under the relaxed policy at the current prices."""

    def optimal_flow(self) -> tuple[Floats, Flow] | None:
        """Return optimal prices and a flow by one linear program; None where it is too large."""
        return None

    @abstractmethod
    def soft_value(self, mu: Floats, width: float) -> tuple[float, Floats, Floats]:
        """Return the dual smoothed by a width, its gradient, and the curvature per price."""

    def soft_clear(self, width: float) -> tuple[Flow, float]:
        """Return a flow near that of the last `soft_value` that spends all pulls, and its charge.

        Of markets whose search descends (`descends`).
        """
        raise NotImplementedError


PRIMAL_SIMPLEX = 4  # after new columns the old basis is still feasible: it goes on from there
TOLERANCE = 1e-10
# the bound of a mixture is computed from its residual, so that a larger tolerance does no harm
WAYS = (("off", TOLERANCE), ("off", TOLERANCE), ("choose", TOLERANCE), ("off", 10.0 * TOLERANCE))
LONGEST_RUN = 0.5  # seconds until the solver returns, so that Ctrl-C works, and goes on
UNUSED_SOLVES = 10  # after which a column that is not part of the mixture is dropped
FEWEST_DROPPED = 50  # columns, at a time


class Mixture(NamedTuple):
    """Solution of the master problem."""

    bound: float
    prices: Floats


class Master:
    """The linear program: columns are added, and dropped where they have long been of no use.

    Each solve starts from the basis of the one before. What is dropped is found again if it is
    needed: a bound that was proven stays. unit: of rewards, as the tolerances of the solver are
    absolute.
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
        self._unit, self._largest_price = unit, largest_price
        self._group = np.zeros(0, np.int64)  # of every column, as what it earns and spends
        self._earned, self._spent = np.zeros(0), np.zeros((0, pulls.size))
        self._unused = np.zeros(0, np.int64)  # solves since it was part of the mixture
        self._lp = highspy.Highs()
        self._lp.setOptionValue("output_flag", False)
        self._lp.setOptionValue("simplex_strategy", PRIMAL_SIMPLEX)
        empty = np.array([], dtype=np.int32)
        for row, right in enumerate((*pulls, *np.ones(groups))):
            least = -highspy.kHighsInf if at_most and row < pulls.size else right
            self._lp.addRow(least, right, 0, empty, empty.astype(float))
        self._lp.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def add(self, reward: Floats, spent: Floats) -> None:
        """Add one column per group: reward (G,), spent (G, T)."""
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
        """Return the best mixture; None if the solver fails."""
        if not any(self._solved(attempt) for attempt in range(len(WAYS))):
            return None
        solution = self._lp.getSolution()
        prices = self._unit * np.array(solution.row_dual)[: self._pulls.size]
        weights = np.maximum(np.array(solution.col_value), 0.0)
        mixture = Mixture(self._bound(weights), prices)
        self._drop((weights > 0.0) | (np.abs(np.array(solution.col_dual)) <= TOLERANCE))
        return mixture

    def _drop(self, used: Flags) -> None:
        """Forget columns that have had neither weight nor a reduced cost of zero for long."""
        self._unused = np.where(used, 0, self._unused + 1)
        idle = self._unused >= UNUSED_SOLVES
        if np.count_nonzero(idle) < FEWEST_DROPPED:
            return
        gone = np.flatnonzero(idle).astype(np.int32)
        self._lp.deleteCols(gone.size, gone)
        self._group, self._earned = self._group[~idle], self._earned[~idle]
        self._spent, self._unused = self._spent[~idle], self._unused[~idle]

    def _solved(self, attempt: int) -> bool:
        """Run the solver to the end, in runs of limited time; after the first time from scratch."""
        if attempt:
            self._lp.clearSolver()
        presolve, tolerance = WAYS[attempt]
        self._lp.setOptionValue("presolve", presolve)
        self._lp.setOptionValue("primal_feasibility_tolerance", tolerance)
        self._lp.setOptionValue("dual_feasibility_tolerance", tolerance)
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


STALLED_ROUNDS = 20  # rounds in which the gap must halve, else they are stuck
FEW_STALLED_ROUNDS = 8  # the same where the smoothed dual can go on
MASTER_STAGES = 300  # beyond this the linear programs of the master problem take too long
MOST_NARROW_ROUNDS = 4  # in a row, with bands that were too narrow, before new bands
AVERAGING_OFFSET = 2.0  # the weight of the k-th masses is 2 / (k + 2 + this)
BEST_PRICE_WEIGHT = 0.85  # weight of the best prices when the master problem proposes others
FINE_PRICE_WEIGHT, FINE_GAP = 0.9, 2e-5  # the same, and the relative gap from which on
STALLED_CALLS = 100  # of the smoothed dual in which the gap must halve, else columns are mixed
SMOOTHED_GAP = 1e-5  # relative gap down to which the smoothed dual is of use
FIRST_WIDTH = 4.0  # times the gap, divided by all pulls
NARROWER = 0.25  # a width, in parts of the one before
STEPS_AT_ONCE = 8  # of the descent, from one candidate for bounds to the next
MAX_CANDIDATES = 25  # at one width
SETTLED = 0.3  # gap of the smoothed problem at which a width is done, in parts of the true gap
NARROWEST = 0.02  # charge of smoothing, in parts of that gap, at which it ends
LONG_STAGES = 1000  # from here on the level of prices is searched first
LEVEL_STEP = 1e-3  # first change of that level, in units of the reward scale
LEVEL_CALLS = 8  # backward passes that narrow its bracket
TIE_WIDTH = 1e-9  # an index this close to the price counts as a tie, in units of the reward scale
ROUNDING = 1e-13  # gaps below this part of the rewards at stake are rounding


@dataclass(frozen=True)
class HistoryLine:
    """One line of a solve's history: the bounds after so many backward passes."""

    stages: int
    calls: int
    upper_bound: float
    lower_bound: float

    @property
    def relative_gap(self) -> float:
        return relative_gap(self.upper_bound, self.lower_bound)


Note = Callable[[HistoryLine], None]


def relative_gap(upper: float, lower: float) -> float:
    """Return (upper - lower) / max(|upper|, |lower|), or 0 if the bounds have met."""
    if upper <= lower:
        return 0.0
    return (upper - lower) / max(abs(upper), abs(lower))


@dataclass
class Search:
    """Best prices and bounds found on one market."""

    market: Market
    note: Note
    calls_before: int = 0
    upper: float = np.inf
    lower: float = -np.inf
    prices: Floats = field(default_factory=lambda: np.zeros(0))
    stopped: str = ""  # why it ended before its tolerance, and what to do

    @property
    def calls(self) -> int:
        return self.calls_before + self.market.calls

    @property
    def gap(self) -> float:
        return relative_gap(self.upper, self.lower)

    def saw_value(self, value: float) -> bool:
        """Note the dual at the market's prices; True where it is the best so far."""
        if value >= self.upper:
            return False
        self.upper, self.prices = value, self.market.mu.copy()
        return True

    def saw_bound(self, bound: float) -> None:
        self.lower = max(self.lower, bound)
        self.note(HistoryLine(self.market.stages, self.calls, self.upper, self.lower))

    @property
    def met(self) -> bool:
        """Whether the bounds differ by no more than rounding."""
        at_stake = self.market.unit * float(self.market.pulls.sum())
        return abs(self.upper - self.lower) <= ROUNDING * at_stake + 2.0 * self.market.left_out

    def check(self) -> None:
        """Raise if the lower bound exceeds the upper one by more than rounding: a program error."""
        if self.lower > self.upper and not self.met:
            raise ArithmeticError(f"lower bound {self.lower!r} above upper bound {self.upper!r}")

    def done(self, tol: float) -> bool:
        return self.gap <= tol or self.met


def minimise(search: Search, start: Floats, tol: float, most_calls: int) -> None:
    """Search by rounds from prices `start`; if stuck, by the smoothed dual and the master problem.

    Both settle ties that rounds cannot. The steps of the master problem are short: with many stages
    fresh rounds from the best prices are worth more.
    """

    def ended() -> bool:
        return search.done(tol) or search.calls >= most_calls

    while True:
        before = search.gap
        flows = rounds(search, start, tol, most_calls)
        for way in (_descend, _solve_whole):
            if not ended():
                flows += way(search, tol, most_calls)
        if ended():
            break
        if search.market.stages <= MASTER_STAGES:
            _mix(search, flows, tol, most_calls)
            break
        if search.gap > 0.9 * before:
            search.stopped = (
                f"rounds no longer narrow the gap, and linear programs of more than "
                f"{MASTER_STAGES} stages take too long: accept a larger tolerance, or use fewer "
                "stages or batches"
            )
            break
        start = search.prices
    if search.done(tol):
        search.stopped = ""
    elif search.calls >= most_calls:
        search.stopped = f"all {most_calls} backward passes were used: allow more (max_calls)"


def rounds(search: Search, start: Floats, tol: float, most_calls: int) -> list[Flow]:
    """Price backward and clear forward until done, stuck or out of calls; return the flows."""
    market = search.market
    market.remember_around(start)
    search.saw_value(market.value_at(start))
    flows: list[Flow] = []
    gaps: list[float] = []
    averaged, narrow = 0, 0
    while True:
        flow = market.clear(1.0 if averaged == 0 else 2.0 / (averaged + 2.0 + AVERAGING_OFFSET))
        search.saw_bound(market.bound_of(flow))
        flows.append(flow)
        gaps.append(search.gap)
        can_descend = market.descends and search.gap > SMOOTHED_GAP
        most = FEW_STALLED_ROUNDS if can_descend else STALLED_ROUNDS
        stuck = len(gaps) > most and gaps[-1] > 0.5 * gaps[-1 - most]
        if stuck or search.done(tol) or search.calls >= most_calls:
            return flows
        search.saw_value(market.reprice())
        averaged += 1
        narrow = narrow + 1 if flow.narrow_stages else 0
        if narrow >= MOST_NARROW_ROUNDS:  # the prices are leaving the bands: make new ones
            market.remember_around(market.mu)
            search.saw_value(market.value_at(market.mu))
            averaged = narrow = 0


def _descend(search: Search, tol: float, most_calls: int) -> list[Flow]:
    """Descend the dual function, smoothed by narrower and narrower widths, from the best prices.

    With a charge of d/2 x^2 on pulling a part x of the arms in a state, the dual function becomes
    smooth, and its minimum lower by at most d/2 times all pulls. If many states share the price of
    a stage, its gradient says how to split the pulls among them, which an order by index cannot.
    Prices are nearly linear in the width d: they are extrapolated from two widths to the next, and
    to zero, for the bounds. Returns the flows.
    """
    market, flows, tol = search.market, list[Flow](), max(tol, SMOOTHED_GAP)
    if not market.descends or search.done(tol):
        return flows
    pulls = float(market.pulls.sum())
    # whatever the tolerance: a smaller one goes on where a larger one ends
    least = NARROWEST * SMOOTHED_GAP * abs(search.upper) / pulls
    width, start = FIRST_WIDTH * (search.upper - search.lower) / pulls, search.prices
    path: tuple[float, Floats] | None = None  # the width before, and prices there
    halved, since = search.gap, search.calls
    while width > least:
        moving, settled = True, False
        descent = Descent(partial(market.soft_value, width=width), start, farthest=width)
        for _ in range(MAX_CANDIDATES):
            moving = all(descent.step() for _ in range(STEPS_AT_ONCE))
            flow, charge = market.soft_clear(width)
            search.saw_value(market.value_at(_at_width(0.0, width, descent.point, path)))
            search.saw_bound(flow.total - market.largest_price * _missed(market, flow))
            flows.append(flow)
            if search.done(tol) or search.calls >= most_calls:
                return flows
            if search.gap <= 0.5 * halved:
                halved, since = search.gap, search.calls
            if search.calls > since + STALLED_CALLS and market.stages <= MASTER_STAGES:
                return flows
            gap = descent.value - flow.total + charge  # of the smoothed problem
            settled = gap <= SETTLED * (search.upper - search.lower)
            if settled or not moving:
                break
        start = _at_width(NARROWER * width, width, descent.point, path)
        path, width = (width, descent.point), NARROWER * width
    return flows


def _at_width(
    new: float, width: float, prices: Floats, path: tuple[float, Floats] | None
) -> Floats:
    """Return prices at a new width, on the line through those at two others, if there are two."""
    if path is None:
        return prices
    wider, earlier = path
    return np.asarray(prices + (new - width) / (width - wider) * (prices - earlier))


def _solve_whole(search: Search, tol: float, most_calls: int) -> list[Flow]:
    """Take prices and flow from one linear program where it is small. Returns the flow."""
    market = search.market
    optimum = market.optimal_flow()
    if optimum is None:
        return []
    prices, flow = optimum
    search.saw_value(market.value_at(prices))
    search.saw_bound(flow.total - market.largest_price * _missed(market, flow))
    return [flow]


def _missed(market: Market, flow: Flow) -> float:
    """Return by how many pulls a flow misses those of the stages, in all."""
    return float(np.abs(flow.spent.sum(axis=0) - market.pulls).sum())


def _mix(search: Search, flows: list[Flow], tol: float, most_calls: int) -> None:
    """Generate columns: flows at new prices join the master problem, which proposes prices.

    Its prices oscillate, so each trial point is a mean with most weight on the best prices so far.
    """
    market = search.market
    master = Master(
        market.pulls,
        market.groups,
        unit=market.unit,
        largest_price=market.largest_price,
        at_most=market.at_most,
    )
    slack = TIE_WIDTH * market.scale
    if market.at_most:
        flows = [*flows, market.resting()]
    search.saw_value(market.value_at(search.prices))
    while True:
        flows += [market.relaxed(at_price=part, slack=slack) for part in (0.0, 1.0)]
        flows.append(market.clear(0.0))
        for flow in flows:
            master.add(flow.reward, flow.spent)
        best = max((market.bound_of(flow) for flow in flows if flow.feasible), default=-np.inf)
        flows = []
        mixture = master.solve()
        search.saw_bound(best if mixture is None else max(best, mixture.bound))
        if mixture is None:
            search.stopped = (
                "the linear program solver found no better mixture: the digits left are rounding"
            )
            return
        if search.done(tol) or search.calls >= most_calls:
            return
        weight = BEST_PRICE_WEIGHT if search.gap > FINE_GAP else FINE_PRICE_WEIGHT
        prices = weight * search.prices + (1.0 - weight) * mixture.prices
        search.saw_value(market.value_at(prices))


# The start: coarser markets, with fewer stages or fewer states


def start_prices(search: Search, most_calls: int) -> Floats:
    """Return first prices: from coarser markets if there are any, else those of fresh arms.

    Where these need not be better, both are tried.
    """
    market, solutions = search.market, list[tuple[int, Floats]]()
    for level in market.coarser():
        coarse = Search(level.make(), search.note, search.calls)
        if not solutions:
            coarse.saw_value(coarse.market.reprice())
        start = coarse.prices
        if solutions:
            start = _levelled(coarse, _stretched(solutions, level.stages, market.top))
        try:
            rounds(coarse, start, level.tol, min(most_calls, search.calls + level.calls))
        finally:
            search.calls_before += coarse.market.calls
        solutions.append((level.stages, coarse.prices))
        search.prices = _stretched(solutions, market.regular, market.top)  # if interrupted
    if solutions:
        search.prices = _levelled(search, search.prices)
        if market.follows_coarser:
            return search.prices
        search.saw_value(market.value_at(search.prices))
    search.saw_value(market.reprice())
    return search.prices


def _levelled(search: Search, prices: Floats) -> Floats:
    """Shift all prices of a long horizon alike, to where the dual is smallest.

    Prices of coarser markets have the right shape; but where an arm that is worth its price once is
    worth it many times, a small error of their level changes what very many pulls are worth.
    """
    market = search.market
    if market.regular < LONG_STAGES:
        return prices
    from scipy.optimize import minimize_scalar  # late: scipy takes half a second to load

    def value(shift: float) -> float:
        changed = np.append(prices[: market.regular] + shift, prices[market.regular :])
        dual = market.value_at(changed)
        search.saw_value(dual)
        return dual

    ahead = LEVEL_STEP * market.scale
    behind, at, best, further = -ahead, 0.0, value(0.0), value(ahead)
    if further >= best:
        behind, ahead = ahead, behind
        further = value(ahead)
    while further < best:  # until the dual rises
        behind, at, ahead, best = at, ahead, ahead + 2.0 * (ahead - at), further
        further = value(ahead)
    bounds, calls = sorted((behind, ahead)), {"maxiter": LEVEL_CALLS}
    minimize_scalar(value, bounds=bounds, method="bounded", options=calls)
    return search.prices


def halved(stages: int, least: int) -> list[int]:
    """Return numbers of stages from fewest on, each about twice the one before, below `stages`."""
    sizes = [stages]
    while sizes[-1] > least:
        sizes.append(sizes[-1] // 2)
    return sizes[:0:-1]


def stretch(prices: Floats, regular: int, stages: int) -> Floats:
    """Interpolate prices of `regular` stages at the same fractions of `stages`; keep later ones."""
    at = (np.arange(stages) + 0.5) / stages
    midpoints = (np.arange(regular) + 0.5) / regular
    return np.concatenate([np.interp(at, midpoints, prices[:regular]), prices[regular:]])


def _stretched(solutions: list[tuple[int, Floats]], stages: int, top: float | None) -> Floats:
    """Return prices for `stages` stages from the last one or two coarser solutions.

    Two are extrapolated, as the distance of the price from the best reward shrinks by about the
    same factor each time that stages are doubled.
    """
    tries = [stretch(prices, size, stages) for size, prices in solutions[-2:]]
    if len(tries) == 1 or top is None:
        return tries[-1]
    far, near = top - tries[0], top - tries[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where((near > 0.0) & (far > 0.0), near / far, 1.0)
    return np.asarray(top - near * np.clip(factor, 0.5, 1.0))
