"""What lists show of a trial, kept beside its head: a list need not read the events.

A summary is used only where it names the head of its trial, its checksum fits, and the last event
is the one that the head names; otherwise it is made again from the events. Damage further back in
a log is for `verify` to find, and for everything that opens the trial.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from sqlalchemy import Row

from .events import canonical, digest
from .ledger import Ledger
from .status import Summary, summary_of

_COMPUTED = frozenset({"intact", "stale"})  # when a list is made
_KEYS = frozenset(field.name for field in fields(Summary)) - _COMPUTED | {"head"}


def kept_summary(ledger: Ledger) -> str:
    """The summary of a trial as it is kept: its checksum and one line of JSON."""
    tree = {key: value for key, value in summary_of(ledger).to_dict().items() if key in _KEYS}
    line = canonical(tree | {"head": ledger.head})
    return f"{digest(line)} {line}"


def is_forged(kept: str | None, ledger: Ledger) -> bool:
    """Whether what is kept is not the summary of a ledger; an outdated form is not used."""
    if kept is None or kept == kept_summary(ledger):
        return False
    try:
        return set(json.loads(str(kept).partition(" ")[2])) == _KEYS
    except (ValueError, TypeError, RecursionError):
        return True


def summary_from(row: Row[Any]) -> Summary | None:
    """The summary of a row of trials with its last event; None where it does not fit the head."""
    if not all(isinstance(text, str) for text in (row.summary, row.last_body, row.last_hash)):
        return None
    checksum, _, line = row.summary.partition(" ")
    if digest(line) != checksum or not digest(row.last_body) == row.last_hash == row.head_hash:
        return None
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(tree, dict) or set(tree) != _KEYS:  # kept by another version
        return None
    head = tree.pop("head")
    summary = Summary(**tree)
    fits = (head, summary.id, summary.name, summary.created_at)
    return summary if fits == (row.head_hash, row.id, row.name, row.created_at) else None
