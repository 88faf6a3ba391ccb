"""Whole answers: processor seconds of commands, from the start of the program to its last line.

Beside each stands what the same command took before, on two cores of an AMD EPYC. Machine code is
on disk before anything is timed, as it is for whoever has run `deco warmup`. Processor seconds, not
seconds: others may use the machine. Where the target is one after the start, the start of a
computing command, measured in the same run, is taken off.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from .rows import Row

DECO = str(Path(sys.executable).with_name("deco"))
DEFAULT = "deco-calibrated"
STATE = ",".join(["3/5", "1/1", "0/1", *(7 * ["0/0"])])
START = [DECO, "solve", "--arms", "2", "--horizon", "5"]  # hardly more than starting
# command, processor seconds before, at most now
COMMANDS = (
    (f"simulate --arms 10 --horizon 200 --policy {DEFAULT},fh-gittins,thompson,kl-ucb", 21.0, 5.0),
    ("bound --arms 5 --horizon 100", 12.0, 3.0),
    ("bound --arms 5 --horizon 500", 384.0, 40.0),
    (f"evaluate --arms 3 --horizon 40 --policy {DEFAULT},fh-gittins", 18.9, 5.0),
)
RECOMMEND = f"recommend --arms 10 --horizon 1000 --policy {DEFAULT} --state {STATE}"
PLAN = "the plan of 3 arms x 120"
PLAN_CODE = (
    "from decobandit import Problem; from decobandit.designs import forecast; "
    f"forecast(Problem.uniform(arms=3, horizon=120), ['{DEFAULT}'])"
)


def run() -> list[Row]:
    """One row for each command, and one for a plan."""
    rows = [
        answer(f"deco {command}", [DECO, *command.split()], before, limit)
        for command, before, limit in COMMANDS
    ]
    start = cpu_seconds(START, times=3)
    taken_off = Row("start of a computing command", start, "CPU s", "", None, None)
    later = f"deco {RECOMMEND}, after the start"
    rows += [taken_off, answer(later, [DECO, *RECOMMEND.split()], 42.0, 2.0, start)]
    return [*rows, answer(PLAN, [sys.executable, "-c", PLAN_CODE], 17.0, 3.0)]


def answer(what: str, arguments: list[str], before: float, limit: float, start: float = 0.0) -> Row:
    """Processor seconds of a program, the second time that it runs, less those of a start."""
    ours = cpu_seconds(arguments, times=2) - start
    target = f"at most {limit:g} CPU s"
    return Row(what, ours, "CPU s", "before", before, before / ours, target, ours <= limit)


def cpu_seconds(arguments: list[str], *, times: int, **environment: str) -> float:
    """Processor seconds of a program and its processes, the last time that it runs.

    Byte code is kept, as in an installation, whatever the environment says.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(times):
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            arguments, check=True, stdout=subprocess.DEVNULL, env={**kept, **environment}
        )
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
