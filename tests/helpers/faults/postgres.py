"""A PostgreSQL server that is stopped, stalled and started again, its data kept."""

import os
import random
import re
import signal
import subprocess
import time
from contextlib import suppress
from copy import copy
from pathlib import Path

import psutil

from helpers.databases import DISCONNECT, Server, binaries, made_cluster, wait_until_ready

PATIENCE = 60.0
ATTEMPTS = 10
BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


class Cluster:
    """One server; `server.fresh()` has databases."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        programs = binaries()
        assert programs is not None
        self._command, self._place = made_cluster(programs, folder)
        self._place["env"] = {**os.environ, **environment}
        # to recover, it need not open every file of an empty database to sync it
        self._command += ["-c", "recovery_init_sync_method=syncfs"]
        self._log = folder / "log"
        self.server = Server(folder)
        self.start()

    def start(self) -> None:
        """Run it, and wait until it answers; again, while the last one's processes still end."""
        for attempt in range(ATTEMPTS):
            with self._log.open("ab") as out:
                self._process: subprocess.Popen[bytes] = subprocess.Popen(
                    self._command, stdout=out, stderr=out, **self._place
                )
            try:
                return self._wait()
            except RuntimeError:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(0.5)

    def on(self, data: Path) -> "Cluster":
        """The same server on other data, and its socket beside them; to be started."""
        other, folder = copy(self), data.parent
        before, owner = str(self.server.folder), self._place.get("user")
        settings = [str(part).replace(f"={before}", f"={folder}") for part in self._command[3:]]
        other._command = [*self._command[:2], data, *settings]
        other._place = {**self._place, "cwd": folder, "env": dict(os.environ)}
        other._log, other.server = folder / "log", Server(folder)
        data.chmod(0o700)
        if owner is not None:
            for path in (folder, data, *data.rglob("*")):
                os.chown(path, owner, self._place["group"])
        return other

    def shut_down(self) -> None:
        """Fast mode: all data are in their files then."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE)

    @property
    def data(self) -> Path:
        """Where its files are."""
        return Path(self._command[2])

    def checkpoint(self) -> None:
        """Write all pages to their files."""
        with self.server.connect("postgres") as admin:
            admin.execute("CHECKPOINT")

    def stop(self) -> None:
        """Immediate mode: nothing is written any more, and the next start recovers from the log."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(PATIENCE)

    def stall(self, seconds: float) -> None:
        """Stop all of its processes for a while."""
        stopped: list[psutil.Process] = []
        try:
            for process in self._family():
                process.suspend()
                stopped.append(process)
            time.sleep(seconds)
        finally:
            for process in stopped:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def _family(self) -> list[psutil.Process]:
        parent = psutil.Process(self._process.pid)
        return [parent, *parent.children(recursive=True)]

    def terminate(self, db: str) -> int:
        """End all connections of a database; how many there were."""
        with self.server.connect(_name(db)) as admin:
            return len(admin.execute(DISCONNECT).fetchall())

    def kill_backend(self, db: str, rng: random.Random) -> bool:
        """Kill the process of one connection: the server ends all others and recovers."""
        with self.server.connect(_name(db)) as admin:
            pids = [int(row[0]) for row in admin.execute(BACKENDS).fetchall()]
        if not pids:
            return False
        with suppress(psutil.NoSuchProcess):
            psutil.Process(rng.choice(pids)).kill()
        self._wait()
        return True

    def _wait(self) -> None:
        time.sleep(0.05)  # after a kill it may answer once more
        wait_until_ready(self.server, self._process, self._log)


def _name(db: str) -> str:
    found = re.search(r"/(\w+)\?", db)
    assert found is not None
    return found[1]
