"""`deco trial export`, `verify` and `replay`: the record of a trial, and whether it is true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import AsJson, Db, check_writable, print_json
from .trial_access import TrialName, database, opened

if TYPE_CHECKING:
    from ..trials import Verification

FOUND_SOMETHING = 1


def export(
    trial: TrialName,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=".json: everything; .csv: one row per allocation."),
    ] = None,
    db: Db = None,
) -> None:
    """Write the whole trial; as JSON on standard output where no file is given."""
    if out is not None:
        if out.suffix not in (".json", ".csv"):
            raise typer.BadParameter(f"{out}: must end in .json or .csv")
        check_writable(out)
    with opened(trial, db) as here:
        from ..trials import outcomes_csv

        if out is not None and out.suffix == ".csv":
            text = outcomes_csv(here.events())
        else:
            text = json.dumps(here.export(), allow_nan=False, indent=1) + "\n"
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, encoding="utf-8")


def verify(
    trial: Annotated[
        str | None,
        typer.Argument(metavar="[TRIAL]", help="Name or id; all trials where none is given."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Check an exported trial instead."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="The head as it was written down elsewhere."),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Check the chain of events: exit code 1 if any was edited, removed or moved."""
    from ..trials.verification import verify_export, with_head

    if file is not None and trial is not None:
        raise typer.BadParameter("give a trial, or --export and a file, not both")
    found = _verified(trial, db) if file is None else [verify_export(_exported(file))]
    if head is not None:
        if len(found) != 1:
            raise typer.BadParameter("--head: name the trial that it belongs to")
        found = [with_head(found[0], head)]
    if as_json:
        print_json({"ok": all(v.ok for v in found), "trials": [v.to_dict() for v in found]})
    else:
        for one in found:
            state = "intact" if one.ok else "NOT INTACT"
            print(f"trial {one.trial}: {one.events} events, {state}, head {one.head}")
            for problem in one.problems:
                print(f"  {problem}")
    if not all(one.ok for one in found):
        raise typer.Exit(FOUND_SOMETHING)


def replay(trial: TrialName, db: Db = None, as_json: AsJson = False) -> None:
    """Make every decision again and compare: exit code 1 if one comes out otherwise."""
    with opened(trial, db) as here:
        found = here.replay()
    if as_json:
        print_json(found.to_dict())
    else:
        state = "all as recorded" if found.ok else "NOT as recorded"
        print(f"trial {found.trial}: {found.decisions} decisions made again, {state}")
        for difference in found.differences:
            print(f"  {difference}")
    if not found.ok:
        raise typer.Exit(FOUND_SOMETHING)


def _verified(trial: str | None, db: str | None) -> list[Verification]:
    with database(db, existing=True) as store:
        from ..trials.verification import verify_database, verify_named

        with store.read() as connection:
            return [verify_named(connection, trial)] if trial else verify_database(connection)


def _exported(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise typer.BadParameter(f"{file}: is not JSON; give a file that 'export' wrote") from None
