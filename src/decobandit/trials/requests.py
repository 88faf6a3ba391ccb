"""Requests to a trial: their content, which identifies a repeated one, and their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..problem import ArmModel, Outcome, is_name
from ..support.records import doc, record_class
from .allocations import Allocation, Counts, counts_from, counts_tree
from .errors import BadOutcome, TrialError

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
_DETAILS = (
    *("subject", "note", "reason", "max_open", "max_cancelled", "max_unmasked"),
    *("arm", "definition", "policy", "segment", "ahead"),
    *("category", "role", "unmask_role", "up_to"),
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
        if self.kind == "unmasked":
            self._check_unmasking()
        key = self.key
        if key is not None and not (
            isinstance(key, str) and 1 <= len(key) <= MAX_KEY and key.isprintable()
        ):
            raise TrialError(f"key: must be 1 to {MAX_KEY} printable characters", field="key")
        actor_of(self.by)

    def _check_unmasking(self) -> None:
        if len(self.reason or "") < MIN_UNMASK_REASON:
            raise TrialError(
                f"reason: must have at least {MIN_UNMASK_REASON} characters to unmask",
                field="reason",
            )
        if self.category not in UNMASK_CATEGORIES:
            raise TrialError(
                f"category: must be one of {', '.join(UNMASK_CATEGORIES)}", field="category"
            )

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
        """Return the request that made an event."""
        details: dict[str, Any] = {name: data.get(name) for name in _DETAILS}
        if kind == "asked":  # there, the reason is the policy's, and the id a new one
            return cls(kind, **details | {"reason": None, "arm": None})
        counts = counts_from(data["counts"]) if "counts" in data else None
        return cls(kind, data.get("allocation"), data.get("outcome"), counts, **details)

    def refused(self) -> dict[str, Any]:
        """Return the form used in the event of a refusal."""
        about = {"kind": self.kind, "allocation": self.allocation}
        return {**about, **self.outcomes(), **self.details()}

    @classmethod
    def of_refusal(cls, tree: Mapping[str, Any]) -> Request:
        """Read what `refused` wrote."""
        counts = counts_from(tree["counts"]) if "counts" in tree else None
        return cls(**{**tree, "counts": counts})


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
    reason: str = doc("Why; empty where none is on record.")
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
    told_at: str = ""
    complete_at: str | None = None  # when its last pending outcome was recorded or cancelled
    changed_by: str = ""
    changed_at: str = ""
    change_reason: str = ""


@record_class()
class CancellationCount:
    """Cancelled pulls of one arm by one person; many may mean that the trial is being steered.

    Examples
    --------
    >>> _ = trial.cancel(trial.ask().id, reason="did not come")
    >>> trial.status().cancellations[0].reasons
    ('did not come',)
    """

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
        raise TrialError(
            f"{what}: must be one line of 1 to {most} printable characters, without blanks around",
            field=what,
        )
    return value


def actor_of(by: str) -> str:
    """Check the name of the sender."""
    if not is_name(by):
        raise TrialError(
            "by: must be a name of 1 to 100 printable characters, no blank at either end",
            field="by",
        )
    return by
