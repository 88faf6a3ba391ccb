"""The calibrated index under a price path: the surcharge at which an arm is indifferent.

The paths are in `price_paths`. With rewards that change over the stages, where FH-Gittins has no
definition in the literature, the flat path gives its natural extension: the constant charge per
pull at which the arm is indifferent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..problem import Problem, check_problem
from ..problem.kernels.layout import slab_size
from ..support import Cache, Floats, Ints, legs, pool, read_only, refuse_over, worker_count
from ..support.kernels.compiled import step_by_step
from .gittins_tables import flat_table
from .kernels.calibrated_root import NOISE, advantage, root, stage_roots, terminal_from
from .kernels.calibrated_sweep import WINDOW, follow, front_of, stage_start
from .kernels.gittins import flat_index
from .price_paths import reward_scale
from .row_gittins import RowGittins

ACCURACY = 1e-11  # of an index, in units of the largest reward difference
FLAT_STAGES = 600  # up to here tables under a flat price are solved state by state
EXACT_STAGES = 48  # up to here others are, too; beyond come sweeps
LONG_STAGES = 400  # up to here tables for which sweeps may fail are solved in rows of states;
# beyond, Ctrl-C is heard within the search for one index
SWEEP_ROWS = 200_000_000  # rows of states that all sweeps together may visit (about 12 s)
FEWEST_SWEEPS, MOST_SWEEPS = 256, 4096
CHUNKS = 8  # runs of neighbouring surcharges, shared by the threads
SHARED_BYTES = 512 * 2**20
SPAN_BYTES = 5 * 2**29  # of swept tables at a time; more stages are swept span by span
SCAN = 64  # surcharges at which the sign of the advantage is evaluated, for one state
# in units of the largest reward difference, of an index in a table of rows from the exact one:
NEAR, FAR = 1e-6, 1e-3  # first step of the search, and more than the error can be


Key = tuple[float | int | bytes | tuple[float, float], ...]
# whole tables by all that they depend on: other problems may have the same arms
_SHARED = Cache[Key, Floats](SHARED_BYTES, size=lambda table: table.nbytes)


class Job(NamedTuple):
    """Surcharges of one group to sweep at, and what `follow` takes beside them."""

    group: int
    surcharges: Floats
    window: int
    flat: bool
    noise: float
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
        Whose arms have the indices.
    base : array
        Price path (stages,), as `PricePath.prices` makes it.
    sweeps : int, optional
        Of a table that is swept, at most; fewer are faster and less accurate.
    workers : int, optional
        Threads that make tables; all processors by default.

    Examples
    --------
    >>> import numpy as np
    >>> from decobandit import Calibration, Problem
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
        self._most_sweeps = MOST_SWEEPS if sweeps is None else sweeps
        self.base = base
        self.weight = np.ones(problem.stages)
        if problem.terminal is not None:
            self.weight[problem.horizon :] = problem.terminal.deploy
        self._scale = reward_scale(problem)
        self._noise = NOISE * ACCURACY * self._scale
        self._none = read_only(np.zeros(slab_size(problem.stages)))  # as tables of problems are
        self._tables: dict[int, Floats] = {}  # by stage, not made by sweeps
        self._in_rows: dict[int, RowGittins] = {}
        self._span: Span | None = None  # the last that was made: of all stages where they fit
        single = all(self._single(k) for k in range(len(problem.groups)))
        self._flat = single and problem.stages <= FLAT_STAGES

    def _terminal(self, group: int) -> Floats:
        table = self.problem.groups[group].terminal
        return self._none if table is None else table

    def index(self, stage: int, group: int, good: int, bad: int) -> float:
        """The index of one state: the largest surcharge at which a pull is worth its price."""
        _, crossings = self.crossings(stage, group, good, bad)
        return crossings[-1]

    def crossings(self, stage: int, group: int, good: int, bad: int) -> tuple[bool, list[float]]:
        """Every surcharge at which the advantage crosses zero, and whether there is just one.

        The largest is the index, the largest surcharge at which a pull is as good as none. Others
        are looked for on a grid over the surcharges that can matter: two crossings between the same
        two grid points are missed.
        """
        arm, tol = self.problem.groups[group], ACCURACY * self._scale
        if self._single(group):
            rewards = arm.reward_good[0] - self.base[0], arm.reward_bad[0] - self.base[0]
            left = self.problem.stages - stage
            index = flat_index(arm.alpha + good, arm.beta + bad, *rewards, left, ACCURACY)
            return True, [float(index)]
        if stage >= self.problem.horizon:  # the deployment: worth its mean as often as it counts
            mean = (arm.alpha + good) / (arm.alpha + arm.beta + good + bad)
            return True, [float(mean - self.base[-1] / self.weight[-1])]
        largest = self._rows(group).root(stage, np.array([good, bad], dtype=float))
        state, V = self._as_fresh_arm(stage, group, good, bad)
        grid = np.linspace(*self._range(stage, group), SCAN)
        signs = [bool(advantage(*state, c, tol, V) > 0.0) for c in grid]
        find = root if self.problem.stages <= LONG_STAGES else step_by_step(root)
        found = [
            float(find(*state, a, b, tol, V))
            for a, b, at_a, at_b in zip(grid[:-1], grid[1:], signs[:-1], signs[1:], strict=True)
            if at_a and not at_b
        ]
        found = [c for c in found if c < largest - 10.0 * tol] + [largest]
        return len(found) == 1, found

    def _rows(self, group: int) -> RowGittins:
        """Indices over the states in rows of a group."""
        if group not in self._in_rows:
            self._in_rows[group] = RowGittins(self.problem, group, base=self.base)
        return self._in_rows[group]

    def _as_fresh_arm(
        self, stage: int, group: int, good: int, bad: int
    ) -> tuple[tuple[Any, ...], Floats]:
        """What `advantage` takes for a state, up to the surcharge; and its work space."""
        arm = self.problem.groups[group]
        left = self.problem.stages - stage
        final, V = np.zeros(slab_size(left)), np.empty(slab_size(left))
        if arm.terminal is not None:
            terminal_from(arm.terminal, good + bad, good, left, final)
        state = (
            arm.alpha + good,
            arm.beta + bad,
            arm.reward_good[stage:],
            arm.reward_bad[stage:],
            self.base[stage:],
            self.weight[stage:],
            final,
        )
        return state, V

    def _single(self, group: int) -> bool:
        """Whether there is provably one crossing: the same price and rewards at every stage."""
        return self._steady(group) and bool(np.all(self.base == self.base[0]))

    def _steady(self, group: int) -> bool:
        """Whether rewards are the same at every stage, and there are no last ones."""
        arm = self.problem.groups[group]
        return bool(
            arm.terminal is None
            and self.problem.terminal is None
            and np.all(arm.reward_good == arm.reward_good[0])
            and np.all(arm.reward_bad == arm.reward_bad[0])
        )

    def _range(self, stage: int, group: int) -> tuple[float, float]:
        """Surcharges below all and above all crossings: always worth a pull, never worth one."""
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
        """Index of every state at a stage, (groups, slab).

        Under a flat price, with the same rewards at all stages: as `index`, to 1e-7 and mostly
        far better. Otherwise, short horizons: exact, as `index`. Long ones: by sweeps over many
        surcharges, which leaves errors of up to half the distance of two surcharges, and mostly
        far less. The surcharges span the rewards of all stages: where these differ much, errors
        do too. Sweeps need indices that grow with good outcomes; otherwise, up to LONG_STAGES,
        tables are solved in rows of states. Beyond, sweeps may miss the largest crossing.
        """
        if not self._is_whole():
            if stage not in self._tables:
                self._tables[stage] = self._solve_stage(stage)
            return self._tables[stage]
        return self._whole_stage(stage)

    def is_made(self, stage: int) -> bool:
        """Whether the table of a stage is there."""
        span = self._span
        return stage in self._tables or (span is not None and span.first <= stage < span.last)

    def _whole_stage(self, stage: int) -> Floats:
        """A stage of the tables of its span, which are made when the first is asked for."""
        span = self._span  # read once: another thread may replace it
        if span is None or not span.first <= stage < span.last:
            self._span = span = None  # its memory is needed
            self._span = span = self._made_span(*self._stages_around(stage))
        start = stage_start(span.first)
        own = slice(stage_start(stage) - start, stage_start(stage + 1) - start)
        return np.stack([table[own] for table in span.tables])

    def _stages_around(self, stage: int) -> tuple[int, int]:
        """First stage of the span of a stage, and the end: all stages where their tables fit."""
        edges = self._edges()
        i = int(np.searchsorted(edges, stage, side="right"))
        return int(edges[i - 1]), int(edges[i])

    def _edges(self) -> Ints:
        """Where spans of stages begin and end: they have about as many states each."""
        stages = self.problem.stages
        states = stage_start(np.arange(stages + 1))
        number = 1
        if self._is_swept():
            number = max(1, math.ceil(self._bytes(int(states[-1])) / SPAN_BYTES))
        parts = np.arange(1, number) / number * states[-1]
        return np.unique([0, *np.searchsorted(states, parts), stages])

    def _bytes(self, states: int) -> float:
        """Of so many states of all groups."""
        return 8.0 * len(self.problem.groups) * states

    def _is_swept(self) -> bool:
        """Whether whole tables are made by sweeps."""
        return not self._flat

    def _is_whole(self) -> bool:
        """Whether one table has the indices of all stages; otherwise each stage has its own."""
        if self._flat or self.problem.stages <= EXACT_STAGES:
            return self._flat
        return self._monotone() or (self.problem.stages > LONG_STAGES and self._is_sweepable())

    def refuse_large(self) -> None:
        """A ValueError where the table of all stages needs more memory than there is."""
        if not self._is_whole():
            return
        stages, groups = self.problem.stages, self.problem.groups
        most = int(np.diff(stage_start(self._edges())).max())
        refuse_over(
            self._bytes(most),
            f"a table of calibrated indices over {stages} stages for {len(groups)} kinds of arms",
            "use DeCo, which needs none",
        )

    def _monotone(self) -> bool:
        """Whether indices provably grow with good outcomes in all groups, as sweeps need it.

        Not with a deployment, nor where outcomes come to matter more: what a pull tells may then
        count for more than what it earns.
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

    def _made_span(self, first: int, last: int) -> Span:
        self.refuse_large()
        keys = [(first, last, *self._key(k)) for k in range(len(self.problem.groups))]

        def make(missing: list[Key]) -> list[Floats]:
            which = [keys.index(key) for key in missing]
            made = self._made(which, first, last)
            for table in made:
                table.flags.writeable = False  # others may read it too
            return made

        return Span(first, last, _SHARED.get_or_make_all(keys, make))

    def _made(self, which: list[int], first: int, last: int) -> list[Floats]:
        """Tables of these groups over a span; all stages unless they are swept."""
        if self._is_swept():
            return self._sweep(which, first, last)
        return [self._solved_table(k) for k in which]

    def _solved_table(self, group: int) -> Floats:
        arm = self.problem.groups[group]
        return flat_table(
            alpha=arm.alpha,
            beta=arm.beta,
            reward_good=arm.reward_good[0] - self.base[0],
            reward_bad=arm.reward_bad[0] - self.base[0],
            stages=self.problem.stages,
            workers=self._workers,
        )

    def _sweep(self, which: list[int], first: int, last: int) -> list[Floats]:
        """Tables of the stages first .. last-1, by threads that share the surcharges."""
        size = stage_start(last) - stage_start(first)
        tables = {k: np.empty(size) for k in which}
        jobs = [job for k in which for job in self._jobs(k)]

        def run(job: Job, step: Callable[[int], None]) -> None:
            front = front_of(first, last, job.window)
            arm, table = self.problem.groups[job.group], tables[job.group]
            for begin, end in legs(0, job.surcharges.size, stage_start(self.problem.stages)):
                follow(
                    arm.alpha,
                    arm.beta,
                    arm.reward_good,
                    arm.reward_bad,
                    self.base,
                    self.weight,
                    self._none,
                    job.surcharges,
                    job.flat,
                    job.noise,
                    job.skip,
                    front,
                    begin,
                    end,
                    first,
                    last,
                    table,
                )
                step(end - begin)

        what = "table of indices"
        if last - first < self.problem.stages:
            what += f", stages {first} to {last - 1}"
        total = sum(job.surcharges.size for job in jobs)
        with pool(worker_count(self._workers, most=len(jobs))) as threads:
            threads.map_in_steps(what, run, jobs, total)
        return [tables[k] for k in which]

    def _jobs(self, group: int) -> list[Job]:
        """Runs of surcharges, each for one thread."""
        flat = self._single(group)
        return [
            Job(group, self._surcharges(group, i), WINDOW, flat, self._noise, i > 0)
            for i in range(CHUNKS)
        ]

    def _key(self, group: int) -> Key:
        """All that a whole table depends on."""
        arm = self.problem.groups[group]
        arrays = (arm.reward_good, arm.reward_bad, self.base, self.weight)
        return (
            arm.alpha,
            arm.beta,
            0 if self._flat else self._most_sweeps,
            self._range(0, group),
            *(array.tobytes() for array in arrays),
        )

    def _surcharges(self, group: int, chunk: int) -> Floats:
        """Falling surcharges of one chunk, closer together at both ends; chunks overlap by one."""
        low, high = self._range(0, group)
        sweeps = int(np.clip(SWEEP_ROWS / self.problem.stages**2, FEWEST_SWEEPS, self._most_sweeps))
        all_of_them = high - (high - low) * np.sin(np.linspace(0.0, np.pi / 2, sweeps + 1)) ** 2
        part = np.array_split(all_of_them, CHUNKS)[chunk]
        if chunk == 0:
            return part
        return np.append(np.array_split(all_of_them, CHUNKS)[chunk - 1][-1:], part)

    def _solve_stage(self, stage: int) -> Floats:
        stages, groups = self.problem.stages, self.problem.groups
        if stages > LONG_STAGES:
            raise ValueError(
                f"calibrated indices over {stages} stages need rewards of good above those of bad "
                f"and no terminal tables (limit {LONG_STAGES} stages otherwise, {FLAT_STAGES} "
                "under a flat price); use DeCo, which needs none"
            )
        table = np.empty((len(groups), slab_size(stage)))
        for k, arm in enumerate(groups):
            if stage >= self.problem.horizon:
                table[k] = self._rows(k).graph.mean - self.base[-1] / self.weight[-1]
                continue
            in_rows = self._rows(k).table(stage)
            table[k] = in_rows
            if stages <= EXACT_STAGES:
                stage_roots(
                    arm.alpha,
                    arm.beta,
                    arm.reward_good,
                    arm.reward_bad,
                    self.base,
                    self.weight,
                    self._terminal(k),
                    stage,
                    in_rows,
                    NEAR * self._scale,
                    ACCURACY * self._scale,
                    table[k],
                )
                other = np.abs(table[k] - in_rows) > FAR * self._scale  # a smaller crossing
                table[k, other] = in_rows[other]
        return table
