"""`deco serve` as a process of its own."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from helpers import program
from helpers.program import PLAIN


@contextmanager
def serving(*options: object) -> Iterator[tuple["subprocess.Popen[str]", list[str], int]]:
    """The program, what it printed until it listened, and its port."""
    with subprocess.Popen(
        [program.DECO, "serve", "--port", "0", *map(str, options)],
        env={**os.environ, **PLAIN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line.strip())
                if line.startswith("serving at "):
                    break
            assert lines, process.stderr.read() if process.stderr else ""
            yield process, lines, int(lines[-1].rpartition(":")[2])
        finally:
            process.kill()  # does nothing to a process that has ended
