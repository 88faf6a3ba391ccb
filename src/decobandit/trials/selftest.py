"""Self-test of the trial log on this machine, against hashlib and sqlite3."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ..problem import Problem
from ..support import Check
from .errors import Damaged

PULLS = 12
NAME = "selftest"


def check_log() -> Iterator[Check]:
    """Run a trial to its end, hash its chain independently, and edit one event."""
    from .database import open_store
    from .trial import create_trial, open_trial

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "selftest.db"
        with open_store(file) as store:
            problem = Problem.uniform(arms=3, horizon=PULLS)
            trial = create_trial(problem, name=NAME, db=store, seed=5)
            for number in range(PULLS):
                trial.tell(trial.ask().id, number % 2)
            with closing(sqlite3.connect(file)) as connection:
                rows = connection.execute("select body from events order by seq").fetchall()
            bodies = [body for (body,) in rows]
            recorded = sum(json.loads(body)["kind"] == "told" for body in bodies)
            area = "trial log"
            yield Check(area, "outcomes on disk", "read by sqlite3", PULLS, recorded, 0.0)
            broken = _broken_links(bodies)
            yield Check(area, "broken links of the chain", "SHA-256 of hashlib", 0, broken, 0.0)
            again = trial.replay()
            yield Check(area, "log verified", "the log itself", 1, trial.verify().ok, 0.0)
            yield Check(area, "decisions made again alike", "the log itself", 1, again.ok, 0.0)
        _flip_one_outcome(file)
        with open_store(file) as store:
            try:
                intact = open_trial(NAME, db=store).verify().ok
            except Damaged:
                intact = False
            yield Check(area, "edited log called intact", "an edit by sqlite3", 0, intact, 0.0)


def _broken_links(bodies: list[str]) -> int:
    hashes = [hashlib.sha256(body.encode()).hexdigest() for body in bodies]
    previous = [json.loads(body)["previous"] for body in bodies]
    return sum(one != two for one, two in zip(hashes, previous[1:], strict=False))


def _flip_one_outcome(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        seq, body = connection.execute(
            "select seq, body from events where kind = 'told' order by seq limit 1"
        ).fetchone()
        edited = json.loads(body)
        edited["data"]["outcome"] = 1 - edited["data"]["outcome"]
        text = json.dumps(edited, sort_keys=True, separators=(",", ":"))
        connection.execute("update events set body = ? where seq = ?", (text, seq))
