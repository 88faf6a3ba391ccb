"""Errors of the server, as the library raises them, with the server's message."""

from __future__ import annotations

from ..trials import errors as library
from ..trials.errors import StoreError, TrialError


class Refused(TrialError):
    """The server does not serve this client: no valid token, not its role, too many requests."""


class Unreachable(StoreError):
    """No server answers at the address, or its answer was lost."""


_KINDS: tuple[type[TrialError], ...] = (
    library.NotFound, library.NoFreeSlot, library.Closed, library.LimitReached, library.Conflict,
    library.Damaged, StoreError, TrialError,
)  # fmt: skip
_BY_CODE = {kind.code: kind for kind in _KINDS}
_REFUSALS = (401, 403, 429)


def error_of(status: int, code: str, message: str) -> TrialError:
    """The exception that the library raises where the server answers this."""
    if status in _REFUSALS:
        return Refused(message)
    otherwise = StoreError if status >= 500 else TrialError
    return _BY_CODE.get(code, otherwise)(message)
