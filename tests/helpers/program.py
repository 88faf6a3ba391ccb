"""The program, run as people run it: what it prints where, and its exit code.

`deco` runs it in a fork of a process that has loaded it (`fork_server.py`): most tests are about
what is printed, and loading takes twenty times as long as answering. `deco_installed` starts the
installed program, and so does `deco_at_terminal`; both roads must agree, see
`tests/cli/test_program_runs.py`.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DECO = Path(sys.executable).with_name("deco")
FORK_SERVER = Path(__file__).with_name("fork_server.py")
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
        assert (self.code, self.err) == (0, ""), self.err
        return json_object(self.out)


def json_object(text: str) -> dict[str, Any]:
    """The one object that is the whole text."""
    tree = json.loads(text, parse_constant=_refuse)
    assert isinstance(tree, dict)
    return tree


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def deco(*arguments: object, more: Mapping[str, str] | None = None) -> Run:
    """Run the program off a terminal; `more` joins the environment.

    With `more` the installed program is started: a variable may count while it is loaded.
    """
    if more is not None or sys.platform != "linux":
        return deco_installed(*arguments, more=more)
    return _fork_server().run(*arguments)


def deco_installed(*arguments: object, more: Mapping[str, str] | None = None) -> Run:
    """Start the installed program off a terminal; `more` joins the environment.

    A PYTHONPATH in `more` goes before the one that is there: the package may come from that.
    """
    env = {**os.environ, **PLAIN, **(more or {})}
    if "PYTHONPATH" in (more or {}) and "PYTHONPATH" in os.environ:
        env["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
    done = subprocess.run(
        [DECO, *map(str, arguments)],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)


class ForkServer:
    """The process whose forks are runs of the program; it ends with this one."""

    def __init__(self) -> None:
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.line.settimeout(PATIENCE)
        self.turn = threading.Lock()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, FORK_SERVER, str(theirs.fileno())],
                env={**os.environ, **PLAIN},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def run(self, *arguments: object) -> Run:
        """One run, from where this process stands and with its environment."""
        request = {
            "arguments": [str(word) for word in arguments],
            "environment": {**os.environ, **PLAIN},
            "folder": os.getcwd(),
        }
        with (
            self.turn,
            open(os.devnull, "rb") as nothing,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            files = [nothing.fileno(), out.fileno(), err.fileno()]
            socket.send_fds(self.line, [json.dumps(request).encode()], files)
            pid = self._heard()["pid"]
            try:
                code = self._heard()["ended"]
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._heard()
                raise
            out.seek(0)
            err.seek(0)
            return Run(code, _text(out.read()), _text(err.read()))

    def _heard(self) -> dict[str, int]:
        text = self.line.recv(1000)
        assert text, "the process that runs the program is gone"
        heard: dict[str, int] = json.loads(text)
        return heard

    def close(self) -> None:
        self.line.close()
        self.process.wait(PATIENCE)


def _text(written: bytes) -> str:
    """As `subprocess` reads text: every kind of line end is one."""
    return written.decode().replace("\r\n", "\n").replace("\r", "\n")


@cache
def _fork_server() -> ForkServer:
    server = ForkServer()
    atexit.register(server.close)
    return server


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
