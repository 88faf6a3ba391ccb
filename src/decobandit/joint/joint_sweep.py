"""Joint states of single good/bad pulls: their number, shapes, ranks, and values over the stages.

A level is the set of states with the same total number of pulls: those before a stage, as one pull
is made at each. `kernels/joint.py` defines shapes, runs and ranks. In a large group, only as many
arms have columns as can ever be pulled; the others stay unpulled.

Threads share the shapes of a stage. The values of the last one or two stages are not stored, and
those of the one before are rewritten in place. For two arms, each thread takes
the next block of stages and follows the thread before it through the slabs.

Notations
    G, C, S  groups, columns, shapes of a level
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import comb
from threading import Condition
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..problem import Problem, arms_of
from ..support import Floats, Ints, Progress, Report, pool
from .kernels.joint import Ranking, Shapes, fill_ahead, fill_ending, fill_last, fill_level
from .kernels.two_arms import last_slabs, step_fronts
from .shapes import states_by_units

SMALL_LEVEL = 20_000  # states; below this, threads are not worth it
SMALL_BLOCK = 1_000_000  # states that are rewritten at once
PARTS_PER_THREAD = 4
CACHE_BYTES = 8 * 2**20  # what the slabs of one front may take
MOST_STATES_AT_ONCE = 5_000_000  # of a part: Ctrl-C works between parts
MOST_STAGES_PER_BLOCK = 16
FRONTS_AT_ONCE = 16
SHORT_HORIZON = 150  # two arms: below this, threads are not worth it
LARGEST_RANK = 2.0**62


# -- counting -----------------------------------------------------------------------------------


class Counted(NamedTuple):
    """Numbers of joint states and shapes at the beginning of each stage, (stages,).

    Not finite where counting would be slow.
    """

    states: list[float]
    shapes: list[float]


def columns(problem: Problem, stages: int | None = None) -> list[int]:
    """Return the number of arms per group that can be pulled, in all stages or the first ones."""
    spent = round(problem.pulls[:stages].sum())
    return [min(group.count, spent) for group in problem.groups]


def count(problem: Problem, stages: int | None = None) -> Counted:
    """Count the joint states of all stages, or of the first ones, without enumerating them."""
    most, arms = (stages or problem.stages) - 1, columns(problem, stages)
    multisets = states_by_units(arms, most, most, lambda k, r, i: float(comb(r + i, i)))
    shapes = states_by_units(arms, most, most, lambda k, r, i: 1.0)
    return Counted(multisets.tolist(), shapes.tolist())


# -- shapes, level by level ---------------------------------------------------------------------


def shapes_at(
    problem: Problem, level: int, later: Shapes | None = None, stages: int | None = None
) -> Shapes:
    """Return all shapes of a level, linked to those of the next level if it is given."""
    arms = columns(problem, stages)
    group = np.repeat(np.arange(len(arms)), arms)
    pulls = _partitions(arms, level)
    ends = np.ones(pulls.shape, bool)
    ends[:, :-1] = (pulls[:, 1:] != pulls[:, :-1]) | (group[1:] != group[:-1])
    after = np.full(pulls.shape, -1, np.int32)
    if later is not None:
        keys = _keys(later.pulls)
        for c in range(len(group)):
            (rows,) = np.nonzero(ends[:, c])
            pulled = pulls[rows]
            pulled[:, c] += 1
            after[rows, c] = np.searchsorted(keys, _keys(pulled))
    return Shapes(pulls, _offsets(pulls, ends), after)


def _partitions(arms: Sequence[int], level: int) -> npt.NDArray[np.int32]:
    """Return pulls of every column, (S, C): `level` in all, ascending in groups."""
    left = np.array([level])
    after = sum(arms)
    steps: list[tuple[Ints, Ints]] = []  # per column: row that it extends, pulls
    for count in arms:
        low = np.zeros_like(left)
        for unfilled in range(count, 0, -1):
            after -= 1
            low = np.maximum(low, 0 if after else left)
            choices = left // unfilled - low + 1
            row = np.repeat(np.arange(left.size), choices)
            v = low[row] + np.arange(row.size) - np.repeat(np.cumsum(choices) - choices, choices)
            steps.append((row, v))
            left, low = left[row] - v, v
    pulls = np.empty((left.size, len(steps)), np.int32)
    row = np.arange(left.size)
    for c in range(len(steps) - 1, -1, -1):
        pulls[:, c] = steps[c][1][row]
        row = steps[c][0][row]
    return pulls


def _keys(pulls: npt.NDArray[np.int32]) -> npt.NDArray[np.bytes_]:
    """Return one byte string per row; they sort as the rows do."""
    return np.ascontiguousarray(pulls, ">u2").view(f"S{2 * pulls.shape[1]}")[:, 0]


def _offsets(pulls: npt.NDArray[np.int32], ends: npt.NDArray[np.bool_]) -> Ints:
    """Return the rank of the first state of every shape, and the number of states, (S + 1,)."""
    size = np.ones(len(pulls), np.int64)
    r = np.zeros(len(pulls), np.int64)
    for v, end in zip(pulls.T, ends.T, strict=True):
        # C(v+r, r) = C(v+r-1, r-1) (v+r) / r, without remainder
        r += 1
        size = size * (v + r) // r
        r[end] = 0
    return np.concatenate([[0], np.cumsum(size)])


# -- ranks of multisets -------------------------------------------------------------------------


def ranking_of(problem: Problem, stages: int | None = None) -> Ranking:
    """Return the tables that all levels share, or those of the first stages."""
    stages = stages or problem.stages
    arms = columns(problem, stages)
    most = max(arms)
    under = _under(stages + 2, most + 2)
    members = np.zeros((1, 0), np.int64)  # all multisets of r values, in order of rank
    tables: list[Ints] = []
    for r in range(most):
        # r + 1 arms with v pulls, or one with v - 1 and r with v: no more than `stages` in all
        v = stages // (r + 1)
        tables.append(_insertions(members[: under[v + 1, r]], v, under))
        values = range(stages // (r + 2) + 1)
        smaller = [members[: under[x + 1, r]] for x in values]  # x is the largest of the others
        members = np.concatenate(
            [np.column_stack([rows, np.full(len(rows), x)]) for x, rows in enumerate(smaller)]
        )
    return Ranking(
        group=np.repeat(np.arange(len(arms)), arms),
        under=under,
        start=np.array([0, *accumulate(table.size for table in tables)]),
        width=np.array([table.shape[1] for table in tables], np.int64),
        insert=np.concatenate([np.zeros(0, np.int64), *(table.ravel() for table in tables)]),
    )


def _under(values: int, most: int) -> Ints:
    """Return C(v + i - 1, i), the number of multisets of i values below v, for all v and i."""
    under = np.zeros((values, most))
    under[0, 0] = 1.0
    for v in range(1, values):
        under[v] = np.minimum(np.cumsum(under[v - 1]), LARGEST_RANK)
    return under.astype(np.int64)


def _insertions(members: Ints, v: int, under: Ints) -> Ints:
    """Return the rank of every multiset (row) with one more value 0..v (column)."""
    rows, r = members.shape
    i = np.arange(1, r + 1)
    none = np.zeros((rows, 1), np.int64)
    # values up to g keep their position, the others move up by one
    keep = np.hstack([none, np.cumsum(under[members, i], axis=1)])
    move = np.hstack([none, np.cumsum(under[members, i + 1][:, ::-1], axis=1)])[:, ::-1]
    g = np.arange(v + 1)
    position = (members[:, :, None] <= g).sum(axis=1)
    ranks: Ints = np.take_along_axis(keep, position, axis=1)
    ranks += np.take_along_axis(move, position, axis=1) + under[g, position + 1]
    return ranks


# -- any number of arms -------------------------------------------------------------------------


def sweep(problem: Problem, workers: int, report: Report, *, unstored: int = 1) -> float:
    """Return W_0 of the fresh state; the last stages, `unstored` of them, are not stored.

    One or two. The values of the last stored stage are taken back to the first, in place. The
    shapes whose first column is v are a block. Pulls of a shape lead to its own block or the next
    one, so blocks are rewritten in order: each keeps the place that it has at the beginning.
    """
    stages, last = _Stages(problem, workers), problem.stages - 1
    final, unstored = shapes_at(problem, last), min(unstored, last)
    if last == 0:
        _tell(report, problem, 1)
        return float(stages.fill(last, final)[0])
    begin, later = problem.stages - 1 - unstored, final
    if unstored > 1:
        later = shapes_at(problem, begin + 1, final)
    shapes = shapes_at(problem, begin, later)
    values = stages.fill(begin, shapes, later, final=final)
    _tell(report, problem, unstored + 1)
    place = shapes.offset[_blocks(shapes)]
    spare = np.empty(_spare_states(problem, begin, values.size))
    for t in range(begin - 1, -1, -1):
        later, edges = shapes, _blocks(shapes)
        beyond = place[later.pulls[:, 0]] - later.offset[edges[later.pulls[:, 0]]]
        offset = later.offset.copy()
        offset[:-1] += beyond
        offset[-1] = values.size
        shapes = shapes_at(problem, t, later)
        edges = _blocks(shapes)
        first = 0
        while first < edges.size - 1:  # as many blocks as fit
            begin = shapes.offset[edges[first]]
            end = int(np.searchsorted(shapes.offset[edges], begin + spare.size, side="right")) - 1
            rows = slice(edges[first], edges[end] + 1)
            piece = Shapes(
                shapes.pulls[rows.start : rows.stop - 1],
                shapes.offset[rows] - begin,
                shapes.after[rows.start : rows.stop - 1],
            )
            stages.fill(t, piece, later._replace(offset=offset), values, spare)
            for block in range(first, end):
                source = slice(*(shapes.offset[edges[block : block + 2]] - begin))
                to = place[block]
                values[to : to + source.stop - source.start] = spare[source]
            first = end
        _tell(report, problem, problem.stages - t)
    return float(values[0])


def _blocks(shapes: Shapes) -> Ints:
    """Return the first shape of every block, and their number."""
    first = shapes.pulls[:, 0]
    return np.searchsorted(first, np.arange(first[-1] + 2))


def rewritten_states(problem: Problem, unstored: int) -> int:
    """Return the number of values stored where stages are rewritten in place."""
    begin = max(problem.stages - 1 - unstored, 0)
    states = int(shapes_at(problem, begin).offset[-1])
    return states + _spare_states(problem, begin, states)


def _spare_states(problem: Problem, begin: int, states: int) -> int:
    """Return the room for the largest block of the stages before `begin`, which has `states`."""
    shapes = shapes_at(problem, max(begin - 1, 0))
    largest = int(np.diff(shapes.offset[_blocks(shapes)]).max())
    return max(largest, min(states, SMALL_BLOCK))


def _tell(report: Report, problem: Problem, levels: int) -> None:
    report(Progress("optimum", levels, problem.stages))


def sweep_start(
    problem: Problem, stage: int, fixed: Floats, tables: Floats, workers: int, report: Report
) -> float:
    """Return W_0 of the fresh state, where tables give W at `stage` (`fill_ending`)."""
    stages, number = _Stages(problem, workers, stage + 1), stage + 1
    shapes = shapes_at(problem, stage, None, number)
    values = stages.end(shapes, fixed, tables)
    for t in range(stage - 1, -1, -1):
        later, after = shapes, values
        shapes = shapes_at(problem, t, later, number)
        values = stages.fill(t, shapes, later, after)
        report(Progress("first stages", stage - t, stage))
    return float(values[0])


class _Stages:
    """Fills the values of a stage, in threads."""

    def __init__(self, problem: Problem, workers: int, stages: int | None = None) -> None:
        self.ranking = ranking_of(problem, stages)
        self._arms = arms_of(problem)
        self._workers = workers

    def fill(
        self,
        t: int,
        shapes: Shapes,
        later: Shapes | None = None,
        after: Floats | None = None,
        values: Floats | None = None,
        final: Shapes | None = None,
    ) -> Floats:
        """Compute W_t, in `values` if given, from W_{t+1} = after; without `later`: the last stage.

        later: the shapes of the next stage, and where they begin in `after`. final: those of the
        last stage, where `after` is not stored.
        """
        values = np.empty(shapes.offset[-1]) if values is None else values

        def part(first: int, last: int) -> None:
            about = (self._arms, t, self.ranking, shapes, first, last, values)
            if later is None:
                fill_last(*about)
            elif final is not None:
                fill_ahead(*about, later, final, final is later)
            else:
                fill_level(*about, later, after)

        self._in_parts(part, shapes.offset)
        return values

    def end(self, shapes: Shapes, fixed: Floats, tables: Floats) -> Floats:
        """Values that are given by tables of the arms."""
        values = np.empty(shapes.offset[-1])

        def part(first: int, last: int) -> None:
            fill_ending(self.ranking, shapes, fixed, tables, first, last, values)

        self._in_parts(part, shapes.offset)
        return values

    def _in_parts(self, part: Callable[[int, int], None], offset: Ints) -> None:
        shapes, states = offset.size - 1, int(offset[-1])
        if states < SMALL_LEVEL:
            part(0, shapes)
            return
        parts = max(PARTS_PER_THREAD * self._workers, states // MOST_STATES_AT_ONCE)
        cuts = np.linspace(0, states, parts + 1)
        edges = np.unique(np.searchsorted(offset, cuts)).tolist()
        with pool(self._workers) as threads:
            threads.map(part, edges[:-1], edges[1:])


# -- two arms, one pull per stage ---------------------------------------------------------------


def two_arm_states(problem: Problem) -> int:
    """Return the number of values stored for two arms."""
    return int(_slabs(problem)[0][-1])


def _slabs(problem: Problem) -> tuple[Ints, Ints]:
    """Return the starts and ends of slabs, and the length of their rows."""
    top = problem.stages - 1
    n = np.arange((top // 2 if len(problem.groups) == 1 else top) + 1)
    return np.concatenate([[0], np.cumsum((n + 1) * (top + 1 - n))]), np.append(top + 1 - n, 0)


def sweep_two_arms(problem: Problem, workers: int, report: Report) -> float:
    """Return W_0 of the fresh state."""
    top, k2 = problem.stages - 1, len(problem.groups) - 1
    arms = arms_of(problem)
    start, width = _slabs(problem)
    values = np.empty(start[-1])
    last_slabs(arms, 0, k2, top, start, width, values)
    _tell(report, problem, 1)
    largest = 8 * int(np.diff(start).max())
    depth = min(max(CACHE_BYTES // largest, 2), MOST_STAGES_PER_BLOCK)
    # (first level, levels, fronts) of each block
    blocks: list[tuple[int, int, int]] = []
    for level in range(top - 1, -1, -depth):
        deep = min(depth, level + 1)
        blocks.append((level, deep, (level + deep + 1) // 2 if k2 == 0 else level + 1))

    def step(block: int, first: int, last: int) -> None:
        level, deep, _ = blocks[block]
        step_fronts(arms, 0, k2, level, deep, first, last, start, width, values)

    def done(block: int) -> None:
        level, deep, _ = blocks[block]
        _tell(report, problem, top - level + deep)

    _follow(blocks, step, done, workers if problem.stages >= SHORT_HORIZON else 1)
    return float(values[0])


def _follow(
    blocks: list[tuple[int, int, int]],
    step: Callable[[int, int, int], None],
    done: Callable[[int], None],
    workers: int,
) -> None:
    """Run all blocks, shared by the threads.

    `done` is called on the calling thread, for its own blocks and for the last.

    Front f of a block reads slabs up to f + 1, which the block before it has finished with its
    front f + depth; later fronts of that block leave them alone.
    """
    finished = [0] * len(blocks)
    progress_made = Condition()
    stopped = False

    def work(thread: int) -> None:
        nonlocal stopped
        try:
            for block in range(thread, len(blocks), workers):
                _, _, fronts = blocks[block]
                for first in range(0, fronts, FRONTS_AT_ONCE):
                    last = min(first + FRONTS_AT_ONCE, fronts)
                    needed = min(last + blocks[block - 1][1], blocks[block - 1][2])
                    with progress_made:
                        while block > 0 and finished[block - 1] < needed and not stopped:
                            progress_made.wait()
                    if stopped:
                        return
                    step(block, first, last)
                    with progress_made:
                        finished[block] = last
                        progress_made.notify_all()
                if thread == 0 and block + 1 < len(blocks):
                    done(block)
        except BaseException:
            with progress_made:
                stopped = True
                progress_made.notify_all()
            raise

    # the calling thread is one of the workers
    with pool(workers) as threads:
        futures = [threads.submit(work, thread) for thread in range(1, workers)]
        work(0)
        for other in futures:
            other.result()
    if blocks:
        done(len(blocks) - 1)
