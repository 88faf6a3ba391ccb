"""The base of every refusal: a message, a stable code, and the field at fault."""

from __future__ import annotations

from typing import Any


class DecoError(ValueError):
    """A request that is refused.

    Python, the REST API and `deco ... --json` report the same code; docs/reference/errors.md
    lists all codes.

    Attributes
    ----------
    code : str
        Stable identifier of the reason.
    field : str or None
        Argument, key or option at fault, if there is one.
    """

    code: str = "invalid"
    field: str | None = None

    def __init__(self, message: str = "", *, code: str | None = None, field: str | None = None):
        super().__init__(message)
        if code is not None:
            self.code = code
        if field is not None:
            self.field = field

    def __init_subclass__(cls, *, code: str | None = None, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if code is not None:
            cls.code = code


class InvalidArgument(DecoError, code="invalid_argument"):
    """An argument or option with a value that is not allowed."""


class InvalidFile(DecoError, code="invalid_file"):
    """A file that cannot be read, or whose content is invalid."""


class Unsupported(DecoError, code="unsupported"):
    """A combination that the method does not cover; the message says why."""


class TooLarge(DecoError, code="too_large"):
    """A computation that needs more memory or time than allowed."""


def error_dict(error: BaseException) -> dict[str, Any]:
    """Return the JSON form of an error, without `field` where it concerns no single one."""
    field = getattr(error, "field", None)
    code = getattr(error, "code", "invalid")
    return {"error": {"code": code, **({"field": field} if field else {}), "message": str(error)}}
