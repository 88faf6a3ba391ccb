"""Pages of the log and of the allocations of one trial.

Events are only ever added, so that pages up to one head belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .allocations import Allocation, AllocationState
from .database import Store
from .errors import Damaged, NotFound
from .event_log import event_log_of, stored_events
from .events import GENESIS, Event, chained
from .ledger import Ledger
from .paging import Page, cut, page_size


def ledger_of(store: Store, trial: str) -> Ledger:
    """The state of a trial, by its id, as it is now."""
    return event_log_of(store).read(trial)


def page_of_events(
    store: Store, ledger: Ledger, *, after: int = -1, limit: int | None = None
) -> Page[Event]:
    """Events after a number; their hashes and links are checked, the first one's included."""
    size, left = page_size(limit), ledger.seq - after
    if left <= 0:
        return Page((), None)
    first = max(after - 1, -1)  # one more, for the link of the first that is shown
    most = min(size, left) + after - first
    with event_log_of(store).damage.remembering(ledger.trial):
        with store.read() as connection:
            rows = stored_events(connection, ledger.trial, after=first, most=most)
        previous = GENESIS
        if after >= 0:
            before, rows = rows[:1], rows[1:]
            previous = before[0].hash if before else ""
        items = tuple(chained(rows, ledger.trial, after=after, previous=previous))
        if len(items) < min(size, left):
            raise Damaged(f"trial {ledger.trial}, event {after + len(items) + 1}: is missing")
        if left <= size and items[-1].hash != ledger.head:
            raise Damaged(f"trial {ledger.trial}: its events changed while they were read")
    return Page(items, str(items[-1].seq) if left > size else None)


def numbers_of(ledger: Ledger) -> dict[str, int | str]:
    """The number of every allocation, in the order in which they were made, from 1."""
    return {made: number for number, made in enumerate(ledger.allocations, start=1)}


def matching(
    allocations: Iterable[Allocation], numbers: Mapping[str, int | str], find: str
) -> list[Allocation]:
    """Allocations with this number or subject, or whose id begins so; all where nothing is said.

    Where none has the subject, those whose subject contains it.
    """
    wanted, every = find.strip().casefold(), list(allocations)
    if not wanted:
        return every

    def is_it(slot: Allocation) -> bool:
        subject = (slot.subject or "").casefold()
        return wanted in (str(numbers[slot.id]), subject) or slot.id.startswith(wanted)

    found = [slot for slot in every if is_it(slot)]
    return found or [slot for slot in every if wanted in (slot.subject or "").casefold()]


def page_of_allocations(
    allocations: Mapping[str, Allocation],
    *,
    after: str | None = None,
    limit: int | None = None,
    state: AllocationState | None = None,
) -> Page[Allocation]:
    """Allocations in the order in which they were made, after one of them.

    `state`: only those in it.
    """
    size = page_size(limit)
    if after is not None and after not in allocations:
        raise NotFound("after: no such allocation in this trial")
    reached, found = after is None, list[Allocation]()
    for slot in allocations.values():
        if reached and state in (None, slot.state):
            found.append(slot)
            if len(found) > size:
                break
        reached = reached or slot.id == after
    return cut(found, size, lambda slot: slot.id)
