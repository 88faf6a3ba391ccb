"""Clients, two servers and the program on one database, struck by faults: nothing is lost.

20 faults on each kind of database; DECO_FAULTS=100 asks for more, DECO_FAULTS_SEED for the same
faults again. `make test-faults` runs a thousand (docs/reliability.md).
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.faults.campaign import (
    POSTGRESQL,
    SQLITE,
    Stage,
    Tally,
    asked_for,
    new_seed,
    open_stage,
    run_world,
)
from helpers.faults.page import BEGIN, END, PAGE, figures
from helpers.faults.shim import NO_COMPILER, DiskFaults, compiler

pytest_plugins = ["helpers.databases"]

FAULTS = asked_for(40) // 2
NOT_LINUX = "a library is loaded before the C library on Linux only"
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason=NOT_LINUX),
    pytest.mark.skipif(compiler() is None, reason=NO_COMPILER),
]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    from helpers.databases import NOT_THERE, binaries

    found = binaries()
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(NOT_THERE)
    with open_stage(postgresql=found is not None) as opened:
        yield opened


@pytest.mark.parametrize("database", [SQLITE, POSTGRESQL])
def test_histories_agree_with_the_log_whatever_fails(stage: Stage, database: str) -> None:
    if database == POSTGRESQL and stage.cluster is None:
        from helpers.databases import NOT_THERE

        pytest.skip(NOT_THERE)
    tally = Tally(new_seed())
    run_world(stage, tally, database, f"{tally.seed} {database}", FAULTS)
    print(figures(tally))
    assert tally.wrong == [], f"DECO_FAULTS_SEED={tally.seed}"
    assert tally.struck == FAULTS
    assert tally.requests["acknowledged"] > 0


# -- faults of the disk are real ------------------------------------------------------------------

WRITE = """
import sqlite3, sys
try:
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("INSERT INTO t VALUES (?)", ("x" * 20000,))
    print("done", connection.execute("SELECT count(*), min(length(x)) FROM t").fetchone())
except sqlite3.Error as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("mode", "calls", "said"),
    [
        ("none", "write", "done (1, 20000)"),
        ("fail", "write", "disk I/O error"),
        ("torn", "write", "disk I/O error"),
        ("fail", "sync", "disk I/O error"),
        ("full", "write", "database or disk is full"),
        ("short", "write", "done (1, 20000)"),
        ("slow", "write", "done (1, 20000)"),
        ("fail", "read", "disk I/O error"),
    ],
)
def test_a_fault_of_the_disk_reaches_sqlite(
    tmp_path: Path, mode: str, calls: str, said: str
) -> None:
    import sqlite3

    db = str((tmp_path / "t.db").resolve())
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TABLE t (x TEXT)")
    connection.close()
    disk = DiskFaults(tmp_path)
    disk.aim(db)
    disk.strike(mode, calls)
    done = subprocess.run(
        [sys.executable, "-c", WRITE, db],
        env={**os.environ, **disk.environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout.strip() == said
    assert (disk.clear() > 0) == (mode != "none")
    with sqlite3.connect(db) as connection:  # sound again, with all of it or nothing
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT length(x) FROM t").fetchall()
    connection.close()
    assert rows == ([(20000,)] if said.startswith("done") else [])


# -- the page -------------------------------------------------------------------------------------


def test_figures_count_violations_by_kind() -> None:
    tally = Tally(7, worlds=1, wrong=["world 0: lost: trial a: x", "world 0: lost: trial a: y"])
    tally.faults["SQLite", "short writes"] = 3
    tally.operations["ask", "ok"] = 1200
    text = figures(tally)
    assert "| short writes | 3 |" in text
    assert "| ask | 1,200 | 0 | 0 |" in text
    assert "| lost | 2 |" in text
    assert "| doubled | 0 |" in text
    assert "seed 7" in text


def test_the_page_has_the_figures_of_a_run_that_lost_nothing() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = page.partition(BEGIN)[2].partition(END)[0]
    assert "**0 lost, 0 doubled**" in shown
    assert "| lost | 0 |" in shown
