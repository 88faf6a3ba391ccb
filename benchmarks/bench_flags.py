"""Feature flags: evaluations per second over OFREP, and how long they take.

The server is `deco serve` on an SQLite file, synced to the disk before every answer; it has drawn
the allocations ahead. Clients and server share the processors.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from decobandit import Problem
from decobandit.trials import create_trial, open_store

from .bench_trials import Served, committed, processor_seconds, quantile, serving
from .rows import Row, at_most

RATE, SECONDS = 1000, 5.0
LIMIT_P99 = 30.0  # milliseconds
STOCK = 12_000  # more than twice as many as subjects: none is drawn while they are evaluated
FILL_SECONDS = 600.0


def run() -> list[Row]:
    """Rows of subjects that come first, and of subjects that come again."""
    with tempfile.TemporaryDirectory(prefix="deco-bench-") as folder:
        db = str(Path(folder) / "flags.db")
        problem = Problem.uniform(arms=3, horizon=50_000)
        with open_store(db) as store:
            trial = create_trial(
                problem, policy="thompson", name="button", db=store, bound=False, max_open=50_000
            )
            with serving(db, "--draw-ahead", str(STOCK)) as served:
                evaluate(served, "the first")
                until = time.monotonic() + FILL_SECONDS
                while len(trial.read().ahead) < STOCK and time.monotonic() < until:
                    time.sleep(1.0)
                subjects = round(RATE * SECONDS)
                rows = [committed(Path(folder))]
                rows += evaluations(served, "new subjects, drawn ahead", subjects)
                rows += evaluations(served, "subjects that come again", subjects)
        return rows


def evaluate(served: Served, subject: str) -> None:
    link = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    body = json.dumps({"context": {"targetingKey": subject}})
    link.request(
        "POST", "/ofrep/v1/evaluate/flags/button", body, {"Content-Type": "application/json"}
    )
    assert link.getresponse().status == 200
    link.close()


def evaluations(served: Served, what: str, subjects: int) -> list[Row]:
    """Evaluations at RATE: how many are answered per second, and after how long."""
    load = [sys.executable, "-m", f"{__package__}.flag_clients", str(served.port), "button"]
    before = processor_seconds(served.process.pid)
    done = subprocess.run(
        [*load, str(RATE), str(SECONDS), str(subjects)], capture_output=True, text=True, check=True
    )
    busy = processor_seconds(served.process.pid) - before
    found = json.loads(done.stdout)
    number = len(found["taken"])
    rate, name = number / found["seconds"], f"flags over HTTP, {RATE}/s asked for, {what}"
    return [
        Row(
            name,
            rate,
            "evaluations/s",
            "limit",
            RATE,
            rate / RATE,
            f"at least {0.98 * RATE:g}/s",
            rate >= 0.98 * RATE,
        ),
        Row(f"{name}: processor time of the server", 1e3 * busy / number, "ms", "", None, None),
        Row(f"{name}, p50", quantile(found["taken"], 50), "ms", "", None, None),
        at_most(f"{name}, p99", quantile(found["taken"], 99), "ms", LIMIT_P99),
    ]
