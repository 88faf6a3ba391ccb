"""Answers of a server as objects with attributes; its errors as the library's exceptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from ..trials import errors as library
from ..trials.errors import StoreError, TrialError


class Answer(Mapping[str, Any]):
    """An answer of a server. Blinded operators receive fewer keys.

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
            keys = "" if name.startswith("_") else f"; it has {', '.join(self._tree)}"
            raise AttributeError(f"the answer has no {name!r}{keys}")
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
        """Return the answer as JSON values."""
        return deepcopy(self._tree)


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return Answer(value)
    return [_shown(entry) for entry in value] if isinstance(value, list) else value


class Refused(TrialError):
    """The server refuses this client: no valid token, wrong role, too many requests."""


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
    """Return the exception of the library for an error of the server."""
    if status in _REFUSALS:
        return Refused(message, field=field)
    otherwise = StoreError if status >= 500 else TrialError
    return _BY_CODE.get(code, otherwise)(message, field=field)
