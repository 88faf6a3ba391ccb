"""Index policies in simulation: a table per block of stages, and the episodes played by it.

The table of a block is laid out [group][state][stage of the block]: an arm that rests reads
consecutive memory from stage to stage, and one that is pulled moves to another such run. Episodes
are played a few at a time, stage by stage: while one waits for memory, the next goes on.

Notations, besides those of `episodes`
    table (groups, states, B)   indices of a block of B stages
    group (K,)                  group of each arm
    by_pulls, by_position       rule for ties: sign of the pulls wanted, then of the position;
                                by_position 0: uniformly at random
    place                       where an arm's run of indices begins in the table
"""

import numpy as np
from numba import njit

from .episodes import pull
from .layout import row_start

TOGETHER = 64  # episodes


@njit(cache=True, nogil=True)
def lay_out(index, b, table):
    """Put the indices of stage b of a block, (groups, slab), where they belong in the table."""
    for k in range(index.shape[0]):
        for i in range(index.shape[1]):
            table[k, i, b] = index[k, i]


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
def play_indices(episodes, table, group, counts, tolerance, by_pulls, by_position, rng):
    """Play a block of stages with pulls of the largest index; counts (B,): pulls of each stage."""
    E, K = episodes.pulls.shape
    S, B = table.shape[1], table.shape[2]
    flat, pulls = table.reshape(-1), episodes.pulls
    score, chosen = np.empty(K), np.zeros(K, np.int64)
    place = np.empty((TOGETHER, K), np.uint64)  # unsigned: no check for negative indices
    for start in range(0, E, TOGETHER):
        end = min(start + TOGETHER, E)
        for e in range(start, end):
            for a in range(K):
                state = row_start(pulls[e, a]) + episodes.good[e, a]
                place[e - start, a] = np.uint64((group[a] * S + state) * B)
        for b in range(B):
            for e in range(start, end):
                largest = -np.inf
                for a in range(K):
                    x = flat[place[e - start, a] + np.uint64(b)]
                    score[a] = x
                    largest = max(largest, x)
                for i in range(counts[b]):
                    least = (largest if i == 0 else score.max()) - tolerance
                    if by_position == 0:
                        arm = drawn(score, least, rng)
                    else:
                        arm = preferred(score, pulls, e, least, by_pulls, by_position)
                    chosen[i] = arm
                    score[arm] = -np.inf
                for i in range(counts[b]):
                    arm = chosen[i]
                    # from n to n + 1 pulls a row of n + 1 states is passed
                    step = pulls[e, arm] + 1 + pull(episodes, e, b, i, arm)
                    place[e - start, arm] += np.uint64(step * B)
