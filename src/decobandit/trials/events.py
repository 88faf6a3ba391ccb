"""Events of a trial, each linked to the one before by SHA-256, and requests, which become events.

The hash is that of the body, one line of canonical JSON, which holds the hash before (`previous`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .._version import __version__
from ..problem import ArmModel, Outcome, is_name
from ..support.frames import Shown
from ..support.records import doc, record_class
from .allocations import Allocation, Counts, counts_from, counts_tree
from .errors import BadOutcome, Damaged, TrialError

KINDS = (
    *("created", "asked", "assigned", "told", "cancelled", "corrected", "refused"),
    *("closed", "reopened", "archived", "locked", "unlocked", "reviewed"),
    *("limited", "unmasked", "arm_added", "arm_closed"),
)
GENESIS = "0" * 64  # the `previous` of the first event
_FIELDS = {"trial", "seq", "kind", "at", "by", "key", "previous", "data", "version"}


@record_class()
class Event:
    """One entry of the log, from `new_event` or `read_event`."""

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
    """Yield the events of rows that continue a chain; `Damaged` at the first that does not."""
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


@record_class()
class CheckResult(Shown):
    """Base of `Verification` and `Replay`; `findings` lists what is wrong."""

    trial: str = doc('Id of the trial; "people" for the access log, empty for all trials.')

    @property
    def findings(self) -> tuple[str, ...]:
        """Problems, one sentence each."""
        problems: tuple[str, ...] = self.problems  # type: ignore[attr-defined]
        return problems

    @property
    def ok(self) -> bool:
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self).items()
        plain = {key: list(one) if isinstance(one, tuple) else one for key, one in values}
        return {"trial": self.trial, "ok": self.ok} | plain


# -- requests: their content, which identifies a repeated one, and their fields -------------------

MAX_KEY = 100  # characters
MAX_SUBJECT = 100
MAX_TEXT = 500  # of a note or a reason
MIN_UNMASK_REASON = 10
UNMASK_CATEGORIES = ("planned", "emergency", "inadvertent")
_LINES = {"reason": MAX_TEXT, "note": MAX_TEXT, "segment": MAX_SUBJECT, "subject": MAX_SUBJECT}
_WITH_REASON = (
    *("reopened", "unlocked", "limited", "arm_added", "arm_closed"),
    *("unmasked", "cancelled", "corrected"),
)


@dataclass(frozen=True)
class Request:
    """Content of a request; a repeated one agrees in all that is compared."""

    kind: str
    allocation: str | None = None
    outcome: Outcome | None = None  # of a single pull
    counts: Counts | None = None  # tallies by arm
    subject: str | None = None
    note: str | None = None
    reason: str | None = None
    max_open: int | None = None
    max_cancelled: int | None = None
    max_unmasked: int | None = None
    arm: str | None = None  # that joins or leaves
    definition: str | None = None  # of an arm that joins, as canonical JSON
    policy: str | None = None  # another one, from there on
    segment: str | None = None  # of the visitor that is asked for
    ahead: bool | None = None  # whether an allocation is made before a subject asks for it
    category: str | None = None  # of an unmasking
    role: str | None = None  # of the sender of an unmasking, where it is known
    unmask_role: str | None = None  # that may unmask from here on
    up_to: int | None = None  # last event of a review
    confirm_range: bool = field(default=False, compare=False)  # implausible outcomes are intended
    implausible: str = field(default="", compare=False)  # message; empty if all are in range
    key: str | None = field(default=None, compare=False)  # idempotency key
    by: str = field(default="library", compare=False)  # sender

    def __post_init__(self) -> None:
        for name in _LINES:
            value = getattr(self, name)
            if value is not None or (name == "reason" and self.kind in _WITH_REASON):
                line_of(value, name)
        if self.kind == "unmasked" and len(self.reason or "") < MIN_UNMASK_REASON:
            rule = f"must have at least {MIN_UNMASK_REASON} characters to unmask"
            raise TrialError(f"reason: {rule}", field="reason")
        if self.kind == "unmasked" and self.category not in UNMASK_CATEGORIES:
            rule = f"must be one of {', '.join(UNMASK_CATEGORIES)}"
            raise TrialError(f"category: {rule}", field="category")
        key = self.key
        if key is not None and not (
            isinstance(key, str) and 1 <= len(key) <= MAX_KEY and key.isprintable()
        ):
            raise TrialError(f"key: must be 1 to {MAX_KEY} printable characters", field="key")
        actor_of(self.by)

    @property
    def disputed(self) -> str | None:
        """Field at fault where the request contradicts the record."""
        return {"asked": "subject", "told": "outcome", "corrected": "outcome"}.get(self.kind)

    def details(self) -> dict[str, Any]:
        """Return the fields for the event beside allocation and outcomes."""
        return {name: getattr(self, name) for name in _DETAILS if getattr(self, name) is not None}

    def outcomes(self) -> dict[str, Any]:
        """Return the outcomes for the event: that of a single pull, or counts by arm."""
        if self.outcome is not None:
            return {"outcome": self.outcome}
        return {} if self.counts is None else {"counts": counts_tree(self.counts)}

    @classmethod
    def of(cls, kind: str, data: Mapping[str, Any]) -> Request:
        """Return the request that made an event, or that `refused` wrote."""
        details: dict[str, Any] = {name: data.get(name) for name in _DETAILS}
        if kind == "asked":  # there, the reason is the policy's, and the id a new one
            return cls(kind, **details | {"reason": None, "arm": None})
        counts = counts_from(data["counts"]) if "counts" in data else None
        return cls(kind, data.get("allocation"), data.get("outcome"), counts, **details)

    def refused(self) -> dict[str, Any]:
        """Return the form used in the event of a refusal."""
        about = {"kind": self.kind, "allocation": self.allocation}
        return {**about, **self.outcomes(), **self.details()}


# fields for the event beside allocation and outcomes
_DETAILS = tuple(one.name for one in fields(Request) if one.compare)[4:]


@dataclass(frozen=True)
class Refusal:
    """A refused request; identical ones are counted."""

    request: Request
    by: str
    why: str


@dataclass(frozen=True)
class Answered:
    """A request with a key, and its answer: an allocation as it was then, or a refusal."""

    request: Request
    allocation: Allocation | None = None
    refusal: str = ""


@record_class()
class Change:
    """A change of the trial as a whole, or an unmasking."""

    kind: str = doc("closed, reopened, archived, locked, unlocked, limited, unmasked or reviewed.")
    by: str = doc("Sender of the request.")
    at: str = doc("ISO 8601, UTC.")
    reason: str = doc("Reason; empty if none is recorded.")
    category: str | None = doc("Of an unmasking: planned, emergency or inadvertent.", default=None)
    up_to: int | None = doc("Of a review: number of the last event.", default=None)


@record_class()
class Correction:
    """A recorded outcome that was replaced."""

    allocation: str = doc("Id of the allocation.")
    number: int = doc("Number of the allocation, from 1.")
    arm: str = doc("Name of the arm.")
    before: Outcome = doc(
        "The outcome that was replaced: 1 is good, 0 is bad; of several pulls, good/pulls or what "
        "was recorded of other outcomes."
    )
    after: Outcome = doc("What replaced it.")
    by: str = doc("Sender of the request.")
    at: str = doc("ISO 8601, UTC.")
    reason: str = doc("Why.")


@dataclass(frozen=True)
class Course:
    """Times and senders of an allocation, `told_at` of the last outcome or correction."""

    number: int  # from 1
    asked_by: str
    asked_at: str
    probabilities: Sequence[float] | None = None  # of all arms, where the log has them
    told_at: str = ""
    complete_at: str | None = None  # when its last pending outcome was recorded or cancelled
    changed_by: str = ""
    changed_at: str = ""
    change_reason: str = ""


@record_class()
class CancellationCount:
    """Cancelled pulls of one arm by one person; many may mean that the trial is being steered."""

    by: str = doc("Who cancelled them.")
    arm: str = doc("Name of the arm.")
    count: int = doc("How many.")
    reasons: tuple[str, ...] = doc("Why; each reason once.")


def outcome_of(value: object, kind: ArmModel) -> Outcome:
    """Return an outcome in the form of the log; `BadOutcome` for other values."""
    try:
        return kind.format.plain(value)
    except ValueError as error:
        raise BadOutcome(str(error), field="outcome") from None


def line_of(value: object, what: str) -> str:
    """Check a field that is one line of text."""
    most = _LINES[what]
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= most
        or not value.isprintable()
        or value != value.strip()
    ):
        rule = f"must be one line of 1 to {most} printable characters, without blanks around"
        raise TrialError(f"{what}: {rule}", field=what)
    return value


def actor_of(by: str) -> str:
    """Check the name of the sender."""
    if not is_name(by):
        rule = "must be a name of 1 to 100 printable characters, no blank at either end"
        raise TrialError(f"by: {rule}", field="by")
    return by
