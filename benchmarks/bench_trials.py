"""Trials: pairs of ask and tell per second through the server, the time of one ask, and kills.

Long trials with the default policy have rows of their own, with another trial asked beside them.

The server is `deco serve` on an SQLite file; every event is synced to the disk before its answer.
Disks differ more than processors: a row says how long this one takes to sync a small file.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from sqlalchemy import Connection

from decobandit import Arm, BetaBernoulli, Problem, solve
from decobandit.trials import create_trial, open_store, open_trial

from .peers import SCRIPTS, NotMeasuredError, Peer, rates
from .rows import Row, at_most
from .trial_clients import get, post

DECO = Path(sys.executable).with_name("deco")
CLIENTS, SECONDS = 16, 5.0
ARMS, HORIZON = 10, 1000
POLICY = "deco"  # of the rows that do not say "default policy"
LONG = ((3, 600), (4, 2000))  # arms and stages of trials with the default policy
TRIALS = 4  # that the clients share: none of them fills up
WARM_ASKS = 300
KILLS = int(os.environ.get("DECO_KILLS", "5"))
START_SECONDS = 120.0
# per second, milliseconds twice, seconds
LIMITS = {
    "pairs": 300.0,
    "request p99": 80.0,
    "ask p99": 20.0,
    "start": 3.0,
    "long pairs": 100.0,
    "beside p99": 100.0,
}
OPTUNA = Peer(
    "optuna 5.0.0, a database per core",
    policies=("deco",),
    requirements=("optuna==5.0.0",),
    script=SCRIPTS / "run_optuna.py",
)


def run() -> list[Row]:
    """Rows of the library, of the server, of kills."""
    with tempfile.TemporaryDirectory(prefix="deco-bench-") as folder:
        problem = different_arms(ARMS, HORIZON)
        # prices need not be exact to be read as fast
        solution = solve(problem, tol=0.1)
        db = str(Path(folder) / "trials.db")
        names = [f"trial-{number}" for number in range(TRIALS)]
        with open_store(db) as store:
            for name in ("library", "killed", *names):
                create_trial(
                    problem,
                    name=name,
                    db=store,
                    solution=solution,
                    policy=POLICY,
                    max_cancelled=10**9,
                )
        rows = [synced(Path(folder)), committed(Path(folder)), *library(db, "library", WARM_ASKS)]
        rows += over_http(db, names, CLIENTS, SECONDS, OPTUNA)
        rows += kills(db, "killed", KILLS)
        return rows + [row for size in LONG for row in by_default(Path(folder), *size)]


def different_arms(arms: int, horizon: int) -> Problem:
    """No two arms share a table."""
    priors = [BetaBernoulli(good=1 + 0.3 * k, bad=2 + 0.1 * k) for k in range(arms)]
    named = tuple(Arm(name=f"arm {k}", prior=prior) for k, prior in enumerate(priors))
    return Problem(arms=named, horizon=horizon)


def synced(folder: Path, times: int = 50) -> Row:
    """What the disk itself takes."""
    taken = []
    with (folder / "sync").open("wb") as file:
        for _ in range(times):
            file.write(b"x" * 512)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(1e3 * (time.perf_counter() - began))
    return Row("sync of a small file, p50", quantile(taken, 50), "ms", "the disk", None, None)


def committed(folder: Path, times: int = 30, events: int = 16) -> Row:
    """What SQLite takes to commit as many events as there are clients: the disk's ceiling."""
    taken = []
    with open_store(folder / "ceiling.db") as store:
        body = "x" * 2000  # of an ask

        def write(number: int, connection: Connection) -> None:
            for k in range(events):
                connection.exec_driver_sql(
                    "INSERT INTO events (trial_id, seq, kind, body, hash) VALUES (?, ?, ?, ?, ?)",
                    ("ceiling", number * events + k, "told", body, f"{number}-{k}"),
                )

        store.write(
            lambda link: link.exec_driver_sql(
                "INSERT INTO trials (id, name, created_at, head_seq, head_hash) VALUES "
                "('ceiling', 'ceiling', '', 0, '')"
            )
        )
        for number in range(times):
            began = time.perf_counter()
            store.write(partial(write, number))
            taken.append(1e3 * (time.perf_counter() - began))
    return Row(
        f"commit of {events} events by SQLite with full sync, p50",
        quantile(taken, 50),
        "ms",
        "the disk, five syncs",
        None,
        None,
    )


def quantile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent))


# -- one ask ------------------------------------------------------------------------------------


def library(db: str, name: str, asks: int) -> list[Row]:
    """Milliseconds of an ask whose tables are there: all of it, and the decision alone."""
    whole, decision = [], []
    with open_store(db) as store:
        trial = open_trial(name, db=store)
        for number in range(asks + 1):
            began = time.perf_counter()
            trial.status()
            middle = time.perf_counter()
            slot = trial.ask()
            whole.append(1e3 * (time.perf_counter() - middle))
            decision.append(1e3 * (middle - began))
            trial.tell(slot.id, number % 3 == 0)
    size = f"({trial.problem.n_arms}, {trial.problem.horizon})"
    limit = LIMITS["ask p99"]
    return [
        Row(f"first ask {size}", whole[0], "ms", "tables were made by 'status'", None, None),
        at_most(f"warm ask {size}, p99, commit included", quantile(whole[1:], 99), "ms", limit),
        Row(f"warm ask {size}, p50", quantile(whole[1:], 50), "ms", "", None, None),
        Row(f"warm status {size}, p99", quantile(decision[1:], 99), "ms", "", None, None),
    ]


# -- the server ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Served:
    """A server that answers."""

    process: subprocess.Popen[str]
    port: int


@contextmanager
def serving(db: str, *options: str) -> Iterator[Served]:
    """`deco serve` on a free port, killed at the end."""
    command = [str(DECO), "serve", "--db", db, "--port", "0", "--no-auth", "--rate", "1000000"]
    command += options
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = next((line for line in process.stdout if "serving at" in line), "")
            if not said:
                raise RuntimeError("deco serve does not start")
            yield Served(process, int(said.strip().rpartition(":")[2]))
        finally:
            process.kill()


def over_http(db: str, names: Sequence[str], clients: int, seconds: float, peer: Peer) -> list[Row]:
    """Pairs per second of clients that all work at once, and what one of them waits."""
    with serving(db) as served:
        load = [sys.executable, "-m", f"{__package__}.trial_clients", str(served.port)]
        measure(load, 1, 0.5, names)  # loads what is compiled
        before = processor_seconds(served.process.pid)
        taken, passed = measure(load, clients, seconds, names)
        busy = processor_seconds(served.process.pid) - before
    what = f"ask and tell over HTTP, policy {POLICY}, {clients} clients, SQLite with full sync"
    pairs, limit = len(taken["ask"]) / passed, LIMITS["pairs"]
    rows = [
        Row(
            what,
            pairs,
            "pairs/s",
            "limit",
            limit,
            pairs / limit,
            f"at least {limit:g} pairs/s",
            pairs >= limit,
        ),
        Row(
            f"{what}: processor time of the server for a pair",
            1e3 * busy / len(taken["ask"]),
            "ms",
            "",
            None,
            None,
        ),
    ]
    for kind, values in taken.items():
        shown = f"{what}: {kind}"
        rows += [
            Row(f"{shown}, p50", quantile(values, 50), "ms", "", None, None),
            at_most(f"{shown}, p99", quantile(values, 99), "ms", LIMITS["request p99"]),
        ]
    return rows + beside(what, pairs, peer, seconds)


def by_default(folder: Path, arms: int, horizon: int) -> list[Row]:
    """Pairs per second on one long trial with the default policy, and another trial beside it."""
    db = str(folder / f"default-{horizon}.db")
    with open_store(db) as store:
        create_trial(different_arms(arms, horizon), name="long", db=store, max_cancelled=10**9)
        other = different_arms(2, 50_000)
        create_trial(other, name="other", db=store, policy="thompson", max_cancelled=10**9)
    with serving(db) as served, ThreadPoolExecutor(1) as pool:
        load = [sys.executable, "-m", f"{__package__}.trial_clients", str(served.port)]
        first = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        began = time.perf_counter()
        slot = post(first, "long/ask", {})["id"]  # solves for what all decisions look into
        prepared = 1e3 * (time.perf_counter() - began)
        post(first, f"long/allocations/{slot}/tell", {"outcome": 1})
        slot = post(first, "other/ask", {})["id"]  # loads what this trial needs
        post(first, f"other/allocations/{slot}/tell", {"outcome": 1})
        first.close()
        beside = pool.submit(measure, load, 1, SECONDS, ["other"])
        before = processor_seconds(served.process.pid)
        taken, passed = measure(load, CLIENTS, SECONDS, ["long"])
        busy = 1e3 * (processor_seconds(served.process.pid) - before)
        waited = beside.result()[0]["ask"]
    what = f"default policy, one trial ({arms}, {horizon}) over HTTP, {CLIENTS} clients"
    pairs, limit = len(taken["ask"]) / passed, LIMITS["long pairs"]
    return [
        Row(
            what,
            pairs,
            "pairs/s",
            "limit",
            limit,
            pairs / limit,
            f"at least {limit:g} pairs/s",
            pairs >= limit,
        ),
        Row(
            f"{what}: processor time of the server for a pair, the other trial's included",
            busy / len(taken["ask"]),
            "ms",
            "",
            None,
            None,
        ),
        Row(f"{what}: ask, p99", quantile(taken["ask"], 99), "ms", "", None, None),
        at_most(
            f"{what}: ask of another trial beside them, p99",
            quantile(waited, 99),
            "ms",
            LIMITS["beside p99"],
        ),
        Row(f"{what}: first ask", prepared, "ms", "solves the knots", None, None),
    ]


def processor_seconds(pid: int) -> float:
    """What a process has used so far: says more than pairs per second where others work too."""
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


def measure(
    load: Sequence[str], clients: int, seconds: float, names: Sequence[str]
) -> tuple[dict[str, list[float]], float]:
    """Milliseconds of requests by kind, and the seconds that they were sent in."""
    done = subprocess.run(
        [*load, str(clients), str(seconds), *names],
        capture_output=True,
        text=True,
        check=True,
        timeout=START_SECONDS + seconds,
    )
    found = json.loads(done.stdout)
    return found["taken"], found["seconds"]


def beside(what: str, ours: float, peer: Peer, seconds: float) -> list[Row]:
    """The same through the storage of another package, without a server between."""
    try:
        found = rates(peer, "deco", ARMS, HORIZON, seconds)
    except NotMeasuredError as error:
        return [Row(what, ours, "pairs/s", f"{peer.name}: not measured: {error}", None, None)]
    return [
        Row(what, ours, "pairs/s", f"{peer.name}, {way}", theirs, ours / theirs)
        for way, theirs in found.items()
    ]


# -- kills --------------------------------------------------------------------------------------


def kills(db: str, name: str, times: int) -> list[Row]:
    """The server is killed while it answers: what is lost, and when the next one answers.

    Its first answer is that the chain of the trial is whole; its first ask makes the tables again.
    """
    rng, acknowledged, starts, asks = random.Random(1), [], [], []
    for life in range(times + 1):
        began = time.perf_counter()
        with serving(db) as served:
            connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
            whole = get(connection, f"{name}/verify")["ok"]
            answered = time.perf_counter()
            acknowledged.append(str(post(connection, f"{name}/ask", {})["id"]))
            if life:  # the first one starts after no kill
                starts.append(answered - began if whole else math.inf)
                asks.append(time.perf_counter() - answered)
            connection.close()
            acknowledged += answers_until_killed(served, name, rng.uniform(0.05, 0.5))
    with open_store(db) as store:
        trial = open_trial(name, db=store)
        kept = {slot.id for slot in trial.allocations()}
        intact = trial.verify().ok and trial.replay().ok
    lost = len(set(acknowledged) - kept) if intact else len(acknowledged)
    what = f"after {times} kills of the server"
    return [
        Row(
            f"{what}: events lost of {len(acknowledged)}",
            lost,
            "",
            "limit",
            0.0,
            None,
            "none",
            lost == 0,
        ),
        at_most(f"{what}: start to first answer, the slowest", max(starts), "s", LIMITS["start"]),
        Row(f"{what}: start to first answer, p50", quantile(starts, 50), "s", "", None, None),
        Row(
            f"{what}: first ask after it, p50",
            quantile(asks, 50),
            "s",
            "makes the tables",
            None,
            None,
        ),
    ]


def answers_until_killed(served: Served, name: str, seconds: float) -> list[str]:
    """Allocations that were acknowledged before the server is killed in the middle of one."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    found: list[str] = []
    killer = threading.Timer(seconds, served.process.kill)
    killer.start()
    try:
        while True:
            slot = str(post(connection, f"{name}/ask", {})["id"])
            found.append(slot)
            post(connection, f"{name}/allocations/{slot}/cancel", {"reason": "benchmark"})
    except (OSError, http.client.HTTPException):
        return found
    finally:
        connection.close()
        killer.join()
