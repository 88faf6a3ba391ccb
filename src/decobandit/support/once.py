"""A value that is made once, when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Call it for the value. Calls during the computation wait for its end; later calls do not.

    `functools.cached_property` of Python 3.11 has one lock per class: there the long work of one
    object holds up all others.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = Lock()
        self._value: list[T] = []

    @property
    def made(self) -> bool:
        """Whether the value is there."""
        return bool(self._value)

    def __call__(self) -> T:
        if not self._value:
            with self._lock:
                if not self._value:
                    self._value.append(self._make())
        return self._value[0]
