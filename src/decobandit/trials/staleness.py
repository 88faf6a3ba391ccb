"""Pending allocations that are overdue: older than some hours, by the time of their event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from .errors import TrialError
from .status import Summary

STALE_AFTER = 72.0  # hours
MAX_HOURS = 1e6


def stale_ids(
    since: Mapping[str, str], hours: float = STALE_AFTER, *, now: datetime | None = None
) -> list[str]:
    """Of pending allocations and their times, those made more than `hours` ago; oldest first."""
    limit = stale_limit(hours, now)
    return [made for made, at in since.items() if _is_before(at, limit)]


def with_staleness(summary: Summary, limit: datetime) -> Summary:
    """A summary that says whether its oldest pending allocation was made before `limit`."""
    if summary.open_since is None or not _is_before(summary.open_since, limit):
        return summary
    return replace(summary, stale=True)


def stale_limit(hours: float, now: datetime | None = None) -> datetime:
    """Pending allocations that were made before are stale; `TrialError` for hours below zero."""
    if not 0.0 < hours <= MAX_HOURS:
        raise TrialError(
            f"stale_after: {hours:g} hours; must be more than 0, at most {MAX_HOURS:g}"
        )
    return (now or datetime.now(UTC)) - timedelta(hours=hours)


def _is_before(at: str, limit: datetime) -> bool:
    try:
        return datetime.fromisoformat(at) < limit
    except (TypeError, ValueError):  # no time, or one without its zone
        return False
