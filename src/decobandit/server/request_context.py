"""The request that a line of the log is about: its id, and who sent it."""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar

from starlette.datastructures import Headers
from starlette.types import Scope

HEADER = "X-Request-ID"
_VALID = re.compile(r"[A-Za-z0-9._-]{1,64}")

# of the request that is being served, in the threads that work for it too
current: ContextVar[Scope | None] = ContextVar("decobandit_request", default=None)


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
