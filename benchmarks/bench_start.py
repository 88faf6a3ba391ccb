"""The first minute: processor seconds of the start of a command, of `deco warmup`, of each kernel.

A computing command imports numba, and numba imports its tables of functions and SciPy's linear
algebra before it can load a kernel from disk: the program beside the start does that, and nothing
of ours. The compiler is watched in one process without machine code on disk; a kernel's seconds are
without those of the kernels that it calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from .bench_answers import DECO, START, cpu_seconds
from .rows import Row, at_most

LISTED = 12  # kernels that take the compiler longest
BARE = "from numba.core.registry import cpu_target; cpu_target.target_context.refresh()"
WATCHED = """
import collections, json, time
from numba.core import event
from decobandit.cli.set_up import EVERYDAY, RARER

class Watch(event.Listener):
    under_way, seconds = [], collections.Counter()
    def on_start(self, event):
        self.under_way.append([time.thread_time(), 0.0])
    def on_end(self, event):
        began, inner = self.under_way.pop()
        took, kernel = time.thread_time() - began, event.data["dispatcher"].py_func
        room = kernel.__module__.removeprefix("decobandit.").replace(".kernels", "")
        ours = kernel.__module__.startswith("decobandit.")
        name = f"{room}.{kernel.__name__}" if ours else "functions of numba's own"
        self.seconds[name] += took - inner
        if self.under_way:
            self.under_way[-1][1] += took

event.register("numba:compile", Watch())
for part in EVERYDAY + RARER:
    part()
print(json.dumps(Watch.seconds))
"""


def run() -> list[Row]:
    """Start, warm-up, and the kernels that take the compiler longest."""
    bare = cpu_seconds([sys.executable, "-c", BARE], times=3)
    ours = cpu_seconds(START, times=3)
    start = Row(
        "start of a computing command",
        ours,
        "CPU s",
        "numba alone",
        bare,
        bare / ours,
        "at most 0.8 CPU s",
        ours <= 0.8,
    )
    everyday, every = warm_up(), warm_up("--all")
    warm = at_most("deco warmup, all processes", everyday, "CPU s", 45.0)
    whole = Row("deco warmup --all, all processes", every, "CPU s", "", None, None)
    return [start, warm, whole, *compiled()]


def warm_up(*options: str) -> float:
    """Processor seconds of a warm-up that finds no machine code."""
    with tempfile.TemporaryDirectory() as folder:
        return cpu_seconds([DECO, "warmup", *options], times=1, DECO_CACHE=folder)


def compiled() -> list[Row]:
    """Seconds of the compiler for all kernels, and for the longest ones."""
    with tempfile.TemporaryDirectory() as folder:
        found = subprocess.run(
            [sys.executable, "-c", WATCHED],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "DECO_CACHE": folder},
        )
    seconds: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    longest = sorted(seconds, key=seconds.__getitem__, reverse=True)[:LISTED]
    rows = [(f"compiling {len(seconds)} kernels", sum(seconds.values()))]
    rows += [(f"compiling {name}", seconds[name]) for name in longest]
    return [Row(what, took, "CPU s", "", None, None) for what, took in rows]
