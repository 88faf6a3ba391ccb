"""Studies: the cells that are not there yet computed, here or elsewhere, and kept as they come.

A cell is computed from plain data alone, and its figures are the same on any number of threads.
An interruption loses at most the cells under way.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import FrameType

from .cell_files import Tree, finished, write_cell, write_plan
from .dual import DualSolution, solve
from .problem import Beta
from .problem_files import problem_from_dict
from .registry import Workbench, tie_rule
from .simulation import simulate
from .study_files import Cell, Study
from .worlds import true_problem

NO_FIGURES = ("policy", "steps_per_second", "preparation_seconds")  # of a result: settings, times

# computes cells, in any order; for one that cannot be computed it gives the reason
Results = Generator[tuple[Cell, Tree | str], None, None]
Runner = Callable[[Sequence[Cell]], Results]


@dataclass(frozen=True)
class Outcome:
    """What came of running a study."""

    cells: int  # that it asks for
    skipped: int  # that were there before
    made: int
    failed: dict[str, str]  # reasons by name
    interrupted: bool

    @property
    def kept(self) -> int:
        return self.skipped + self.made


# -- one cell -----------------------------------------------------------------------------------


def compute(settings: Tree, *, threads: int | None = None) -> Tree:
    """The figures of a cell: plain data in, plain data out."""
    text = json.dumps(settings["problem"], sort_keys=True)
    bench = _bench(text, settings["tol"], settings["ties"], threads)
    problem, name = bench.problem, settings["policy"]
    prior, horizon = settings["truth_prior"], settings["true_horizon"]
    truth_prior = None if prior is None else Beta(**prior)
    actual = true_problem(problem, truth_prior, horizon)
    longer = actual.horizon > problem.horizon
    result = simulate(
        problem,
        [bench.policy(name)],
        draws=settings["draws"],
        per_draw=settings["per_draw"],
        seed=settings["seed"],
        threads=threads,
        solution=bench.solution if actual == problem else None,
        truth_prior=truth_prior,
        true_horizon=horizon,
        afterwards=[bench.afterwards(name, horizon)] if longer else None,
    )
    found = result.results[0]
    curve = None if found.curve is None else found.curve.to_dict()
    figures = found.to_dict() | {"upper_bound": result.upper_bound, "curve": curve}
    return {key: value for key, value in figures.items() if key not in NO_FIGURES}


def compute_or_reason(settings: Tree, *, threads: int | None = None) -> Tree | str:
    """The same, and the reason where the problem is too large or does not suit the policy."""
    try:
        return compute(settings, threads=threads)
    except (ValueError, MemoryError) as error:
        return str(error) or type(error).__name__


class _Bench(Workbench):
    threads: int | None = None

    @cached_property
    def solution(self) -> DualSolution:
        return solve(self.problem, tol=self.tol, threads=self.threads)


@lru_cache(maxsize=8)
def _bench(problem: str, tol: float, ties: str, threads: int | None) -> Workbench:
    """One per process and problem: the dual is solved once for all policies and seeds."""
    described = problem_from_dict(json.loads(problem), source="cell")
    bench = _Bench(described, tol=tol, ties=tie_rule(ties))
    bench.threads = threads
    return bench


# -- all of them --------------------------------------------------------------------------------


def here(threads: int | None = None) -> Runner:
    """Cells computed in this process, one after the other."""

    def run(cells: Sequence[Cell]) -> Results:
        for cell in cells:
            yield cell, compute_or_reason(cell.settings, threads=threads)

    return run


def run_study(
    study: Study,
    folder: Path,
    *,
    runner: Runner | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Compute the cells that `folder` lacks, and write each as it comes.

    Refuses before any work a folder with cells of other settings. Ctrl-C keeps the finished cells.
    `progress` is called with the cells that are there, and how many there will be.
    """
    there = finished(study, folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_plan(study, folder)
    report = progress or (lambda done, total: None)
    missing = [cell for cell in study.cells if cell.name not in there]
    made, failed, interrupted = 0, dict[str, str](), False
    report(len(there), len(study.cells))
    if not missing:
        return Outcome(len(study.cells), len(there), 0, {}, False)
    try:
        # closed here, so that what a runner does at its end is still watched
        with _watched() as signals, closing((runner or here())(missing)) as results:
            for cell, found in results:
                if signals:  # a search that was cut short returns what it has: not the cell
                    raise KeyboardInterrupt
                if isinstance(found, str):
                    failed[cell.name] = found
                else:
                    write_cell(cell, found, folder)
                    made += 1
                report(len(there) + made, len(study.cells))
    except KeyboardInterrupt:
        interrupted = True
        # counted again: the signal may have come between a file and its count
        made = sum((folder / cell.file).exists() for cell in missing)
        _bench.cache_clear()  # it may have a solution that was cut short
    return Outcome(len(study.cells), len(there), made, failed, interrupted)


@contextmanager
def _watched() -> Iterator[list[int]]:
    """The interrupts that came, also where whoever was interrupted went on or failed otherwise."""
    signals: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield signals  # nobody can interrupt us here
        return

    def note(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield signals
    except Exception:
        if signals:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
