"""Index policies in simulation: a table per block of stages, and the episodes played by it.

The table of a block is laid out [group][state][stage of the block]: an arm that rests reads
consecutive memory from stage to stage, and one that is pulled moves to another such run.

Notations, besides those of `episodes`
    table (groups, states, B)   indices of a block of B stages, states in the order of `spot`
    most                        pulls that an arm can have at the last stage of the block
    group (K,)                  group of each arm
    by_pulls, by_position       rule for ties: sign of the pulls wanted, then of the position;
                                by_position 0: uniformly at random
    place                       where an arm's run of indices begins in the table
"""

import numpy as np
from numba import njit

from .episodes import pull
from .layout import row_start, spot


@njit(cache=True, nogil=True)
def lay_out(index, t, b, most, table):
    """Put the indices of stage b of a block, (groups, slab), where they belong in the table.

    most: pulls that an arm can have in the block's last stage; the slab has all up to stage t.
    """
    for k in range(index.shape[0]):
        for n in range(t + 1):
            for g in range(n + 1):
                table[k, spot(g, n - g, most), b] = index[k, row_start(n) + g]


@njit(cache=True, nogil=True)
def preferred(score, pulls, e, least, by_pulls, by_position):
    """Of the arms whose score is at least `least`, the one that the rule for ties takes."""
    best, fewest, last = 0, 2**62, 1 if by_position < 0 else 0
    for a in range(score.shape[0]):
        signed = by_pulls * pulls[e, a]
        # & on purpose: without branches, which could not be predicted
        taken = (score[a] >= least) & (signed < fewest + last)
        best = a if taken else best
        fewest = signed if taken else fewest
    return best


@njit(cache=True, nogil=True)
def drawn(score, least, rng):
    """Of the arms whose score is at least `least`, one at random."""
    best, tied = 0, 0
    for a in range(score.shape[0]):
        if score[a] >= least:
            tied += 1
            if rng.random() * tied < 1.0:
                best = a
    return best


@njit(cache=True, nogil=True)
def largest_of_others(flat, place, arm, first, B, others):
    """others[b], b from `first` on: the largest index of all arms but one, while they rest."""
    for b in range(first, B):
        others[b] = -np.inf
    for a in range(place.shape[0]):
        if a != arm:
            at = place[a]
            for b in range(first, B):
                others[b] = max(others[b], flat[at + np.uint64(b)])


@njit(cache=True, nogil=True)
def play_indices(episodes, table, most, group, counts, tolerance, by_pulls, by_position, rng):
    """Play a block of stages with pulls of the largest index; counts (B,): pulls of each stage.

    An arm that was pulled twice in a row is held: as long as its index stays above what all others
    have at rest, these are not looked at again.
    """
    E, K = episodes.pulls.shape
    S, B = table.shape[1], table.shape[2]
    flat, pulls = table.reshape(-1), episodes.pulls
    score, chosen, others = np.empty(K), np.zeros(K, np.int64), np.empty(B)
    place = np.empty(K, np.uint64)  # unsigned: no check for negative indices
    for e in range(E):
        for a in range(K):
            good = episodes.good[e, a]
            place[a] = np.uint64((group[a] * S + spot(good, pulls[e, a] - good, most)) * B)
        last, held = -1, -1
        for b in range(B):
            if held >= 0 and flat[place[held] + np.uint64(b)] > others[b] + tolerance:
                bad = pulls[e, held] - episodes.good[e, held]
                step = 1 if pull(episodes, e, b, 0, held) else most + 1 - bad
                place[held] += np.uint64(step * B)
                continue
            held = -1
            for a in range(K):
                score[a] = flat[place[a] + np.uint64(b)]
            for i in range(counts[b]):
                least = score.max() - tolerance
                if by_position == 0:
                    arm = drawn(score, least, rng)
                else:
                    arm = preferred(score, pulls, e, least, by_pulls, by_position)
                chosen[i] = arm
                score[arm] = -np.inf
            for i in range(counts[b]):
                arm = chosen[i]
                bad = pulls[e, arm] - episodes.good[e, arm]
                step = 1 if pull(episodes, e, b, i, arm) else most + 1 - bad
                place[arm] += np.uint64(step * B)
            if counts[b] == 1:
                if chosen[0] == last:
                    held = last
                    largest_of_others(flat, place, held, b + 1, B, others)
                last = chosen[0]
