"""The calibrated index under a price path: the surcharge at which an arm is indifferent.

The paths are in `price_paths`. With rewards that change over the stages, where FH-Gittins has no
definition in the literature, the flat path gives its natural extension: the constant charge per
pull at which the arm is indifferent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..problem import Group, Problem, check_problem
from ..problem.kernels.layout import slab_size
from ..support import Cache, Floats, legs, pool, refuse_over, worker_count
from ..support.kernels.compiled import step_by_step
from .gittins_tables import flat_table
from .kernels.calibrated_root import (
    advantage,
    largest_root,
    root,
    stage_largest_roots,
    stage_roots,
    terminal_from,
)
from .kernels.calibrated_sweep import WINDOW, follow, front_of, stage_start
from .price_paths import reward_scale

ACCURACY = 1e-11  # of an index, in units of the largest reward difference
FLAT_STAGES = 600  # up to here tables under a flat price are solved state by state
EXACT_STAGES = 48  # up to here others are, too; beyond come sweeps
SLOW_STAGES = 100  # rewards for which sweeps do not work are solved state by state up to here
LONG_STAGES = 400  # beyond, Ctrl-C is heard within the search for one index
SWEEP_ROWS = 200_000_000  # rows of states that all sweeps together may visit (about 12 s)
FEWEST_SWEEPS, MOST_SWEEPS = 256, 4096
CHUNKS = 8  # runs of neighbouring surcharges, shared by the threads
SHARED_BYTES = 512 * 2**20
SCAN = 64  # surcharges at which the sign of the advantage is evaluated, for one state
HALVINGS = 8  # of the distance of two of them, where the sign may have changed twice


Key = tuple[float | int | bytes | tuple[float, float], ...]
# whole tables by all that they depend on: other problems may have the same arms
_SHARED = Cache[Key, Floats](SHARED_BYTES, size=lambda table: table.nbytes)


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
        self, problem: Problem, base: Floats, *, sweeps: int | None = None,
        workers: int | None = None,
    ) -> None:  # fmt: skip
        self.problem = check_problem(problem)
        self._workers = workers
        self._most_sweeps = MOST_SWEEPS if sweeps is None else sweeps
        self.base = base
        self.weight = np.ones(problem.stages)
        if problem.terminal is not None:
            self.weight[problem.horizon :] = problem.terminal.deploy
        self._scale = reward_scale(problem)
        self._none = np.zeros(slab_size(problem.stages))
        self._tables: dict[int, Floats] = {}  # by stage, solved state by state
        self._whole: list[Floats] = []  # by group, all stages
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

        Looked for on a grid over the surcharges that can matter: two crossings between the same
        two grid points would be missed, except for the largest, which is looked for more closely
        (`largest_root`) and is the index.
        """
        state, V = self._as_fresh_arm(stage, group, good, bad)
        low, high = self._range(stage, group)
        grid = np.linspace(low, high, 2 if self._single(group) else SCAN)
        tol = ACCURACY * self._scale
        signs = [bool(advantage(*state, c, tol, V) > 0.0) for c in grid]
        find = root if self.problem.stages <= LONG_STAGES else step_by_step(root)
        found = [
            float(find(*state, a, b, tol, V))
            for a, b, at_a, at_b in zip(grid[:-1], grid[1:], signs[:-1], signs[1:], strict=True)
            if at_a and not at_b
        ]
        if not found:
            raise ArithmeticError(f"stage {stage}, {good} good, {bad} bad: no index was found")
        if not self._single(group):
            largest = float(largest_root(*state, grid, _least(grid), tol, V))
            found = [c for c in found if c < largest - 10.0 * tol] + [largest]
        return len(found) == 1, found

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
            arm.alpha + good, arm.beta + bad, arm.reward_good[stage:], arm.reward_bad[stage:],
            self.base[stage:], self.weight[stage:], final,
        )  # fmt: skip
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
        do too.
        """
        if not self._is_whole():
            if stage not in self._tables:
                self._solve_from(stage)
            return self._tables[stage]
        return self._whole_stage(stage)

    def _whole_stage(self, stage: int) -> Floats:
        """A stage of the whole tables, which are made when the first is asked for."""
        if not self._whole:
            self._make_whole()
        own = slice(stage_start(stage), stage_start(stage + 1))
        return np.stack([table[own] for table in self._whole])

    def _is_whole(self) -> bool:
        """Whether one table has the indices of all stages; otherwise each stage has its own."""
        return self._flat or (self.problem.stages > EXACT_STAGES and self._monotone())

    def refuse_large(self) -> None:
        """A ValueError where the table of all stages needs more memory than there is."""
        if not self._is_whole():
            return
        stages, groups = self.problem.stages, self.problem.groups
        refuse_over(
            8.0 * len(groups) * stage_start(stages),
            f"a table of calibrated indices over {stages} stages for {len(groups)} kinds of arms",
            "use DeCo, which needs none",
        )

    def _monotone(self) -> bool:
        """Whether indices grow with good outcomes in all groups, as sweeps need it."""
        return all(
            group.terminal is None and bool(np.all(group.reward_good > group.reward_bad))
            for group in self.problem.groups
        )

    def _make_whole(self) -> None:
        self.refuse_large()
        keys = [self._key(k) for k in range(len(self.problem.groups))]

        def make(missing: list[Key]) -> list[Floats]:
            which = [keys.index(key) for key in missing]
            made = self._made(which)
            for table in made:
                table.flags.writeable = False  # others may read it too
            return made

        self._whole = _SHARED.get_or_make_all(keys, make)

    def _made(self, which: list[int]) -> list[Floats]:
        """Whole tables of these groups."""
        return [self._flat_table(k) for k in which] if self._flat else self._sweep(which)

    def _flat_table(self, group: int) -> Floats:
        arm = self.problem.groups[group]
        return flat_table(
            alpha=arm.alpha,
            beta=arm.beta,
            reward_good=arm.reward_good[0] - self.base[0],
            reward_bad=arm.reward_bad[0] - self.base[0],
            stages=self.problem.stages,
            workers=self._workers,
        )

    def _sweep(self, which: list[int]) -> list[Floats]:
        groups = self.problem.groups
        tables = {k: np.empty(stage_start(self.problem.stages)) for k in which}

        def run(job: tuple[int, int]) -> None:
            k, i = job
            group = groups[k]
            how = (self._single(k), 0.0, i > 0)
            self._follow(group, self._surcharges(k, i), WINDOW, how, tables[k])

        jobs = [(k, i) for k in which for i in range(CHUNKS)]
        with pool(worker_count(self._workers, most=len(jobs))) as threads:
            threads.map_told("table of indices", run, jobs)
        return [tables[k] for k in which]

    def _follow(
        self, arm: Group, surcharges: Floats, window: int, how: tuple[bool, float, bool],
        table: Floats,
    ) -> None:  # fmt: skip
        """Sweeps at all surcharges, in legs; how: what `follow` takes as flat, least, skip."""
        stages = self.problem.stages
        front = front_of(stages, window)
        for first, last in legs(0, surcharges.size, stage_start(stages)):
            follow(
                arm.alpha, arm.beta, arm.reward_good, arm.reward_bad, self.base, self.weight,
                self._none, surcharges, *how, front, first, last, table,
            )  # fmt: skip

    def _key(self, group: int) -> Key:
        """All that a whole table depends on."""
        arm = self.problem.groups[group]
        arrays = (arm.reward_good, arm.reward_bad, self.base, self.weight)
        return (
            arm.alpha, arm.beta, 0 if self._flat else self._most_sweeps, self._range(0, group),
            *(array.tobytes() for array in arrays),
        )  # fmt: skip

    def _surcharges(self, group: int, chunk: int) -> Floats:
        """Falling surcharges of one chunk, closer together at both ends; chunks overlap by one."""
        low, high = self._range(0, group)
        sweeps = int(np.clip(SWEEP_ROWS / self.problem.stages**2, FEWEST_SWEEPS, self._most_sweeps))
        all_of_them = high - (high - low) * np.sin(np.linspace(0.0, np.pi / 2, sweeps + 1)) ** 2
        part = np.array_split(all_of_them, CHUNKS)[chunk]
        if chunk == 0:
            return part
        return np.append(np.array_split(all_of_them, CHUNKS)[chunk - 1][-1:], part)

    def _solve_from(self, stage: int) -> None:
        """Exact tables from the last stage down to this one; each is the next one's first guess."""
        if self.problem.stages > SLOW_STAGES:
            raise ValueError(
                f"calibrated indices over {self.problem.stages} stages need rewards of good above "
                f"those of bad and no terminal tables (limit {SLOW_STAGES} stages otherwise, "
                f"{FLAT_STAGES} under a flat price); use DeCo, which needs none"
            )
        for t in range(self.problem.stages - 1, stage - 1, -1):
            if t not in self._tables:
                self._tables[t] = self._solve_stage(t)

    def _solve_stage(self, stage: int) -> Floats:
        groups = self.problem.groups
        table = np.empty((len(groups), slab_size(stage)))
        later = self._tables.get(stage + 1)
        for k, arm in enumerate(groups):
            low, high = self._range(stage, k)
            arrays = (
                arm.alpha, arm.beta, arm.reward_good, arm.reward_bad, self.base, self.weight,
                self._terminal(k), stage,
            )  # fmt: skip
            tol = ACCURACY * self._scale
            if self.problem.terminal is not None:  # with several crossings in many states
                grid = np.linspace(low, high, SCAN)
                stage_largest_roots(*arrays, grid, _least(grid), tol, table[k])
                continue
            guess = np.full(slab_size(stage), 0.5 * (low + high))
            if later is not None:
                guess[:] = later[k, : guess.size]
            step = 0.25 * (high - low) if later is None else 0.02 * self._scale
            stage_roots(*arrays, guess, step, tol, table[k])
        return table


def _least(grid: Floats) -> float:
    """Distance of two surcharges within which no two changes of sign are looked for."""
    return float(grid[1] - grid[0]) * 0.5**HALVINGS
