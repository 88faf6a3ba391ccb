"""The database of trials: connections and transactions; knows nothing of trials.

    store.read()       a consistent view, for as long as the block lasts
    store.write(work)  work(connection) in one transaction; returns when it is on disk

SQLite has one writer at a time. Threads that wait to write share a commit (group commit): one of
them runs all queued works, each within its own savepoint, and commits once; none of them returns
before that commit. Works that are submitted (`submit`) wait without a thread of their own: one
thread of the store commits them, and its next commit has all that came meanwhile. Where the
database itself fails during one of them (a full disk ends the whole transaction, not the
savepoint), all are rolled back and run again one by one. On PostgreSQL every work has its own
transaction.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, Self, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from .backends import check_contents, postgres_engine, sqlite_engine, write_lock
from .errors import Damaged, NotFound, StoreError, Unreadable
from .schema import upgrade

Job = TypeVar("Job")


class Committer(Generic[Job]):
    """Calls `commit` for one job after the other; a call may do the jobs after it as well.

    A daemon: a process that has to end does not wait for a database that stalls.
    """

    def __init__(self, commit: Callable[[Job], None]) -> None:
        self._commit = commit
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        Thread(target=self._run, name="committer", daemon=True).start()

    def put(self, job: Job) -> None:
        """One more job."""
        self._jobs.put(job)

    def end(self) -> None:
        """End the thread when the jobs before are done."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._commit(job)


# -- what a process has done with a database: events written by kind, errors by kind ---------------


class Counts:
    """Counters of one store, since it was opened; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._events: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()

    def event(self, kind: str) -> None:
        """One more event was written."""
        with self._lock:
            self._events[kind] += 1

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Count the errors of the database that leave the block."""
        try:
            yield
        except StoreError as error:
            self.error(error)
            raise

    def error(self, error: StoreError) -> None:
        """Count an error, once however many blocks it leaves."""
        with self._lock:
            if not error.counted:
                self._errors["damaged" if isinstance(error, Damaged) else "unavailable"] += 1
            error.counted = True

    def events(self) -> dict[str, int]:
        """Events written, by kind."""
        with self._lock:
            return dict(self._events)

    def errors(self) -> dict[str, int]:
        """Errors: damaged, or unavailable."""
        with self._lock:
            return dict(self._errors)


# -- the database of trials: connections and transactions; knows nothing of trials -----------------


T = TypeVar("T")
ENVIRONMENT = "DECO_DB"
DEFAULT_FILE = "deco-trials.db"
MAX_SHARED = 8  # jobs of one commit: more would delay an urgent one
_HOOKS = "decobandit_after_commit"
_NOTES = "decobandit_notes"


class _Job:
    """A queued work; when it is done, its result or its error."""

    def __init__(self, work: Callable[[Connection], Any], trial: str = "") -> None:
        self.work, self.trial = work, trial
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.future: Future[Any] | None = None  # of who waits without a thread

    def run(self, connection: Connection) -> None:
        self.result = self.work(connection)

    def end(self) -> None:
        """Tell whoever waits, once."""
        told, self.done = self.done, True
        if self.future is None or told:
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class Store:
    """One database. Share it between threads; processes open their own.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        As `open_store` makes it.

    Examples
    --------
    >>> trial.store.url.get_backend_name()
    'sqlite'
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writer = engine.execution_options(writes=True)
        self._alone = engine.dialect.name == "sqlite"
        self.counts = Counts()
        self._queue: list[_Job] = []
        self._queue_lock = Lock()
        self._commit_lock = Lock()
        self._committer: Committer[_Job] | None = None

    @property
    def url(self) -> URL:
        """Where it is; printed without a password."""
        return self._engine.url

    @property
    def shares_commits(self) -> bool:
        """Whether works that wait at the same time share a commit."""
        return self._alone

    @property
    def locks_rows(self) -> bool:
        """Whether a transaction has to lock the rows that it is going to change."""
        return not self._alone

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection in a transaction of its own, in which nothing changes."""
        with (
            self.counts.failures(),
            _database_errors(self.url),
            self._engine.connect() as connection,
        ):
            if self.locks_rows:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run work(connection) in a transaction; what it raises undoes what it did."""
        job = _Job(work)
        if self._alone:
            with self._queue_lock:
                self._queue.append(job)
            self._commit_with_others(job)
        else:
            self._commit([job])
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def submit(self, work: Callable[[Connection], T], trial: str = "") -> Future[T]:
        """The same without a thread that waits: the result comes when it is on disk.

        Only where works share commits (`shares_commits`). Nobody may wait within `work`. Trials
        take turns, so that the queue of a busy one does not delay the others.
        """
        job = _Job(work, trial)
        job.future = Future()
        job.future.set_running_or_notify_cancel()  # begun: it will not be cancelled
        with self._queue_lock:
            if self._committer is None:
                self._committer = Committer(self._commit_with_others)
            self._queue.append(job)
        self._committer.put(job)
        return job.future

    def _commit_with_others(self, job: _Job) -> None:
        with self._commit_lock:
            while not job.done:  # else another thread's commit included it
                self._commit(self._next_jobs())

    def _next_jobs(self) -> list[_Job]:
        """Take the jobs of one commit from the queue: of every trial the first, the second, ..."""
        with self._queue_lock:
            before = Counter[str]()
            turns = list[int]()
            for job in self._queue:
                turns.append(before[job.trial])
                before[job.trial] += 1
            order = sorted(range(len(turns)), key=turns.__getitem__)
            jobs = [self._queue[k] for k in order[:MAX_SHARED]]
            self._queue = [self._queue[k] for k in sorted(order[MAX_SHARED:])]
        return jobs

    def _commit(self, jobs: list[_Job]) -> None:
        try:
            self._commit_together(jobs)
        except StoreError as failure:
            if len(jobs) == 1:
                jobs[0].error = failure
            else:
                for job in jobs:
                    job.error = None
                    self._commit([job])
        except BaseException as failure:
            for job in jobs:
                job.error = job.error or failure
        finally:
            for job in jobs:
                job.end()

    def _commit_together(self, jobs: list[_Job]) -> None:
        with (
            self.counts.failures(),
            self._write_lock(),
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
        """SQLite may have ended the transaction; a commit after that succeeds and does nothing."""
        if self._alone and not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
            raise StoreError(f"{self.url.database}: the database ended the transaction; try again")

    def _write_lock(self) -> AbstractContextManager[None]:
        return write_lock(Path(str(self.url.database))) if self._alone else nullcontext()

    def _run(self, connection: Connection, jobs: list[_Job]) -> None:
        if len(jobs) == 1:
            jobs[0].run(connection)
            return
        hooks = connection.info[_HOOKS]
        for job in jobs:
            before = len(hooks)
            try:
                with _savepoint(connection):
                    job.run(connection)
            except (StoreError, SQLAlchemyError):
                raise  # concerns all works of this commit
            except Exception as error:
                job.error = error
                del hooks[before:]
                self._check_alive(connection)

    def after_commit(self, connection: Connection, hook: Callable[[], None]) -> None:
        """Call `hook` after the commit of this transaction; never, if it is rolled back."""
        connection.info[_HOOKS].append(hook)

    def notes(self, connection: Connection) -> dict[Any, Any]:
        """What works of this transaction leave for later ones; check that it still holds."""
        notes: dict[Any, Any] = connection.info[_NOTES]
        return notes

    def close(self) -> None:
        """Close all connections."""
        if self._committer is not None:
            self._committer.end()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


StoreLike = str | Path | Store | None


def open_store(db: StoreLike = None, *, existing: bool = False) -> Store:
    """The database of a path or URL, made and brought up to date where needed.

    Parameters
    ----------
    db : str, Path or Store, optional
        A file of SQLite, or the URL of a database; what DECO_DB says by default, else
        deco-trials.db in the current folder. A `Store` is handed back.
    existing : bool
        A file that is not there is an error, not a new database.

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
    """The database; after an error, one that was opened here is closed."""
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
    """What the block does is undone if it fails. SQLAlchemy's own costs as much as the block."""
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
    """The database's own errors as ours: one line, no SQL, no password."""
    place = str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string()
    try:
        yield
    except PoolTimeout:
        raise StoreError(f"{place}: too many requests at once; try again") from None
    except DBAPIError as error:
        said = " ".join(str(error.orig).split())[:200] or type(error.orig).__name__
        if "malformed" in said or "not a database" in said or "disk image" in said:
            raise Unreadable(f"{place}: the database is damaged: {said}") from None
        raise StoreError(f"{place}: {said}") from error
    except (SQLAlchemyError, UnicodeDecodeError) as error:
        raise StoreError(f"{place}: {type(error).__name__}: {error}") from error
