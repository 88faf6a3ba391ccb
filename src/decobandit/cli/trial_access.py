"""How the commands of `deco trial` come to a trial."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from .options import check_database

if TYPE_CHECKING:
    from ..trials import Store, Trial

TrialName = Annotated[str, typer.Argument(metavar="TRIAL", help="Name or id of the trial.")]


@contextmanager
def database(db: str | None, *, existing: bool = False) -> Iterator[Store]:
    """The database of trials, open while the block lasts."""
    check_database(db)
    try:
        from ..trials import open_store
    except ImportError as error:
        raise ImportError(
            f"trials need a library that is not installed ({error.name}): "
            "pip install 'decobandit[trials]'"
        ) from None
    with open_store(db, existing=existing) as store:
        yield store


@contextmanager
def opened(trial: str, db: str | None) -> Iterator[Trial]:
    """A trial that exists, while the block lasts."""
    with database(db, existing=True) as store:
        from ..trials import open_trial

        yield open_trial(trial, db=store)
