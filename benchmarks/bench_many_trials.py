"""Many trials in one database: what a list takes, and an ask, over HTTP and in a new process.

The server is `deco serve` on an SQLite file with 2,500 trials; every event is synced to the disk.
"""

from __future__ import annotations

import http.client
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from decobandit import Problem
from decobandit.trials import list_trials, open_store, open_trial
from decobandit.trials.decisions import decider_of, decision_record
from decobandit.trials.event_log import event_log_of
from decobandit.trials.settings import TrialLimits, make_settings, origin_of

from .bench_trials import quantile, serving
from .rows import Row, at_most
from .trial_clients import answer_of, post

TRIALS, PAIRS, BATCH = 2500, 4, 100
ARMS, HORIZON = 5, 100
REPEATS, ASKS = 15, 100
LIMIT = 200.0  # milliseconds


def run() -> list[Row]:
    """Rows of the library, in a store that was just opened, and of the server."""
    with tempfile.TemporaryDirectory(prefix="deco-bench-") as folder:
        db = str(Path(folder) / "trials.db")
        names = fill(db, TRIALS, PAIRS)
        return [*library(db, names), *over_http(db, names)]


def fill(db: str, trials: int, pairs: int) -> list[str]:
    """Trials under way, each with one pending allocation.

    Each batch is one transaction, by the parts that a trial is made of: one per event would take
    minutes, and it is not what is measured here.
    """
    problem = Problem.uniform(arms=ARMS, horizon=HORIZON)
    settings = make_settings(problem, policy="deco", tol=1e-3)
    about = {"limits": TrialLimits.default(problem).to_dict(), **origin_of(None)}
    names = [f"trial-{number:05}" for number in range(trials)]
    with open_store(db) as store:
        log, decider = event_log_of(store), decider_of(settings)

        def begin(connection: Connection, name: str) -> None:
            ledger = log.create(connection, settings, about | {"name": name}, by="bench")
            for number in range(pairs + 1):
                decision, made = decider.decide(ledger), f"{name}-{number}"
                arm = problem.arms[decision.arm].name
                asked = {
                    "allocation": made,
                    "arm": arm,
                    "pulls": {arm: 1},
                    "number": ledger.asks,
                    "reason": decision.reason,
                    "decision": decision_record(decision, ledger),
                }
                ledger = log.append(connection, ledger, "asked", asked, by="bench")
                if number < pairs:
                    told = {"allocation": made, "outcome": number % 2}
                    ledger = log.append(connection, ledger, "told", told, by="bench")

        def batch(some: list[str], connection: Connection) -> None:
            for name in some:
                begin(connection, name)

        for first in range(0, trials, BATCH):
            store.write(partial(batch, names[first : first + BATCH]))
    return names


def library(db: str, names: list[str]) -> list[Row]:
    """The first list and the first ask of a store that was just opened."""
    with open_store(db) as store:
        (page,) = taken(1, lambda: list_trials(db=store, limit=1000))
        (every,) = taken(1, lambda: list_trials(db=store))
        (ask,) = taken(1, lambda: open_trial(names[-1], db=store).ask())
    what = f"{len(names)} trials in one database"
    return [
        at_most(f"{what}: first list of a process, all of them", every, "ms", LIMIT),
        at_most(f"{what}: first list of a process, a page of 1000", page, "ms", LIMIT),
        Row(
            f"{what}: first ask of a process",
            ask,
            "ms",
            "opens the trial, makes tables",
            None,
            None,
        ),
    ]


def over_http(db: str, names: list[str]) -> list[Row]:
    """Lists in pages and asks of trials that were not asked before, by one client."""
    with serving(db) as served:
        link = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        post(link, f"{names[0]}/ask", {})  # makes the tables that all of them share
        lists = taken(REPEATS, lambda: listed(link, "?limit=100"))
        long = taken(REPEATS, lambda: listed(link, ""))
        step = len(names) // ASKS or 1
        asked = iter(names[::step])
        asks = taken(min(ASKS, len(names)), lambda: post(link, f"{next(asked)}/ask", {}))
        link.close()
    what = f"{len(names)} trials in one database, over HTTP"
    return [
        at_most(f"{what}: list, a page of 100, the slowest", max(lists), "ms", LIMIT),
        at_most(f"{what}: list, a page of 1000, the slowest", max(long), "ms", LIMIT),
        Row(f"{what}: list, a page of 100, p50", quantile(lists, 50), "ms", "", None, None),
        Row(f"{what}: list, a page of 1000, p50", quantile(long, 50), "ms", "", None, None),
        at_most(f"{what}: ask, p99", quantile(asks, 99), "ms", LIMIT),
        Row(f"{what}: ask, p50", quantile(asks, 50), "ms", "", None, None),
    ]


def listed(link: http.client.HTTPConnection, query: str) -> None:
    """One page of the list."""
    link.request("GET", f"/api/v1/trials{query}")
    answer_of(link, "trials")


def taken(times: int, work: Callable[[], object]) -> list[float]:
    """Milliseconds of every repetition."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(1e3 * (time.perf_counter() - began))
    return found
