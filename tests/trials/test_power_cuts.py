"""Power cuts: nothing that was acknowledged is lost, whatever became of unsynced writes.

A run is recorded below the database and cut at every sync in turn (`helpers/faults/power.py`):
DECO_FAULTS=100 asks for more cuts, DECO_FAULTS_SEED for the same ones again.
"""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.faults.campaign import (
    POSTGRESQL,
    SQLITE,
    WRITE_AHEAD,
    Stage,
    Tally,
    asked_for,
    cut_power,
    new_seed,
    open_stage,
)
from helpers.faults.power import (
    CREATED,
    RENAMED,
    SIZED,
    SYNCED,
    WAYS,
    WRITTEN,
    Change,
    Cut,
    Disk,
    cuts,
    read_changes,
)
from helpers.faults.shim import NO_COMPILER, DiskFaults, compiler

pytest_plugins = ["helpers.databases"]

CUTS = asked_for(32)
NOT_LINUX = "a library is loaded before the C library on Linux only"
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason=NOT_LINUX),
    pytest.mark.skipif(compiler() is None, reason=NO_COMPILER),
]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    from helpers.databases import NOT_THERE, binaries

    there = binaries() is not None
    if not there and os.environ.get("CI") == "true":
        pytest.fail(NOT_THERE)
    with open_stage(postgresql=there) as opened:
        yield opened


@pytest.mark.parametrize("database", [SQLITE, WRITE_AHEAD, POSTGRESQL])
def test_restore_drill_loses_nothing_acknowledged(
    stage: Stage, database: str, record_property: Callable[[str, object], None]
) -> None:
    """RPO 0: all acknowledged events are there; RTO: seconds until a trial allocates again."""
    if database == POSTGRESQL and stage.cluster is None:
        from helpers.databases import NOT_THERE

        pytest.skip(NOT_THERE)
    tally = Tally(new_seed())
    most = CUTS if database != POSTGRESQL else CUTS // 4
    cut_power(stage, tally, database, f"{tally.seed} {database}", most)
    assert tally.wrong == [], f"DECO_FAULTS_SEED={tally.seed}"
    assert tally.requests["acknowledged"] > 0
    assert 0 < tally.struck <= most
    assert len(tally.recovery[database]) == tally.struck
    record_property("power_cuts", tally.struck)
    record_property("rto_seconds", max(tally.recovery[database]))


# -- a cut is real -----------------------------------------------------------------------------

COMMIT = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for pragma in sys.argv[2:]:
    connection.execute(f"PRAGMA {pragma}")
for number in range(12):
    connection.execute("INSERT INTO t VALUES (?)", (str(number) * 3000,))
    print(time.monotonic_ns(), flush=True)
"""


def lost_rows(tmp_path: Path, *pragmas: str) -> int:
    """The largest number of committed rows that a power cut takes away."""
    root, image = (tmp_path / "db").resolve(), tmp_path / "image"
    root.mkdir()
    db = root / "trials.db"
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TABLE t (x TEXT)")
    connection.close()
    shutil.copytree(root, image)
    disk = DiskFaults(tmp_path)
    disk.watch(str(root))
    done = subprocess.run(
        [sys.executable, "-c", COMMIT, str(db), *pragmas],
        env={**os.environ, **disk.environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    committed = [int(line) for line in done.stdout.split()]
    changes = read_changes(disk.changes, root)
    if not any(change.kind == SYNCED for change in changes):  # power fails at the end
        changes.append(Change(10**12, time.monotonic_ns(), 0, 0, SYNCED, "trials.db"))
    lost = []
    for cut in cuts(image, changes, random.Random(1), tmp_path, most=100):
        with sqlite3.connect(cut.folder / "trials.db") as connection:
            if "synchronous=FULL" in pragmas:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            rows = connection.execute("SELECT count(*) FROM t").fetchone()[0]
        connection.close()
        lost.append(sum(at < cut.time for at in committed) - rows)
    return max(lost)


@pytest.mark.parametrize(
    ("pragmas", "loses"),
    [
        (("journal_mode=truncate", "synchronous=FULL"), False),  # as trials do
        (("journal_mode=wal", "synchronous=FULL"), False),  # where that is safe
        (("journal_mode=wal", "synchronous=NORMAL"), True),
        (("journal_mode=delete", "synchronous=FULL"), True),  # it does not sync the folder
        (("journal_mode=truncate", "synchronous=OFF"), True),
    ],
)
def test_only_synced_commits_survive_a_power_cut(
    tmp_path: Path, pragmas: tuple[str, ...], loses: bool
) -> None:
    lost = lost_rows(tmp_path, *pragmas)
    assert lost > 0 if loses else lost <= 0


def change(place: int, kind: int, path: str, **more: object) -> Change:
    return Change(place, place, **{"at": 0, "begun": place, "kind": kind, "path": path, **more})  # type: ignore[arg-type]


def left(tmp_path: Path, changes: list[Change], way: str) -> dict[str, bytes]:
    """What is on a disk that held the file `a` with old content, after these changes and a cut."""
    image = tmp_path / "image"
    if not image.exists():
        image.mkdir()
        (image / "a").write_bytes(b"old")
    disk = Disk(image)
    for one in changes:
        disk.take(one)
    cut = Cut(0, way, tmp_path / f"cut-{way}-{len(changes)}")
    disk.cut(way, random.Random(5), cut.folder)
    return {str(path.relative_to(cut.folder)): path.read_bytes() for path in cut.folder.rglob("*")}


def test_a_sync_keeps_what_was_written_before_it_began(tmp_path: Path) -> None:
    first = change(1, WRITTEN, "a", data=b"new!")
    late = change(2, WRITTEN, "a", at=4, data=b"more")
    both = [first, late, change(3, SYNCED, "a", begun=2)]  # it began between the two
    assert left(tmp_path, [first], "dropped") == {"a": b"old"}
    assert left(tmp_path, [first], "kept") == {"a": b"new!"}
    assert left(tmp_path, both, "dropped") == {"a": b"new!"}
    assert left(tmp_path, both, "kept") == {"a": b"new!more"}
    empty = [change(1, SIZED, "a"), change(2, SYNCED, "a")]
    assert left(tmp_path, empty, "dropped") == {"a": b""}


def test_torn_writes_keep_whole_sectors(tmp_path: Path) -> None:
    content = left(tmp_path, [change(1, WRITTEN, "a", data=b"n" * 512 * 20)], "torn")["a"]
    sectors = {content[start : start + 512].strip(b"\0") for start in range(512, 512 * 19, 512)}
    assert sectors == {b"", b"n" * 512}


def test_names_reach_the_disk_in_their_order(tmp_path: Path) -> None:
    made = [change(1, CREATED, "b"), change(2, WRITTEN, "b", data=b"new")]
    moved = [*made, change(3, SYNCED, "b"), change(4, RENAMED, "b", second="a")]
    assert left(tmp_path, made, "dropped") == {"a": b"old"}
    assert left(tmp_path, made, "kept") == {"a": b"old", "b": b"new"}
    assert left(tmp_path, moved, "dropped") == {"a": b"old", "b": b"new"}
    assert left(tmp_path, [*moved, change(5, SYNCED, ".")], "dropped") == {"a": b"new"}


def test_all_ways_are_used_in_turn(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    syncs = [change(place, SYNCED, "a") for place in range(1, 9)]
    used = [one.way for one in cuts(tmp_path / "image", syncs, random.Random(2), tmp_path, most=8)]
    assert len(used) == 8
    assert set(used[:4]) == set(used[4:]) == set(WAYS)


def test_the_clock_of_processes_can_be_set(tmp_path: Path) -> None:
    disk = DiskFaults(tmp_path)
    program = (
        "import time, datetime; "
        "print(time.time(), datetime.datetime.now().timestamp(), time.monotonic())"
    )
    for shift in (-86_400, 0, 10**8):
        disk.set_clock(shift)
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **disk.environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        )
        first, second, monotonic = map(float, done.stdout.split())
        assert abs(first - shift - time.time()) < 3600
        assert abs(second - shift - time.time()) < 3600
        assert abs(monotonic - time.monotonic()) < 3600
