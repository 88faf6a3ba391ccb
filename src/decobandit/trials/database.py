"""The database of trials: connections and transactions, independent of their content.

With SQLite, threads that wait to write share a commit: one runs all queued works, each within a
savepoint. Where the database itself fails, all are rolled back and run again one by one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from .backends import check_contents, postgres_engine, sqlite_engine, write_lock
from .errors import Damaged, NotFound, StoreError, Unreadable
from .schema import place_of, upgrade


class Counts:
    """Counters of events and errors since a store was opened; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._events: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def event(self, kind: str) -> None:
        with self._lock:
            self._events[kind] += 1

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Count database errors that leave the block."""
        try:
            yield
        except StoreError as error:
            self.error(error)
            raise

    def error(self, error: StoreError) -> None:
        """Count an error once, also if it leaves several blocks."""
        with self._lock:
            if not error.counted:
                self._errors["damaged" if isinstance(error, Damaged) else "unavailable"] += 1
            error.counted = True

    def events(self) -> dict[str, int]:
        with self._lock:
            return dict(self._events)

    def errors(self) -> dict[str, int]:
        with self._lock:
            return dict(self._errors)


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
    """A database, shared between threads; every process opens it for itself.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        The engine of `open_store`.

    Examples
    --------
    >>> trial.store.url.get_backend_name()
    'sqlite'
    """

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
            for job in jobs:
                if len(jobs) == 1:
                    job.failure = failure
                else:
                    job.failure = None
                    self._commit([job])
        except BaseException as failure:
            for job in jobs:
                job.failure = job.failure or failure
        for job in jobs:
            if job.failure is not None and not job.done():
                job.set_exception(job.failure)
            elif not job.done():
                job.set_result(job.value)

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
                self._check_alive(connection)
            hooks = connection.info.pop(_HOOKS)
        for hook in hooks:
            hook()

    def _check_alive(self, connection: Connection) -> None:
        """Raise an error if SQLite has ended the transaction: a commit would then do nothing."""
        if self.shares_commits and not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
            raise StoreError(f"{self.url.database}: the database ended the transaction; try again")

    def _run(self, connection: Connection, jobs: list[_Job]) -> None:
        if len(jobs) == 1:
            jobs[0].value = jobs[0].work(connection)
            return
        hooks = connection.info[_HOOKS]
        for job in jobs:
            before = len(hooks)
            try:
                with _savepoint(connection):
                    job.value = job.work(connection)
            except (StoreError, SQLAlchemyError):
                raise  # concerns all works of this commit
            except Exception as error:
                job.failure = error
                del hooks[before:]
                self._check_alive(connection)

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

    Parameters
    ----------
    db : str, Path or Store, optional
        A file of SQLite, or the URL of a database; by default the value of DECO_DB, else
        deco-trials.db in the current folder. A `Store` is returned as it is.
    existing : bool
        Whether a missing file is an error, not a new database.

    Returns
    -------
    Store

    Raises
    ------
    StoreError
        If the database cannot be used; `NotFound` if it has to exist and does not.

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
    if existing and url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        raise NotFound(f"{url.database}: no such database; 'deco trial new' makes one")
    engine = sqlite_engine(url) if url.get_backend_name() == "sqlite" else postgres_engine(url)
    store = Store(engine)
    try:
        with _database_errors(url):
            if url.get_backend_name() == "sqlite" and Path(str(url.database)).exists():
                with engine.connect() as connection:
                    check_contents(connection, Path(str(url.database)))
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
def _savepoint(connection: Connection) -> Iterator[None]:
    """Undo the block if it fails. SQLAlchemy's own savepoint costs as much as the block."""
    connection.exec_driver_sql("SAVEPOINT work")
    try:
        yield
    except BaseException:
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT work")
        connection.exec_driver_sql("RELEASE SAVEPOINT work")
        raise
    connection.exec_driver_sql("RELEASE SAVEPOINT work")


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
