"""The request that is served: its id, its sender, and what the sender may know.

The only place that decides who is blinded.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from starlette.datastructures import Headers
from starlette.types import Scope

HEADER = "X-Request-ID"
_VALID = re.compile(r"[A-Za-z0-9._-]{1,64}")

# of the request that is being served, in the threads that work for it too
current: ContextVar[Scope | None] = ContextVar("decobandit_request", default=None)

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
        return self.only_trials is None or trial in self.only_trials


def is_blinded(scope: Mapping[str, Any]) -> bool:
    """Whether the sender of a request is blinded: operators, and clients without a login."""
    principal: Principal | None = scope.get("state", {}).get("principal")
    return principal is None or principal.blinded


def request_id(headers: Headers) -> str:
    """Return the id that a proxy or client sent if it is short and safe; else a new one."""
    values = headers.getlist(HEADER)
    if len(values) == 1 and _VALID.fullmatch(values[0]):
        return values[0]
    return secrets.token_hex(8)


def id_of(scope: Scope | None) -> str | None:
    """Return the id of a request."""
    value: str | None = (scope or {}).get("state", {}).get("request_id")
    return value


def person_of(scope: Scope | None) -> str | None:
    """Return the name of the token of a request."""
    principal = (scope or {}).get("state", {}).get("principal")
    return None if principal is None else str(principal.name)
