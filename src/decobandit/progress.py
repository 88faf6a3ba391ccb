"""Progress of a long solve on standard error, only where that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .search import Progress, Report

QUIET_SECONDS = 0.5  # short solves say nothing
PAUSE = 0.1  # seconds between two updates


@contextmanager
def show_progress(stages: int | None = None) -> Iterator[Report | None]:
    """A callback for `solve(progress=)` that shows stages, bounds and gap; None off a terminal.

    With the problem's number of stages, what is said of coarser problems is marked as such.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    began = last = time.monotonic()
    with console.status("", spinner="line") as status:
        status.stop()

        def report(line: Progress) -> None:
            nonlocal last
            now = time.monotonic()
            if now - began < QUIET_SECONDS or now - last < PAUSE:
                return
            last = now
            coarse = stages is not None and line.stages < stages
            status.update(
                f"{'coarse start, ' * coarse}{line.stages} stages, {line.calls} passes, "
                f"{now - began:.0f} s: "
                f"bound {line.upper_bound:.6f}, gap {line.relative_gap:.1e}  (Ctrl-C: stop here)"
            )
            status.start()

        yield report
