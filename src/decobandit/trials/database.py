"""SQLite and PostgreSQL as trial databases: connections and transactions.

All commits reach the disk (`synchronous=FULL` syncs SQLite's write-ahead log and rollback journal),
all waiting has a deadline. With SQLite, threads that wait to write share a commit: one runs all
queued works, each within a savepoint. Where the database itself fails, all are rolled back and run
again one by one.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from .errors import Damaged, NotFound, StoreError, Unreadable
from .schema import place_of, upgrade

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

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
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

    @event.listens_for(engine, "checkout")
    def check_same_file(_connection: Any, record: Any, _proxy: Any) -> None:
        """Drop a connection to a file that is no longer there under its name."""
        try:
            same = os.path.samestat(path.stat(), record.info[_FILE])
        except OSError as error:
            raise StoreError(f"{path}: the database is gone: {error.strerror}") from None
        if not same:  # writes would be lost
            raise DisconnectionError("another file was put in the place of the database")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # a transaction that will write takes its lock at once: it can never fail half-way for it
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

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
    """Make a file that is not there; refuse what cannot be a database.

    The file is never opened: a process that closes a file loses all its locks on it, also those of
    a transaction in another thread.
    """
    if not path.absolute().parent.is_dir():
        raise StoreError(f"{path}: there is no directory {path.absolute().parent}")
    try:
        os.mknod(path, stat.S_IFREG | 0o600)
        return
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS, errno.ENOSPC) and not path.exists():
            raise StoreError(f"{path}: cannot be made: {error.strerror}") from None
        if not path.exists():
            return  # systems that make files only by opening them: SQLite does
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
        raise StoreError(f"{path}: is not a regular file; give a file")
    if not os.access(path, os.R_OK):
        raise StoreError(f"{path}: cannot be read: {os.strerror(errno.EACCES)}")
    if 0 < path.stat().st_size < HEADER_BYTES:  # SQLite calls a file of one byte empty
        raise Damaged(f"{path}: is not a database: it is shorter than the header of one")


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
        raise StoreError("database: PostgreSQL needs the extra decobandit[postgres]") from None

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
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

    return engine


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


class Counts:
    """Counters of events and errors since a store was opened, by kind; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.events, self.errors = Counter[str](), Counter[str]()

    def event(self, kind: str) -> None:
        with self._lock:
            self.events[kind] += 1

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Count database errors that leave the block: once, also if they leave several."""
        try:
            yield
        except StoreError as error:
            with self._lock:
                kind = "damaged" if isinstance(error, Damaged) else "unavailable"
                self.errors[kind] += not error.counted
                error.counted = True
            raise


T = TypeVar("T")
ENVIRONMENT = "DECO_DB"
DEFAULT_FILE = "deco-trials.db"
MAX_SHARED = 8  # jobs of one commit: more would delay an urgent one
_HOOKS = "decobandit_after_commit"
_NOTES = "decobandit_notes"


class _Job(Future[Any]):
    """A queued work, which is done when its result is on disk."""

    def __init__(self, work: Callable[[Connection], Any], trial: str = "") -> None:
        super().__init__()
        self.work, self.trial = work, trial
        self.value: Any = None
        self.failure: BaseException | None = None
        self.set_running_or_notify_cancel()  # begun: it will not be cancelled


class Store:
    """A database, shared between threads; every process opens it for itself, by `open_store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writer = engine.execution_options(writes=True)
        # whether concurrent works share a commit; else a transaction must lock the rows it changes
        self.shares_commits = engine.dialect.name == "sqlite"
        self.counts = Counts()
        self._queue: list[_Job] = []
        self._queue_lock = Lock()
        self._commit_lock = Lock()
        self._submitted: SimpleQueue[_Job | None] | None = None  # for the committer thread

    @property
    def url(self) -> URL:
        """URL of the database; printed without a password."""
        return self._engine.url

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection in a read transaction of its own."""
        with (
            self.counts.failures(),
            _database_errors(self.url),
            self._engine.connect() as connection,
        ):
            if not self.shares_commits:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run work(connection) in a transaction; an exception rolls it back."""
        job = _Job(work)
        if self.shares_commits:
            with self._queue_lock:
                self._queue.append(job)
            self._commit_with_others(job)
        else:
            self._commit([job])
        result: T = job.result()
        return result

    def submit(self, work: Callable[[Connection], T], trial: str = "") -> Future[T]:
        """Queue work(connection), which must not wait; the future's result is on disk.

        Only where works share commits (`shares_commits`). Trials take turns, so that a busy one
        does not delay the others. A process can end although its database stalls.
        """
        job = _Job(work, trial)
        with self._queue_lock:
            if self._submitted is None:
                self._submitted = submitted = SimpleQueue[_Job | None]()

                def commit() -> None:
                    while (job := submitted.get()) is not None:
                        self._commit_with_others(job)

                Thread(target=commit, name="committer", daemon=True).start()
            self._queue.append(job)
        self._submitted.put(job)
        return job

    def _commit_with_others(self, job: _Job) -> None:
        with self._commit_lock:
            while not job.done():  # else another thread's commit included it
                self._commit(self._next_jobs())

    def _next_jobs(self) -> list[_Job]:
        """Take the jobs of one commit from the queue, round robin over trials."""
        with self._queue_lock:
            before, turns = Counter[str](), dict[_Job, int]()
            for job in self._queue:
                turns[job] = before[job.trial]
                before[job.trial] += 1
            jobs = sorted(self._queue, key=turns.__getitem__)[:MAX_SHARED]
            self._queue = [job for job in self._queue if job not in jobs]
            return jobs

    def _commit(self, jobs: list[_Job]) -> None:
        try:
            self._commit_together(jobs)
        except StoreError as failure:
            if len(jobs) > 1:
                for job in jobs:
                    self._commit([job])
                return
            jobs[0].failure = failure
        except BaseException as failure:
            for job in jobs:
                job.failure = job.failure or failure
        for job in jobs:
            if job.failure is None:
                job.set_result(job.value)
            else:
                job.set_exception(job.failure)

    def _commit_together(self, jobs: list[_Job]) -> None:
        file = Path(str(self.url.database))
        with (
            self.counts.failures(),
            write_lock(file) if self.shares_commits else nullcontext(),
            _database_errors(self.url),
            self._writer.connect() as connection,
        ):
            connection.info[_HOOKS], connection.info[_NOTES] = [], {}
            with connection.begin():
                self._run(connection, jobs)
                raw: Any = connection.connection.driver_connection
                if self.shares_commits and not raw.in_transaction:  # a commit would do nothing
                    raise StoreError(f"{file}: the database ended the transaction; try again")
            hooks = connection.info.pop(_HOOKS)
        for hook in hooks:
            hook()

    def _run(self, connection: Connection, jobs: list[_Job]) -> None:
        if len(jobs) == 1:
            jobs[0].failure = None  # of a commit that was shared, and rolled back
            jobs[0].value = jobs[0].work(connection)
            return
        hooks = connection.info[_HOOKS]
        for job in jobs:
            before, job.failure = len(hooks), None
            # SQLAlchemy's own savepoint costs as much as the work
            connection.exec_driver_sql("SAVEPOINT work")
            try:
                job.value = job.work(connection)
            except (StoreError, SQLAlchemyError):
                raise  # concerns all works of this commit
            except Exception as error:
                job.failure = error
                del hooks[before:]
                connection.exec_driver_sql("ROLLBACK TO SAVEPOINT work")
            connection.exec_driver_sql("RELEASE SAVEPOINT work")

    def after_commit(self, connection: Connection, hook: Callable[[], None]) -> None:
        """Call `hook` after the commit of this transaction; not after a rollback."""
        connection.info[_HOOKS].append(hook)

    def notes(self, connection: Connection) -> dict[Any, Any]:
        """Return notes that works of this transaction leave for later ones; check them."""
        notes: dict[Any, Any] = connection.info[_NOTES]
        return notes

    def close(self) -> None:
        """Close the connections of the pool."""
        if self._submitted is not None:
            self._submitted.put(None)
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


StoreLike = str | Path | Store | None


def open_store(db: StoreLike = None, *, existing: bool = False) -> Store:
    """Open the database of a path or URL; create or upgrade it if needed.

    `db`: a file of SQLite, or the URL of a database; by default the value of DECO_DB, else
    deco-trials.db in the current folder. A `Store` is returned as it is. `existing`: whether a
    missing file is an error (`NotFound`), not a new database. Raises `StoreError` if the database
    cannot be used.

    Examples
    --------
    >>> from decobandit.trials import list_trials, open_store
    >>> with open_store("empty.db") as store:
    ...     list_trials(db=store)
    []
    """
    if isinstance(db, Store):
        return db
    url = _url(db)
    is_file, file = url.get_backend_name() == "sqlite", Path(str(url.database))
    if existing and is_file and not file.exists():
        raise NotFound(f"{file}: no such database; 'deco trial new' makes one")
    engine = sqlite_engine(url) if is_file else postgres_engine(url)
    store = Store(engine)
    try:
        with _database_errors(url):
            if is_file:
                with engine.connect() as connection:
                    check_contents(connection, file)
            upgrade(engine)
    except BaseException:
        store.close()
        raise
    return store


@contextmanager
def closed_on_error(db: StoreLike) -> Iterator[Store]:
    """Yield the database; after an error, close it if it was opened here."""
    store = open_store(db)
    try:
        yield store
    except BaseException:
        if store is not db:
            store.close()
        raise


def _url(db: str | Path | None) -> URL:
    text = str(db or os.environ.get(ENVIRONMENT) or DEFAULT_FILE)
    if text == ":memory:":
        return URL.create("sqlite", database=text)
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).absolute()))
    try:
        url = make_url(text)
    except ArgumentError:
        raise StoreError("database: neither a path nor a valid URL") from None
    name = url.get_backend_name()
    if name in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if name != "sqlite":
        raise StoreError(f"database: {name!r} is not supported; use SQLite or PostgreSQL")
    return url.set(drivername="sqlite")


@contextmanager
def _database_errors(url: URL) -> Iterator[None]:
    """Convert database errors to `StoreError`: one line, no SQL, no password."""
    place = place_of(url)
    try:
        yield
    except PoolTimeout:
        raise StoreError(f"{place}: too many requests at once; try again") from None
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())[:200] or type(error.orig).__name__
        if any(words in reason for words in ("malformed", "not a database", "disk image")):
            raise Unreadable(f"{place}: the database is damaged: {reason}") from None
        raise StoreError(f"{place}: {reason}") from error
    except (SQLAlchemyError, UnicodeDecodeError) as error:
        raise StoreError(f"{place}: {type(error).__name__}: {error}") from error
