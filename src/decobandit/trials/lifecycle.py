"""What is done to a trial as a whole, and what is revealed of an allocation.

A closed trial makes no more allocations; outcomes of those that are pending can still be recorded,
corrected and cancelled. An archived one is closed, and hidden from lists. Both can be reopened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from .allocations import Allocation
from .errors import Conflict, LimitReached, TrialError
from .event_log import EventLog
from .ledger import TURNS, Ledger
from .limits import chosen_limits
from .people import record
from .requests import Request, reason_of
from .status import Summary, summary_of

LEAST_REASON = 10  # characters of a reason to unmask


class Lifecycle(ABC):
    """The part of `Trial` that opens, closes, limits and unmasks."""

    _event_log: EventLog

    @abstractmethod
    def _change(
        self,
        request: Request,
        act: Callable[[Connection, Ledger, Request, str | None, str], Any],
        key: str | None,
        by: str,
    ) -> Any:
        """One change in one transaction; see `Trial`."""

    def close(
        self, *, reason: str | None = None, key: str | None = None, by: str = "library"
    ) -> Summary:
        """Make no more allocations; those that are pending can still be recorded."""
        return self._turn("closed", None if reason is None else reason_of(reason), key, by)

    def reopen(self, *, reason: str, key: str | None = None, by: str = "library") -> Summary:
        """Make allocations again, and say why; an archived trial is listed again."""
        return self._turn("reopened", reason_of(reason), key, by)

    def archive(
        self, *, reason: str | None = None, key: str | None = None, by: str = "library"
    ) -> Summary:
        """Close the trial, and hide it from lists."""
        return self._turn("archived", None if reason is None else reason_of(reason), key, by)

    def _turn(self, kind: str, reason: str | None, key: str | None, by: str) -> Summary:
        found: Summary = self._change(Request(kind, reason=reason), self._write_turn, key, by)
        return found

    def _write_turn(
        self, connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
    ) -> Summary | Conflict:
        if ledger.state == TURNS[request.kind]:
            return summary_of(ledger)
        if request.kind == "closed" and ledger.state == "archived":
            return Conflict("the trial is archived, and so closed; reopen it first")
        later = self._event_log.append(
            connection, ledger, request.kind, request.said(), by=by, key=key
        )
        return summary_of(later)

    def set_limits(
        self,
        *,
        reason: str,
        max_open: int | None = None,
        max_cancelled: int | None = None,
        max_unmasked: int | None = None,
        key: str | None = None,
        by: str = "library",
    ) -> Summary:
        """Change how many allocations may be pending, cancelled or unmasked, and say why."""
        request = Request(
            "limited", reason=reason_of(reason), max_open=max_open, max_cancelled=max_cancelled,
            max_unmasked=max_unmasked,
        )  # fmt: skip
        found: Summary = self._change(request, self._write_limits, key, by)
        return found

    def _write_limits(
        self, connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
    ) -> Summary:
        limits = chosen_limits(
            ledger.limits, request.max_open, request.max_cancelled, request.max_unmasked
        )
        if limits == ledger.limits:
            return summary_of(ledger)
        data = {"limits": limits.to_dict(), **request.said()}
        return summary_of(
            self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
        )

    def unmask(
        self, allocation_id: str, *, reason: str, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """The allocation with the name of its arm, for somebody blinded; the log says who and why.

        It is on record in the log of the trial and in the log of people. Who was told already is
        told again, and nothing is written. `LimitReached` beyond so many within 24 hours
        (`set_limits`); the reason has at least ten characters.
        """
        why = reason_of(reason)
        if len(why) < LEAST_REASON:
            raise TrialError(f"reason: must have at least {LEAST_REASON} characters to unmask")
        request = Request("unmasked", allocation_id, reason=why)
        found: Allocation = self._change(request, self._write_unmasked, key, by)
        return found

    def _write_unmasked(
        self, connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
    ) -> Allocation:
        slot = ledger.allocation(request.allocation)
        if slot.arm is None:
            raise Conflict("an allocation of several arms is not unmasked: it would tell all codes")
        if (slot.id, by) not in ledger.unmasked:
            number = ledger.unmasked_since(_day_ago(), by) + 1
            if number > ledger.limits.unmasked:
                raise LimitReached(
                    "as many allocations as the trial permits were unmasked by you within 24 "
                    "hours; an administrator can permit more"
                )
            data = {"allocation": slot.id, "number_in_24_hours": number, **request.said()}
            self._event_log.append(connection, ledger, request.kind, data, by=by, key=key)
            record(
                connection, "unmasked", {"trial": ledger.trial, "name": ledger.name} | data, by=by
            )
        return slot


def _day_ago() -> str:
    return (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="milliseconds")
