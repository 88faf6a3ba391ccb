"""`deco trial export`, `verify` and `replay`: the record of a trial, and whether it is true."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import support, trials
from .options import AllowPolicy, AsJson, Db, argument, shown
from .output import (
    MOST_ROWS,
    check_report,
    check_writable,
    end_with,
    ending_in,
    print_json,
    print_result,
    print_table,
    say,
    write_report,
    written,
)
from .serving import DEFAULT_KEY, KEY_VARIABLE, print_people, private_key, public_key
from .trial import By, database, opened, print_left_out, takes_store, takes_trial, trial, user

if TYPE_CHECKING:
    from ..trials.checkpoints import CheckpointCheck, PublicKey
    from ..trials.verification import LogCheck

    Given = tuple[str, PublicKey]  # a checkpoint, and who has signed it
    from ..trials.report import TrialReport

ExportFile = Annotated[Path | None, shown("FILE", "Exported trial to check instead.", "--export")]


@trial.command()
@takes_trial
def export(
    here: trials.Trial,
    out: Annotated[
        Path | None,
        shown(
            "FILE",
            ".json: everything; .csv: one row per allocation.",
            callback=ending_in(".json", ".csv"),
        ),
    ] = None,
    masked: Annotated[
        bool, typer.Option("--masked", help="CSV with arm codes and without outcomes.")
    ] = False,
    by: By = None,
) -> None:
    """Export a trial as JSON or CSV."""
    as_csv = out is not None and out.suffix.lower() == ".csv"
    if masked and not as_csv:
        raise typer.BadParameter("--masked: only CSV can be masked; give --out FILE.csv")
    on_record(here, "csv" if as_csv else "json", masked, user(by))
    text = here.outcomes_text(masked=masked) if as_csv else here.export_text()
    if out is None:
        sys.stdout.writelines(text)
    else:
        support.write_whole(out, text)
        written("trial", out)


def on_record(here: trials.Trial, form: str, masked: bool, by: str) -> None:
    """Record an export in the access log, unless the database is read-only."""
    from ..trials.event_log import record_all

    data = {"trial": here.id, "name": here.name, "form": form, "masked": masked, "via": "command"}
    try:
        record_all(here.store, [("exported", by, data)])
    except (trials.StoreError, OSError) as error:
        say(f"the export is not in the access log: {error}")


@trial.command()
def verify(
    trial: Annotated[str | None, argument("TRIAL", "Name or id; all trials by default.")] = None,
    file: ExportFile = None,
    head: Annotated[
        str | None, shown("HASH", "Head of the log (its last hash), noted earlier.")
    ] = None,
    checkpoint: Annotated[Path | None, shown("FILE", "Checkpoint to compare with.")] = None,
    signer: Annotated[
        str | None, shown("KEY|FILE", "Public key of the signer.", "--public-key")
    ] = None,
    allow_policy: AllowPolicy = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Verify trials, access log and tokens; exit code 1 if damaged."""
    _check_one(trial, file)
    signed = None
    if checkpoint is not None:
        if signer is None:
            raise typer.BadParameter("--checkpoint: give the --public-key that it is signed by")
        note = checkpoint.read_text(encoding="utf-8", errors="replace")
        signed = (note, public_key(signer))
    checks, compared, people = _checks(trial, file, head, db, signed)
    results = [check.result() for check in checks]
    if head is not None and len(results) != 1:
        raise typer.BadParameter("--head: name the trial that it belongs to")
    ok = all(one.ok for one in (*results, compared, people) if one is not None)
    if as_json:
        tree: dict[str, Any] = {"ok": ok, "trials": [one.to_dict() for one in results]}
        if people is not None:
            tree["people"] = people.to_dict() | {"events": len(people.events)}
        print_json(tree if compared is None else tree | {"checkpoint": compared.to_dict()})
    else:
        print_verified(results)
        if people is not None:
            print_people(people)
        if compared is not None:
            reports = {
                problem for one in (*results, people) if one is not None for problem in one.findings
            }
            _print_checkpoint(compared, ok, reports)
    end_with(ok)


@trial.command()
def replay(
    trial: Annotated[str | None, argument("TRIAL", "Name or id of the trial.")] = None,
    file: ExportFile = None,
    allow_policy: AllowPolicy = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Recompute every decision; exit code 1 if one differs."""
    _check_one(trial, file)
    if trial is None and file is None:
        raise typer.BadParameter("give a trial, or --export and a file")
    if file is not None:
        result = trials.replay_export(_exported(file))
    else:
        with opened(str(trial), db=db) as here:
            result = here.replay()
    print_result(result, as_json, _print_replay)
    end_with(result.ok)


def _check_one(trial: str | None, file: Path | None) -> None:
    if file is not None and trial is not None:
        raise typer.BadParameter("give a trial, or --export and a file, not both")


def _checks(
    trial: str | None, file: Path | None, head: str | None, db: str | None, signed: Given | None
) -> tuple[list[LogCheck], CheckpointCheck | None, trials.PeopleLog | None]:
    """Return log checks, the comparison with a checkpoint, and the access log."""
    from ..trials.checkpoints import check_checkpoint
    from ..trials.verification import check_logs, checked_export

    if file is not None:
        checks = [checked_export(_exported(file), head=head)[0]]
        return checks, None if signed is None else check_checkpoint(*signed, checks), None
    with database(db, existing=True) as store:
        checks, compared = check_logs(store, trial, given_head=head), None
        if signed is not None:
            compared = check_checkpoint(*signed, checks, store=store, every_trial=trial is None)
        with_people = trial is None or signed is not None
        return checks, compared, trials.people_log(store) if with_people else None


def _exported(file: Path) -> Any:
    from ..trials.errors import TrialError
    from ..trials.verification import read_export

    try:
        return read_export(file.read_bytes())
    except TrialError as error:
        raise typer.BadParameter(f"{file}: {error}") from None


def _print_checkpoint(result: CheckpointCheck, ok: bool, reports: Collection[str]) -> None:
    """Print the comparison with a checkpoint; `reports`: problems printed above."""
    state = "everything continues it" if ok else "NOT INTACT"
    trials = "1 trial" if result.trials == 1 else f"{result.trials} trials"
    print(f"checkpoint {result.number} of {result.made}, {trials}, signed by {result.key}: {state}")
    _indent(*(problem for problem in result.problems if problem not in reports))


def _print_replay(result: trials.Replay) -> None:
    state = "all as logged" if result.ok else "NOT as logged"
    print(f"trial {result.trial}: {result.decisions} decisions recomputed, {state}")
    _indent(*result.differences, *(f"made {origin}" for origin in result.made_by))
    if result.differences or len(result.made_by) > 1:
        _indent(f"recomputed by {result.recomputed_by}")


def print_verified(results: Iterable[trials.Verification]) -> None:
    """One line per trial, what is wrong with it, and what is worth knowing."""
    for one in results:
        state = "intact" if one.ok else "NOT INTACT"
        print(f"trial {one.trial}: {one.events} events, {state}, head {one.head}")
        if one.given_head_event is not None:
            since = one.events_since_given_head
            events = "1 event" if since == 1 else f"{since} events"
            _indent(f"the given head is event {one.given_head_event}; {events} since")
        _indent(*one.problems, *(f"remark: {remark}" for remark in one.remarks))


def _indent(*lines: str) -> None:
    for line in lines:
        print(f"  {line}")


# -- `deco trial report`: results, deviations and the state of the log, as a page or as JS----------


@trial.command()
@takes_trial
def report(
    here: trials.Trial,
    out: Annotated[
        Path | None, shown("FILE", "Write the report (.html, .pdf).", callback=check_report)
    ] = None,
    control: Annotated[
        str | None, shown("ARM", "Control arm.", show_default="the first arm")
    ] = None,
    late_after: Annotated[
        float, shown("HOURS", "Delay after which outcomes are late.", min=0.01)
    ] = 72.0,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Report estimates, allocation, deviations and log state."""
    from ..trials.report_text import trial_page

    content = here.report(control=control, late_after=late_after)
    on_record(here, "report", False, user(by))
    if out is not None:
        write_report(out, trial_page(content))
    if as_json:
        print_json(content.to_dict())
    elif out is None:
        _print_report(content)


def _print_report(content: TrialReport) -> None:
    from ..trials.report_text import (
        INFERENCE,
        declared,
        inference_left_out,
        inference_rows,
        look_columns,
        result_tables,
        state_of,
    )

    for caption, titles, rows in result_tables(content):
        print_table(f"{content.name}: {caption.lower()}", titles, rows[:MOST_ROWS], text=["Arm"])
    print_left_out(len(content.arms))
    rows = inference_rows(content)
    if content.told and rows:
        title = f"{content.name}: inference after adaptation"
        print_table(title, INFERENCE, rows[:MOST_ROWS], text=INFERENCE[:2])
        for line in inference_left_out(content):
            print(f"left out: {line}")
    print(state_of(content))
    if content.declared is not None:
        print(declared(content))
    if content.dropped:
        print(f"Dropped at looks: {', '.join(content.dropped)}.")
    if content.looks:
        arms, looks = look_columns(content)
        print_table("looks", ["outcomes", *arms, "result"], looks[-MOST_ROWS:], text=["result"])
    print(
        f"cancelled {content.cancelled}, corrected {len(content.corrections)}, late "
        f"{len(content.late)}, refused {content.refused}"
    )
    state = "intact" if content.audit.ok else "NOT INTACT"
    print(f"log: {content.audit.events} events, {state}, head {content.audit.head}")


# -- `deco trial backup`: a checked copy of the database -------------------------------------------


@trial.command()
@takes_store
def backup(
    store: trials.Store,
    file: Annotated[Path, argument("FILE", "New file for the copy.")],
    as_json: AsJson = False,
) -> None:
    """Copy a live SQLite database and verify the copy."""
    from ..trials.verification import back_up

    result = back_up(store, file.absolute())
    ok = all(one.ok for one in result)
    if as_json:
        print_json({"ok": ok, "file": str(file), "trials": [one.to_dict() for one in result]})
    else:
        print(f"{file}: {len(result)} trials, {sum(one.events for one in result)} events")
        print_verified([one for one in result if not one.ok])
    end_with(ok)


# -- `deco trial checkpoint`: a signed note of the heads of all trials -----------------------------


@trial.command()
@takes_store
def checkpoint(
    store: trials.Store,
    signing_key: Annotated[
        Path, shown("FILE", "Private key from 'deco keys new'.", "--key", envvar=KEY_VARIABLE)
    ] = DEFAULT_KEY,
    out: Annotated[
        Path | None, shown("FILE", "Write the signed note.", callback=check_writable)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sign the last hash of every log, for 'verify --checkpoint'."""
    from ..trials.checkpoints import make_checkpoint

    note = make_checkpoint(store, private_key(signing_key))
    if out is not None:
        support.write_whole(out, note.note)
        written("checkpoint", out)
    if as_json:
        print_json(note.to_dict())
    elif out is None:
        print(note.note, end="")
