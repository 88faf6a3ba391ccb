"""How long computations report their progress, and how a terminal shows it."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, Self, TypeVar, cast

from .records import doc, record_class

P = ParamSpec("P")
T = TypeVar("T")
QUIET_SECONDS = 0.5  # before work of unknown length is shown: it is mostly short


@record_class()
class Progress:
    """State of a computation, as passed to a `progress=` callback.

    Examples
    --------
    >>> from decobandit import Problem, solve
    >>> seen = []
    >>> solution = solve(Problem.uniform(arms=3, horizon=10), progress=seen.append)
    >>> seen[-1].what, seen[-1].total
    ('solve', None)
    """

    what: str = doc("Name of the task.")
    done: int = doc("Steps completed.")
    total: int | None = doc("Total steps, None if unknown.", default=None)
    note: str = doc("Intermediate result, for display.", default="")

    @classmethod
    def of_growing_stages(cls, task: str, stage: int, stages: int, arms: int, states: int) -> Self:
        """Return the progress of a recursion: up to t there are about t ** (2 arms) states."""
        share = (stage / stages) ** (2 * arms)
        note = f"stage {stage} of {stages}, {states:,} states"
        return cls(task, round(1000 * share), 1000, note)


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Ignore reports of progress."""


_listening: ContextVar[Report | None] = ContextVar("who listens to progress", default=None)


def tell(progress: Progress) -> None:
    """Report progress to the enclosing listener; threads of a pool have none."""
    report = _listening.get()
    if report is not None:
        report(progress)


def tells_progress(function: Callable[P, T]) -> Callable[P, T]:
    """Send progress of everything called to the keyword `progress`."""

    @functools.wraps(function)
    def listening(*args: P.args, **kwargs: P.kwargs) -> T:
        report = cast("Report | None", kwargs.get("progress"))
        if report is None:
            return function(*args, **kwargs)
        token = _listening.set(report)
        try:
            return function(*args, **kwargs)
        finally:
            _listening.reset(token)

    return listening


@contextmanager
def show_progress() -> Iterator[Report | None]:
    """Yield a callback that shows progress on standard error; None if that is no terminal.

    Progress is a bar if the number of steps is known, else the intermediate result.

    Returns
    -------
    context manager
        Yields the callback, or None if standard error is not a terminal.

    Examples
    --------
    >>> from decobandit import Problem, show_progress, solve
    >>> with show_progress() as report:
    ...     solution = solve(Problem.uniform(arms=3, horizon=10), progress=report)
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars
    from rich.table import Column

    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=10),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        # wraps: a terminal of 80 columns is to show the gap too
        TextColumn("{task.fields[note]}", markup=False, table_column=Column()),
        console=Console(stderr=True),
        transient=True,
    )
    task = bars.add_task("", total=None, start=False, note="")
    began = time.monotonic()

    def report(now: Progress) -> None:
        open_end = now.total is None
        bars.update(
            task,
            description=now.what,
            completed=now.done,
            total=now.total,
            note=f"{now.note}  (Ctrl-C: stop here)" if open_end else now.note,
        )
        if not open_end or time.monotonic() - began >= QUIET_SECONDS:
            bars.start_task(task)
            bars.start()

    try:
        yield report
    finally:
        bars.stop()
