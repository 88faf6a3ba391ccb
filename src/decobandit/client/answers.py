"""Answers of a server: JSON objects whose keys are attributes, too; errors are the library's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from ..trials import errors as library
from ..trials.errors import StoreError, TrialError


class Answer(Mapping[str, Any]):
    """What a server answered. Blinded operators are sent fewer keys than others.

    Parameters
    ----------
    tree : mapping
        The JSON object. Its keys are those of the library's records (`Allocation`,
        `Status`, ...) and are read as attributes or as items; objects in it are answers again.

    Examples
    --------
    >>> from decobandit.client import Answer
    >>> status = Answer({"name": "pilot", "arms": [{"name": "old", "good": 3}]})
    >>> status.name, status.arms[0].good, status["name"]
    ('pilot', 3, 'pilot')
    >>> status.to_dict()
    {'name': 'pilot', 'arms': [{'name': 'old', 'good': 3}]}
    """

    __slots__ = ("_tree",)

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = dict(tree)

    def __getitem__(self, key: str) -> Any:
        return _shown(self._tree[key])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._tree:
            known = "" if name.startswith("_") else f"; it has {', '.join(self._tree)}"
            raise AttributeError(f"the answer has no {name!r}{known}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree)

    def __len__(self) -> int:
        return len(self._tree)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._tree]

    def __repr__(self) -> str:
        return f"Answer({self._tree!r})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return deepcopy(self._tree)


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return Answer(value)
    return [_shown(each) for each in value] if isinstance(value, list) else value


class Refused(TrialError):
    """The server does not serve this client: no valid token, not its role, too many requests."""


class Unreachable(StoreError):
    """No server answers at the address, or its answer was lost."""


_KINDS: tuple[type[TrialError], ...] = (
    library.NotFound,
    library.NoFreeSlot,
    library.Closed,
    library.LimitReached,
    library.Conflict,
    library.Damaged,
    StoreError,
    TrialError,
)
_BY_CODE = {kind.code: kind for kind in _KINDS}
_REFUSALS = (401, 403, 429)


def error_of(status: int, code: str, message: str, field: str | None = None) -> TrialError:
    """Return the exception that the library raises for this answer of the server."""
    if status in _REFUSALS:
        return Refused(message)
    otherwise = StoreError if status >= 500 else TrialError
    error = _BY_CODE.get(code, otherwise)(message)
    error.field = field
    return error
