"""Forward over the joint states that a policy reaches, one stage at a time.

A joint state is a row of codes, one per slot: n(n+1)/2 + g for an arm with g good of n pulls, 0
for a fresh one. Slots of one class hold exchangeable arms and are sorted, so that states equal up
to the order of such arms are equal rows. Arms beyond a class's slots, its surplus, stay fresh.

Notations
    C, G, S   classes of exchangeable arms; groups that they belong to; slots of a row
    R         runs of a row: equal codes of one class, 1 <= R <= S
    w, X      probability of a state; total reward so far
    moments   w, or where X matters w, w E[X | state], w E[X^2 | state]
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...problem.kernels.layout import expected_reward
from ...problem.kernels.ties import NO_RANK, wins_tie
from ...support.kernels.arrays import ZERO, copy
from ...support.kernels.compiled import compiled

# -- states of a stage, merged by a hash table; rows are compared in full -------------------------

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
def add(level, used, row, moments, share, reward):
    """Add a share of a state's moments, plus `reward`, to the state `row`."""
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


# -- places, stages, runs -----------------------------------------------------------------------


class Places(NamedTuple):
    """The arms of a row, class by class, in order of the position of their first arm."""

    start: Ints  # (C + 1,) first slot of each class
    group: Ints  # (C,)
    surplus: Ints  # (C,) arms without a slot
    first: Ints  # (C,) position of the class's first arm in the problem
    last: Ints  # (C,) position of its last arm
    truth: Floats  # (C,) true chance of a good outcome; negative: only the prior is known


class Stage(NamedTuple):
    """One stage: the index of every state, what a pull earns, the rule for ties."""

    indices: Floats  # (G, slab)
    alpha: Floats  # (G,)
    beta: Floats  # (G,)
    good: Floats  # (G,) reward of a good outcome
    bad: Floats  # (G,)
    pulls: int
    tolerance: float  # indices closer than this are tied
    by_pulls: int  # rule for ties, as in `problem.kernels.ties`
    by_position: int
    follows: int  # 2: the states after the outcomes; 1: the same ones, none is seen; 0: nothing


class Runs(NamedTuple):
    """Scratch: the runs of one row, (S,) each, and a row."""

    slot: Ints  # first slot
    place: Ints  # class
    room: Ints  # arms in this state, surplus included
    taken: Ints  # arms to pull
    spare: Ints  # of the others, those that tie for the pulls still to be drawn
    drawn: Ints  # of those, the arms pulled in the draw at hand
    good: Ints  # good outcomes among all pulled arms
    indices: Floats
    chance: Floats  # of a good outcome
    row: Codes


# -- which arms are pulled ----------------------------------------------------------------------


@compiled(inline="always")
def pulls_of(code):
    """Return n of the code n(n+1)/2 + g; the root is exact where g = 0."""
    return int((math.sqrt(8.0 * code + 1.0) - 1.0) * 0.5)


@compiled
def read_runs(row, places, indices, runs):
    """Split a row into runs, none of them pulled yet. Returns R."""
    R = 0
    for c in range(places.group.shape[0]):
        code = -1
        for s in range(places.start[c], places.start[c + 1]):
            if row[s] == code:
                runs.room[R - 1] += 1
                continue
            code = row[s]
            runs.slot[R], runs.place[R] = s, c
            runs.room[R] = 1 + (places.surplus[c] if code == 0 else 0)
            runs.indices[R] = indices[places.group[c], code]
            runs.taken[R] = runs.spare[R] = runs.drawn[R] = 0
            R += 1
    return R


@compiled
def threshold(R, runs, tolerance):
    """Arms not yet taken tie for the next pull where their index is at least this."""
    top = -np.inf
    for r in range(R):
        if runs.taken[r] < runs.room[r]:
            top = max(top, runs.indices[r])
    return top - tolerance


@compiled(inline="always")
def pick(R, row, runs, places, stage):
    """Take the arms of largest index one by one, ties by rule. Returns whether a tie is unclear.

    It is where the rule asks for positions that a row does not tell: arms of one class in
    different states, or of two classes neither of which stands wholly before the other.
    """
    unclear = False
    for _ in range(stage.pulls):
        least = threshold(R, runs, stage.tolerance)
        best, lowest, doubt = -1, NO_RANK, False
        for r in range(R):
            if runs.taken[r] == runs.room[r] or runs.indices[r] < least:
                continue
            rank = stage.by_pulls * pulls_of(row[runs.slot[r]])
            if rank == lowest and places.last[runs.place[best]] >= places.first[runs.place[r]]:
                doubt = True
            elif wins_tie(rank, lowest, stage.by_position):
                best, lowest, doubt = r, rank, doubt and rank == lowest
        runs.taken[best] += 1
        unclear |= doubt
    return unclear


@compiled(inline="always")
def pick_sure(R, runs, stage):
    """Take the arms that random ties leave no choice about. Returns the pulls still to be drawn.

    Those go to the spare arms: every set of that many is equally likely.
    """
    left = stage.pulls
    while left > 0:
        least = threshold(R, runs, stage.tolerance)
        tied = 0
        for r in range(R):
            runs.spare[r] = runs.room[r] - runs.taken[r] if runs.indices[r] >= least else 0
            tied += runs.spare[r]
        if tied > left:
            break
        for r in range(R):
            runs.taken[r] += runs.spare[r]
            runs.spare[r] = 0
        left -= tied
    return left


@compiled(inline="always")
def draw(R, runs, begin, left):
    """Give `left` pulls to the spare arms of the runs from `begin` on, first runs first."""
    for r in range(begin, R):
        runs.drawn[r] = min(left, runs.spare[r])
        left -= runs.drawn[r]


@compiled(inline="always")
def draw_next(R, runs):
    """Advance to the next way to draw as many arms; return False if there is none."""
    behind, space = 0, 0  # arms drawn from the runs behind r, and spare ones there
    for r in range(R - 1, -1, -1):
        if runs.drawn[r] > 0 and space > behind:
            runs.drawn[r] -= 1
            draw(R, runs, r + 1, behind + 1)
            return True
        behind += runs.drawn[r]
        space += runs.spare[r]
    return False


@compiled(inline="always")
def share_of_draw(R, runs):
    """Probability of the draw at hand: ways to draw so from each run, over all ways."""
    share, spare, j = 1.0, 0, 0
    for r in range(R):
        spare += runs.spare[r]
    for r in range(R):
        for i in range(runs.drawn[r]):
            # factor by factor, so that no binomial coefficient overflows
            share *= (runs.spare[r] - i) / (i + 1.0) * (j + 1.0) / (spare - j)
            j += 1
    return share


# -- what pulls lead to -------------------------------------------------------------------------


@compiled(inline="always")
def expect(R, row, runs, places, stage):
    """Return the expected reward of the pulls at hand; set chances and the first outcomes."""
    reward = 0.0
    for r in range(R):
        count, c, code = runs.taken[r] + runs.drawn[r], runs.place[r], row[runs.slot[r]]
        k, n, p = places.group[c], pulls_of(code), places.truth[c]
        if p < 0.0:
            weight = stage.alpha[k] + stage.beta[k] + n
            p = (stage.alpha[k] + code - n * (n + 1) // 2) / weight
        reward += count * expected_reward(p, stage.bad[k], stage.good[k])
        runs.chance[r] = p
        runs.good[r] = count if p == 1.0 else 0
    return reward


@compiled(inline="always")
def outcome(R, row, runs, places, stage):
    """Probability and reward of the good outcomes at hand; what they lead to is in runs.row."""
    after = runs.row
    copy(row, after)
    likely, reward = 1.0, 0.0
    for r in range(R):
        count, j, p = runs.taken[r] + runs.drawn[r], runs.good[r], runs.chance[r]
        code, k = row[runs.slot[r]], places.group[runs.place[r]]
        n = pulls_of(code)
        reward += j * stage.good[k] + (count - j) * stage.bad[k]
        for i in range(count):
            likely *= p * (count - i) / (i + 1.0) if i < j else 1.0 - p
            after[runs.slot[r] + i] = code + n + 1 + (i < j)
    for c in range(places.group.shape[0]):
        for s in range(places.start[c] + 1, places.start[c + 1]):
            code, at = after[s], s
            while at > places.start[c] and after[at - 1] > code:
                after[at] = after[at - 1]
                at -= 1
            after[at] = code
    return likely, reward


@compiled(inline="always")
def next_outcome(R, runs):
    """Advance to the next possible numbers of good outcomes; return False after the last."""
    for r in range(R):
        count = runs.taken[r] + runs.drawn[r]
        if runs.good[r] < count and runs.chance[r] > 0.0:
            runs.good[r] += 1
            return True
        runs.good[r] = count if runs.chance[r] == 1.0 else 0
    return False


@compiled
def push(R, row, moments, share, runs, places, stage, after, used, limit, pulls):
    """Make the pulls at hand in a share of a state. Returns after, used, expected reward."""
    expected = expect(R, row, runs, places, stage)
    copy(row, runs.row)
    likely, reward, more = 1.0, expected, stage.follows > 0
    while more and used <= limit:
        if stage.follows == 2:
            likely, reward = outcome(R, row, runs, places, stage)
        after, used = add(after, used, runs.row, moments, share * likely, reward)
        more = stage.follows == 2 and next_outcome(R, runs)
    for r in range(R):
        count = runs.taken[r] + runs.drawn[r]
        pulls[runs.place[r], row[runs.slot[r]]] += share * moments[0] * count
    return after, used, share * moments[0] * expected


@compiled(inline="always")
def scratch(slots):
    """Room for the runs of any row."""
    a, x, row = np.empty((7, slots), np.int64), np.empty((2, slots)), np.empty(slots, np.int32)
    return Runs(a[0], a[1], a[2], a[3], a[4], a[5], a[6], x[0], x[1], row)


@compiled
def pull_largest(level, begin, end, places, stage, after, used, limit, pulls):
    """Pull the arms of largest index in the states begin..end-1; add what follows to `after`.

    Returns (after, used, expected reward, whether a tie is unclear: stopped there). Stops also
    when `after` has more than `limit` states. Expected pulls are added to `pulls` (C, codes).
    """
    runs = scratch(level.rows.shape[1])
    earned = 0.0
    for i in range(begin, end):
        row, moments, more = level.rows[i], level.moments[i], True
        R = read_runs(row, places, stage.indices, runs)
        if stage.by_position == 0:
            draw(R, runs, ZERO, pick_sure(R, runs, stage))
        elif pick(R, row, runs, places, stage):
            return after, used, earned, True
        while more and used <= limit:
            share = share_of_draw(R, runs)
            after, used, reward = push(
                R, row, moments, share, runs, places, stage, after, used, limit, pulls
            )
            earned += reward
            more = draw_next(R, runs)
    return after, used, earned, False
