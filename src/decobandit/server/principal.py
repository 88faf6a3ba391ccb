"""Senders of requests and what they may know: the only place that decides who is blinded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

# roles that are not blinded; an app learns the arms of its asks, and has no route to results
SEES_ARMS = frozenset({"admin", "viewer", "app"})


@dataclass(frozen=True)
class Principal:
    """The sender of a request."""

    name: str
    role: str
    token_id: str | None
    via: Literal["bearer", "cookie", "loopback"]
    only_trials: frozenset[str] | None = None  # names of the trials that they may use; None: all

    @property
    def blinded(self) -> bool:
        """Whether they must not learn how a trial is going."""
        return self.role not in SEES_ARMS

    def may_use(self, trial: str) -> bool:
        """Whether they may use the trial of a name."""
        return self.only_trials is None or trial in self.only_trials


def is_blinded(scope: Mapping[str, Any]) -> bool:
    """Whether the sender of a request is blinded: operators, and clients without a login."""
    principal: Principal | None = scope.get("state", {}).get("principal")
    return principal is None or principal.blinded
