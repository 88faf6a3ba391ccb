"""The one cache of this package: least recently used values are dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Event, Lock
from typing import Generic, TypeVar

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """Values by key; the least recently used is dropped first."""

    def __init__(self, most: int, *, size: Callable[[Value], int] = lambda value: 1) -> None:
        """Limit the number of values, or with `size` their total size, to `most`."""
        self.most = most
        self._size = size
        self._total = 0  # sizes of all that is kept
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self._making: dict[Key, Event] = {}  # set when the value is there, or its thread failed
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: Key) -> bool:
        """Whether a value is there; does not count as a use."""
        return key in self._kept

    def values(self) -> list[Value]:
        """Return all values, least recently used first; does not count as a use."""
        with self._lock:
            return list(self._kept.values())

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, or None."""
        with self._lock:
            return self._used(key)

    def put(self, key: Key, value: Value) -> None:
        """Store a value, replacing that of its key; one larger than the cache is not stored."""
        with self._lock:
            self._put(key, value)

    def update(self, key: Key, change: Callable[[Value | None], Value]) -> Value:
        """Keep what `change` makes of the value; it must be quick, and not use this cache."""
        with self._lock:
            value = change(self._used(key))
            self._put(key, value)
            return value

    def drop(self, key: Key) -> None:
        """Remove the value of a key."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Remove all values from the cache."""
        with self._lock:
            self._kept.clear()
            self._total = 0

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of a key; call `make` if it is missing."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        return self.get_or_make_all([key], lambda missing: [make()])[0]

    def get_or_make_all(
        self, keys: Sequence[Key], make: Callable[[list[Key]], Sequence[Value]]
    ) -> list[Value]:
        """Return values; `make` computes, in one call, those missing and not made elsewhere."""
        values: dict[Key, Value] = {}
        while missing := [key for key in dict.fromkeys(keys) if key not in values]:
            with self._lock:
                for key in self._kept.keys() & missing:
                    self._kept.move_to_end(key)
                    values[key] = self._kept[key]
                left = [key for key in missing if key not in values]
                foreign = [self._making[key] for key in left if key in self._making]
                mine = [key for key in left if key not in self._making]
                done = Event()
                self._making.update(dict.fromkeys(mine, done))
            # own values first and then those of others: two threads never wait for each other
            if mine:
                values.update(self._make(mine, make, done))
            for other in foreign:
                other.wait()
        return [values[key] for key in keys]

    def _make(
        self, keys: list[Key], make: Callable[[list[Key]], Sequence[Value]], done: Event
    ) -> dict[Key, Value]:
        values: dict[Key, Value] = {}
        try:
            values.update(zip(keys, make(keys), strict=True))
        finally:
            with self._lock:
                for key, value in values.items():
                    self._put(key, value)
                for key in keys:
                    del self._making[key]
            done.set()
        return values

    # with the lock held

    def _used(self, key: Key) -> Value | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def _put(self, key: Key, value: Value) -> None:
        self._drop(key)
        size = self._size(value)
        if size > self.most:
            return
        self._kept[key] = value
        self._total += size
        while self._total > self.most:
            _, oldest = self._kept.popitem(last=False)
            self._total -= self._size(oldest)

    def _drop(self, key: Key) -> None:
        if key in self._kept:
            self._total -= self._size(self._kept.pop(key))


class Once(Generic[T]):
    """Value computed on the first call; concurrent calls wait for it.

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
        with self._lock:
            if not self._value:
                self._value.append(self._make())
        return self._value[0]
