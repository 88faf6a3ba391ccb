"""Lists in pages: how long a page is, and where the next one begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .errors import TrialError

T = TypeVar("T")
Item_co = TypeVar("Item_co", covariant=True)
MAX_PAGE = 1000  # entries of a page, and of a list that is asked for without a limit


@dataclass(frozen=True)
class Page(Generic[Item_co]):
    """Some entries of a list, and the key of the last one where more follow."""

    items: tuple[Item_co, ...]
    next: str | None


def page_size(limit: int | None) -> int:
    """How many entries are wanted; `TrialError` for a number that is not allowed."""
    if limit is None:
        return MAX_PAGE
    if not 1 <= limit <= MAX_PAGE:
        raise TrialError(f"limit: {limit} is not allowed; must be 1 to {MAX_PAGE}")
    return limit


def cut(found: Sequence[T], size: int, key: Callable[[T], str]) -> Page[T]:
    """A page from what was found when one entry more than its size was looked for."""
    items = tuple(found[:size])
    return Page(items, key(items[-1]) if len(found) > size else None)
