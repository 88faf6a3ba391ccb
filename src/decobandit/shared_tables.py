"""Tables that were made last, kept for problems that have the same arms."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class SharedTables:
    """Read-only tables by all that they depend on, up to so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._tables: OrderedDict[tuple[Any, ...], Floats] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[Any, ...]) -> Floats | None:
        with self._lock:
            if key in self._tables:
                self._tables.move_to_end(key)
            return self._tables.get(key)

    def put(self, key: tuple[Any, ...], table: Floats | None) -> None:
        if table is None or table.nbytes > self._most_bytes:
            return
        table.flags.writeable = False
        with self._lock:
            self._tables[key] = table
            while sum(each.nbytes for each in self._tables.values()) > self._most_bytes:
                self._tables.popitem(last=False)
