"""Requests to a trial: what they say, by which a repeated one is recognised, and their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..problem import ArmModel, Outcome, is_name
from .allocations import Allocation, Counts, counts_from, counts_tree
from .errors import BadOutcome, TrialError

MAX_KEY = 100  # characters
MAX_SUBJECT = 100
MAX_TEXT = 500  # of a note or a reason
_SAID = ("subject", "note", "reason", "max_open", "max_cancelled", "max_unmasked")


@dataclass(frozen=True)
class Request:
    """What a key was used for: a repeated request agrees in all of this."""

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
    # whether outcomes outside the plausible range are meant; a repeated request need not say so
    confirm_range: bool = field(default=False, compare=False)
    # the sentence that asks for it; empty where all are within the range
    implausible: str = field(default="", compare=False)

    def said(self) -> dict[str, Any]:
        """What the request says beside its allocation and outcomes, for the event."""
        return {name: getattr(self, name) for name in _SAID if getattr(self, name) is not None}

    def outcomes(self) -> dict[str, Any]:
        """Its outcomes, for the event: that of a single pull, or counts by arm."""
        if self.outcome is not None:
            return {"outcome": self.outcome}
        return {} if self.counts is None else {"counts": counts_tree(self.counts)}

    @classmethod
    def of(cls, kind: str, data: Mapping[str, Any]) -> Request:
        """The request that made an event."""
        said: dict[str, Any] = {name: data.get(name) for name in _SAID}
        if kind == "asked":  # there, the reason is the policy's, and the id a new one
            return cls(kind, **said | {"reason": None})
        counts = counts_from(data["counts"]) if "counts" in data else None
        return cls(kind, data.get("allocation"), data.get("outcome"), counts, **said)

    def refused(self) -> dict[str, Any]:
        """As a refusal has it."""
        about = {"kind": self.kind, "allocation": self.allocation}
        return {**about, **self.outcomes(), **self.said()}

    @classmethod
    def of_refusal(cls, tree: Mapping[str, Any]) -> Request:
        """Read what `refused` wrote."""
        counts = counts_from(tree["counts"]) if "counts" in tree else None
        return cls(**{**tree, "counts": counts})


@dataclass(frozen=True)
class Refusal:
    """A request that was refused: identical ones are counted."""

    request: Request
    by: str
    why: str


@dataclass(frozen=True)
class Answered:
    """A request that had a key, and its answer: an allocation as it was then, or a refusal."""

    request: Request
    allocation: Allocation | None = None
    refusal: str = ""


@dataclass(frozen=True)
class Cancellation:
    """Pulls of an arm that were cancelled: by whom, and why."""

    by: str
    arm: str
    reason: str
    count: int


@dataclass(frozen=True)
class CancellationCount:
    """Cancelled pulls of one arm by one person: whether somebody steers a trial.

    Attributes
    ----------
    by : str
        Who cancelled them.
    arm : str
        Name of the arm.
    count : int
        How many.
    reasons : tuple[str, ...]
        Why; each reason once.

    Examples
    --------
    >>> _ = trial.cancel(trial.ask().id, reason="did not come")
    >>> trial.status().cancellations[0].reasons
    ('did not come',)
    """

    by: str
    arm: str
    count: int
    reasons: tuple[str, ...]


def counted(cancellations: Iterable[Cancellation]) -> tuple[CancellationCount, ...]:
    """Cancellations by person and arm, in the order of the first ones."""
    groups: dict[tuple[str, str], list[Cancellation]] = {}
    for one in cancellations:
        groups.setdefault((one.by, one.arm), []).append(one)
    return tuple(
        CancellationCount(
            by,
            arm,
            sum(one.count for one in group),
            tuple(dict.fromkeys(one.reason for one in group)),
        )
        for (by, arm), group in groups.items()
    )


# -- fields ---------------------------------------------------------------------------------------


def outcome_of(value: object, kind: ArmModel) -> Outcome:
    """An outcome of an arm of this model, as the log has it; other values are refused."""
    try:
        return kind.format.plain(value)
    except ValueError as error:
        raise BadOutcome(str(error)) from None


def check_key(key: str | None) -> None:
    """Refuse a key that cannot be stored."""
    if key is None:
        return
    if not (isinstance(key, str) and 1 <= len(key) <= MAX_KEY and key.isprintable()):
        raise TrialError(f"key: must be 1 to {MAX_KEY} printable characters")


def reason_of(value: object) -> str:
    """Why something is done, as the log has it."""
    return _line(value, "reason", MAX_TEXT)


def note_of(value: object) -> str | None:
    """What is noted with an ask, where anything is."""
    return None if value is None else _line(value, "note", MAX_TEXT)


def subject_of(value: object) -> str | None:
    """Who or what an arm is for, where that is said."""
    return None if value is None else _line(value, "subject", MAX_SUBJECT)


def _line(value: object, what: str, most: int) -> str:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= most
        or not value.isprintable()
        or value != value.strip()
    ):
        raise TrialError(
            f"{what}: must be one line of 1 to {most} printable characters, without blanks around"
        )
    return value


def actor_of(by: str) -> str:
    """Who sends the request, as the log names them."""
    if not is_name(by):
        raise TrialError(
            "by: must be a name of 1 to 100 printable characters, no blank at either end"
        )
    return by
