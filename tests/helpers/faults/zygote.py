"""Processes in a moment: forks of one that has loaded the package, beside each other.

Unlike those of `fork_server.py`, from which this takes what a run is, they run side by side, can be
stopped and killed one by one, and are all started with the shim. Run as a script, this is the
parent. A request is a JSON object, either that of a run of the program (`arguments`, `environment`,
`folder`) or {"client": [...]}, with `write_ahead`, sent with four files: standard input, output and
error, and a socket on which {"pid": ...} and {"ended": code} are answered.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2]
LONGEST = 1 << 20  # bytes of a request
READY = b"ready"
WARM = 240.0  # seconds in which the parent has loaded everything, on a busy machine


class Process:
    """One process that was started; threads may share it."""

    def __init__(self, line: socket.socket) -> None:
        self._code: int | None = None
        self._lock = threading.Lock()
        line.settimeout(WARM)
        self.pid: int = json.loads(line.recv(1000))["pid"]
        line.setblocking(True)
        self._line = line.detach()
        # not when the end is seen: another thread may be waiting for the same
        weakref.finalize(self, os.close, self._line)

    @property
    def ended(self) -> bool:
        """Whether its end was seen."""
        return self._code is not None

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.wait(0.0) is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds: float = WARM) -> int | None:
        """The exit code, if it ends within so many seconds; negative: killed by that signal."""
        if self._code is None and select.select([self._line], [], [], seconds)[0]:
            with self._lock:
                if self._code is None:
                    text = os.read(self._line, 1000)
                    self._code = json.loads(text)["ended"] if text else -signal.SIGKILL
        return self._code


class Zygote:
    """The parent, as its starter sees it; its processes end with it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.write_ahead = False  # SQLite keeps a write-ahead log, whatever its version
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(WARM)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the one who started all this
            )
        assert self._line.recv(100) == READY, "the parent of the processes did not start"

    def start(self, request: dict[str, Any], out: int, err: int) -> Process:
        """A process whose output goes to those files."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {**request, "write_ahead": self.write_ahead}
        with theirs, open(os.devnull, "rb") as nothing:
            files = [nothing.fileno(), out, err, theirs.fileno()]
            socket.send_fds(self._line, [json.dumps(request).encode()], files)
        return Process(ours)

    def program(self, arguments: list[str], out: int, err: int) -> Process:
        """A run of `deco`."""
        from helpers.program import PLAIN

        environment = {**os.environ, **PLAIN}
        request = {"arguments": arguments, "environment": environment, "folder": "/"}
        return self.start(request, out, err)

    def close(self) -> None:
        """End all processes."""
        self._line.close()
        self._process.wait(WARM)


# -- the parent -----------------------------------------------------------------------------------


def warm() -> None:
    """Load the package and the machine code that trials need."""
    from decobandit.trials import open_store
    from helpers.faults.world import create_trials
    from helpers.fork_server import load_modules

    load_modules()
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/warm.db") as store:
        for trial in create_trials(store, seed=0):
            trial.tell(trial.ask().id, 1)
            trial.ask()
            trial.status()


def run(request: dict[str, Any], files: list[int]) -> None:
    """One process; never returns."""
    from decobandit.trials import database
    from helpers import fork_server

    if request["write_ahead"]:
        database.wal_is_safe = lambda version: True
    if "client" not in request:
        fork_server.run(request, files)
    code = 1
    try:
        from helpers.faults.clients import library_process

        for number, file in enumerate(files):
            os.dup2(file, number)
        library_process(*request["client"])
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def keep(request: dict[str, Any], files: list[int], line: socket.socket) -> None:
    """Start the process, wait for it, and say how it ended; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        line.close()
        run(request, files)
    with suppress(OSError):
        line.send(json.dumps({"pid": pid}).encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        line.send(json.dumps({"ended": code}).encode())
    os._exit(0)


def main(number: str) -> None:
    sys.path[0] = str(TESTS)
    warm()
    # Python 3.12 and later warn of a fork beside threads; those of OpenBLAS do no harm
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who keep processes need no burial
    with socket.socket(fileno=int(number)) as line:
        line.send(READY)
        while True:
            text, files, _, _ = socket.recv_fds(line, LONGEST, 4)
            if not text:
                os.killpg(0, signal.SIGKILL)
            if os.fork() == 0:
                line.close()
                keep(json.loads(text), files[:3], socket.socket(fileno=files[3]))
            for file in files:
                os.close(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
