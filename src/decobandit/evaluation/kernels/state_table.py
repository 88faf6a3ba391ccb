"""Distinct joint states of one stage: rows of codes, found again by a hash table.

Rows are compared in full, so that merging is exact. `moments` are those of `kernels.reach`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_SEED, _FACTOR, _HALF = map(np.uint64, (0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD, 32))


class Level(NamedTuple):
    """Distinct states of one stage, and the hash table that finds them."""

    rows: Codes  # (capacity, S)
    moments: Floats  # (capacity, 1 or 3)
    table: Ints  # (power of two,) positions in rows; negative: free


@compiled
def empty_level(capacity, slots, columns):
    """Room for `capacity` states, none there yet."""
    size = 4
    while size < 2 * capacity:
        size *= 2
    rows = np.empty((capacity, slots), np.int32)
    return Level(rows, np.zeros((capacity, columns)), np.full(size, -1, np.int64))


@compiled
def find(level, row):
    """Where the table has this row, or the free entry where it belongs."""
    h = _SEED
    for code in row:
        h = (h ^ np.uint64(code)) * _FACTOR
        h ^= h >> _HALF
    mask = level.table.shape[0] - 1
    at = np.int64(h & np.uint64(mask))
    while level.table[at] >= 0:
        known, s = level.rows[level.table[at]], 0
        while s < row.shape[0] and known[s] == row[s]:
            s += 1
        if s == row.shape[0]:
            break
        at = (at + 1) & mask
    return at


@compiled(inline="always")
def grown(level, used):
    """The same states with room for twice as many."""
    wide = empty_level(2 * level.rows.shape[0], level.rows.shape[1], level.moments.shape[1])
    for i in range(used):
        copy(level.rows[i], wide.rows[i])
        copy(level.moments[i], wide.moments[i])
        wide.table[find(wide, level.rows[i])] = i
    return wide


@compiled(inline="always")
def add(level, used, row, moments, share, reward):
    """Add a share of a state's moments, with `reward` on top, to the state `row`."""
    if used == level.rows.shape[0]:
        level = grown(level, used)
    at = find(level, row)
    i = level.table[at]
    if i < 0:
        i = level.table[at] = used
        used += 1
        copy(row, level.rows[i])
    total = level.moments[i]
    total[0] += share * moments[0]
    if moments.shape[0] == 3:
        total[1] += share * (moments[1] + reward * moments[0])
        total[2] += share * (moments[2] + reward * (2.0 * moments[1] + reward * moments[0]))
    return level, used
