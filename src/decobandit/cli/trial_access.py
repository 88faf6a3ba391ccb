"""How the commands of `deco trial` and `deco token` come to a database, and to a trial in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, TypedDict

import typer

from .options import AllowPolicy, AsJson, Db
from .output import print_result
from .taking import option, options_of, taking_open, with_options
from .trial_tables import print_answer

if TYPE_CHECKING:
    from ..trials import Allocation, Store, Summary, Trial

TrialName = Annotated[str, typer.Argument(metavar="TRIAL", help="Name or id of the trial.")]
Slot = Annotated[
    str,
    typer.Argument(metavar="ALLOCATION", help="The id that 'ask' answered; or its subject."),
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the log.")]
OptionalReason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the log.")
]
Key = Annotated[
    str | None,
    typer.Option(help="The same key again gives the same answer, and no second event."),
]
By = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default="the user's name", help="Who is asking."),
]
StaleAfter = Annotated[
    float,
    typer.Option(metavar="HOURS", min=0.01, help="Older pending allocations are shown as stale."),
]


def check_database(db: str | None) -> None:
    """Refuse a password that others can read in the list of processes."""
    if db is not None and re.search(r"://[^/@]*:[^/@]+@|[?&]password=", db):
        raise typer.BadParameter(
            "--db: a password on the command line can be read by others; put the URL into DECO_DB, "
            "or the password into PGPASSWORD or a password file"
        )


@contextmanager
def database(db: str | None, *, existing: bool = False) -> Iterator[Store]:
    """The database of trials, open while the block lasts."""
    check_database(db)
    from ..trials import open_store

    with open_store(db, existing=existing) as store:
        yield store


def any_database(db: Db = None) -> AbstractContextManager[Store]:
    """The database; it is made where there is none."""
    return database(db)


def existing_database(db: Db = None) -> AbstractContextManager[Store]:
    """The database, which has to be there."""
    return database(db, existing=True)


@contextmanager
def opened(trial: TrialName, allow_policy: AllowPolicy = None, db: Db = None) -> Iterator[Trial]:
    """A trial that exists, while the block lasts."""
    with database(db, existing=True) as store:
        from ..trials import open_trial

        yield open_trial(trial, db=store)


makes_store = taking_open(any_database)
takes_store = taking_open(existing_database)
takes_trial = taking_open(opened)


class Request(TypedDict):
    """Who asks, and the key by which a second request is known."""

    key: str | None
    by: str


def changes_trial(
    command: Callable[Concatenate[Trial, ...], Allocation | Summary],
) -> Callable[..., None]:
    """Give a command its trial, and a request for the event that it writes; print the answer."""

    def run(here: Trial, key: str | None, by: str | None, as_json: bool, **given: Any) -> None:
        if "slot" in given:
            given["slot"] = here.slot_of(given["slot"])
        answer = command(here, **given, key=key, by=user(by))
        print_result(answer, as_json, lambda made: print_answer(made, here))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    own = [option("here", object), *options_of(command, after=1)]
    shared = [option("key", Key), option("by", By), option("as_json", AsJson, False)]
    return takes_trial(with_options(run, [*own, *shared]))


def user(by: str | None) -> str:
    """Who is asking: the one who is named, or else the user of this machine."""
    if by is not None:
        return by
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for this user id
        return "command line"
