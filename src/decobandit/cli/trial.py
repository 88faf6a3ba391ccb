"""`deco trial`: ask for the next arm, tell what happened, and check that nothing was lost."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from hashlib import sha256
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack, get_args

import typer

from .. import support
from ..policies.names import DEFAULT_POLICY
from .options import (
    SIGNED_ARGUMENTS,
    ArmColumn,
    AsJson,
    Bound,
    Commands,
    Db,
    GoodColumn,
    OutcomeColumn,
    PullsColumn,
    argument,
    option,
    shown,
    with_options,
)
from .output import ending_in, print_json, said_of, say, written
from .problem_options import Chosen, takes_policies
from .trial_access import (
    By,
    MaybeReason,
    Reason,
    Request,
    Slot,
    StaleAfter,
    changes_trial,
    database,
    print_allocations,
    print_list,
    print_status,
    print_verdict,
    takes_store,
    takes_trial,
    user,
)
from .trial_records import backup, checkpoint, export, replay, report, verify

if TYPE_CHECKING:
    from ..trials import Allocation, Store, Summary, Trial

CountsText = Annotated[
    str | None, shown("ARM=GOOD/PULLS,...", "Outcomes by arm: a=30/50,b=25/50; SUM/PULLS; 2+0+1.")
]


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in re.findall(r"[^=]*=[^,]*(?:,|$)|.+", text):  # names may have commas
        arm, equals, pair = part.removesuffix(",").rpartition("=")
        if not equals or not arm.strip():
            raise typer.BadParameter(
                f"--counts: {part!r}; must be ARM=GOOD/PULLS, or as the arm has its outcomes"
            )
        if arm.strip() in pairs:
            raise typer.BadParameter(f"--counts: {arm.strip()!r} is named twice")
        pairs[arm.strip()] = pair.strip()
    return pairs


@takes_trial
def allocations(here: Trial, as_json: AsJson = False) -> None:
    """List the allocations of a trial, oldest first."""
    slots = here.allocations()
    if as_json:
        print_json({"allocations": [slot.to_dict() for slot in slots]})
    elif slots:
        print_allocations(slots)
    else:
        print("no allocations yet: deco trial ask TRIAL")


# -- `deco trial close`, `lock`, `limits`, `unmask`, `review` and others --------------------------


def _forwarding(method: str, text: str, **options: Any) -> Callable[..., None]:
    """Return a command that hands its options to a method of the trial."""

    def run(here: Trial, **values: Any) -> Allocation | Summary:
        slot = [values.pop("slot")] if "slot" in values else []
        answer: Allocation | Summary = getattr(here, method)(*slot, **values)
        return answer

    run.__name__, run.__doc__ = method, text
    declared = [option("here", object)]
    for name, kind in options.items():
        may_be_none = type(None) in get_args(get_args(kind)[0])
        declared.append(option(name, kind, None if may_be_none else Parameter.empty))
    return changes_trial(with_options(run, declared))


Number = Annotated[int, shown("N", "Number of the last event that was reviewed.")]
Category = Annotated[str, shown("KIND", "planned, emergency or inadvertent.")]
ArmToClose = Annotated[str, argument("NAME", "Name of the arm.")]
NextPolicy = Annotated[str | None, shown("POLICY", "Policy to continue with.")]


def _text(metavar: str, text: str) -> Any:
    return Annotated[str | None, shown(metavar, text)]


def _number(text: str) -> Any:
    return Annotated[int | None, shown("N", text)]


@takes_trial
def certify(
    here: Trial,
    out: Annotated[
        Path, shown("FILE", "Write the certificate (.json).", callback=ending_in(".json"))
    ],
) -> None:
    """Write the certificate of the bound that the log keeps."""
    tree = here.certificate
    if tree is None:
        raise typer.BadParameter("the log of this trial has no certificate of its bound")
    support.write_whole(out, json.dumps(tree, indent=1, allow_nan=False) + "\n")
    written("certificate", out)


# -- `deco trial`: ask for the next arm, tell what happened, and check that nothing was lo----------


trial = Commands(name="trial", help="Run a trial: ask for an arm, record its outcome.")


Outcome = Annotated[str | None, argument("OUTCOME", "good, bad, a class, a number or a state.")]


ConfirmRange = Annotated[
    bool, typer.Option("--confirm-range", help="Accept outcomes outside the plausible range.")
]


def _limit(least: int, text: str) -> Any:
    default = f"half the slots, at least {least}"
    return shown("N", text, show_default=default)


@trial.command()
@takes_policies(DEFAULT_POLICY, several=False, saved="prices")
def new(
    chosen: Chosen,
    name: Annotated[str | None, typer.Option(help="Name of the trial.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, show_default="drawn, and kept", help="Random seed of the policy."),
    ] = None,
    max_open: Annotated[int | None, _limit(50, "Limit of pending allocations.")] = None,
    max_cancelled: Annotated[int | None, _limit(20, "Limit of cancelled allocations.")] = None,
    bound: Bound = None,
    design_report: Annotated[
        Path | None, shown("FILE", "Report of the design, whose hash the log keeps.")
    ] = None,
    by: By = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Create a trial in the database."""
    report = None if design_report is None else sha256(design_report.read_bytes()).hexdigest()
    with database(db) as store:
        from ..trials.settings import settings_from
        from ..trials.trial import NewTrial

        context = chosen.context
        new = NewTrial(
            context.problem,
            store,
            name=name,
            seed=seed,
            by=user(by),
            design=chosen.design,
            design_report=report,
            max_open=max_open,
            max_cancelled=max_cancelled,
        )
        settings = settings_from(
            context, policy=chosen.policy, seed=new.seed, bound=bound, rules=chosen.rules
        )
        trial = new.create(settings)
        if as_json:
            print_json(_plan(trial, store))
        else:
            _print_plan(trial, db)


def _plan(trial: Trial, store: Store) -> dict[str, Any]:
    return {
        "id": trial.id,
        "name": trial.name,
        "policy": trial.policy,
        "horizon": trial.problem.horizon,
        "upper_bound": trial.settings.upper_bound,
        **trial.settings.best_bound_fields,
        "seed": trial.settings.seed,
        "db": str(store.url),
    }


def _print_plan(trial: Trial, db: str | None) -> None:
    print(f"trial {trial.name} ({trial.id}): {trial.policy}, {trial.problem.described()}")
    best, segments = trial.settings.best_bound, trial.settings.segments
    for name, settings in segments.items():
        print(f"{name}: {settings.problem.described()}")
        if settings.best_bound is not None:
            bound = f"{settings.best_bound.value:.6f} ({settings.best_bound.meaning})"
            print(f"  policies that count its visitors only earn at most {bound}")
    if not segments and best is None:
        print(f"{trial.policy} needs no prices; no bound: the dual was not solved")
    elif best is not None:
        print(said_of(best))
    place = f" --db {shlex.quote(db)}" if db else ""
    for segment in trial.problem.segments[:1]:
        place = f" --segment {shlex.quote(segment.name)}{place}"
    allow = f" --allow-policy {trial.policy}" if ":" in trial.policy else ""
    print(f"next: deco trial ask {shlex.quote(trial.name)}{allow}{place}")


@trial.command(name="list")
@takes_store
def list_all(
    store: Store,
    archived: Annotated[bool, typer.Option("--archived", help="Include archived trials.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=1000, show_default="all", help="Maximum number of trials."),
    ] = None,
    after: Annotated[str | None, shown("TRIAL", "Start after this trial (name or id).")] = None,
    stale_after: StaleAfter = 72.0,
    as_json: AsJson = False,
) -> None:
    """List trials, oldest first."""
    from ..trials.lists import page_of_trials

    summaries = page_of_trials(
        store,
        limit=limit,
        after=after,
        archived=archived,
        stale_after=stale_after,
        every=limit is None,
    )
    if as_json:
        following = {} if summaries.next is None else {"next": summaries.next}
        print_json({"trials": [summary.to_dict() for summary in summaries.items], **following})
    else:
        print_list(summaries.items, hidden=summaries.hidden)
        if summaries.next is not None:
            say(f"more follow: --after {summaries.next}")


@changes_trial
def tell(
    here: Trial,
    slot: Slot,
    outcome: Outcome = None,
    confirm_range: ConfirmRange = False,
    counts: CountsText = None,
    data: Annotated[
        Path | None, shown("FILE", "Outcomes by row or by arm (.csv, .parquet).")
    ] = None,
    arm_column: ArmColumn = "arm",
    outcome_column: OutcomeColumn = "outcome",
    good_column: GoodColumn = "good",
    pulls_column: PullsColumn = "pulls",
    **request: Unpack[Request],
) -> Allocation:
    """Record outcomes of an allocation; counts add up."""
    columns = (arm_column, outcome_column, good_column, pulls_column)
    answer = _record(here, slot, outcome, counts, data, columns)
    return here.tell(slot, answer, confirm_range=confirm_range, **request)


@changes_trial
def correct(
    here: Trial,
    slot: Slot,
    reason: Reason,
    outcome: Outcome = None,
    counts: CountsText = None,
    confirm_range: ConfirmRange = False,
    **request: Unpack[Request],
) -> Allocation:
    """Replace recorded outcomes; the log keeps the old ones."""
    answer = _record(here, slot, outcome, counts)
    return here.correct(slot, answer, reason=reason, confirm_range=confirm_range, **request)


def _record(
    here: Trial,
    slot: str,
    outcome: str | None,
    counts: str | None,
    data: Path | None = None,
    columns: tuple[str, ...] = (),
) -> str | int | float | dict[str, str]:
    """Return the outcome of a single pull, or outcomes by arm; a refusal in one line."""
    by_arm = counts is not None or data is not None
    if by_arm and outcome is not None:
        raise typer.BadParameter("give one outcome, or counts by arm, not both")
    if counts is not None and data is not None:
        raise typer.BadParameter("give outcomes by --counts or by --data, not both")
    if counts is not None:
        return _pairs(counts)
    if data is not None:
        from ..problem import OutcomeColumns, read_tallies

        tallies = read_tallies(here.problem, data, OutcomeColumns(*columns))
        if not tallies:
            raise typer.BadParameter(f"{data}: there are no outcomes in it")
        return tallies
    if outcome is None:
        raise typer.BadParameter(
            "give the outcome of a single pull, such as good or bad, or --counts ARM=GOOD/PULLS,..."
        )
    return here.typed(slot, outcome)


@takes_trial
def status(here: Trial, stale_after: StaleAfter = 72.0, as_json: AsJson = False) -> None:
    """Show counts, posterior, next arm and bound."""
    from ..trials.lists import stale_ids

    ledger = here.read()
    content, stale = here.status_at(ledger), stale_ids(ledger.since, stale_after)
    names: list[str | None] = [one.name for one in content.segments] or [None]
    declared = {name: here.declared(segment=name) for name in names}
    if as_json:
        whole = None if content.segments else declared[None]
        print_json(content.to_dict() | {"declared": whole, "stale": stale})
        return
    print_status(content, {allocation: ledger.since[allocation] for allocation in stale})
    for name in names:
        print_verdict(content, here.looks(segment=name), declared[name], name)


arm = Commands(name="arm", help="Let arms join or leave a running trial.")


@changes_trial
def add(
    here: Trial,
    file: Annotated[Path, argument("FILE", "One arm as in a problem file (.toml, .json).")],
    reason: Reason,
    policy: NextPolicy = None,
    **request: Unpack[Request],
) -> Summary:
    """Let an arm join from the next stage on."""
    from ..problem import read_tree

    return here.add_arm(read_tree(file), reason=reason, policy=policy, **request)


COMMANDS: dict[str, Callable[..., None]] = {
    "ask": _forwarding(
        "ask",
        "Allocate the next stage, with the reason.",
        subject=_text("ID", "Subject; asking again repeats the answer."),
        segment=_text("NAME", "Segment of the visitor."),
        note=_text("TEXT", "Note for the log."),
    ),
    "tell": tell,
    "cancel": _forwarding(
        "cancel", "Cancel the pending pulls of an allocation.", slot=Slot, reason=Reason
    ),
    "correct": correct,
    "status": status,
    "allocations": allocations,
    "close": _forwarding(
        "close", "Stop allocating; pending outcomes can still be recorded.", reason=MaybeReason
    ),
    "reopen": _forwarding("reopen", "Resume a closed or archived trial.", reason=Reason),
    "archive": _forwarding("archive", "Close a trial and hide it from lists.", reason=MaybeReason),
    "lock": _forwarding("lock", "Refuse every change of a closed trial.", reason=MaybeReason),
    "unlock": _forwarding(
        "unlock", "Permit changes again; by another person than locked it.", reason=Reason
    ),
    "limits": _forwarding(
        "set_limits",
        "Set limits on pending, cancelled, unmasked allocations.",
        reason=Reason,
        max_open=_number("Limit of pending allocations."),
        max_cancelled=_number("Limit of cancelled allocations."),
        max_unmasked=_number("Limit of unmaskings per person and day."),
        unmask_role=_text("ROLE", "Role that may unmask: admin, operator or any."),
    ),
    "unmask": _forwarding(
        "unmask",
        "Reveal the arm of an allocation; the log records why.",
        slot=Slot,
        category=Category,
        reason=Reason,
        role=_text("ROLE", "Role of the user."),
    ),
    "review": _forwarding(
        "review",
        "Record that the audit trail was reviewed up to an event.",
        up_to=Number,
        note=_text("TEXT", "Note, for the log."),
    ),
    "certify": certify,
    "report": report,
    "export": export,
    "verify": verify,
    "replay": replay,
    "checkpoint": checkpoint,
    "backup": backup,
}
for _name, _command in COMMANDS.items():
    _signed = _command in (tell, correct)  # outcomes may be negative numbers
    trial.command(_name, context_settings=SIGNED_ARGUMENTS if _signed else None)(_command)

arm.command()(add)
arm.command(name="close")(
    _forwarding(
        "close_arm",
        "Stop allocating an arm from the next stage on.",
        arm=ArmToClose,
        reason=Reason,
        policy=NextPolicy,
    )
)
trial.add_typer(arm)
