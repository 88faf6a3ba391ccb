"""What a process does beside its own transaction does not take the transaction's locks away.

POSIX locks belong to a process: when it closes any handle of a file, all its locks on that file
are gone, those of SQLite too. Another process would then take the journal of a transaction under
way for that of a dead one, and roll back what is about to be acknowledged.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from decobandit.problem import Problem
from decobandit.trials import create_trial, open_store
from helpers.refusals import refused

TRY = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
    print("taken")
except sqlite3.OperationalError as error:
    print(error)
"""


def lock_as_another_process(db: str) -> str:
    """What another process finds that wants to write."""
    done = subprocess.run(
        [sys.executable, "-c", TRY, db], capture_output=True, text=True, check=True, timeout=240
    )
    return done.stdout.strip()


def test_opening_a_database_again_keeps_the_locks_of_a_transaction_under_way(
    tmp_path: Path,
) -> None:
    db = str(tmp_path / "trials.db")
    with open_store(db) as store:
        create_trial(Problem.uniform(arms=2, horizon=3), name="wheat", db=store)
        found = []

        def work(_: object) -> None:
            found.append(lock_as_another_process(db))
            open_store(db).close()
            found.append(lock_as_another_process(db))

        store.write(work)
    assert found == ["database is locked"] * 2
    assert lock_as_another_process(db) == "taken"


@pytest.mark.parametrize("size", [1, 15, 16, 99, 100, 511, 512, 5000])
def test_a_file_that_is_no_database_is_refused_by_whatever_reads_it(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"x" * size)
    with refused("damaged"):
        open_store(path)
    assert path.read_bytes() == b"x" * size
