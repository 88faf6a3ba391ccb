"""Checks an exported trial without its database: everything shown is computed again.

The events are checked as in a database. From them follow status, allocations, posteriors and
bounds; what is shown has to be the same, numbers up to rounding. The checksum stands for the rest:
by which version the export was made, and the last digits of numbers. The time has check digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from ..support import JsonError, parse
from .decider import decider_of
from .errors import TrialError
from .events import Event, StoredEvent, canonical
from .export import EXPORT_FORMAT, checksum, export_parts, has_check_digits, plain
from .ledger import Ledger
from .replay import TOLERANCE, Replay, replayed
from .verification import LogCheck, Verification, time_of

_NO_EXPORT = "export: not an exported trial; give what 'export' wrote"


def read_export(data: bytes) -> Any:
    """The tree of an export; `TrialError` if it is not JSON, or a key stands there twice."""
    try:
        return parse(data)
    except JsonError as error:
        raise TrialError(f"export: {error}; give what 'export' wrote") from None


def verify_export(tree: Any, *, head: str | None = None) -> Verification:
    """Check an exported trial, without the database.

    Parameters
    ----------
    tree : dict
        The result of `Trial.export`, or what was read from its file.
    head : str, optional
        A head that was kept elsewhere, which some event must have.

    Returns
    -------
    Verification

    Raises
    ------
    TrialError
        If it is not an exported trial.

    Examples
    --------
    >>> from decobandit.trials import verify_export
    >>> verify_export(trial.export()).ok
    True
    """
    return checked_export(tree, head=head)[0].result()


def replay_export(tree: Any) -> Replay:
    """Make every decision of an exported trial again, without the database.

    Parameters
    ----------
    tree : dict
        As in `verify_export`.

    Returns
    -------
    Replay
        Of an export that `verify_export` does not find intact, what that found.

    Raises
    ------
    TrialError
        As from `verify_export`.

    Examples
    --------
    >>> from decobandit.trials import replay_export
    >>> replay_export(trial.export()).ok
    True
    """
    check, events = checked_export(tree)
    if check.problems:
        return Replay(check.trial, 0, tuple(check.problems))
    return replayed(events)


def checked_export(tree: Any, *, head: str | None = None) -> tuple[LogCheck, list[Event]]:
    """The check of an export, and its events as far as they are whole."""
    try:
        if tree["format"] != EXPORT_FORMAT:
            raise TrialError(f"export: format {tree['format']!r}; must be {EXPORT_FORMAT!r}")
        shown = plain(tree)
        canonical(shown)  # numbers that are none are refused
        trial, rows = str(shown["trial"]), shown["events"]
        check = LogCheck(trial, given_head=head)
        found = [check.add(_stored(row)) for row in rows]
        check.check_head((len(rows) - 1, str(shown["head"])))
        events = [event for event in found if event is not None]
        if not check.problems and check.ledger is not None:
            problems = _differences(shown, check.ledger, events)
            check.problems += [f"trial {trial}: in the export, {each}" for each in problems]
    except TrialError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        raise TrialError(_NO_EXPORT) from None
    return check, events


def _stored(row: dict[str, Any]) -> StoredEvent:
    return StoredEvent(row["seq"], row["kind"], row["key"], row["body"], row["hash"])


def _differences(shown: dict[str, Any], ledger: Ledger, events: list[Event]) -> Iterator[str]:
    """Where an export differs from what follows from its events."""
    for row, event in zip(shown["events"], events, strict=True):
        again = plain(event.to_dict() | {"body": event.body})
        if canonical(row) != canonical(again):
            yield f"what is shown of event {event.seq} differs from its body"
    version, at = shown["version"], shown["exported_at"]
    if not isinstance(version, str) or time_of(at) is None:
        yield "version and time are not those of an export"
        return
    if not has_check_digits(at, ledger.head):
        yield "exported_at was changed: its last digits do not fit"
    again = export_parts(ledger, decider_of(ledger.settings), version=version, exported_at=at)
    again = plain(again | {"events": shown["events"], "checksum": checksum(shown)})
    yield from _compared(shown, again, "")


def _compared(shown: Any, again: Any, place: str) -> Iterator[str]:
    where = place or "the export"
    if isinstance(shown, dict) and isinstance(again, dict):
        yield from (f"{where} has an unknown key {key!r}" for key in shown if key not in again)
        for key, value in again.items():
            inside = f"{place}.{key}" if place else key
            if key in shown:
                yield from _compared(shown[key], value, inside)
            else:
                yield f"{inside} is missing"
    elif isinstance(shown, list) and isinstance(again, list):
        if len(shown) != len(again):
            yield f"{where} has {len(shown)} entries, not {len(again)}"
        for number, pair in enumerate(zip(shown, again, strict=False)):
            yield from _compared(*pair, f"{place}[{number}]")
    elif not _same(shown, again):
        yield f"{where} is {json.dumps(shown)[:100]}, not {json.dumps(again)[:100]}"


def _same(shown: Any, again: Any) -> bool:
    kinds = {type(shown), type(again)}
    if float in kinds and kinds <= {int, float}:
        return math.isclose(shown, again, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(shown) is type(again) and bool(shown == again)
