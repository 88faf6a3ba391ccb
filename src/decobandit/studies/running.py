"""Running a study: missing cells are computed, here or on a cluster, and stored as they finish.

The result of a cell depends on the cell alone, and is the same with any number of threads. An
interruption loses at most the cells being computed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType

from ..bounds import best_bound
from ..designs import characteristics_in
from ..policies import Context, make_policies
from ..prices import whole_solution
from ..problem import Problem, TieRule, true_problem
from ..simulation import PolicyResult, simulate
from ..support import Progress, Report, obeys_workers, silent
from .cell_files import finished_cells, write_cell, write_cell_list
from .records import Cell, CellFailure, CellResult, RegretCurve, Study, ValueEstimate

# computes cells, in any order
Results = Generator[tuple[Cell, CellResult | CellFailure], None, None]
Runner = Callable[[Sequence[Cell]], Results]


@dataclass(frozen=True)
class RunSummary:
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


@obeys_workers
def compute(cell: Cell, *, workers: int | None = None) -> CellResult:
    """The result of a cell."""
    context = _context(cell.problem, cell.tol, cell.ties, workers)
    if cell.design is not None:
        return _designed(context, cell)
    actual = true_problem(cell.problem, cell.truth_prior, cell.true_horizon)
    simulated = simulate(
        cell.problem,
        make_policies(context, [cell.policy], places=False),
        draws=cell.draws,
        per_draw=cell.per_draw,
        rng=cell.seed,
        workers=workers,
        tol=cell.tol,
        ties=cell.ties,
        solution=context.solution_for() if actual == cell.problem else None,
        truth_prior=cell.truth_prior,
        true_horizon=cell.true_horizon,
    )
    bound = None if simulated.upper_bound is None else _best_bound(context)
    return _result(simulated.results[0], bound)


@lru_cache(maxsize=8)
def _best_bound(context: Context) -> float | None:
    """The smallest known bound, once for all policies and seeds of a problem."""
    solution = context.solution_for()
    return None if solution is None else best_bound(context.problem, solution=solution).value


def _designed(context: Context, cell: Cell) -> CellResult:
    """Operating characteristics in the scenario of a cell."""
    assert cell.design is not None
    assert cell.scenario is not None
    design = cell.design.model_copy(update={"draws": cell.draws, "seed": cell.seed})
    scenario, number = cell.scenario.scenario, cell.scenario.number
    found = characteristics_in(context, cell.policy, design, scenario, number).to_dict()
    return CellResult(
        value=found["good"],
        value_se=found.get("good_se", 0.0),
        regret=None,
        regret_se=None,
        upper_bound=None,
        method="exact" if found["exact"] else "plain",
        estimates={},
        curve=None,
        characteristics={key: found[key] for key in found if key != "seconds"},
    )


def _result(found: PolicyResult, upper_bound: float | None) -> CellResult:
    """What is kept of a simulation: all but the times, which differ from run to run."""
    estimates = {
        method: ValueEstimate(value=each.value, value_se=each.value_se)
        for method, each in found.estimates.by_method.items()
    }
    curve = None
    if found.curve is not None:
        regret, error = found.curve.regret.tolist(), found.curve.regret_se.tolist()
        curve = RegretCurve(regret=tuple(regret), regret_se=tuple(error))
    return CellResult(
        value=found.value,
        value_se=found.value_se,
        regret=found.regret,
        regret_se=None if found.regret is None else found.value_se,
        upper_bound=upper_bound,
        method=found.estimates.method,
        estimates=estimates,
        curve=curve,
    )


def compute_or_fail(cell: Cell, *, workers: int | None = None) -> CellResult | CellFailure:
    """The same, and the reason where the problem is too large or does not suit the policy."""
    try:
        return compute(cell, workers=workers)
    except (ValueError, MemoryError) as error:
        return CellFailure(str(error) or type(error).__name__)


@lru_cache(maxsize=8)
def _context(problem: Problem, tol: float, ties: TieRule, workers: int | None) -> Context:
    """One per process and problem: the dual is solved once for all policies and seeds."""
    return Context(
        problem,
        tol=tol,
        ties=ties,
        solver=lambda problem, tol: whole_solution(problem, tol=tol, workers=workers),
    )


# -- all of them --------------------------------------------------------------------------------


def here(workers: int | None = None) -> Runner:
    """Cells computed in this process, one after the other."""

    def run(cells: Sequence[Cell]) -> Results:
        for cell in cells:
            yield cell, compute_or_fail(cell, workers=workers)

    return run


def run_study(
    study: Study,
    folder: Path,
    *,
    runner: Runner | None = None,
    progress: Report | None = None,
) -> RunSummary:
    """Compute the cells that `folder` lacks, and write each as it comes.

    Refuses before any work a folder with cells of other settings. Ctrl-C keeps the finished cells.
    `progress` is called with the cells that are there, and how many there will be.
    """
    there = finished_cells(study, folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_cell_list(study, folder)

    def report(done: int) -> None:
        (progress or silent)(Progress(study.name, done, len(study.cells)))

    missing = [cell for cell in study.cells if cell.name not in there]
    made, failed, interrupted = 0, dict[str, str](), False
    report(len(there))
    if not missing:
        return RunSummary(len(study.cells), len(there), 0, {}, False)
    try:
        # closed here, so that what a runner does at its end is still watched
        with _watched() as signals, closing((runner or here())(missing)) as results:
            for cell, found in results:
                if signals:  # a search that was cut short returns what it has: not the cell
                    raise KeyboardInterrupt
                if isinstance(found, CellFailure):
                    failed[cell.name] = found.reason
                else:
                    write_cell(cell, found, folder)
                    made += 1
                report(len(there) + made)
    except KeyboardInterrupt:
        interrupted = True
        # counted again: the signal may have come between a file and its count
        made = sum((folder / cell.file).exists() for cell in missing)
        _context.cache_clear()  # it may have a solution that was cut short
    return RunSummary(len(study.cells), len(there), made, failed, interrupted)


@contextmanager
def _watched() -> Iterator[list[int]]:
    """The interrupts received, even if the interrupted code continued or failed otherwise."""
    signals: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield signals  # no interrupts to watch
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
