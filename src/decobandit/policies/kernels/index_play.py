"""Index policies: episodes played by a table per block of stages; arms of many joint states.

The table of a block is laid out [group][state][stage of the block]: an arm that rests reads
consecutive memory from stage to stage, and one that is pulled moves to another such run.

Notations, besides those of `episodes`
    table (groups, states, B)   indices of a block of B stages, states in the order of `spot`; of
                                (groups, states, 1) where all its stages have the same
    most                        pulls that an arm can have at the last stage of the block
    group (K,)                  group of each arm
    by_pulls, by_position       rule for ties, as in `problem.kernels.ties`
    place                       where an arm's run of indices begins in the table
"""

import numpy as np

from ...problem.kernels.layout import row_start, spot
from ...problem.kernels.ties import preferred, tie_winner
from ...support.kernels.arrays import ONE, ZERO
from ...support.kernels.compiled import compiled
from .episodes import pull

TAKEN = -1e308  # value of an arm that is pulled already
HOLD_AFTER = 4  # pulls of one arm in a row, after the first, before it is held
HOLD_STAGES = 16  # stages for which it is held at most, before all arms are compared again


@compiled
def lay_out(index, t, b, most, table):
    """Put the indices of stage b of a block, (groups, slab), where they belong in the table.

    most: pulls that an arm can have in the block's last stage; the slab has all up to stage t.
    """
    for k in range(index.shape[0]):
        for n in range(t + 1):
            for g in range(n + 1):
                table[k, spot(g, n - g, most), b] = index[k, row_start(n) + g]


@compiled
def two_largest(score):
    """Where the largest score is, the score, and the second largest.

    Without branches, which could not be predicted.
    """
    arm, largest, second = 0, -np.inf, -np.inf
    for a in range(score.shape[0]):
        x = score[a]
        lower = largest if x > largest else x
        second = lower if lower > second else second
        arm = a if x > largest else arm
        largest = x if x > largest else largest
    return arm, largest, second


@compiled(inline="always")
def largest_of_others(flat, place, arm, first, end, others):
    """others[b], b in first..end-1: the largest index of all arms but one, while they rest."""
    for b in range(first, end):
        others[b] = -np.inf
    for a in range(place.shape[0]):
        if a != arm:
            at = place[a]
            for b in range(first, end):
                others[b] = max(others[b], flat[at + np.uint64(b)])


@compiled(inline="always")
def advance(episodes, e, b, i, arm, most, run, place):
    """Pull an arm, and move its run of indices, which has that length."""
    bad = episodes.pulls[e, arm] - episodes.good[e, arm]
    good = pull(episodes, e, b, i, arm)
    # a product, as a branch could not be predicted
    place[arm] += np.uint64((good + (1 - good) * (most + 1 - bad)) * run)


@compiled
def play_indices(episodes, table, most, group, counts, tolerance, by_pulls, by_position, rng):
    """Play a block of stages with pulls of the largest index; counts (B,): pulls of each stage.

    An arm that was pulled often in a row is held: as long as its index stays above what all others
    have at rest, these are not looked at again.
    """
    E, K = episodes.pulls.shape
    B, S, run = counts.shape[0], table.shape[1], table.shape[2]
    step = np.uint64(1 if run == B else 0)  # within a run, from stage to stage
    flat, pulls = table.reshape(-1), episodes.pulls
    score, others = np.empty(K), np.empty(B)
    place = np.empty(K, np.uint64)  # unsigned: no check for negative indices
    for e in range(E):
        for a in range(K):
            good = episodes.good[e, a]
            place[a] = np.uint64((group[a] * S + spot(good, pulls[e, a] - good, most)) * run)
        last, again, until = -ONE, 0, 0
        for b in range(B):
            now = np.uint64(b) * step
            if b < until and flat[place[last] + now] > others[now] + tolerance:
                advance(episodes, e, b, ZERO, last, most, run, place)
                continue
            for a in range(K):
                score[a] = flat[place[a] + now]
            for i in range(counts[b]):
                arm, largest, second = two_largest(score)
                least = largest - tolerance
                if second >= least:
                    arm = tie_winner(score, pulls, e, least, by_pulls, by_position, rng)
                score[arm] = -np.inf
                advance(episodes, e, b, i, arm, most, run, place)
                again = again + 1 if arm == last else 0
                last = arm
            until = 0
            if again >= HOLD_AFTER and counts[b] == 1:
                until = min(b + 1 + HOLD_STAGES, B)
                first, end = (b + 1, until) if run == B else (0, 1)
                largest_of_others(flat, place, last, first, end, others)


# -- many joint states ---------------------------------------------------------------------------


@compiled
def pull_largest(values, pulls, number, tolerance, by_pulls, by_position, given):
    """given[e, k] = 1 for the `number` arms of largest value; values (E, K) are used up."""
    for e in range(values.shape[0]):
        for _ in range(number):
            least = values[e].max() - tolerance
            arm = preferred(values[e], pulls, e, least, by_pulls, by_position)
            given[e, arm] = 1
            values[e, arm] = TAKEN
