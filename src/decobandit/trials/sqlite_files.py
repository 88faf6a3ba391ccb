"""SQLite as a trial database: one file, every commit on the disk before it is acknowledged.

Journal. Versions 3.7.0 to 3.51.2 of SQLite, but for the fixed releases 3.44.6 and 3.50.7 and those
after them in their series, can lose a write-ahead log that two processes reset at the same time.
There the rollback journal is used; elsewhere the write-ahead log. With `synchronous=FULL` both
reach the disk at every commit; TRUNCATE is the rollback journal whose end is synced as well.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, Connection

from .errors import Damaged, StoreError

BUSY_SECONDS = 30  # how long one process waits for another one's transaction
TRY_SECONDS = 0.002  # between two tries
CHECK_ALL_BYTES = 64 * 2**20  # up to this size, indices are compared with their tables too
_HEADER = b"SQLite format 3\x00"


def wal_is_safe(version: tuple[int, ...]) -> bool:
    """Whether several processes may write through a write-ahead log with this SQLite."""
    if version < (3, 7, 0) or version >= (3, 51, 3):
        return version >= (3, 7, 0)  # before 3.7.0 there is no such log
    fixed_in_series = {(3, 44): 6, (3, 50): 7}
    first_fixed = fixed_in_series.get((version[0], version[1]))
    return first_fixed is not None and version[2] >= first_fixed


def sqlite_engine(url: URL) -> Engine:
    """An engine on a file that looks like a database, or does not exist yet."""
    path = Path(url.database or "")
    if not url.database or url.database == ":memory:":
        raise StoreError("database: a trial needs a file; memory is lost with the process")
    _check_file(path)
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def check_contents(connection: Connection, path: Path) -> None:
    """`Damaged` unless the file is a whole database."""
    pragma = "integrity_check" if path.stat().st_size <= CHECK_ALL_BYTES else "quick_check"
    found = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA {pragma}(1)")]
    if found != ["ok"]:
        said = " ".join(found[0].split())
        raise Damaged(f"{path}: the database is damaged: {said}; restore a copy of it")


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait for the other processes that write to this file.

    SQLite itself waits by trying again after ever longer pauses, and under many writers somebody is
    always unlucky. Where files cannot be locked, SQLite's own way is the only one.
    """
    try:
        import fcntl

        file = path.with_name(path.name + "-turn").open("ab")
    except (ImportError, OSError):
        yield
        return
    with file:  # the lock is given up when the file is closed, or its process dies
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreError(f"{path}: another process keeps it busy; try again") from None
                time.sleep(TRY_SECONDS)
            except OSError:
                break
        yield


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise StoreError(f"{path}: is a directory; give a file")
    if not path.absolute().parent.is_dir():
        raise StoreError(f"{path}: no such directory as {path.absolute().parent}")
    try:
        with path.open("rb") as file:
            header = file.read(len(_HEADER))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    if header and header != _HEADER:
        raise Damaged(f"{path}: is not an SQLite database, or its beginning is damaged")


def _prepare(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun below, not by the driver
    # a flipped byte must not keep the rest from being read: its event's hash will not fit
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    wanted = "wal" if wal_is_safe(sqlite3.sqlite_version_info) else "truncate"
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        found = cursor.execute(f"PRAGMA journal_mode={wanted}").fetchone()[0]
        if found != wanted:
            raise StoreError(f"the database keeps its journal as {found!r}; {wanted!r} is needed")
    finally:
        cursor.close()


def _begin(connection: Connection) -> None:
    # a transaction that will write takes its lock at once: it can never fail half-way for it
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
