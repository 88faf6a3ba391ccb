"""The result of a check of a log: the trial, and what was found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class CheckResult:
    """Base of `Verification` and `Replay`; a subclass says in `found` what is wrong."""

    trial: str

    @property
    def found(self) -> tuple[str, ...]:
        """What is wrong, one sentence each."""
        raise NotImplementedError

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.found

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        own = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }
        return {"trial": self.trial, "ok": self.ok} | own
