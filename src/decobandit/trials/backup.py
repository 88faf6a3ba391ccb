"""A copy of an SQLite database while it is in use, checked before it gets its name."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from .database import Store, open_store
from .errors import StoreError
from .verification import Verification, check_database

PG_DUMP = "PostgreSQL is backed up by its own tools: pg_dump --format=custom"


def back_up(store: Store, target: Path) -> list[Verification]:
    """Copy a database to a new file by SQLite's backup interface; the check of every trial.

    The copy is the database at one moment; writers wait while it is read. A copy with a damaged
    trial is kept as well: the result says what is damaged.
    """
    if store.locks_rows:
        raise StoreError(f"backup: {PG_DUMP}")
    if target.exists():
        raise StoreError(f"{target}: exists; give a new file")
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        # nobody else may read it: it has the digests of tokens
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _copy(Path(str(store.url.database)), partial)
        with open_store(partial, existing=True) as copy:
            found = [check.result() for check in check_database(copy)]
        _sync(partial)
        os.link(partial, target)  # unlike a rename, never replaces a file
    except FileExistsError:
        raise StoreError(f"{target}: exists; give a new file") from None
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{target}: cannot be written: {error}") from None
    finally:
        for suffix in ("", "-turn", "-journal", "-wal", "-shm"):
            partial.with_name(partial.name + suffix).unlink(missing_ok=True)
    _sync(target.parent)
    return found


def _copy(source: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True, timeout=30)) as here,
        closing(sqlite3.connect(target)) as there,
    ):
        here.backup(there)


def _sync(path: Path) -> None:
    if os.name == "posix":
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
