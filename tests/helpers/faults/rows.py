"""The rows of a trial database, read by its driver: no code of the package has a part in it."""

import re
import sqlite3
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg

TRIALS = "SELECT id, name, head_seq, head_hash FROM trials ORDER BY name"
EVENTS = "SELECT trial_id, seq, kind, key, body, hash FROM events ORDER BY trial_id, seq"


class Row(NamedTuple):
    """One event as it is stored."""

    seq: int
    kind: str
    key: str | None
    body: str
    hash: str


@dataclass(frozen=True)
class StoredTrial:
    """A trial and its events as they are stored."""

    id: str
    name: str
    head_seq: int
    head_hash: str
    rows: tuple[Row, ...]


def stored_trials(db: str) -> list[StoredTrial]:
    """All trials of a database: a path of SQLite, or the URL of a PostgreSQL database."""
    connection: Any = (
        psycopg.connect(re.sub(r"^postgresql\+\w+", "postgresql", db))
        if "://" in db
        else sqlite3.connect(db)
    )
    try:
        trials = connection.execute(TRIALS).fetchall()
        events = connection.execute(EVENTS).fetchall()
    finally:
        connection.close()
    return [
        StoredTrial(*trial, tuple(Row(*event[1:]) for event in events if event[0] == trial[0]))
        for trial in trials
    ]
