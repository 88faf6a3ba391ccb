"""Single pulls of good and bad outcomes as a market: passes over bands of states near the price."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from threading import Barrier
from typing import Any

import numpy as np

from ..problem import Arms, Problem, arms_of, stages_kept
from ..problem.kernels.layout import row_start, slab_size
from ..support import Floats, Ints, heed_interrupt, legs, pool, refuse_over
from .kernels.bands import (
    Bands,
    band_leg,
    begin,
    bid,
    clearing_leg,
    fill,
    finish,
    move,
    offer,
    price_leg,
    reach_leg,
    relaxed_leg,
    stage_price,
    stage_sale,
    step,
    value_leg,
)
from .kernels.smooth import AROUND, soft_clearing, soft_flow, soft_pass, states_before
from .search import Flow, Level, Market, halved

STATES_IN_STEP = 640_000  # of a stage; from here on, threads that meet at every stage are faster
FULL_BAND_STATES = 1_000_000  # below this, storing every state is fastest
SHORT_STATES = 1_000_000_000  # of all stages, up to which a pass takes some tenths of a second
MOST_BAND_STATES = 48_000_000  # 16 bytes each
MOST_NARROW_STATES = 270_000_000  # the same of bands that would be too narrow otherwise
BAND_WIDTHS = (0.1, 0.05, 0.02, 0.01)  # in units of the largest reward difference
NARROW_WIDTHS = (0.0042, 0.003, 0.002, 0.001)
BYTES_PER_ROW_PAIR = 60.0  # slabs, rows of bands and scratch, per kind of arms and stage squared
MOST_SMOOTH_STATES = 150_000_000  # of all groups and stages, 4 bytes each
COARSEST_STAGES = 100  # stages of the smallest market of the coarse-to-fine start
COARSE_TOLERANCE = 3e-4
ANY_CALLS = 1 << 40
ROUNDING = 1e-12  # of the incomplete beta function, in units of the largest reward
SMOOTH_REWARDS = 0.1  # mean change from stage to stage, in parts of all there is, to thin out


Collect = Callable[[int], tuple[Floats, Floats]]  # keys and weights of the states at a stage
Proceed = Callable[[int], None]


def band_market(problem: Problem, workers: int) -> BandMarket:
    """Return the market of a problem; raise TooLarge if it exceeds the memory limit."""
    kinds, stages = len(problem.groups), problem.stages
    refuse_over(
        BYTES_PER_ROW_PAIR * kinds * stages**2,
        f"solving {kinds} kinds of arms over {stages} stages",
        "use fewer kinds of arms, batches (repeat, unit) or a shorter horizon",
    )
    return BandMarket(arms_of(problem), problem.pulls, problem.horizon, workers=workers)


class BandMarket(Market):
    """Groups of arms that trade pulls, with the bands that the passes remember."""

    most_canonical = 2_000_000  # some hundred passes take seconds

    def __init__(
        self, arms: Arms, pulls: Floats, regular: int | None = None, *, workers: int = 2
    ) -> None:
        groups, stages = arms.reward_good.shape
        super().__init__(
            pulls, groups, stages if regular is None else regular, min(workers, groups)
        )
        self.arms = arms
        self._V = np.zeros((self.groups, slab_size(self.stages)))
        self._mass = np.zeros((self.groups, slab_size(self.stages)))
        # the unpulled state alone, with all mass in it
        self.bands = self._bands(self._marks(np.where(self._rows() == 0, 0, -1)))
        self.bands.share[:] = np.repeat(arms.counts, stages)
        self._lowest = np.full(self.stages, -np.inf)
        self._highest = np.full(self.stages, np.inf)
        self._size_up()

    def _size_up(self) -> None:
        """Set scales and sizes.

        No price need be larger than all that an arm can gain or lose by one pull more or less. An
        arm made to pull once more can go on as before, ignoring what it saw, so that no other
        stage's pulls change; its reward then changes by at most this much.
        """
        arms, slab = self.arms, slab_size(self.stages)
        spread = float(np.abs(arms.reward_good - arms.reward_bad).max())
        steps = np.abs(np.diff(arms.terminal, axis=1))
        steps[:, np.cumsum(np.arange(1, self.stages + 1)) - 1] = 0.0  # from one row to the next
        self.scale = max(spread, float(steps.max())) or 1.0
        self.unit = max(float(np.abs(x).max()) for x in (*arms[3:],)) or 1.0
        stakes = np.maximum(np.abs(arms.reward_good), np.abs(arms.reward_bad)).max(axis=0)
        self.largest_price = 2.0 * float(stakes.sum() + np.abs(arms.terminal).max())
        self.top = float(max(arms.reward_good.max(), arms.reward_bad.max()))
        self.states = int(self.groups * states_before(self.stages))
        self.short = self.groups * self.stages * slab <= SHORT_STATES
        self.descends = self.states <= MOST_SMOOTH_STATES  # all of them are kept
        self._in_step = self.workers > 1 and self.groups * slab >= STATES_IN_STEP
        # rewards of good and of bad outcomes: thinning may miss stages with other ones
        self._rewards = np.concatenate([arms.reward_good, arms.reward_bad])[:, : self.regular]
        self.follows_coarser = bool(np.all(self._rewards == self._rewards[:, :1]))

    def release(self) -> None:
        self._forget_bands()

    # Fewer stages

    def coarser(self) -> Iterator[Level]:
        """Yield markets with half the stages, a quarter, ..., where these are similar."""
        rewards = self._rewards
        if self.regular <= COARSEST_STAGES or self.arms.terminal.any():
            return
        change = float(np.abs(np.diff(rewards, axis=1)).max(axis=0).mean())
        if change > SMOOTH_REWARDS * float(np.ptp(rewards)):
            return
        for stages in halved(self.regular, COARSEST_STAGES):
            yield Level(partial(self._thinned, stages), stages, COARSE_TOLERANCE, ANY_CALLS)

    def _thinned(self, stages: int) -> BandMarket:
        """Return the market with its first `regular` stages thinned out; later ones stay."""
        later = np.arange(self.regular, self.stages)
        stages_left = np.concatenate([stages_kept(self.regular, stages), later])
        arms = self.arms._replace(
            reward_good=self.arms.reward_good[:, stages_left].copy(),
            reward_bad=self.arms.reward_bad[:, stages_left].copy(),
            terminal=np.zeros((self.groups, slab_size(stages_left.size))),
        )
        return BandMarket(arms, self.pulls[stages_left], stages, workers=self.workers)

    def rough_bounds(self, prices: Floats) -> tuple[Floats, float, float]:
        """Return bounds that need no pass, at these prices where there are some."""
        from scipy.optimize import minimize_scalar  # late: scipy takes half a second to load

        arms, pulls, mu = self.arms, self.pulls, prices
        if not mu.size:  # at the best part of the range of rewards, the same at every stage
            rewards = np.concatenate([arms.reward_good, arms.reward_bad])
            low, high = rewards.min(axis=0), rewards.max(axis=0)
            part = minimize_scalar(
                lambda x: rough_upper(arms, pulls, low + x * (high - low)),
                bounds=(0.0, 1.0),
                method="bounded",
            )
            mu = low + part.x * (high - low)
        return mu, rough_upper(arms, pulls, mu), rough_lower(arms, pulls)

    # Bands

    def _rows(self) -> Ints:
        """Return the row number n of every (stage, row)."""
        return np.concatenate([np.arange(t + 1) for t in range(self.stages)])

    def _marks(self, high: Ints) -> Bands:
        """Return bands from 0 to high (rows,), without room for their states."""
        shape = (self.groups, high.size)
        return Bands(
            low=np.zeros(shape, np.int64),
            high=np.broadcast_to(high, shape).copy(),
            left=np.zeros(shape, np.uint8),
            right=np.zeros(shape, np.uint8),
            start=np.zeros((self.groups, 0), int),
            index=np.zeros(0),
            share=np.zeros(0),
            room=np.zeros(self.groups, np.int64),
            settled=np.zeros((self.groups, self.stages)),
        )

    def _bands(self, marks: Bands) -> Bands:
        """Allocate room for the states of the bands."""
        lengths = np.maximum(marks.high - marks.low + 1, 0)
        rows = np.arange(self.stages)
        room = np.add.reduceat(lengths, rows * (rows + 1) // 2, axis=1).max(axis=1)
        start = np.cumsum(lengths.ravel()).reshape(lengths.shape)
        states = int(start[-1, -1])
        start -= lengths
        return marks._replace(
            start=start, index=np.zeros(states), share=np.zeros(states), room=room
        )

    def _forget_bands(self) -> None:
        """Free the memory of the bands before others are laid."""
        self.bands = self._marks(np.zeros(0, np.int64))

    def remember_around(self, mu: Floats) -> None:
        """Lay the bands around prices mu: full rows where that is cheap, else as wide as fits."""
        self._forget_bands()
        rows = self._rows()
        full = (rows + 1).sum() * self.groups <= FULL_BAND_STATES
        marks = self._marks(rows)
        del rows
        widths: tuple[float, ...] = () if full else BAND_WIDTHS + NARROW_WIDTHS
        while widths:
            reach = widths[0] * self.scale
            self._lowest, self._highest = mu - reach, mu + reach
            self._lay(marks, mu, reach)
            self.calls += 1
            widths = self._narrower(widths, marks)
        self.bands = self._bands(marks)

    def _narrower(self, widths: tuple[float, ...], marks: Bands) -> tuple[float, ...]:
        """Return the widths to try next, if bands of the first width have too many states.

        A row has about one state, and others in proportion to the width.
        """
        if len(widths) == 1:
            return ()
        lengths = np.maximum(marks.high - marks.low + 1, 0)
        states, rows = int(lengths.sum()), int(np.count_nonzero(lengths))
        expected = [rows + (states - rows) * width / widths[0] for width in widths]
        most = [MOST_NARROW_STATES if w in NARROW_WIDTHS else MOST_BAND_STATES for w in widths]
        fitting = [i for i in range(len(widths)) if expected[i] <= most[i]]
        if 0 in fitting:
            return ()
        return widths[min([*fitting, len(widths) - 1]) :]

    def remember_signs(self, mu: Floats) -> None:
        """Lay bands of no width: only what the relaxed policy at prices mu needs to be replayed."""
        self._forget_bands()
        marks = self._marks(np.zeros(self._rows().size, np.int64))
        self._lay(marks, mu, 0.0)
        self.bands = self._bands(marks)

    def _lay(self, marks: Bands, mu: Floats, width: float) -> None:
        """Lay the bands of all groups, one group per thread."""

        def one(arms: Arms, bands: Bands, k: slice) -> None:
            back = begin(arms, bands, self._V[k])
            for start, stop in self._back(1):
                band_leg(arms, mu, width, bands, self._V[k], back, start, stop)
            # to states that arms can be in while prices stay within the bands
            shape = (len(bands.low), self.stages + 2)
            first, last = np.full(shape, self.stages + 2), np.full(shape, -1)
            first[:, 0] = last[:, 0] = 0
            for start, stop in self._forth(len(bands.low)):
                reach_leg(bands, first, last, start, stop)

        self._each_group(one, marks)

    # Legs

    def _back(self, groups: int) -> Iterator[tuple[int, int]]:
        """Return the chunks of stages of a backward pass over this many groups."""
        return legs(self.stages, 0, groups * slab_size(self.stages))

    def _forth(self, groups: int) -> Iterator[tuple[int, int]]:
        """Return the chunks of stages of a forward pass."""
        return legs(0, self.stages, groups * slab_size(self.stages))

    # Passes

    def dual(self) -> float:
        """Return the dual function at the prices of the last backward pass."""
        return float(self.arms.counts @ self._V[:, 0] + self.pulls @ self.mu)

    def reprice(self) -> float:
        self.calls += 1
        now = (self.arms, self.bands, self.pulls, self._lowest, self._highest, self.mu, self._V)
        if self._in_step:
            self._price_in_step()
            return self.dual()
        back = begin(self.arms, self.bands, self._V)
        for start, stop in self._back(self.groups):
            price_leg(*now, back, start, stop)
        return self.dual()

    def value_at(self, mu: Floats) -> float:
        self.calls += 1
        self.mu = mu.copy()

        def one(arms: Arms, bands: Bands, k: slice) -> None:
            back = begin(arms, bands, self._V[k])
            for start, stop in self._back(1):
                value_leg(arms, bands, mu, self._V[k], back, start, stop)

        self._each_group(one, self.bands)
        return self.dual()

    def clear(self, blend: float) -> Flow:
        reward, spent = np.zeros(self.groups), np.zeros((self.groups, self.stages))
        now = (self.arms, self.bands, self.pulls, blend, self._mass, reward, spent)
        if self._in_step:
            return Flow(reward, spent, True, self._clear_in_step(blend, reward, spent))
        forth = fill(self.arms, self.bands, self._mass, reward)
        narrow = sum(clearing_leg(*now, forth, *leg) for leg in self._forth(self.groups))
        finish(self.arms, self._mass, reward)
        return Flow(reward, spent, True, int(narrow))

    def relaxed(self, *, at_price: float, slack: float = 0.0) -> Flow:
        reward, spent = np.zeros(self.groups), np.zeros((self.groups, self.stages))

        def one(arms: Arms, bands: Bands, k: slice) -> None:
            forth = fill(arms, bands, self._mass[k], reward[k])
            how = (arms, bands, self.mu, slack, at_price, self._mass[k], reward[k], spent[k])
            for start, stop in self._forth(1):
                relaxed_leg(*how, forth, start, stop)
            finish(arms, self._mass[k], reward[k])

        self._each_group(one, self.bands)
        return Flow(reward, spent, False)

    @cached_property
    def _soft(self) -> tuple[Floats, Floats, Any]:
        """Values and masses by row, and the distance to the price of every state at all stages."""
        V, mass = np.empty((2, self.groups, slab_size(self.stages)))
        return V, mass, np.empty((self.groups, states_before(self.stages)), np.float32)

    def soft_value(self, mu: Floats, width: float) -> tuple[float, Floats, Floats]:
        self.calls += 1
        reward, (V, mass, Z) = np.zeros(self.groups), self._soft
        spent, loose = np.zeros((2, self.groups, self.stages))

        def one(arms: Arms, bands: Bands, k: slice) -> None:
            soft_pass(arms, mu, width, V[k], Z[k])
            soft_flow(arms, width, Z[k], mass[k], reward[k], spent[k], loose[k])

        self._each_group(one, self.bands)
        value = float(self.arms.counts @ V[:, 0] + self.pulls @ mu)
        curvature = loose.sum(axis=0) / ((1.0 + 2.0 * AROUND) * width)
        return value, self.pulls - spent.sum(axis=0), curvature

    def soft_clear(self, width: float) -> tuple[Flow, float]:
        reward, spent = np.zeros(self.groups), np.zeros((self.groups, self.stages))
        _, mass, Z = self._soft
        charge = soft_clearing(self.arms, self.pulls, width, Z, mass, reward, spent)
        return Flow(reward, spent, True), float(charge)

    def _each_group(self, work: Callable[[Arms, Bands, slice], None], bands: Bands) -> None:
        """Run work(arms, bands, slice) for every group; kernels release the interpreter's lock."""

        def one(k: int) -> None:
            part = slice(k, k + 1)
            work(group_slice(self.arms, part), band_slice(bands, part), part)

        with pool(self.workers) as threads:
            threads.map(one, range(self.groups))

    # Passes over several threads: groups in parallel, in step at every stage. A stage's price
    # depends on all groups, so the threads meet twice a stage: when all have collected their
    # states, and when one of them has set the price. Worth it if one stage is slow.

    def _run_in_step(
        self,
        order: range,
        start: Callable[[slice, Arms, Bands], tuple[Collect, Proceed]],
        decide: Callable[[int, Floats, Floats], None],
    ) -> None:
        """Go through stages on runs of groups: all collect, one decides, all proceed."""
        edges = np.linspace(0, self.groups, self.workers + 1).round().astype(int)
        barrier = Barrier(self.workers)
        states = [(np.empty(0), np.empty(0))] * self.workers

        def run(i: int) -> None:
            try:
                part = slice(edges[i], edges[i + 1])
                arms, bands = group_slice(self.arms, part), band_slice(self.bands, part)
                collect, proceed = start(part, arms, bands)
                for t in order:
                    heed_interrupt()
                    states[i] = collect(t)
                    if barrier.wait() == 0:
                        keys, weights = zip(*states, strict=True)
                        decide(t, np.concatenate(keys), np.concatenate(weights))
                    barrier.wait()
                    proceed(t)
            except BaseException:  # the others do not wait for this one
                barrier.abort()
                raise

        with pool(self.workers) as threads:
            threads.map(run, range(self.workers))

    def _price_in_step(self) -> None:
        """Run `price_leg` over all stages, on several threads."""
        mu, settled = self.mu, self.bands.settled

        def start(part: slice, arms: Arms, bands: Bands) -> tuple[Collect, Proceed]:
            V = self._V[part]
            back = begin(arms, bands, V)

            def collect(t: int) -> tuple[Floats, Floats]:
                count = bid(arms, bands, t, V, back)
                return back.key[:count], back.weight[:count]

            return collect, lambda t: step(arms, t, mu[t], V, back)

        def decide(t: int, key: Floats, weight: Floats) -> None:
            limits = self._lowest[t], self._highest[t]
            mu[t] = stage_price(key, weight, settled[:, t], self.pulls[t], *limits, mu[t])

        self._run_in_step(range(self.stages - 1, -1, -1), start, decide)

    def _clear_in_step(self, blend: float, reward: Floats, spent: Floats) -> int:
        """Run `clearing_leg` over all stages, on several threads."""
        total, sides = float(self.arms.counts.sum()), np.empty(self.groups)
        sales = list[tuple[float, float, float, float, bool]]()

        def start(part: slice, arms: Arms, bands: Bands) -> tuple[Collect, Proceed]:
            mass = self._mass[part]
            forth = fill(arms, bands, mass, reward[part])

            def collect(t: int) -> tuple[Floats, Floats]:
                count = offer(bands, t, blend, mass, forth)
                sides[part] = forth.sides
                return forth.key[:count], forth.weight[:count]

            def proceed(t: int) -> None:
                price, *parts, _ = sales[t]
                flow = (mass, forth, reward[part], spent[part])
                move(arms, bands, row_start(t), t, price, 0.0, *parts, *flow)

            return collect, proceed

        def decide(t: int, key: Floats, weight: Floats) -> None:
            sales.append(stage_sale(key, weight, sides, total, self.pulls[t]))

        self._run_in_step(range(self.stages), start, decide)
        finish(self.arms, self._mass, reward)
        return sum(narrow for *_, narrow in sales)


def group_slice(arms: Arms, part: slice) -> Arms:
    """Return views of the arrays of some groups."""
    return Arms(*(array[part] for array in arms))


def band_slice(bands: Bands, part: slice) -> Bands:
    """Return the bands of some groups; index and share are not split by group."""
    shared = {"index": bands.index, "share": bands.share}
    return Bands(**{name: array[part] for name, array in bands._asdict().items()} | shared)


# Bounds without a pass, for a long search that is interrupted before its first ones


def rough_upper(arms: Arms, pulls: Floats, mu: Floats) -> float:
    """Return an upper bound on the dual function at prices mu: of arms known from the start.

    V_0[mu] <= E sum_t (bad_t + p (good_t - bad_t) - mu_t)^+  +  largest last reward
    """
    from scipy.special import betaincc  # late: half a second to load

    # rewards are least + x spread of an x ~ Beta(a, b), outcomes in either order; (G, T)
    up = arms.reward_good >= arms.reward_bad
    alpha, beta = arms.alpha[:, None], arms.beta[:, None]
    a, b = np.where(up, alpha, beta), np.where(up, beta, alpha)
    least = np.minimum(arms.reward_good, arms.reward_bad)
    spread = np.abs(arms.reward_good - arms.reward_bad)
    x = np.clip((mu - least) / np.where(spread > 0.0, spread, 1.0), 0.0, 1.0)
    probability = np.where(spread > 0.0, betaincc(a, b, x), least > mu)  # of a reward above mu
    gain = spread * a / (a + b) * betaincc(a + 1.0, b, x) - (mu - least) * probability
    values = gain.clip(0.0).sum(axis=1) + arms.terminal.max(axis=1)
    largest = max(float(np.abs(x).max()) for x in (arms.reward_good, arms.reward_bad, mu))
    rounding = ROUNDING * largest * float(arms.counts.sum()) * mu.size
    return float(arms.counts @ values + pulls @ mu) + rounding


def rough_lower(arms: Arms, pulls: Floats) -> float:
    """Return the reward of pulling the arms with the best prior means at every stage."""
    p = (arms.alpha / (arms.alpha + arms.beta))[:, None]
    means = arms.reward_bad + p * (arms.reward_good - arms.reward_bad)
    order = np.argsort(-means, axis=0, kind="stable")
    counts = arms.counts[order]
    taken = np.clip(pulls - (np.cumsum(counts, axis=0) - counts), 0.0, counts)
    last = float(arms.counts @ arms.terminal.min(axis=1))
    return float((taken * np.take_along_axis(means, order, axis=0)).sum()) + last
