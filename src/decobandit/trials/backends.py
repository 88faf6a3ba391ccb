"""SQLite and PostgreSQL as trial databases: all commits reach the disk, all waiting has a deadline.

`synchronous=FULL` syncs the write-ahead log and the rollback journal at every commit.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DisconnectionError

from .errors import Damaged, StoreError

if TYPE_CHECKING:
    import psycopg

BUSY_SECONDS = 30  # how long one process waits for another one's transaction
TRY_SECONDS = 0.002  # between two tries
HEADER_BYTES = 100  # at the beginning of every database
CHECK_ALL_BYTES = 64 * 2**20  # up to this size, indices are compared with their tables too
_FILE = "decobandit_file"  # status of the file that a connection has open


def wal_is_safe(version: tuple[int, ...]) -> bool:
    """Tell whether this SQLite cannot lose a write-ahead log that two processes reset at once."""
    if version < (3, 7, 0) or version >= (3, 51, 3):
        return version >= (3, 7, 0)  # before 3.7.0 there is no such log
    fixed_in_series = {(3, 44): 6, (3, 50): 7}
    first_fixed = fixed_in_series.get((version[0], version[1]))
    return first_fixed is not None and version[2] >= first_fixed


def sqlite_engine(url: URL) -> Engine:
    """Return an engine on a file, which is created if needed."""
    path = Path(url.database or "")
    if not url.database or url.database == ":memory:":
        raise StoreError("database: a trial needs a file; memory is lost with the process")
    _check_file(path)

    def connect() -> sqlite3.Connection:
        # an existing file only: one that vanishes must not come back empty
        name = f"file:{quote(os.path.abspath(path))}?mode=rw"
        return sqlite3.connect(name, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)

    engine = create_engine(url, creator=connect)
    event.listen(engine, "connect", partial(_prepare, path))
    event.listen(engine, "checkout", partial(_check_same_file, path))
    event.listen(engine, "begin", _begin)
    return engine


def check_contents(connection: Connection, path: Path) -> None:
    """Raise `Damaged` unless SQLite finds the database intact."""
    pragma = "integrity_check" if path.stat().st_size <= CHECK_ALL_BYTES else "quick_check"
    result = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA {pragma}(1)")]
    if result != ["ok"]:
        reason = " ".join(result[0].split())
        raise Damaged(f"{path}: the database is damaged: {reason}; restore a copy of it")


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Hold the lock file (suffix `-turn`) of the writers of a database.

    SQLite itself retries after growing pauses, so that with many writers some wait too long. On
    file systems without locks, only SQLite's own waiting is left.
    """
    try:
        import fcntl

        # permissions of the database; no waiting for a pipe
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
        mode = stat.S_IMODE(path.stat().st_mode)
        descriptor = os.open(path.with_name(path.name + "-turn"), flags, mode)
    except (ImportError, OSError):
        yield
        return
    # the lock is given up when the file is closed, or its process dies
    with os.fdopen(descriptor, "ab") as file:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreError(f"{path}: another process is writing; try again") from None
                time.sleep(TRY_SECONDS)
            except OSError:
                break
        yield


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise StoreError(f"{path}: is a directory; give a file")
    if not path.absolute().parent.is_dir():
        raise StoreError(f"{path}: there is no directory {path.absolute().parent}")
    # without opening it: a process that closes a file loses all its locks on it, also those of a
    # transaction in another thread
    if not path.exists():
        try:
            os.mknod(path, stat.S_IFREG | 0o600)
        except FileExistsError:
            pass  # another one was quicker
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EROFS, errno.ENOSPC):
                raise StoreError(f"{path}: cannot be made: {error.strerror}") from None
            # systems that make files only by opening them: SQLite does
        return
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
        raise StoreError(f"{path}: is not a regular file; give a file")
    if not os.access(path, os.R_OK):
        raise StoreError(f"{path}: cannot be read: {os.strerror(errno.EACCES)}")
    if 0 < path.stat().st_size < HEADER_BYTES:  # SQLite calls a file of one byte empty
        raise Damaged(f"{path}: is not a database: it is shorter than the header of one")


def _check_same_file(path: Path, _connection: Any, record: Any, _proxy: Any) -> None:
    """Drop a connection to a file that is no longer there under its name: writes would be lost."""
    try:
        same = os.path.samestat(path.stat(), record.info[_FILE])
    except OSError as error:
        raise StoreError(f"{path}: the database is gone: {error.strerror}") from None
    if not same:
        raise DisconnectionError("another file was put in the place of the database")


def _prepare(path: Path, connection: Any, record: Any) -> None:
    record.info[_FILE] = path.stat()
    connection.isolation_level = None  # transactions are begun below, not by the driver
    # a flipped byte must not keep the rest from being read: its event's hash will not fit
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    wanted = "wal" if wal_is_safe(sqlite3.sqlite_version_info) else "truncate"
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    mode = connection.execute(f"PRAGMA journal_mode={wanted}").fetchone()[0]
    if mode != wanted:
        raise StoreError(f"the database keeps its journal as {mode!r}; {wanted!r} is needed")


def _begin(connection: Connection) -> None:
    # a transaction that will write takes its lock at once: it can never fail half-way for it
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


CONNECT_SECONDS = 5
LOCK_SECONDS = 8.0  # for a row that another transaction has locked
STATEMENT_SECONDS = 15.0
IDLE_SECONDS = 60.0  # of a transaction between two statements
ANSWER_SECONDS = 20.0  # until a server counts as silent
POOL_SECONDS = 8.0  # until a connection is free
POOL_SIZE, MORE_CONNECTIONS = 10, 20
_KEEPALIVES = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def postgres_engine(url: URL) -> Engine:
    """Return an engine on a database of a PostgreSQL server."""
    try:
        engine = create_engine(
            url,
            pool_size=POOL_SIZE,
            max_overflow=MORE_CONNECTIONS,
            pool_timeout=POOL_SECONDS,
            pool_pre_ping=True,
        )
    except ImportError:
        raise StoreError(
            "database: PostgreSQL needs its driver: pip install 'decobandit[postgres]'"
        ) from None
    event.listen(engine, "do_connect", _connect)
    return engine


def _connect(_dialect: Any, _record: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
    limits = {
        "lock_timeout": LOCK_SECONDS,
        "statement_timeout": STATEMENT_SECONDS,
        "idle_in_transaction_session_timeout": IDLE_SECONDS,
    }
    ours = " ".join(f"-c {name}={round(1000 * value)}" for name, value in limits.items())
    # options of the URL come last, and win
    options = f"{ours} {keywords.get('options', '')}".strip()
    defaults = {"connect_timeout": CONNECT_SECONDS, **_KEEPALIVES}
    return _patient().connect(*args, **{**defaults, **keywords, "options": options})


def _patient() -> type[psycopg.Connection[Any]]:
    """Return a connection class that gives up on a silent server, which cannot keep deadlines."""
    import psycopg  # late: the driver is an extra

    class Patient(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *args: Any, **named: Any) -> Any:
            """Run an exchange with the server; close the connection after the deadline."""
            return super().wait(self._bounded(gen), *args, **named)

        def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            deadline = time.monotonic() + ANSWER_SECONDS
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted  # 0 after each interval
                    if not ready and time.monotonic() > deadline:
                        self.close()
                        raise psycopg.OperationalError(
                            f"the server does not answer within {ANSWER_SECONDS:g} seconds"
                        )
                    wanted = gen.send(ready)
            except StopIteration as end:
                return end.value

    return Patient
