"""`deco trial`: ask for the next arm, tell what happened, and see where a trial stands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack, get_args

import typer

from ..policies.names import DEFAULT_POLICY
from . import options
from .options import AllowPolicy, AsJson, Commands, Db, argument, option, shown
from .output import (
    MOST_ROWS,
    digits,
    print_json,
    print_result,
    print_table,
    said_of,
    say,
    write_json,
)
from .problem_options import Chosen, takes_policies

if TYPE_CHECKING:
    from ..trials import Allocation, ArmStatus, Status, Store, Summary, Trial
    from ..trials.decisions import LookResult
    from ..trials.status import SegmentStatus

    Answer = Allocation | Summary

trial = Commands(name="trial", help="Run a trial: ask for an arm, record its outcome.")
arm = Commands(name="arm", help="Let arms join or leave a running trial.")

DB = option("db", Db)

# -- how commands open a database and a trial ------------------------------------------------------

TrialName = Annotated[str, argument("TRIAL", "Name or id of the trial.")]
Slot = Annotated[str, argument("ALLOCATION", "Allocation id from 'ask', or its subject.")]
Reason = Annotated[str, shown("TEXT", "Reason, for the log.")]
MaybeReason = Annotated[str | None, shown("TEXT", "Reason, for the log.", "--reason")]
Key = Annotated[str | None, typer.Option(help="Idempotency key.")]
By = Annotated[str | None, shown("NAME", "Name of the user.", show_default="the user's name")]
StaleAfter = Annotated[float, shown("HOURS", "Age at which pending pulls are stale.", min=0.01)]
Outcome = Annotated[str | None, argument("OUTCOME", "good, bad, a class, a number or a state.")]
ConfirmRange = Annotated[
    bool, typer.Option("--confirm-range", help="Accept outcomes outside the plausible range.")
]
CountsText = Annotated[
    str | None, shown("ARM=GOOD/PULLS,...", "Outcomes by arm: a=30/50,b=25/50; SUM/PULLS; 2+0+1.")
]
NextPolicy = Annotated[str | None, shown("POLICY", "Policy to continue with.")]


def check_database(db: str | None) -> None:
    """Refuse a password that others can read in the list of processes."""
    if db is not None and re.search(r"://[^/@]*:[^/@]+@|[?&]password=", db):
        raise typer.BadParameter(
            "--db: a password on the command line can be read by others; put the URL into DECO_DB, "
            "or the password into PGPASSWORD or a password file"
        )


@contextmanager
def database(db: Db = None, *, existing: bool = False) -> Iterator[Store]:
    """Open the database of trials."""
    check_database(db)
    from ..trials import open_store

    with open_store(db, existing=existing) as store:
        yield store


@contextmanager
def opened(trial: TrialName, allow_policy: AllowPolicy = None, db: Db = None) -> Iterator[Trial]:
    """Open an existing trial."""
    with database(db, existing=True) as store:
        from ..trials import open_trial

        yield open_trial(trial, db=store)


makes_store = options.taking(options.with_options(partial(database), [DB]))
takes_store = options.taking(options.with_options(partial(database, existing=True), [DB]))
takes_trial = options.taking(opened)


class Request(TypedDict):
    """The person who asks, and the key that identifies a repeated request."""

    key: str | None
    by: str


def user(by: str | None) -> str:
    """Return the name given, or the user of this machine."""
    if by is not None:
        return by
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for this user id
        return "command line"


# -- Verbs: each writes one event and prints the answer --------------------------------------------


def _verb(
    name: str, text: str | None, declared: list[Parameter], act: Callable[..., Answer]
) -> Callable[..., None]:
    def run(here: Trial, key: str | None, by: str | None, as_json: bool, **values: Any) -> None:
        if "slot" in values:
            values["slot"] = here.slot_of(values["slot"])
        answer = act(here, **values, key=key, by=user(by))
        print_result(answer, as_json, lambda value: print_answer(value, here))

    run.__name__, run.__doc__ = name, text
    request = [option("key", Key), option("by", By), option("as_json", AsJson, False)]
    return takes_trial(options.with_options(run, [option("here", object), *declared, *request]))


def changes_trial(command: Callable[..., Answer]) -> Callable[..., None]:
    """Give a command its trial, and a request for the event that it writes; print the answer."""
    declared = options.options_of(command, after=1)
    return _verb(command.__name__, command.__doc__, declared, command)


def _forwarding(method: str, text: str, **kinds: Any) -> Callable[..., None]:
    """Return a command that hands its options to a method of the trial."""

    def act(here: Trial, **values: Any) -> Answer:
        slot = [values.pop("slot")] if "slot" in values else []
        answer: Answer = getattr(here, method)(*slot, **values)
        return answer

    declared = []
    for name, kind in kinds.items():
        may_be_none = type(None) in get_args(get_args(kind)[0])
        declared.append(option(name, kind, None if may_be_none else Parameter.empty))
    return _verb(method, text, declared, act)


def _text(metavar: str, text: str) -> Any:
    return Annotated[str | None, shown(metavar, text)]


def _number(text: str) -> Any:
    return Annotated[int | None, shown("N", text)]


def _limit(least: int, text: str) -> Any:
    return shown("N", text, show_default=f"half the slots, at least {least}")


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
    bound: options.Bound = None,
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
        if not as_json:
            _print_plan(trial, db)
            return
        tree = {
            "id": trial.id,
            "name": trial.name,
            "policy": trial.policy,
            "horizon": trial.problem.horizon,
            "upper_bound": trial.settings.upper_bound,
            **trial.settings.best_bound_fields,
            "seed": trial.settings.seed,
            "db": str(store.url),
        }
        print_json(tree)


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
        _print_list(summaries.items, hidden=summaries.hidden)
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
    arm_column: options.ArmColumn = "arm",
    outcome_column: options.OutcomeColumn = "outcome",
    good_column: options.GoodColumn = "good",
    pulls_column: options.PullsColumn = "pulls",
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


@takes_trial
def allocations(here: Trial, as_json: AsJson = False) -> None:
    """List the allocations of a trial, oldest first."""
    slots = here.allocations()
    if as_json:
        print_json({"allocations": [slot.to_dict() for slot in slots]})
    elif slots:
        _print_allocations(slots)
    else:
        print("no allocations yet: deco trial ask TRIAL")


@takes_trial
def status(here: Trial, stale_after: StaleAfter = 72.0, as_json: AsJson = False) -> None:
    """Show counts, posterior, next arm and bound."""
    from ..trials.lists import stale_ids
    from ..trials.status import status_of

    ledger = here.read()
    content, stale = status_of(ledger), stale_ids(ledger.since, stale_after)
    names: list[str | None] = [one.name for one in content.segments] or [None]
    declared = {name: here.declared(segment=name) for name in names}
    if as_json:
        whole = None if content.segments else declared[None]
        print_json(content.to_dict() | {"declared": whole, "stale": stale})
        return
    _print_status(content, {allocation: ledger.since[allocation] for allocation in stale})
    for name in names:
        _print_verdict(content, here.looks(segment=name), declared[name], name)


@takes_trial
def certify(here: Trial, out: options.OutCertificate) -> None:
    """Write the certificate of the bound that the log keeps."""
    tree = here.certificate
    if tree is None:
        raise typer.BadParameter("the log of this trial has no certificate of its bound")
    write_json("certificate", tree, out)


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
        "unlock", "Permit changes again; not by the person who locked it.", reason=Reason
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
        category=Annotated[str, shown("KIND", "planned, emergency or inadvertent.")],
        reason=Reason,
        role=_text("ROLE", "Role of the user."),
    ),
    "review": _forwarding(
        "review",
        "Record that the audit trail was reviewed up to an event.",
        up_to=Annotated[int, shown("N", "Number of the last event that was reviewed.")],
        note=_text("TEXT", "Note, for the log."),
    ),
    "certify": certify,
}
for _name, _command in COMMANDS.items():
    _signed = _command in (tell, correct)  # outcomes may be negative numbers
    trial.command(_name, context_settings=options.SIGNED_ARGUMENTS if _signed else None)(_command)

arm.command()(add)
arm.command(name="close")(
    _forwarding(
        "close_arm",
        "Stop allocating an arm from the next stage on.",
        arm=Annotated[str, argument("NAME", "Name of the arm.")],
        reason=Reason,
        policy=NextPolicy,
    )
)
trial.add_typer(arm)


# -- What people see -------------------------------------------------------------------------------

MAX_NAMED = 8  # arms that are named in a line
# states of allocations in the words of the glossary
STATE_WORDS = {"open": "pending", "told": "recorded", "cancelled": "cancelled"}


def print_answer(answer: Allocation | Summary, here: Trial) -> None:
    """Print an allocation, or the state of a trial."""
    from ..trials import Summary

    if isinstance(answer, Summary):
        print(f"trial {answer.name} ({answer.id}): {answer.state}")
    else:
        _print_allocation(answer, here)


def _print_allocation(slot: Allocation, here: Trial) -> None:
    about = _about_slot(slot)
    if slot.arm is not None:
        state = f"{STATE_WORDS[slot.state]} {here.named(slot)}".strip()
        print(f"{slot.arm}   (allocation {slot.id}, {state}{about})")
    else:
        state = STATE_WORDS[slot.state]
        print(f"allocation {slot.id}: {slot.size} pulls, stage {slot.stage}, {state}{about}")
        _print_arms(slot)
    if slot.state == "open" and not slot.told:
        print(slot.reason)


def _about_slot(slot: Allocation) -> str:
    subject = "" if slot.subject is None else f", subject {slot.subject}"
    return subject if slot.segment is None else f"{subject}, segment {slot.segment}"


def _print_arms(slot: Allocation) -> None:
    from ..problem.models.base import rounded

    ranked = sorted(slot.arms, key=lambda part: -part.pulls)[:MOST_ROWS]
    started = bool(slot.told or slot.state != "open")
    heading = "good/recorded" if all(part.seen is None for part in slot.arms) else "recorded"
    titles = ["arm", "pulls", "share"] + [heading, "pending", "cancelled"] * started
    rows = []
    for part in ranked:
        record = f"{part.good}/{part.told}" if part.seen is None else rounded(part.seen)
        now = [record, str(part.pending), str(part.cancelled)] * started
        rows.append([part.arm, str(part.pulls), f"{part.pulls / slot.size:.4g}", *now])
    print_table("", titles, rows, text=["arm"])
    print_left_out(len(slot.arms))


def print_left_out(arms: int) -> None:
    """Say how many of these arms a table leaves out."""
    if arms > MOST_ROWS:
        print(f"({arms - MOST_ROWS} more arms)")


def _print_allocations(slots: Sequence[Allocation]) -> None:
    rows = [
        [
            slot.id,
            str(slot.stage),
            _named_pulls(slot.pulls),
            str(slot.told),
            str(slot.pending),
            STATE_WORDS[slot.state],
            slot.subject or "",
            *([] if slot.segment is None else [slot.segment]),
        ]
        for slot in slots
    ]
    titles = ["allocation", "stage", "arm", "recorded", "pending", "state", "subject", "segment"]
    texts = ["allocation", "arm", "state", "subject", "segment"]
    print_table("", titles[: len(rows[0])], rows, text=texts)


def _named_pulls(pulls: Mapping[str, int]) -> str:
    if sum(pulls.values()) == 1:
        return next(iter(pulls))
    if not pulls:
        return "no pull"
    ranked = sorted(pulls.items(), key=lambda one: -one[1])
    more = ", ..." if len(ranked) > MAX_NAMED else ""
    return ", ".join(f"{arm} {number}" for arm, number in ranked[:MAX_NAMED]) + more


def _print_list(summaries: Sequence[Summary], hidden: int = 0) -> None:
    if hidden:
        print(f"{hidden} archived, shown by --archived")
    elif not summaries:
        print("no trials yet: deco trial new --arms 3 --horizon 50 --name pilot")
    if not summaries:
        return
    rows = [
        [
            one.name,
            one.policy,
            f"{one.arms}x{one.horizon}",
            str(one.told),
            f"{one.open}{' stale' if one.stale else ''}",
            one.badge,
            one.created_at[:10],
        ]
        for one in summaries
    ]
    titles = ["trial", "policy", "size", "recorded", "pending", "state", "created"]
    print_table("", titles, rows, text=["trial", "policy", "state", "created"])


def _print_status(status: Status, stale: Mapping[str, str]) -> None:
    """`stale`: when the open allocations that are overdue were made."""
    title = f"{status.name}: {status.told} of {status.slots} outcomes recorded"
    for one in status.segments:
        _print_status_arms(f"{one.name}: {one.told} of {one.allocated} outcomes recorded", one)
        if one.next_arm is not None:
            print(f"next in {one.name}: {one.reason}")
    _print_status_arms(title, status)
    for slot in status.open:
        overdue = f", stale: since {stale[slot.id][:16]}" if slot.id in stale else ""
        what = slot.arm or f"{slot.pending} of {slot.size} pulls"
        print(f"pending: {what} (allocation {slot.id}{_about_slot(slot)}{overdue})")
    for change in status.arm_changes:
        what = "joined" if change.kind == "arm_added" else "left"
        why = change.reason if change.policy is None else f"{change.reason}; now {change.policy}"
        print(f"{change.arm} {what} at stage {change.stage} (by {change.by}): {why}")
    for row in status.cancellations:
        print(f"cancelled: {row.count} of {row.arm} by {row.by}: {'; '.join(row.reasons)}")
    limits = status.limits
    if limits.open is not None and limits.cancelled is not None:
        print(
            f"limits: {sum(arm.open for arm in status.arms)} of {limits.open} pending, "
            f"{status.cancelled} of {limits.cancelled} cancelled"
        )
    _print_outlook(status)


def _print_status_arms(title: str, status: Status | SegmentStatus) -> None:
    """Print the arms of a trial or of a segment; those of all segments have counts only."""
    from ..problem.models.base import rounded

    ranked = sorted(status.arms, key=lambda arm: (arm.name != status.next_arm, -(arm.index or 0.0)))

    terms = {"reward": "expected_reward", "information": "value_of_information", "index": "index"}
    facts = [key for key in terms.values() if any(getattr(arm, key) is not None for arm in ranked)]
    shown_terms = [name for name, key in terms.items() if key in facts]

    def row(arm: ArmStatus) -> list[str]:
        return [
            ">" if arm.name == status.next_arm else "",
            arm.name,
            arm.code,
            rounded(arm.seen) if arm.seen else f"{arm.good}/{(arm.good or 0) + (arm.bad or 0)}",
            str(arm.open or ""),
            *([posterior(arm)] if known else []),
            *(digits(getattr(arm, key), 4) for key in facts),
        ]

    def posterior(arm: ArmStatus) -> str:
        return arm.posterior or f"Beta({arm.posterior_good:g}, {arm.posterior_bad:g})"

    known = any(arm.posterior or arm.posterior_good is not None for arm in status.arms)
    counts = "good/recorded" if all(arm.seen is None for arm in status.arms) else "recorded"

    print_table(
        title,
        ["", "arm", "code", counts, "pending", *["posterior"] * known, *shown_terms],
        map(row, ranked[:MOST_ROWS]),
        text=["", "arm", "code"],
    )
    print_left_out(len(ranked))


def _print_outlook(status: Status) -> None:
    if status.dropped:
        print(f"dropped by the rules: {', '.join(status.dropped)}")
    if status.stopped is not None:
        print(f"the rules have stopped the trial ({status.stopped}): no more allocations are made")
    if status.state != "running":
        print(f"the trial is {status.state}: no more allocations are made")
    if status.next_arm is not None:
        print(f"next: {status.reason}")
    elif status.next_pulls is not None:
        print(f"next: {_named_pulls(status.next_pulls)}")
    if status.deployment is not None:
        print(f"the trial is over; keep {status.deployment}")
    elif status.finished:
        print("the trial is over")
    if status.left is not None:
        print(f"money: {status.spent:g} spent, {status.left:g} left of the budget")
    earned = f"reward so far {digits(status.earned, 4)}"
    if status.segments:
        print(earned)
    elif status.upper_bound is None:
        print(f"{earned}; no bound: the dual was not solved")
    else:
        left = digits(status.bound_from_here, 4) or "after the states are recorded"
        print(f"{earned}; upper bound on the expected reward of the stages left {left}")
        loss = status.loss_so_far
        terms = "" if loss is None else f"; shortfall and congestion so far {digits(loss, 4)}"
        print(f"upper bound at the start {digits(status.upper_bound, 4)}{terms}")
        if status.best_bound is not None and status.best_bound < status.upper_bound:
            best = digits(status.best_bound, 4)
            print(f"best bound at the start {best} ({status.best_bound_is})")
    print(f"head {status.head}")


def _print_verdict(
    status: Status,
    looks: Sequence[LookResult],
    declared: tuple[str, ...] | None,
    segment: str | None = None,
) -> None:
    if status.rules is None:
        return
    against = status.rules.get("control")
    what = "best" if against is None else "better than control"
    where = "" if segment is None else f"{segment}: "
    if looks:
        last = looks[-1]
        texts = ", ".join(f"{arm} {p:.3f}" for arm, p in last.probabilities.items())
        times = f"looks: {len(looks)}, the last after {last.outcomes} outcomes"
        print(f"{where}{times}; P({what}): {texts}")
    if declared is not None:
        print(f"{where}declared {what}: {', '.join(declared) or 'no arm'}")
