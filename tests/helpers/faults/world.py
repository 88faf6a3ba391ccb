"""A database with trials, two servers and clients on it, to be struck by faults."""

import contextlib
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from helpers.faults.clients import Client
from helpers.faults.history import OK, Operation, Recorder, Request, read_history
from helpers.faults.roads import Http, Program
from helpers.faults.shim import DiskFaults
from helpers.faults.zygote import Process, Zygote

TRIALS = {"small": 25, "large": 200}  # horizons: in the small one slots are scarce
SERVERS, WEB_CLIENTS, PROCESSES, THREADS = 2, 4, 2, 2
PATIENCE = 120.0  # seconds for what must come to an end by itself


@cache
def plans() -> list[tuple[str, Any]]:
    """Names and solved problems of the trials of a world."""
    from decobandit.prices import solve
    from decobandit.problem import Arm, BetaBernoulli, Problem

    arms = (
        Arm(name="a", prior=BetaBernoulli(good=1, bad=1)),
        Arm(name="b", prior=BetaBernoulli(good=2, bad=1)),
    )
    problems = {name: Problem(arms=arms, horizon=horizon) for name, horizon in TRIALS.items()}
    return [(name, solve(problem, tol=0.05)) for name, problem in problems.items()]


def create_trials(store: Any, seed: int) -> list[Any]:
    """The trials of a world."""
    from decobandit.trials import create_trial

    return [
        create_trial(plan.problem, name=name, db=store, policy="deco", seed=seed, solution=plan)
        for name, plan in plans()
    ]


class WebServer:
    """`deco serve`, which may be killed and comes back on another port."""

    def __init__(self, zygote: Zygote, db: str) -> None:
        self._zygote, self._db = zygote, db
        self.start()

    def start(self) -> None:
        """Begin, and wait until it listens; again, if a fault kept it from beginning."""
        give_up = time.monotonic() + PATIENCE
        while not self._begin():
            if time.monotonic() > give_up:
                raise RuntimeError("a server does not start")
            time.sleep(0.1)

    def _begin(self) -> bool:
        reading, writing = os.pipe()
        command = ["serve", "--db", self._db, "--port", "0", "--no-auth", "--rate", "100000"]
        with open(os.devnull, "wb") as nothing, os.fdopen(reading) as said:
            self.process: Process = self._zygote.program(command, writing, nothing.fileno())
            os.close(writing)
            line = next((line for line in said if "serving at" in line), "")
        if line:
            self.port = int(line.strip().rpartition(":")[2])
        return bool(line)

    def end(self, number: int) -> None:
        """End it by a signal."""
        self.process.signal(number)
        if self.process.wait(PATIENCE) is None:
            raise RuntimeError(f"a server does not end by signal {number}")


class World:
    """All of it, running."""

    def __init__(self, db: str, zygote: Zygote, disk: DiskFaults, seed: str, folder: Path) -> None:
        self.db, self.zygote, self.disk, self.seed, self.folder = db, zygote, disk, seed, folder
        self.history_file, self._stop = folder / "history", folder / "stop"
        self.recorder = Recorder(self.history_file)
        self.servers = [WebServer(zygote, db) for _ in range(SERVERS)]
        self.program = Program(zygote, db)
        self.processes: list[Process] = []
        self._lives = 0
        ports = lambda: [server.port for server in self.servers]  # noqa: E731
        roads: list[tuple[str, Any]] = [
            (f"web {n}", Http(ports, random.Random(f"{seed} road {n}"))) for n in range(WEB_CLIENTS)
        ]
        self._clients = [
            Client(name, road, self.recorder, random.Random(f"{seed} {name}"), list(TRIALS))
            for name, road in [*roads, ("program", self.program)]
        ]
        self._threads = [
            threading.Thread(target=client.run, args=(self._stop.exists,), name=client.name)
            for client in self._clients
        ]

    def start(self) -> None:
        """Let the clients loose."""
        for _ in range(PROCESSES):
            self.add_process()
        for thread in self._threads:
            thread.start()

    def add_process(self) -> None:
        """One more client with a process of its own."""
        self._lives += 1
        name = f"library {self._lives}"
        arguments = [self.db, str(self.history_file), name, f"{self.seed} {name}", list(TRIALS)]
        with open(self.folder / "errors", "ab") as errors:
            request = {"client": [*arguments, THREADS, str(self._stop)]}
            self.processes.append(self.zygote.start(request, errors.fileno(), errors.fileno()))

    def settle(self) -> None:
        """Let the clients come to their end; `answers` is for afterwards."""
        self.disk.clear()
        self.disk.set_clock(0)
        self._stop.touch()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(PATIENCE)
        codes = [process.wait(PATIENCE) for process in self.processes]
        alive = [thread.name for thread in self._threads if thread.is_alive()]
        errors = [client.error for client in self._clients if client.error]
        if alive or errors or any(code != 0 for code in codes):
            said = (self.folder / "errors").read_text() if codes else ""
            raise RuntimeError(f"clients failed: {alive} {errors} {codes} {said[-2000:]}")

    def answers(self) -> list[str]:
        """Roads by which there is no answer now that all faults are over."""
        silent = []
        for number, server in enumerate(self.servers):
            road = Http(lambda server=server: [server.port], random.Random(1))  # type: ignore[misc]
            silent += [] if self._reads(road) else [f"server {number}"]
        return silent + ([] if self._reads(self.program) else ["program"])

    def verified(self) -> str:
        """What `deco trial verify` says of all trials, if they are not intact."""
        with tempfile.TemporaryFile() as out:
            command = ["trial", "verify", "--db", self.db]
            code = self.zygote.program(command, out.fileno(), out.fileno()).wait()
            out.seek(0)
            return "" if code == 0 else out.read().decode()

    def _reads(self, road: Any) -> bool:
        client = Client("after", road, self.recorder, random.Random(1), list(TRIALS))
        give_up = time.monotonic() + PATIENCE
        wanted = [Request("export", name) for name in TRIALS] + [Request("list", "")]
        for request in wanted:
            while client.attempt(request).outcome != OK:
                if time.monotonic() > give_up:
                    return False
                time.sleep(0.1)
        return True

    def history(self) -> list[Operation]:
        return read_history(self.history_file)

    def close(self) -> None:
        """End what is left."""
        self._stop.touch()
        for process in [*self.processes, *(server.process for server in self.servers)]:
            process.signal(signal.SIGCONT)
            process.signal(signal.SIGKILL)
            process.wait(PATIENCE)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(PATIENCE)
        self.recorder.close()


@contextmanager
def open_world(
    db: str | None,
    zygote: Zygote,
    disk: DiskFaults,
    seed: str,
    *,
    keep: Path,
    prepare: Callable[[str], None] = lambda place: None,
) -> Iterator[World]:
    """A world on that database, or on a new SQLite file; after an error its files are kept.

    `prepare`: called with the database, whose trials are there, before anybody works on them.
    """
    from decobandit.trials import open_store

    folder = Path(tempfile.mkdtemp(prefix="deco-faults-")).resolve()
    (folder / "db").mkdir()
    place = db or str(folder / "db" / "trials.db")
    with open_store(place) as store:
        create_trials(store, seed=random.Random(seed).randrange(2**31))
    prepare(place)
    disk.aim(place if db is None else "")
    world = World(place, zygote, disk, seed, folder)
    try:
        yield world
    except Exception:
        with contextlib.suppress(OSError):
            shutil.copytree(folder, keep, dirs_exist_ok=True)
        raise
    finally:
        world.close()
        disk.aim("")
        disk.watch("")
        disk.set_clock(0)
        shutil.rmtree(folder, ignore_errors=True)
