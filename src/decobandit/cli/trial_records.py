"""`deco trial export`, `verify` and `replay`: the record of a trial, and whether it is true."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import AllowPolicy, AsJson, Db, shown
from .output import ending_in, print_json, print_result, say, written
from .people import print_people, public_key
from .trial_access import By, database, opened, takes_trial, user

if TYPE_CHECKING:
    from ..trials import PeopleLog, Replay, Trial, Verification
    from ..trials.checkpoints import CheckpointCheck
    from ..trials.signed_notes import PublicKey
    from ..trials.verification import LogCheck

    Given = tuple[str, PublicKey]  # a checkpoint, and who has signed it

FOUND_SOMETHING = 1
EXPORT = ".json: everything; .csv: one row per allocation."
ExportFile = Annotated[Path | None, shown("FILE", "Check an exported trial instead.", "--export")]
OutRecord = Annotated[Path | None, shown("FILE", EXPORT, callback=ending_in(".json", ".csv"))]


@takes_trial
def export(
    here: Trial,
    out: OutRecord = None,
    masked: Annotated[
        bool,
        typer.Option("--masked", help="CSV for blinded people: codes of arms, and no outcomes."),
    ] = False,
    by: By = None,
) -> None:
    """Write the whole trial; as JSON on standard output where no file is given."""
    from ..support import write_whole

    as_csv = out is not None and out.suffix.lower() == ".csv"
    if masked and not as_csv:
        raise typer.BadParameter("--masked: only CSV can be masked; give --out FILE.csv")
    on_record(here, "csv" if as_csv else "json", masked, user(by))
    if out is None:
        for piece in here.export_text():
            print(piece, end="")
        return
    if as_csv:
        write_whole(out, here.outcomes_text(masked=masked))
    else:
        write_whole(out, here.export_text())
    written("trial", out)


def on_record(here: Trial, form: str, masked: bool, by: str) -> None:
    """The log of people says who exported; a database that cannot be written is no obstacle."""
    from ..trials import StoreError
    from ..trials.people import record_all

    data = {"trial": here.id, "name": here.name, "form": form, "masked": masked, "via": "command"}
    try:
        record_all(here.store, [("exported", by, data)])
    except (StoreError, OSError) as error:
        say(f"the export is not in the log of people: {error}")


def verify(
    trial: Annotated[
        str | None,
        typer.Argument(metavar="TRIAL", help="Name or id; all trials where none is given."),
    ] = None,
    file: ExportFile = None,
    head: Annotated[str | None, shown("HASH", "The head as it was written down elsewhere.")] = None,
    checkpoint: Annotated[
        Path | None, shown("FILE", "Compare with a checkpoint that was kept elsewhere.")
    ] = None,
    signer: Annotated[
        str | None,
        shown("KEY|FILE", "Public key of who signed the checkpoint.", "--public-key"),
    ] = None,
    allow_policy: AllowPolicy = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Check trials, people and tokens: exit code 1 if an entry was edited, removed or moved."""
    _check_one(trial, file)
    given = _given_checkpoint(checkpoint, signer)
    checks, compared, people = _checks(trial, file, head, db, given)
    found = [check.result() for check in checks]
    if head is not None and len(found) != 1:
        raise typer.BadParameter("--head: name the trial that it belongs to")
    ok = all(one.ok for one in (*found, compared, people) if one is not None)
    if as_json:
        tree: dict[str, Any] = {"ok": ok, "trials": [one.to_dict() for one in found]}
        if people is not None:
            tree["people"] = people.to_dict() | {"events": len(people.events)}
        print_json(tree if compared is None else tree | {"checkpoint": compared.to_dict()})
    else:
        print_verified(found)
        if people is not None:
            print_people(people)
        if compared is not None:
            told = {problem for one in (*found, people) if one is not None for problem in one.found}
            _print_checkpoint(compared, ok, told)
    end_with(ok)


def replay(
    trial: Annotated[
        str | None, typer.Argument(metavar="TRIAL", help="Name or id of the trial.")
    ] = None,
    file: ExportFile = None,
    allow_policy: AllowPolicy = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Make every decision again and compare: exit code 1 if one comes out otherwise."""
    _check_one(trial, file)
    if trial is None and file is None:
        raise typer.BadParameter("give a trial, or --export and a file")
    print_result(found := _replayed(trial, file, db), as_json, _print_replay)
    end_with(found.ok)


def _check_one(trial: str | None, file: Path | None) -> None:
    if file is not None and trial is not None:
        raise typer.BadParameter("give a trial, or --export and a file, not both")


def _given_checkpoint(file: Path | None, signer: str | None) -> Given | None:
    if file is None:
        return None
    if signer is None:
        raise typer.BadParameter("--checkpoint: give the --public-key that it is signed by")
    return file.read_text(encoding="utf-8", errors="replace"), public_key(signer)


def _checks(
    trial: str | None, file: Path | None, head: str | None, db: str | None, given: Given | None
) -> tuple[list[LogCheck], CheckpointCheck | None, PeopleLog | None]:
    """What there is to check, how it compares with a checkpoint, and the log of people."""
    from ..trials import people_log
    from ..trials.checkpoints import check_checkpoint, check_database_by
    from ..trials.export_check import checked_export
    from ..trials.verification import check_database, check_named

    if file is not None:
        checks = [checked_export(_exported(file), head=head)[0]]
        return checks, None if given is None else check_checkpoint(*given, checks), None
    with database(db, existing=True) as store:
        if trial is not None:
            checks = [check_named(store, trial, given_head=head)]
            if given is None:
                return checks, None, None
            return checks, check_checkpoint(*given, checks, store=store), people_log(store)
        checks, people = check_database(store, given_head=head), people_log(store)
        if given is None:
            return checks, None, people
        return checks, check_database_by(*given, checks, store=store), people


def _replayed(trial: str | None, file: Path | None, db: str | None) -> Replay:
    if trial is None and file is not None:
        from ..trials import replay_export

        return replay_export(_exported(file))
    with opened(str(trial), db=db) as here:
        return here.replay()


def _exported(file: Path) -> Any:
    from ..trials.errors import TrialError
    from ..trials.export_check import read_export

    try:
        return read_export(file.read_bytes())
    except TrialError as error:
        raise typer.BadParameter(f"{file}: {error}") from None


def _print_checkpoint(found: CheckpointCheck, ok: bool, told: Collection[str]) -> None:
    """How a checkpoint compares; `ok`: the whole check; `told`: problems that are printed above."""
    state = "everything continues it" if ok else "NOT INTACT"
    trials = "1 trial" if found.trials == 1 else f"{found.trials} trials"
    print(f"checkpoint {found.number} of {found.made}, {trials}, signed by {found.key}: {state}")
    _indented(problem for problem in found.problems if problem not in told)


def _print_replay(found: Replay) -> None:
    state = "all as recorded" if found.ok else "NOT as recorded"
    print(f"trial {found.trial}: {found.decisions} decisions made again, {state}")
    _indented(found.differences)


def _indented(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"  {line}")


def print_verified(found: Iterable[Verification]) -> None:
    """One line per trial, what is wrong with it, and what is worth knowing."""
    for one in found:
        state = "intact" if one.ok else "NOT INTACT"
        print(f"trial {one.trial}: {one.events} events, {state}, head {one.head}")
        if one.given_head_event is not None:
            since = one.events_since_given_head
            events = "1 event" if since == 1 else f"{since} events"
            print(f"  the given head is event {one.given_head_event}; {events} since")
        _indented(one.problems)
        _indented(f"remark: {remark}" for remark in one.remarks)


def end_with(ok: bool) -> None:
    """Exit code 1 where a check found something."""
    if not ok:
        raise typer.Exit(FOUND_SOMETHING)
