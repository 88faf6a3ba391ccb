"""How `deco trial` shows its answers to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .recommend import MOST_ROWS

if TYPE_CHECKING:
    from ..trials import Allocation, ArmStatus, Status, Summary


def digits(value: float) -> str:
    """A number in few columns; no -0."""
    return f"{round(value, 12) + 0.0:.4g}"


def print_allocation(allocation: Allocation) -> None:
    """The arm and the id by which its outcome is told."""
    said = {1: "good", 0: "bad", None: ""}[allocation.outcome]
    state = f"{allocation.state} {said}".strip()
    print(f"{allocation.arm}   (allocation {allocation.id}, {state})")
    if allocation.state == "open":
        print(allocation.reason)


def print_list(summaries: Sequence[Summary]) -> None:
    """One line per trial."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not summaries:
        print("no trials yet: deco trial new --arms 3 --horizon 50 --name pilot")
        return
    table = Table()
    table.add_column("trial", overflow="fold")
    table.add_column("id", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for title in ("arms", "horizon", "told", "open"):
        table.add_column(title, justify="right")
    table.add_column("created", no_wrap=True)
    for one in summaries:
        policy = one.policy if one.intact else "DAMAGED"
        table.add_row(
            Text(one.name), one.id, policy, str(one.arms), str(one.horizon), str(one.told),
            str(one.open), one.created_at[:10],
        )  # fmt: skip
    Console().print(table)


def print_status(status: Status) -> None:
    """Arms, open allocations, the next arm, and the distance from the optimum."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"{status.name}: {status.told} of {status.slots} outcomes told"))
    table.add_column("")
    table.add_column("arm", overflow="fold")
    for title in ("good/told", "open", "posterior", "reward", "information", "index"):
        table.add_column(title, justify="right", no_wrap=True)
    ranked = sorted(status.arms, key=lambda arm: (arm.name != status.next_arm, -(arm.index or 0.0)))
    for arm in ranked[:MOST_ROWS]:
        table.add_row(
            ">" if arm.name == status.next_arm else "", Text(arm.name),
            f"{arm.good}/{arm.good + arm.bad}", str(arm.open or ""),
            f"Beta({arm.posterior_good:g}, {arm.posterior_bad:g})", *_terms(arm),
        )  # fmt: skip
    console = Console()
    console.print(table)
    if len(ranked) > MOST_ROWS:
        console.print(f"({len(ranked) - MOST_ROWS} more arms)")
    for slot in status.open:
        print(f"open: {slot.arm} (allocation {slot.id})")
    _print_outlook(status)


def _terms(arm: ArmStatus) -> tuple[str, str, str]:
    def shown(value: float | None) -> str:
        return "" if value is None else digits(value)

    return shown(arm.expected_reward), shown(arm.value_of_information), shown(arm.index)


def _print_outlook(status: Status) -> None:
    if status.next_arm is not None:
        print(f"next: {status.reason}")
    if status.deployment is not None:
        print(f"the trial is over; keep {status.deployment}")
    elif status.finished:
        print("the trial is over")
    print(
        f"earned so far {digits(status.earned)}; any policy can expect at most "
        f"{digits(status.bound_from_here)} of what is left"
    )
    print(
        f"at the start no policy could expect more than {digits(status.upper_bound)} "
        "(the bound from prices); "
        f"loss read off so far {digits(status.loss_so_far)}"
    )
    print(f"head {status.head}")
