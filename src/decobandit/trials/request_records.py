"""What requests to a trial said: by it a repeated request is known, and a refusal logged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..problem import Outcome
from .batches import Batch
from .told import Counts, counts_from, counts_tree

_SAID = ("subject", "note", "reason", "max_open", "max_cancelled", "max_unmasked")
ASKS = ("asked", "batch_asked")  # there, the reason is the policy's, and the id a new one


@dataclass(frozen=True)
class Request:
    """What a key was used for: a repeated request agrees in all of this."""

    kind: str
    allocation: str | None = None
    outcome: Outcome | None = None
    subject: str | None = None
    note: str | None = None
    reason: str | None = None
    max_open: int | None = None
    max_cancelled: int | None = None
    max_unmasked: int | None = None
    batch: str | None = None
    counts: Counts | None = None  # of outcomes
    # whether outcomes outside the plausible range are meant; a repeated request need not say so
    confirm_range: bool = field(default=False, compare=False)

    def said(self) -> dict[str, Any]:
        """What the request says beside its allocation, batch and outcomes, for the event."""
        return {name: getattr(self, name) for name in _SAID if getattr(self, name) is not None}

    @classmethod
    def of(cls, kind: str, data: Mapping[str, Any]) -> Request:
        """The request that made an event."""
        said: dict[str, Any] = {name: data.get(name) for name in (*_SAID, "outcome")}
        if kind in ASKS:
            return cls(kind, **said | {"reason": None})
        counts = counts_from(data["counts"]) if "counts" in data else None
        return cls(kind, data.get("allocation"), batch=data.get("batch"), counts=counts, **said)

    def refused(self) -> dict[str, Any]:
        """As a refusal has it."""
        tree = {"kind": self.kind, "allocation": self.allocation, "outcome": self.outcome}
        more = {} if self.batch is None else {"batch": self.batch}
        counts = {} if self.counts is None else {"counts": counts_tree(self.counts)}
        return {**tree, **more, **counts, **self.said()}

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
    """A request that had a key, and its result: an allocation, a batch, or a refusal."""

    request: Request
    allocation: str = ""
    refusal: str = ""
    batch: Batch | None = None  # as it was then


@dataclass(frozen=True)
class Cancellation:
    """Allocations of an arm that were cancelled: by whom, and why."""

    by: str
    arm: str
    reason: str
    count: int = 1  # several, of a batch
