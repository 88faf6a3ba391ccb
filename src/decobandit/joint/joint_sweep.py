"""Values of the joint states, backward over the stages.

Threads share the shapes of a stage. Unless all stages are kept, the values of the last one or two
are not stored, and those of the one before are rewritten in place. For two arms, each thread takes
the next block of stages and follows the thread before it through the slabs.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition

import numpy as np

from ..problem import Problem, arms_of
from ..support import Floats, Ints, Progress, Report, pool
from .joint_states import JointValues, ranking_of, shapes_at
from .kernels.endings import fill_ending
from .kernels.joint import Shapes, fill_ahead, fill_last, fill_level
from .kernels.two_arms import last_slabs, step_fronts

SMALL_LEVEL = 20_000  # states; below this, threads are not worth it
SMALL_BLOCK = 1_000_000  # states that are rewritten at once
PARTS_PER_THREAD = 4
CACHE_BYTES = 8 * 2**20  # what the slabs of one front may take
MOST_STATES_AT_ONCE = 5_000_000  # of a part: Ctrl-C works between parts
MOST_STAGES_PER_BLOCK = 16
FRONTS_AT_ONCE = 16
SHORT_HORIZON = 150  # two arms: below this, threads are not worth it


# -- any number of arms -------------------------------------------------------------------------


def sweep(
    problem: Problem, workers: int, report: Report, *, unstored: int = 1, keep: bool = False
) -> tuple[float, JointValues | None]:
    """Return W_0 of the fresh state, and the values of all stages if `keep`.

    Otherwise the last stages, `unstored` of them, one or two, are not stored.
    """
    stages, last = _Stages(problem, workers), problem.stages - 1
    shapes = shapes_at(problem, last)
    if last > 0 and not keep:
        return _rewritten(problem, stages, shapes, min(unstored, last), report), None
    stored = [(shapes, stages.fill(last, shapes))]
    _tell(report, problem, 1)
    for t in range(last - 1, -1, -1):
        later, after = stored[-1]
        shapes = shapes_at(problem, t, later)
        stored.append((shapes, stages.fill(t, shapes, later, after)))
        _tell(report, problem, problem.stages - t)
    all_shapes, all_values = zip(*reversed(stored), strict=True)
    tables = JointValues(problem, stages.ranking, all_shapes, all_values)
    return float(all_values[0][0]), tables


def _rewritten(
    problem: Problem, stages: _Stages, final: Shapes, unstored: int, report: Report
) -> float:
    """Take the values of the last stored stage back to the first, in place; return W_0.

    The shapes whose first column is v are a block. Pulls of a shape lead to its own block or the
    next one, so blocks are rewritten in order: each keeps the place that it has at the beginning.
    """
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
