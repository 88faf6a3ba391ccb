"""Running a study: missing cells are computed, here or on a cluster, and stored as they finish."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from uuid import uuid4

from .._version import __version__
from ..bounds import bound
from ..designs import characteristics_in
from ..policies import Context, allow_policy, check_policies, make_policies
from ..prices import whole_solution
from ..problem import Problem, TieRule, true_problem
from ..simulation import simulate
from ..support import DecoError, Progress, Report, obeys_workers, silent
from ..support.frames import Shown
from .records import (
    Cell,
    CellFailure,
    CellResult,
    Study,
    finished_cells,
    write_cell,
    write_cell_list,
)

if TYPE_CHECKING:
    from distributed import Client  # which has no types

# computes cells, in any order
Results = Generator[tuple[Cell, CellResult | CellFailure], None, None]
Runner = Callable[[Sequence[Cell]], Results]


@dataclass(frozen=True, repr=False)
class RunSummary(Shown):
    """The result of running a study."""

    cells: int  # in the study
    skipped: int  # finished before
    computed: int
    failed: dict[str, str]  # reasons by name
    interrupted: bool

    @property
    def finished(self) -> int:
        return self.skipped + self.computed


@obeys_workers
def compute(cell: Cell, *, workers: int | None = None) -> CellResult:
    """Return the result of a cell."""
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
    (result,) = simulated.results
    estimates = {
        method: {"value": estimate.value, "value_se": estimate.value_se}
        for method, estimate in result.estimates.by_method.items()
    }
    curve = {} if result.curve is None else result.curve.to_dict()
    return CellResult(  # all but the times, which differ from run to run
        value=result.value,
        value_se=result.value_se,
        regret=result.regret,
        regret_se=result.regret_se,
        upper_bound=None if simulated.upper_bound is None else _best_bound(context),
        method=result.estimates.method,
        estimates=estimates,
        curve={key: tuple(values) for key, values in curve.items()} or None,
    )


@lru_cache(maxsize=8)
def _best_bound(context: Context) -> float | None:
    """Return the smallest known bound, once for all policies and seeds of a problem."""
    solution = context.solution_for()
    return None if solution is None else bound(context.problem, solution=solution)[0].value


def _designed(context: Context, cell: Cell) -> CellResult:
    """Operating characteristics in the scenario of a cell."""
    assert cell.design is not None
    assert cell.scenario is not None
    design = cell.design.model_copy(update={"draws": cell.draws, "seed": cell.seed})
    scenario, number = cell.scenario.scenario, cell.scenario.number
    tree = characteristics_in(context, cell.policy, design, scenario, number).to_dict()
    return CellResult(
        value=tree["good"],
        value_se=tree.get("good_se", 0.0),
        regret=None,
        regret_se=None,
        upper_bound=None,
        method="exact" if tree["exact"] else "plain",
        estimates={},
        curve=None,
        characteristics={key: tree[key] for key in tree if key != "seconds"},
    )


def _compute_or_fail(cell: Cell, workers: int | None = None) -> CellResult | CellFailure:
    try:
        return compute(cell, workers=workers)
    except (ValueError, MemoryError) as error:
        return CellFailure(str(error) or type(error).__name__)


@lru_cache(maxsize=8)
def _context(problem: Problem, tol: float, ties: TieRule, workers: int | None) -> Context:
    """Return the context of a problem, one per process, so that its dual is solved once."""
    return Context(
        problem,
        tol=tol,
        ties=ties,
        solver=lambda problem, tol: whole_solution(problem, tol=tol, workers=workers),
    )


def here(workers: int | None = None) -> Runner:
    """Cells computed in this process, one after the other."""
    return lambda cells: ((cell, _compute_or_fail(cell, workers)) for cell in cells)


@obeys_workers
def run_study(
    study: Study,
    folder: str | Path,
    *,
    runner: Runner | None = None,
    workers: int | None = None,
    progress: Report | None = None,
) -> RunSummary:
    """Compute the cells that a folder lacks, and write each one when it is finished.

    Ctrl-C keeps the finished cells.

    Parameters
    ----------
    study : Study
        Cells to compute, from `load_study`.
    folder : str or Path
        Folder of the results; it must not contain cells of other settings.
    runner : callable, optional
        Computes cells: `decobandit.studies.here` by default, or `on_cluster`.
    workers : int, optional
        Number of threads; all processors by default.
    progress : callable, optional
        Called with the number of finished cells.

    Returns
    -------
    RunSummary

    Examples
    --------
    >>> import json
    >>> from decobandit import load_study, run_study
    >>> problem = {"arms": 2, "horizon": 4}
    >>> study = {"problems": [problem], "policies": ["greedy"], "draws": 10}
    >>> with open("small.json", "x") as file:
    ...     json.dump(study, file)
    >>> run_study(load_study("small.json"), "cells").computed
    1
    """
    folder = Path(folder)
    there = finished_cells(study, folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_cell_list(study, folder)

    def report(done: int) -> None:
        (progress or silent)(Progress(study.name, done, len(study.cells)))

    missing = [cell for cell in study.cells if cell.name not in there]
    computed, failed, interrupted = 0, dict[str, str](), False
    report(len(there))
    if not missing:
        return RunSummary(len(study.cells), len(there), 0, {}, False)
    try:
        # closed here, so that what a runner does at its end is still watched
        with _watched() as signals, closing((runner or here())(missing)) as results:
            for cell, result in results:
                if signals:  # a search that was cut short returns what it has: not the cell
                    raise KeyboardInterrupt
                if isinstance(result, CellFailure):
                    failed[cell.name] = result.reason
                else:
                    write_cell(cell, result, folder)
                    computed += 1
                report(len(there) + computed)
    except KeyboardInterrupt:
        interrupted = True
        # counted again: the signal may have come between a file and its count
        computed = sum((folder / cell.file).exists() for cell in missing)
        _context.cache_clear()  # it may have a solution that was cut short
    return RunSummary(len(study.cells), len(there), computed, failed, interrupted)


@contextmanager
def _watched() -> Iterator[list[int]]:
    """Collect interrupts, even if the interrupted code continued or failed otherwise."""
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


CONNECTION_SECONDS = 5.0  # for a scheduler to answer, and for it to have a worker
RETRIES = 3  # of a cell that failed for a reason outside it


class ClusterError(DecoError, code="cluster"):
    """A cluster that cannot be used: one line with its address and the reason."""


def _worker_version() -> str:
    return __version__


def _compute_there(cell: Cell, workers: int, version: str) -> CellResult | CellFailure:
    """Compute a cell on a worker; a late one may have another version than those checked."""
    if _worker_version() != version:
        raise ClusterError(_other_version("a worker", _worker_version(), version))
    if ":" in cell.policy:
        allow_policy(cell.policy)  # the sender has checked it
    return _compute_or_fail(cell, workers)


def on_cluster(address: str, workers: int | None = None) -> Runner:
    """Cells computed by the machines of a scheduler, each on `workers` threads (1 by default)."""

    def run(cells: Sequence[Cell]) -> Results:
        with connected(address) as client:
            yield from _results(client, address, cells, workers or 1)

    return run


def check_cluster(address: str) -> None:
    """Refuse a cluster that cannot be reached, has no workers or another version."""
    with connected(address):
        pass


def _results(client: Client, address: str, cells: Sequence[Cell], workers: int) -> Results:
    from distributed import as_completed

    check_policies({cell.policy for cell in cells}, places=False)
    run = uuid4().hex  # two studies at one scheduler may have cells of the same name
    settings = {"retries": RETRIES, "pure": False}
    futures = {
        client.submit(
            _compute_there, cell, workers, __version__, key=f"{cell.name}-{run}", **settings
        ): cell
        for cell in cells
    }
    try:
        every = as_completed(list(futures), loop=client.loop, with_results=True, raise_errors=False)
        for future, result in every:
            cell = futures.pop(future)
            if isinstance(result, CellResult | CellFailure):
                yield cell, result
            elif isinstance(result, tuple) and not isinstance(result[1], ClusterError):
                yield cell, CellFailure(f"{type(result[1]).__name__}: {_reason(result[1])}")
            elif isinstance(result, tuple):  # type, error, traceback
                raise result[1]
            else:
                gone = "the scheduler has gone; finished cells are kept"
                raise ClusterError(f"{address}: {gone}")
    finally:
        if futures and client.status == "running":
            client.cancel(list(futures))


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Return a client of the scheduler, all of whose workers are fit to compute cells."""
    if re.fullmatch(r"(tcp|tls)://\S+:[0-9]{1,5}", address) is None:
        raise ClusterError(f"{address!r}: not the address of a scheduler; must be tcp://HOST:PORT")
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(
            'a cluster needs distributed; install it with: pip install "decobandit[cluster]"'
        ) from None
    # its long log message is replaced by one line here; tornado's is of what a closing client drops
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        # first without a client: a client that fails to connect is slow to close
        asyncio.run(_shake_hands(address))
    except Exception as error:  # the answer may come from any program
        raise ClusterError(
            f"{address}: no scheduler answers ({_reason(error)}); start one with 'dask scheduler'"
        ) from None
    with Client(address, timeout=CONNECTION_SECONDS, set_as_default=False) as client:
        try:
            client.wait_for_workers(1, timeout=CONNECTION_SECONDS)
        except TimeoutError:
            how = f"start some with 'dask worker {address}'"
            raise ClusterError(f"{address}: the scheduler has no workers; {how}") from None
        for worker, version in client.run(_worker_version, on_error="return").items():
            if isinstance(version, Exception):
                raise ClusterError(f"{worker}: cannot compute cells: {_reason(version)}")
            if version != __version__:
                raise ClusterError(_other_version(worker, str(version), __version__))
        yield client


async def _shake_hands(address: str) -> None:
    from distributed.core import connect

    comm = await asyncio.wait_for(connect(address, timeout=CONNECTION_SECONDS), CONNECTION_SECONDS)
    await comm.close()


def _other_version(worker: str, there: str, here: str) -> str:
    return f"{worker}: has decobandit {there}, this is {here}; install the same on all machines"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
