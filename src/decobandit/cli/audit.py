"""`deco audit people`: who did what with tokens and results, and whether its log is intact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .commands import Commands
from .options import AsJson
from .output import print_result
from .trial_access import takes_store
from .trial_records import print_people

if TYPE_CHECKING:
    from ..trials import Event, PeopleLog, Store

FOUND_SOMETHING = 1

audit = Commands(name="audit", help="Records of the database that are not of one trial.")


@audit.callback()
def _group() -> None:
    """With a callback, a group of one command keeps the command's name."""


@audit.command()
@takes_store
def people(
    store: Store,
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Print the last N events only.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print and check the log of people: exit code 1 if an event was edited, removed or moved."""
    from ..trials import people_log

    found = people_log(store)

    def show(found: PeopleLog) -> None:
        for event in found.events[-last:] if last else found.events:
            print(_line(event))
        print_people(found)

    print_result(found, as_json, show)
    if not found.ok:
        raise typer.Exit(FOUND_SOMETHING)


def _line(event: Event) -> str:
    shown = {name: value for name, value in event.data.items() if name != "row"}
    said = " ".join(f"{name}={value}" for name, value in shown.items() if value is not None)
    return f"{event.seq}\t{event.at}\t{event.kind}\t{event.by}\t{said}"
