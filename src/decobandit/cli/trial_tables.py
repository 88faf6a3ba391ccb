"""How `deco trial` shows its answers to people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .tables import MOST_ROWS, print_table

if TYPE_CHECKING:
    from ..trials import Allocation, ArmStatus, Batch, Status, Summary, Trial
    from ..trials.verdicts import LookMade


NEXT_ARMS = 8  # of the next batch that are shown


def digits(value: float | None) -> str:
    """A number in few columns, where there is one; no -0."""
    return "" if value is None else f"{round(value, 12) + 0.0:.4g}"


def print_answer(answer: Allocation | Batch | Summary, here: Trial) -> None:
    """What a change of a trial answers: an allocation, a batch, or the trial."""
    from ..trials import Allocation, Batch

    if isinstance(answer, Allocation):
        print_allocation(answer, here.named(answer))
    elif isinstance(answer, Batch):
        print_batch(answer)
    else:
        print(f"trial {answer.name} ({answer.id}): {answer.state}")


def print_allocation(allocation: Allocation, said: str) -> None:
    """The arm and the id by which its outcome is told; said: the outcome, where it is."""
    state = f"{allocation.state} {said}".strip()
    about = "" if allocation.subject is None else f", subject {allocation.subject}"
    print(f"{allocation.arm}   (allocation {allocation.id}, {state}{about})")
    if allocation.state == "open":
        print(allocation.reason)


def print_batch(batch: Batch) -> None:
    """What every arm has of a batch, and the id by which its outcomes are told."""
    from ..problem.models.base import rounded

    about = "" if batch.subject is None else f", subject {batch.subject}"
    what = f"batch of {batch.pulls} pulls, stage {batch.stage}, {batch.state}{about}"
    print(f"allocation {batch.id}: {what}")
    ranked = sorted(batch.arms, key=lambda one: -one.pulls)[:MOST_ROWS]
    started = batch.told or batch.state != "open"
    told = "good/told" if all(one.seen is None for one in batch.arms) else "on record"
    titles = ["arm", "pulls", "share"] + [told, "pending", "cancelled"] * bool(started)

    def row(number: int) -> list[str]:
        one = ranked[number]
        record = f"{one.good}/{one.told}" if one.seen is None else rounded(one.seen)
        now = [record, str(one.pending), str(one.cancelled)]
        return [one.arm, str(one.pulls), f"{one.share:.4g}", *(now if started else [])]

    print_table("", titles, map(row, range(len(ranked))), text=["arm"])
    if len(batch.arms) > MOST_ROWS:
        print(f"({len(batch.arms) - MOST_ROWS} more arms)")
    if batch.state == "open" and not batch.told:
        print(batch.reason)


def print_list(summaries: Sequence[Summary], hidden: int = 0) -> None:
    """One line per trial; `hidden`: how many are archived and left out."""
    if not summaries and not hidden:
        print("no trials yet: deco trial new --arms 3 --horizon 50 --name pilot")
        return
    if hidden:
        print(f"{hidden} archived, shown by --archived")
    if not summaries:
        return
    rows = [
        [
            one.name, one.policy,
            f"{one.arms}x{one.horizon}", str(one.told),
            f"{one.open}{' stale' if one.stale else ''}",
            one.badge, one.created_at[:10],
        ]
        for one in summaries
    ]  # fmt: skip
    titles = ["trial", "policy", "size", "told", "open", "state", "created"]
    print_table("", titles, rows, text=["trial", "policy", "state", "created"])


def print_status(status: Status, stale: Mapping[str, str]) -> None:
    """Arms, open allocations, the next arm, and the distance from the optimum.

    `stale`: when the open allocations that are overdue were made.
    """
    from ..problem.models.base import rounded

    ranked = sorted(status.arms, key=lambda arm: (arm.name != status.next_arm, -(arm.index or 0.0)))

    terms = {
        "reward": "expected_reward", "information": "value_of_information", "index": "index"
    }  # fmt: skip
    known = {
        title: key
        for title, key in terms.items()
        if any(getattr(arm, key) is not None for arm in status.arms)
    }

    def row(arm: ArmStatus) -> list[str]:
        return [
            ">" if arm.name == status.next_arm else "", arm.name, arm.code,
            rounded(arm.seen) if arm.seen else f"{arm.good}/{(arm.good or 0) + (arm.bad or 0)}",
            str(arm.open or ""),
            arm.posterior or f"Beta({arm.posterior_good:g}, {arm.posterior_bad:g})",
            *(digits(getattr(arm, key)) for key in known.values()),
        ]  # fmt: skip

    counts = "good/told" if all(arm.seen is None for arm in status.arms) else "on record"

    print_table(
        f"{status.name}: {status.told} of {status.slots} outcomes told",
        ["", "arm", "code", counts, "open", "posterior", *known],
        map(row, ranked[:MOST_ROWS]), text=["", "arm", "code"],
    )  # fmt: skip
    if len(ranked) > MOST_ROWS:
        print(f"({len(ranked) - MOST_ROWS} more arms)")
    for slot in status.open:
        about = "" if slot.subject is None else f", subject {slot.subject}"
        overdue = f", stale: since {stale[slot.id][:16]}" if slot.id in stale else ""
        print(f"open: {slot.arm} (allocation {slot.id}{about}{overdue})")
    for batch in status.batches:
        overdue = f", stale: since {stale[batch.id][:16]}" if batch.id in stale else ""
        print(f"open: {batch.pending} of {batch.pulls} pulls (batch {batch.id}{overdue})")
    _print_cancellations(status)
    _print_outlook(status)


def _print_cancellations(status: Status) -> None:
    for each in status.cancellations:
        print(f"cancelled: {each.count} of {each.arm} by {each.by}: {'; '.join(each.reasons)}")
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
    if status.next_batch is not None:
        given = sorted(status.next_batch.items(), key=lambda one: -one[1])
        named = ", ".join(f"{arm} {pulls}" for arm, pulls in given[:NEXT_ARMS] if pulls)
        more = ", ..." if any(pulls for _, pulls in given[NEXT_ARMS:]) else ""
        print(f"next batch: {named}{more}")
    if status.deployment is not None:
        print(f"the trial is over; keep {status.deployment}")
    elif status.finished:
        print("the trial is over")
    if status.upper_bound is None:
        print(f"reward so far {digits(status.earned)}; no bound: the dual was not solved")
    else:
        print(
            f"reward so far {digits(status.earned)}; upper bound on the expected reward of the "
            f"stages left {digits(status.bound_from_here)}"
        )
        print(
            f"upper bound at the start {digits(status.upper_bound)}; "
            f"shortfall and congestion so far {digits(status.loss_so_far)}"
        )
        if status.best_bound is not None and status.best_bound < status.upper_bound:
            print(f"best bound at the start {digits(status.best_bound)} ({status.best_bound_is})")
    print(f"head {status.head}")


def print_verdict(
    status: Status, looks: Sequence[LookMade], declared: tuple[str, ...] | None
) -> None:
    """What the looks of the rules came to, the last one and the next; arms declared at the end."""
    if status.rules is None:
        return
    against = status.rules.get("control")
    what = "best" if against is None else "better than control"
    if looks:
        last = looks[-1]
        found = ", ".join(f"{arm} {p:.3f}" for arm, p in last.probabilities.items())
        print(f"looks: {len(looks)}, the last after {last.outcomes} outcomes; P({what}): {found}")
    if declared is not None:
        print(f"declared {what}: {', '.join(declared) or 'no arm'}")
