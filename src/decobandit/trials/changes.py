"""One change of a trial: tried in a transaction that others may share, or made by itself.

Most changes are short, and many of them can be tried in one transaction (`Change.attempt`, as the
work of `Store.submit`). One that turns out to take long, because a table has to be made, because
many events have to be read first, or because it is another one's turn, raises `NotAtOnce` there and
is made by itself (`Change.resume`), where nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import Connection

from .errors import Conflict, Damaged
from .event_log import EventLog, NotAtOnce
from .ledger import Ledger

Answer = TypeVar("Answer")

NEEDS_MORE = (NotAtOnce, Damaged)  # after which an attempt is resumed


@dataclass(frozen=True)
class Change(Generic[Answer]):
    """A request to a trial, checked and ready."""

    log: EventLog
    trial: str
    work: Callable[[Connection, Ledger], Answer | Conflict]  # in a transaction
    is_short: Callable[[], bool]  # whether others may wait for it
    alone: Callable[[], Answer]  # the way that may take long

    def made(self) -> Answer:
        """Make it, and wait until it is on disk."""
        if self.is_short():
            try:
                return answered(self.log.change(self.trial, self.work))
            except NotAtOnce:
                pass
        return self.alone()

    def attempt(self, connection: Connection) -> Answer | Conflict:
        """Make it in this transaction; `NotAtOnce` where others would have to wait."""
        if not self.is_short():
            raise NotAtOnce
        return self.work(connection, self.log.locked(connection, self.trial))

    def resume(self, error: NotAtOnce | Damaged) -> Answer:
        """Go on after an attempt that failed: by itself; damage is put on record and raised."""
        with self.log.damage.remembering(self.trial):
            if isinstance(error, Damaged):
                raise error
        return self.alone()


def answered(answer: Answer | Conflict) -> Answer:
    """The answer of a work; a refusal, returned so that the log of it is kept, is raised."""
    if isinstance(answer, Conflict):
        raise answer
    return answer
