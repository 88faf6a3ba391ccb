"""The installed program, run as people run it: what it prints where, and its exit code."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DECO = Path(sys.executable).with_name("deco")
PATIENCE = 240  # seconds, for a busy machine that has to compile first
AGAIN = 5.0  # seconds until an interrupt is sent again
PLAIN = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "xterm"}  # output as in a common terminal


@dataclass(frozen=True)
class Run:
    """A finished run of the program."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The object that is all of standard output; nothing was said elsewhere."""
        assert (self.code, self.err) == (0, "")
        return json_object(self.out)


def json_object(text: str) -> dict[str, Any]:
    """The one object that is the whole text."""
    tree = json.loads(text, parse_constant=_refuse)
    assert isinstance(tree, dict)
    return tree


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def deco(*arguments: object, more: Mapping[str, str] | None = None) -> Run:
    """Run the program off a terminal; `more` joins the environment."""
    done = subprocess.run(
        [DECO, *map(str, arguments)],
        env={**os.environ, **PLAIN, **(more or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)


def deco_at_terminal(*arguments: object, interrupt_at: str | None = None) -> Run:
    """Run the program with a terminal for standard error; interrupt it once that text is there.

    Standard output goes to a file, so that whatever is printed there was not meant for a terminal.
    """
    terminal, theirs = os.openpty()
    with (
        tempfile.TemporaryFile() as out,
        subprocess.Popen(
            [DECO, *map(str, arguments)],
            env={**os.environ, **PLAIN},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=theirs,
        ) as process,
    ):
        os.close(theirs)
        try:
            err = _watch(process, terminal, interrupt_at)
            code = process.wait(PATIENCE)
        finally:
            process.kill()  # does nothing to a process that has ended
            os.close(terminal)
        out.seek(0)
        return Run(code, out.read().decode(), err)


def _watch(process: "subprocess.Popen[bytes]", terminal: int, interrupt_at: str | None) -> str:
    """All that appears on the terminal until the program lets go of it."""
    seen, again = b"", 0.0
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux says so when nobody is at the other end any more
            break
        if not piece:
            break
        seen += piece
        # again after a while, as people do: an exception that is raised in a finaliser is lost
        if interrupt_at is not None and interrupt_at.encode() in seen and time.monotonic() > again:
            process.send_signal(signal.SIGINT)
            again = time.monotonic() + AGAIN
    return seen.decode(errors="replace")
