"""Joint states of a stage, merged by a hash table, and where pulls of an arm lead.

A joint state is a row of codes, one per column: the state of one arm, or of one of the exchangeable
arms of a class, which are sorted in descending order.

    w' = w P        m' = m P + w R        q' = q P + 2 m R + w S

with R = base P + factor A and S = base^2 P + 2 base factor A + factor^2 B, P, A and B as in
`joint/arm_states.py`.

Notations
    K, C      columns of a row; moments of a state, 1 or 3
    w, X      probability of a state; reward so far
    moments   w, or where X matters w, m = w E[X | state], q = w E[X^2 | state]
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

    rows: Codes  # (capacity, K)
    moments: Floats  # (capacity, C)
    table: Ints  # (power of two,) positions in rows; negative: free


@compiled
def empty_level(capacity, columns, moments):
    """Room for `capacity` states, none there yet."""
    size = 4
    while size < 2 * capacity:
        size *= 2
    rows = np.empty((capacity, columns), np.int32)
    return Level(rows, np.zeros((capacity, moments)), np.full(size, -1, np.int64))


@compiled
def find(level, row):
    """Entry of this row in the table, or the free entry where it belongs."""
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
    """Return the same states with room for twice as many."""
    wide = empty_level(2 * level.rows.shape[0], level.rows.shape[1], level.moments.shape[1])
    for i in range(used):
        copy(level.rows[i], wide.rows[i])
        copy(level.moments[i], wide.moments[i])
        wide.table[find(wide, level.rows[i])] = i
    return wide


@compiled(inline="always")
def sort_classes(row, start):
    """Sort the columns start[c] .. start[c + 1] - 1 of every class, descending."""
    for c in range(start.shape[0] - 1):
        for s in range(start[c] + 1, start[c + 1]):
            code, at = row[s], s
            while at > start[c] and row[at - 1] < code:
                row[at] = row[at - 1]
                at -= 1
            row[at] = code


@compiled
def pull(rows, moments, k, ways, base, factor, classes, level, used, limit):
    """Add to a level what pulls of column k lead to from states (rows, moments).

    ways: at (codes + 1,), to and weight of `joint.Ways`. Stops where the level has more states than
    `limit`. Returns the level, which grows, and how many states it has.
    """
    at, to, weight = ways
    row = np.empty(rows.shape[1], np.int32)
    for i in range(rows.shape[0]):
        code, earlier = rows[i, k], moments[i]
        for j in range(at[code], at[code + 1]):
            copy(rows[i], row)
            row[k] = to[j]
            sort_classes(row, classes)
            if used == level.rows.shape[0]:
                level = grown(level, used)
            place = find(level, row)
            if level.table[place] < 0:
                level.table[place] = used
                copy(row, level.rows[used])
                used += 1
            total, p = level.moments[level.table[place]], weight[0, j]
            total[0] += p * earlier[0]
            if total.shape[0] == 3:
                first = base * p + factor * weight[1, j]
                second = base * (first + factor * weight[1, j]) + factor * factor * weight[2, j]
                total[1] += p * earlier[1] + first * earlier[0]
                total[2] += p * earlier[2] + 2.0 * first * earlier[1] + second * earlier[0]
            if used > limit:
                return level, used
    return level, used
