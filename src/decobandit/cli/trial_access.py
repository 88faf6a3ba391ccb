"""Access of commands to the database and to trials; tables of trials."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, TypedDict

import typer

from .options import (
    AllowPolicy,
    AsJson,
    Db,
    argument,
    option,
    options_of,
    shown,
    standing_for,
    taking,
)
from .output import digits, print_result
from .tables import MOST_ROWS, print_table

if TYPE_CHECKING:
    from ..trials import Allocation, ArmStatus, Status, Store, Summary, Trial
    from ..trials.decider import LookResult
    from ..trials.status import SegmentStatus

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
    about = about_slot(slot)
    if slot.arm is not None:
        state = f"{STATE_WORDS[slot.state]} {here.named(slot)}".strip()
        print(f"{slot.arm}   (allocation {slot.id}, {state}{about})")
    else:
        state = STATE_WORDS[slot.state]
        print(f"allocation {slot.id}: {slot.size} pulls, stage {slot.stage}, {state}{about}")
        _print_arms(slot)
    if slot.state == "open" and not slot.told:
        print(slot.reason)


def about_slot(slot: Allocation) -> str:
    """Return subject and segment, where there are some."""
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


def print_allocations(slots: Sequence[Allocation]) -> None:
    """One line per allocation."""
    rows = [
        [
            slot.id,
            str(slot.stage),
            named_pulls(slot.pulls),
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


def named_pulls(pulls: Mapping[str, int]) -> str:
    """Return the arm of a single pull, or the largest pulls by arm."""
    if sum(pulls.values()) == 1:
        return next(iter(pulls))
    if not pulls:
        return "no pull"
    ranked = sorted(pulls.items(), key=lambda one: -one[1])
    more = ", ..." if len(ranked) > MAX_NAMED else ""
    return ", ".join(f"{arm} {number}" for arm, number in ranked[:MAX_NAMED]) + more


def print_list(summaries: Sequence[Summary], hidden: int = 0) -> None:
    """One line per trial; `hidden`: how many are archived and left out."""
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


def print_status(status: Status, stale: Mapping[str, str]) -> None:
    """Arms, open allocations, the next arm, and the distance from the optimum.

    `stale`: when the open allocations that are overdue were made.
    """
    title = f"{status.name}: {status.told} of {status.slots} outcomes recorded"
    for one in status.segments:
        _print_status_arms(f"{one.name}: {one.told} of {one.allocated} outcomes recorded", one)
        if one.next_arm is not None:
            print(f"next in {one.name}: {one.reason}")
    _print_status_arms(title, status)
    for slot in status.open:
        overdue = f", stale: since {stale[slot.id][:16]}" if slot.id in stale else ""
        what = slot.arm or f"{slot.pending} of {slot.size} pulls"
        print(f"pending: {what} (allocation {slot.id}{about_slot(slot)}{overdue})")
    for change in status.arm_changes:
        what = "joined" if change.kind == "arm_added" else "left"
        why = change.reason if change.policy is None else f"{change.reason}; now {change.policy}"
        print(f"{change.arm} {what} at stage {change.stage} (by {change.by}): {why}")
    _print_cancellations(status)
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


def _print_cancellations(status: Status) -> None:
    for row in status.cancellations:
        print(f"cancelled: {row.count} of {row.arm} by {row.by}: {'; '.join(row.reasons)}")
    limits = status.limits
    if limits.open is not None and limits.cancelled is not None:
        print(
            f"limits: {sum(arm.open for arm in status.arms)} of {limits.open} pending, "
            f"{status.cancelled} of {limits.cancelled} cancelled"
        )


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
        print(f"next: {named_pulls(status.next_pulls)}")
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


def print_verdict(
    status: Status,
    looks: Sequence[LookResult],
    declared: tuple[str, ...] | None,
    segment: str | None = None,
) -> None:
    """Print the last interim look and the arms declared, of a segment where there are some."""
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


# -- how the commands of `deco trial` and `deco token` open a database and a trial -----------------


TrialName = Annotated[str, argument("TRIAL", "Name or id of the trial.")]
Slot = Annotated[str, argument("ALLOCATION", "Allocation id from 'ask', or its subject.")]
Reason = Annotated[str, shown("TEXT", "Reason, for the log.")]
MaybeReason = Annotated[str | None, shown("TEXT", "Reason, for the log.", "--reason")]
Key = Annotated[str | None, typer.Option(help="Idempotency key.")]
By = Annotated[str | None, shown("NAME", "Name of the user.", show_default="the user's name")]
StaleAfter = Annotated[float, shown("HOURS", "Age at which pending pulls are stale.", min=0.01)]


def check_database(db: str | None) -> None:
    """Refuse a password that others can read in the list of processes."""
    if db is not None and re.search(r"://[^/@]*:[^/@]+@|[?&]password=", db):
        raise typer.BadParameter(
            "--db: a password on the command line can be read by others; put the URL into DECO_DB, "
            "or the password into PGPASSWORD or a password file"
        )


@contextmanager
def database(db: str | None, *, existing: bool = False) -> Iterator[Store]:
    """Open the database of trials."""
    check_database(db)
    from ..trials import open_store

    with open_store(db, existing=existing) as store:
        yield store


def any_database(db: Db = None) -> AbstractContextManager[Store]:
    """Open the database; create it if missing."""
    return database(db)


def existing_database(db: Db = None) -> AbstractContextManager[Store]:
    """Open an existing database."""
    return database(db, existing=True)


@contextmanager
def opened(trial: TrialName, allow_policy: AllowPolicy = None, db: Db = None) -> Iterator[Trial]:
    """Open an existing trial."""
    with database(db, existing=True) as store:
        from ..trials import open_trial

        yield open_trial(trial, db=store)


makes_store = taking(any_database)
takes_store = taking(existing_database)
takes_trial = taking(opened)


class Request(TypedDict):
    """The person who asks, and the key that identifies a repeated request."""

    key: str | None
    by: str


def changes_trial(
    command: Callable[Concatenate[Trial, ...], Allocation | Summary],
) -> Callable[..., None]:
    """Give a command its trial, and a request for the event that it writes; print the answer."""

    def run(here: Trial, key: str | None, by: str | None, as_json: bool, **options: Any) -> None:
        if "slot" in options:
            options["slot"] = here.slot_of(options["slot"])
        answer = command(here, **options, key=key, by=user(by))
        print_result(answer, as_json, lambda value: print_answer(value, here))

    parameters = [option("here", object), *options_of(command, after=1)]
    shared = [option("key", Key), option("by", By), option("as_json", AsJson, False)]
    return takes_trial(standing_for(command, run, [*parameters, *shared]))


def user(by: str | None) -> str:
    """Return the name given, or the user of this machine."""
    if by is not None:
        return by
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for this user id
        return "command line"
