"""Events of a trial, each linked to the one before by SHA-256: docs/reference/files.md.

The hash is that of the body, one line of canonical JSON, which holds the hash before (`previous`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..support.records import doc, record_class
from .errors import Damaged

KINDS = (
    *("created", "asked", "assigned", "told", "cancelled", "corrected", "refused"),
    *("closed", "reopened", "archived", "locked", "unlocked", "reviewed"),
    *("limited", "unmasked", "arm_added", "arm_closed"),
)
GENESIS = "0" * 64  # the `previous` of the first event
_FIELDS = {"trial", "seq", "kind", "at", "by", "key", "previous", "data", "version"}


@record_class()
class Event:
    """One entry of the log, from `new_event` or `read_event`.

    Examples
    --------
    >>> [event.kind for event in trial.events()]
    ['created']
    """

    trial: str = doc("Id of the trial.")
    seq: int = doc("Number of the event, from 0.")
    kind: str = doc(
        "created, asked, assigned, told, cancelled, corrected, refused, closed, reopened, "
        "archived, locked, unlocked, reviewed, limited, unmasked, arm_added or arm_closed."
    )
    at: str = doc("ISO 8601, UTC.")
    by: str = doc("Sender of the request: on a server, the name of the token.")
    key: str | None = doc("Idempotency key of the request.")
    previous: str = doc("Hash of the event before.")
    data: dict[str, Any] = doc("Content, and for an allocation the inputs of its decision.")
    version: str = doc("Version of decobandit.")
    body: str = doc("The event as one line of canonical JSON.")
    hash: str = doc("SHA-256 of the body.")

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except the body, which repeats them."""
        return {name: value for name, value in self.__dict__.items() if name != "body"}


def canonical(tree: dict[str, Any]) -> str:
    """Return canonical JSON: sorted keys, no blanks, ASCII, no NaN."""
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """Return the SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def new_event(
    trial: str,
    seq: int,
    kind: str,
    data: dict[str, Any],
    *,
    previous: str,
    at: str,
    by: str,
    key: str | None = None,
) -> Event:
    """Return the next event of a chain."""
    tree = {
        "trial": trial,
        "seq": seq,
        "kind": kind,
        "at": at,
        "by": by,
        "key": key,
        "previous": previous,
        "data": data,
        "version": __version__,
    }
    body = canonical(tree)
    return Event(**tree, body=body, hash=digest(body))  # type: ignore[arg-type]


def event_from(tree: Mapping[str, Any]) -> Event:
    """Read the result of `to_dict`; `Damaged` unless its hash fits."""
    fields = {name: tree.get(name) for name in _FIELDS}
    where = f"trial {tree.get('trial')}, event {tree.get('seq')}"
    return read_event(canonical(fields), str(tree.get("hash")), where)


def read_event(body: str, stored_hash: str, where: str, kinds: Collection[str] = KINDS) -> Event:
    """Read an event from its stored body; `Damaged` unless its hash fits."""
    if digest(body) != stored_hash:
        raise Damaged(f"{where}: the event was changed: its hash does not fit")
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        raise Damaged(f"{where}: the event is not JSON") from None
    if not isinstance(tree, dict) or set(tree) != _FIELDS or tree["kind"] not in kinds:
        raise Damaged(f"{where}: the event lacks fields, or has unknown ones")
    return Event(**tree, body=body, hash=stored_hash)


@dataclass(frozen=True)
class StoredEvent:
    """A row of the database, not checked yet."""

    seq: int
    kind: str
    key: str | None
    body: str
    hash: str


def chained(
    rows: Iterable[StoredEvent],
    trial: str,
    *,
    after: int = -1,
    previous: str = GENESIS,
    kinds: Collection[str] = KINDS,
    name: str = "",
) -> Iterator[Event]:
    """Yield the events of rows that continue a chain; `Damaged` at the first that does not.

    `name`: name of the chain in messages, if it is not that of a trial.
    """
    for expected, row in enumerate(rows, start=after + 1):
        where = f"{name or f'trial {trial}'}, event {expected}"
        texts = (row.kind, row.body, row.hash, row.key or "")
        if not isinstance(row.seq, int) or not all(isinstance(text, str) for text in texts):
            raise Damaged(f"{where}: its columns have other types than they were written with")
        if row.seq != expected:
            raise Damaged(f"{where}: is missing; the next one there is {row.seq}")
        event = read_event(row.body, row.hash, where, kinds)
        if event.previous != previous:
            raise Damaged(f"{where}: does not follow the event before it")
        if (event.trial, event.seq, event.kind, event.key) != (trial, expected, row.kind, row.key):
            raise Damaged(f"{where}: its columns differ from its body")
        yield event
        previous = event.hash
