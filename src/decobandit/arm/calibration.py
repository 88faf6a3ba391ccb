"""Calibrated indices under a price path: the surcharge at which an arm is indifferent.

    flat            0                                  the finite-horizon Gittins index
    theta           theta * mu[s]                      around DeCo's own prices
    best            best * m[s]                        around what the best arm earns, m[s] its
                                                       mean reward at stage s, expected
    root            kappa * scale * sqrt((T - s) / T)  a premium that fades with the time left

The surcharge c, the same at every stage that is played (and `deploy` times as large for the
deployment, which is worth that many pulls), is added to a path of this family. With rewards that
change over the stages, where FH-Gittins has no definition in the literature, the flat path gives
its natural extension: the constant charge per pull at which the arm is indifferent. With a tick,
surcharges come in steps (`kernels.calibrated`): policies earn more that way
(`docs/decisions/0004-default-path.md`), and tables are cheap at any horizon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..problem import Group, Problem, best_mean_per_pull, check_problem
from ..problem.kernels.layout import slab_size
from ..support import (
    Cache,
    Floats,
    Ints,
    InvalidArgument,
    Unsupported,
    legs,
    pool,
    read_only,
    refuse_over,
    worker_count,
)
from ..support.records import doc, record_class
from .kernels.calibrated import (
    NOISE,
    WINDOW,
    PricedArm,
    advantage,
    crossing,
    follow,
    front_of,
    stage_start,
    tick_table,
)
from .kernels.gittins import flat_index, flat_row
from .one_arm_values import check_prices, slab_part
from .row_gittins import RowGittins

ACCURACY = 1e-11  # of an index, in units of the largest reward difference
FLAT_STAGES = 600  # up to here tables under a flat price are solved state by state
EXACT_STAGES = 48  # up to here others are solved in rows of states; beyond, by sweeps
LONG_STAGES = 400  # up to here tables that sweeps may fail for are, too
SWEEP_ROWS = 200_000_000  # rows of states that all sweeps together may visit (about 12 s)
MIN_SWEEPS, MAX_SWEEPS = 256, 4096
CHUNKS = 8  # runs of neighbouring surcharges, shared by the threads
SHARED_BYTES = 512 * 2**20
SPAN_BYTES = 5 * 2**29  # of swept tables at a time; more stages are swept span by span
SCAN_POINTS = 64  # surcharges at which the sign of the advantage is evaluated, for one state
MAX_TICK_WINDOW = 64  # states that a frontier may pass per tick; others are placed halfway
MIN_THREADED_STAGES = 65  # of tables with a tick: below, several threads are slower than one
CACHED_INDICES = 10_000  # of single states, with a tick


@record_class()
class PricePath:
    """A price path: a premium that fades, and multiples of DeCo's prices or of the best mean.

    And the steps in which surcharges are added to it, where there are any.

    Examples
    --------
    >>> from decobandit.arm import PricePath
    >>> str(PricePath(kappa=0.1))
    '0.1 sqrt((T-s)/T)'
    >>> str(PricePath(kappa=0.1, tick=0.02))
    '0.1 sqrt((T-s)/T) in ticks of 0.02'
    """

    theta: float = doc("Weight of the prices of the solved dual.", default=0.0)
    kappa: float = doc(
        "Size of the premium at the first stage, in units of the largest reward difference.",
        default=0.0,
    )
    tick: float = doc(
        "Distance of two surcharges, in the same units: between them the advantage of a pull is "
        "interpolated. 0: surcharges are any numbers.",
        default=0.0,
    )
    best: float = doc(
        "Weight of the expected mean reward of the best arm at each stage.", default=0.0
    )

    @property
    def flat(self) -> bool:
        """Whether it is that of FH-Gittins."""
        return self == PricePath()

    def prices(self, problem: Problem, solved: Floats | None, *, start: int = 0) -> Floats:
        """Return the path over all stages, without the surcharge; `solved`: prices of the dual.

        The premium fades from stage `start` on, where a plan is made that late.
        """
        base = np.zeros(problem.stages)
        if self.theta:
            if solved is None:
                raise InvalidArgument(
                    "theta: a path around DeCo's prices needs a solved dual", field="theta"
                )
            check_prices(solved, problem)
            base += self.theta * solved
        if self.best:
            base += self.best * best_mean_per_pull(problem)
        if self.kappa:
            left = np.maximum(problem.horizon - np.arange(problem.stages), 0)
            left = np.minimum(left / (problem.horizon - start), 1.0)
            base += self.kappa * reward_scale(problem) * np.sqrt(left) * problem.survival
        return base

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the later additions `tick` and `best` only if they are not 0."""
        later = {"tick": self.tick, "best": self.best}
        parameters = {"theta": self.theta, "kappa": self.kappa}
        return parameters | {name: value for name, value in later.items() if value}

    def __str__(self) -> str:
        parts = [f"{self.theta:g} mu"] * bool(self.theta)
        parts += [f"{self.best:g} best"] * bool(self.best)
        parts += [f"{self.kappa:g} sqrt((T-s)/T)"] * bool(self.kappa)
        return (" + ".join(parts) or "flat") + f" in ticks of {self.tick:g}" * bool(self.tick)


def is_steady(problem: Problem, group: Group | None = None) -> bool:
    """Whether all stages are alike, rewards of arms, or of a group, and the end included."""
    return problem.terminal is None and all(
        one.terminal is None
        and bool(np.all(one.reward_good == one.reward_good[0]))
        and bool(np.all(one.reward_bad == one.reward_bad[0]))
        for one in ([group] if group else problem.groups)
    )


def reward_scale(problem: Problem) -> float:
    """Return the largest difference that one outcome makes before any deployment."""
    spread = max(
        float(np.abs(group.reward_good - group.reward_bad)[: problem.horizon].max())
        for group in problem.groups
    )
    return spread or 1.0


Key = tuple[float | int | bytes | tuple[float, float], ...]
# tables by everything that they depend on: several problems may have the same arms
_SHARED = Cache[Key, Floats](SHARED_BYTES, size=lambda table: table.nbytes)


# Tables under a flat price. Up to ALL_STAGES every index is solved, to ACCURACY. In longer tables
# root finding stops when a step is at most LAST_STEP, and indices of arms with many pulls, which
# are smooth where many pulls are left, are partly interpolated;
# `docs/decisions/0002-calibrated-index.md` has the errors.
LAST_STEP = 3e-7  # the error after such a step is far smaller
ALL_STAGES = 128
# (pulls of an arm, (pulls left from which on roots are solved `step` apart, step)): cubics between
# them are off by less than 1e-7
ROOT_STEPS = (
    (200, ((88, 2), (120, 4), (160, 8), (256, 16))),
    (150, ((96, 2), (120, 4), (160, 8), (256, 16))),
    (120, ((96, 2), (120, 4), (160, 8))),
    (80, ((96, 2), (120, 4))),
    (64, ((96, 2),)),
)
SINGLE_THREAD_STAGES = 48  # up to here, several threads are slower than one


def flat_table(
    *,
    alpha: float,
    beta: float,
    reward_good: float,
    reward_bad: float,
    stages: int,
    workers: int | None = None,
) -> Floats:
    """Return finite-horizon Gittins indices of all states and stages, as `stage_start` orders."""
    table = np.empty(stage_start(stages))

    def fill(n: int) -> None:
        tol = ACCURACY if stages <= ALL_STAGES else LAST_STEP
        steps = root_steps(n if stages > ALL_STAGES else 0)
        flat_row(alpha, beta, reward_good, reward_bad, stages, n, steps, tol, table)

    with pool(1 if stages <= SINGLE_THREAD_STAGES else worker_count(workers)) as threads:
        threads.map_told("table of indices", fill, range(stages))
    return table


def root_steps(n: int) -> Ints:
    """Return `steps` of `kernels.gittins` for arms with n pulls."""
    steps = next((steps for least, steps in ROOT_STEPS if n >= least), ())
    return np.array(steps, dtype=np.int64).reshape(-1, 2)


class Job(NamedTuple):
    """Surcharges of one group to sweep at, and the other arguments of `follow`."""

    group: int
    surcharges: Floats
    window: int
    flat: bool
    skip: bool


class Span(NamedTuple):
    """Tables of the stages first .. last-1, laid out as those of all stages are."""

    first: int
    last: int
    tables: list[Floats]  # by group


class Calibration:
    """Calibrated indices of all groups under the prices base + c weight.

    Parameters
    ----------
    problem : Problem
        Bandit problem with good and bad outcomes.
    base : array
        Price path (stages,), from `PricePath.prices`.
    sweeps : int, optional
        Maximum number of sweeps of a table; fewer are faster and less accurate.
    workers : int, optional
        Threads that make tables; all processors by default.

    Examples
    --------
    >>> import numpy as np
    >>> from decobandit import Problem
    >>> from decobandit.arm import Calibration
    >>> flat = Calibration(Problem.uniform(arms=2, horizon=2), np.zeros(2))
    >>> round(flat.index(stage=0, group=0, good=0, bad=0), 6)
    0.555556
    """

    def __init__(
        self,
        problem: Problem,
        base: Floats,
        *,
        sweeps: int | None = None,
        workers: int | None = None,
    ) -> None:
        self.problem = check_problem(problem)
        self._workers = workers
        self._max_sweeps = MAX_SWEEPS if sweeps is None else sweeps
        self.base = base
        self.weight = problem.survival
        if problem.terminal is not None:
            self.weight[problem.horizon :] = problem.terminal.deploy
        self._scale = reward_scale(problem)
        self._tol = ACCURACY * self._scale
        self._none = read_only(np.zeros(slab_size(problem.stages)))  # as tables of problems are
        self._row_indices: dict[int, RowGittins] = {}
        self._span: Span | None = None  # the last computed one: of all stages if they fit
        single = all(self._single(k) for k in range(len(problem.groups)))
        self._flat = single and problem.stages <= FLAT_STAGES

    def _arm(self, group: int) -> PricedArm:
        """Return a group's arm at the prices of this path."""
        arm = self.problem.groups[group]
        table = self._none if arm.terminal is None else arm.terminal
        prior = arm.alpha, arm.beta
        return PricedArm(*prior, arm.reward_good, arm.reward_bad, self.base, self.weight, table)

    def index(self, stage: int, group: int, good: int, bad: int) -> float:
        """Return the index of one state: the largest surcharge at which a pull is worth it."""
        return self.crossings(stage, group, good, bad)[1][-1]

    def crossings(self, stage: int, group: int, good: int, bad: int) -> tuple[bool, list[float]]:
        """Return every surcharge at which the advantage crosses zero, and whether there is one.

        The largest is the index. The others are searched on a grid of surcharges: two crossings
        between the same two grid points are missed.
        """
        from scipy.optimize import brentq  # late: scipy takes half a second to load

        arm = self.problem.groups[group]
        if self._single(group):
            rewards = arm.reward_good[0] - self.base[0], arm.reward_bad[0] - self.base[0]
            left = self.problem.stages - stage
            index = flat_index(arm.alpha + good, arm.beta + bad, *rewards, left, ACCURACY)
            return True, [float(index)]
        if stage >= self.problem.horizon:  # the deployment is worth `weight` times its mean
            mean = (arm.alpha + good) / (arm.alpha + arm.beta + good + bad)
            return True, [float(mean - self.base[-1] / self.weight[-1])]
        largest = self._rows(group).root(stage, np.array([good, bad], dtype=float))
        gain = self._advantage(stage, group, good, bad)
        grid = np.linspace(*self._range(stage, group), SCAN_POINTS)
        signs = [gain(c) > 0.0 for c in grid]
        smaller = [
            float(brentq(gain, low, high, xtol=self._tol))
            for (low, high), (left, right) in zip(pairwise(grid), pairwise(signs), strict=True)
            if left and not right
        ]
        roots = [c for c in smaller if c < largest - 10.0 * self._tol] + [largest]
        return len(roots) == 1, roots

    def _rows(self, group: int) -> RowGittins:
        if group not in self._row_indices:
            self._row_indices[group] = RowGittins(self.problem, group, base=self.base)
        return self._row_indices[group]

    def _advantage(self, stage: int, group: int, good: int, bad: int) -> Callable[[float], float]:
        """Return the advantage of a pull in one state as a function of the surcharge."""
        arm = self.problem.groups[group]
        left = self.problem.stages - stage
        final, V = np.zeros(slab_size(left)), np.empty(slab_size(left))
        if arm.terminal is not None:
            final = slab_part(arm.terminal, good + bad, good, left)
        prior = arm.alpha + good, arm.beta + bad
        rewards = arm.reward_good[stage:], arm.reward_bad[stage:]
        state = PricedArm(*prior, *rewards, self.base[stage:], self.weight[stage:], final)
        return lambda c: float(advantage(state, c, self._tol, V))

    def _single(self, group: int) -> bool:
        """Whether there is provably one crossing: the same price and rewards at all stages."""
        return self._steady(group) and bool(np.all(self.base == self.base[0]))

    def _steady(self, group: int) -> bool:
        return is_steady(self.problem, self.problem.groups[group])

    def _range(self, stage: int, group: int) -> tuple[float, float]:
        """Return surcharges below and above all crossings."""
        arm = self.problem.groups[group]
        best = np.maximum(arm.reward_good, arm.reward_bad)[stage:]
        worst = np.minimum(arm.reward_good, arm.reward_bad)[stage:]
        if arm.terminal is not None:
            most = 2.0 * float(np.abs(arm.terminal).max())
            best, worst = best + most, worst - most
        weight, base = self.weight[stage:], self.base[stage:]
        low, high = float(((worst - base) / weight).min()), float(((best - base) / weight).max())
        margin = 1e-3 * self._scale
        return low - margin, high + margin

    def stage_index(self, stage: int) -> Floats:
        """Return the index of every state at a stage, (groups, slab).

        With a flat price and the same rewards at all stages: as `index`, to 1e-7, mostly better.
        Otherwise short horizons are exact, and long ones are swept over many surcharges, with
        errors of up to half the distance of two surcharges and mostly far less. The surcharges span
        the rewards of all stages: errors grow with the differences between stages. Sweeps need
        indices that grow with good outcomes; without that, tables up to LONG_STAGES are solved in
        rows of states, and longer sweeps may miss the largest crossing.
        """
        span = self._span  # read once: another thread may replace it
        if span is None or not span.first <= stage < span.last:
            self._span = span = None  # frees its memory
            edges = self._edges()
            i = int(np.searchsorted(edges, stage, side="right"))
            self._span = span = self._span_of(int(edges[i - 1]), int(edges[i]))
        start = stage_start(span.first)
        states = slice(stage_start(stage) - start, stage_start(stage + 1) - start)
        return np.stack([table[states] for table in span.tables])

    def is_made(self, stage: int) -> bool:
        """Whether the table of a stage has been computed."""
        span = self._span
        return span is not None and span.first <= stage < span.last

    def _edges(self) -> Ints:
        """Return where spans of stages begin and end, with about equally many states each."""
        stages = self.problem.stages
        states = stage_start(np.arange(stages + 1))
        number = 1
        if self._is_swept():
            number = max(1, math.ceil(8.0 * len(self.problem.groups) * states[-1] / SPAN_BYTES))
        parts = np.arange(1, number) / number * states[-1]
        return np.unique([0, *np.searchsorted(states, parts), stages])

    def _is_swept(self) -> bool:
        """Whether tables are computed by sweeps over surcharges."""
        if self._flat or self.problem.stages <= EXACT_STAGES:
            return False
        return self._monotone() or (self.problem.stages > LONG_STAGES and self._is_sweepable())

    def refuse_large(self) -> None:
        """Raise TooLarge if the table of all stages exceeds the memory limit."""
        stages, kinds = self.problem.stages, len(self.problem.groups)
        refuse_over(
            8.0 * kinds * int(np.diff(stage_start(self._edges())).max()),
            f"a table of calibrated indices over {stages} stages for {kinds} kinds of arms",
            "use DeCo, which needs none",
        )

    def _monotone(self) -> bool:
        """Whether indices provably grow with good outcomes in all groups, as sweeps need it.

        False with a deployment, or if later outcomes earn more: the information of a pull may then
        be worth more than its reward.
        """
        falling = all(
            bool(np.all(np.diff(group.reward_good - group.reward_bad) <= 0.0))
            for group in self.problem.groups
        )
        return self._is_sweepable() and self.problem.terminal is None and falling

    def _is_sweepable(self) -> bool:
        return all(
            group.terminal is None and bool(np.all(group.reward_good > group.reward_bad))
            for group in self.problem.groups
        )

    def _span_of(self, first: int, last: int) -> Span:
        self.refuse_large()
        keys = [(first, last, *self._key(k)) for k in range(len(self.problem.groups))]

        def make(missing: list[Key]) -> list[Floats]:
            groups = [keys.index(key) for key in missing]
            if self._is_swept():
                tables = self._sweep(groups, first, last)
            else:
                tables = [self._solved_table(k) for k in groups]
            for table in tables:
                table.flags.writeable = False  # shared
            return tables

        return Span(first, last, _SHARED.get_or_make_all(keys, make))

    def _solved_table(self, group: int) -> Floats:
        if not self._flat:
            self._refuse_long()
            rows = self._rows(group)
            tables = [rows.table(stage) for stage in range(self.problem.horizon)]
            if self.problem.terminal is not None:
                tables.append(rows.graph.mean - self.base[-1] / self.weight[-1])
            return np.concatenate(tables)
        arm = self.problem.groups[group]
        return flat_table(
            alpha=arm.alpha,
            beta=arm.beta,
            reward_good=arm.reward_good[0] - self.base[0],
            reward_bad=arm.reward_bad[0] - self.base[0],
            stages=self.problem.stages,
            workers=self._workers,
        )

    def _refuse_long(self) -> None:
        """Refuse horizons at which tables need sweeps that might miss the largest crossing."""
        stages = self.problem.stages
        if stages > LONG_STAGES:
            raise Unsupported(
                f"calibrated indices over {stages} stages need rewards of good above those of bad "
                f"and neither terminal tables nor a deployment (limit {LONG_STAGES} stages "
                "otherwise); use DeCo, which needs none"
            )

    def _sweep(self, groups: list[int], first: int, last: int) -> list[Floats]:
        """Compute tables of the stages first .. last-1; threads share the surcharges."""
        size = stage_start(last) - stage_start(first)
        tables = {k: np.empty(size) for k in groups}
        jobs = [job for k in groups for job in self._jobs(k)]

        def run(job: Job, step: Callable[[int], None]) -> None:
            front = front_of(first, last, job.window)
            arm = self._arm(job.group)._replace(terminal=self._none)
            how = (arm, job.surcharges, job.flat, NOISE * self._tol, job.skip, front)
            for begin, end in legs(0, job.surcharges.size, stage_start(self.problem.stages)):
                follow(*how, begin, end, first, last, tables[job.group])
                step(end - begin)

        task = "table of indices"
        if last - first < self.problem.stages:
            task += f", stages {first} to {last - 1}"
        total = sum(job.surcharges.size for job in jobs)
        with pool(worker_count(self._workers, most=len(jobs))) as threads:
            threads.map_in_steps(task, run, jobs, total)
        return [tables[k] for k in groups]

    def _jobs(self, group: int) -> list[Job]:
        """Split the surcharges into runs for the threads; runs overlap by one surcharge.

        Surcharges are closer together at both ends of their range.
        """
        low, high = self._range(0, group)
        sweeps = int(np.clip(SWEEP_ROWS / self.problem.stages**2, MIN_SWEEPS, self._max_sweeps))
        surcharges = high - (high - low) * np.sin(np.linspace(0.0, np.pi / 2, sweeps + 1)) ** 2
        edges = np.cumsum([part.size for part in np.array_split(surcharges, CHUNKS)])
        flat = self._single(group)
        return [
            Job(group, surcharges[max(begin - 1, 0) : end], WINDOW, flat, begin > 0)
            for begin, end in zip([0, *edges[:-1]], edges, strict=True)
        ]

    def _key(self, group: int) -> Key:
        """Return everything that a table depends on."""
        arm = self.problem.groups[group]
        arrays = [arm.reward_good, arm.reward_bad, self.base, self.weight]
        arrays += [] if arm.terminal is None else [arm.terminal]
        return (
            arm.alpha,
            arm.beta,
            0 if self._flat else self._max_sweeps,
            self._range(0, group),
            *(array.tobytes() for array in arrays),
        )


class TickCalibration(Calibration):
    """Calibrated indices of all groups with surcharges in steps of a tick.

    The best reward of the problem is one of the surcharges.
    """

    def __init__(
        self, problem: Problem, base: Floats, *, tick: float, workers: int | None = None
    ) -> None:
        super().__init__(problem, base, workers=workers)
        self.tick = tick
        self._flat = False
        T = problem.horizon
        self._anchor = max(
            float((np.maximum(group.reward_good, group.reward_bad) / self.weight)[:T].max())
            for group in problem.groups
        )
        self._indices = Cache[tuple[int, int, int, int], float](CACHED_INDICES)

    def index(self, stage: int, group: int, good: int, bad: int) -> float:
        """Return the index of one state, without a table."""

        def make() -> float:
            lowest = self._surcharges_below(self._range(0, group)[0], group)[-1]
            return next(self._zeros(stage, group, good, bad), float(lowest))

        return self._indices.get_or_make((stage, group, good, bad), make)

    def crossings(self, stage: int, group: int, good: int, bad: int) -> tuple[bool, list[float]]:
        """Return every zero of the interpolated advantage; the last is the index."""
        roots = list(self._zeros(stage, group, good, bad))[::-1]
        return len(roots) == 1, roots

    def _zeros(self, stage: int, group: int, good: int, bad: int) -> Iterator[float]:
        """Yield the zeros of the interpolated advantage, the largest first."""
        surcharges = self._surcharges_below(self._ceiling(stage, group, good, bad), group)
        gains = map(self._advantage(stage, group, good, bad), surcharges)
        points = zip(surcharges, gains, strict=True)
        for (above, before), (c, now) in pairwise(points):
            if now > 0.0 >= before:
                yield float(crossing(c, above, now, before))

    def _ceiling(self, stage: int, group: int, good: int, bad: int) -> float:
        """Return a surcharge at which no pull is worth its price.

        With steady rewards, the Gittins index less the smallest later price: at prices that are
        nowhere below the Gittins index an arm is never pulled.
        """
        arm = self.problem.groups[group]
        if not self._steady(group):
            return self._range(stage, group)[1]
        rewards, left = (arm.reward_good[0], arm.reward_bad[0]), self.problem.stages - stage
        index = flat_index(arm.alpha + good, arm.beta + bad, *rewards, left, ACCURACY)
        return float(index - self.base[stage:].min()) + 1e-6 * self._scale

    def _surcharges_below(self, ceiling: float, group: int) -> Floats:
        """Return all surcharges that matter for a group, falling from above the ceiling."""
        low = self._range(0, group)[0]
        first = int(np.floor((self._anchor - ceiling) / self.tick))
        last = int(np.ceil((self._anchor - low) / self.tick))
        return np.asarray(self._anchor - self.tick * np.arange(first, last + 1), dtype=np.float64)

    def _is_swept(self) -> bool:
        return self._monotone()

    def _solved_table(self, group: int) -> Floats:
        self._refuse_long()
        table = np.empty(stage_start(self.problem.stages))
        surcharges = self._surcharges_below(self._range(0, group)[1], group)
        tick_table(self._arm(group), surcharges, self._tol, table)
        return table

    def _jobs(self, group: int) -> list[Job]:
        surcharges = self._surcharges_below(self._range(0, group)[1], group)
        chunks = 1 if self.problem.stages < MIN_THREADED_STAGES else CHUNKS
        edges = np.linspace(0, surcharges.size - 1, chunks + 1).astype(int)
        window = self._window(group)
        return [
            Job(group, surcharges[edges[i] : edges[i + 1] + 1], window, False, i > 0)
            for i in range(chunks)
        ]

    def _window(self, group: int) -> int:
        """Return how many states of a row the frontier may pass in one tick, and some more."""
        arm = self.problem.groups[group]
        spread = float(((arm.reward_good - arm.reward_bad) / self.weight).min())
        weight = arm.alpha + arm.beta + self.problem.stages
        passed = int(min(2.0 * self.tick / spread * weight, MAX_TICK_WINDOW))
        return min(4 + passed, MAX_TICK_WINDOW, self.problem.stages + 1)

    def _key(self, group: int) -> Key:
        return (self.tick, self._anchor, *super()._key(group))
