"""How long a computation took, without the compiler's part, which is the first call's alone."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import TextIO


class CompilingClock:
    """Seconds in which some thread compiled; garbage collection waits, a sixth of its time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active = 0
        self._since = 0.0
        self._before = 0.0
        self._collects = False
        self._kernels = 0
        self.tell: Callable[[int], None] = lambda kernels: None  # number so far; 0 at a pause

    def begin(self) -> None:
        """Count a thread that starts to compile."""
        with self._lock:
            self._active += 1
            self._kernels += 1
            self.tell(self._kernels)
            if self._active == 1:
                self._since = time.perf_counter()
                self._collects = gc.isenabled()
                gc.disable()

    def end(self) -> None:
        """Count a thread that has compiled."""
        with self._lock:
            self._active -= 1
            if self._active == 0:
                self._before += time.perf_counter() - self._since
                self.tell(0)
                if self._collects:
                    gc.enable()

    def seconds(self) -> float:
        """Return the seconds of compiling since the program started."""
        with self._lock:
            running = time.perf_counter() - self._since if self._active else 0.0
            return self._before + running


COMPILING = CompilingClock()


def show_compiling(terminal: TextIO) -> None:
    """Show on one line of a terminal that kernels are compiled, and how many so far."""

    def tell(kernels: int) -> None:
        line = f"compiling kernels, first use only: {kernels}" if kernels else ""
        terminal.write(f"\r\x1b[K{line}")
        terminal.flush()

    COMPILING.tell = tell


class Stopwatch:
    """Clock that stands still while kernels are compiled."""

    def __init__(self) -> None:
        self._began = self._now()

    def seconds(self) -> float:
        """Return the seconds since the start, without compiling."""
        return max(0.0, self._now() - self._began)

    @staticmethod
    def _now() -> float:
        return time.perf_counter() - COMPILING.seconds()
