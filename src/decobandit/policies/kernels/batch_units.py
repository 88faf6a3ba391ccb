"""Units of a stage given to arms, in many episodes at once.

Notations
    E, K, A     episodes; arms; units of a stage
    S           different states of single arms
    where (E, K)            state of every arm
    values (S, A + 1)       what 0 .. A units are worth in a state
    index (S, A)            index of the first, second, .. unit in a state
    given (E, K)            units of every arm

Units of a batch drawn by looking forward: the arm that an index would take at a drawn position.

Notations
    E, K        episodes; arms
    index (groups, states)   of a state (n, g) at n (n + 1) / 2 + g
    alpha, beta (K,)         priors
    pulls, good (E, K)       known outcomes
    allowed (E, K)           arms that may be given some
    given (E, K)             units of every arm
"""

import numpy as np

from ...arm.kernels.units import share_out
from ...problem.kernels.ties import drawn, tie_winner
from ...support.kernels.arrays import ZERO, copy
from ...support.kernels.compiled import compiled


@compiled
def share_each(values, where, first, last, given):
    """Units that sum to A and maximise the sum of the values, in episodes first .. last - 1."""
    K, units = where.shape[1], values.shape[1] - 1
    own = np.empty((K, units + 1))
    best, choice = np.empty(units + 1), np.empty((K, units + 1), np.int64)
    for e in range(first, last):
        for k in range(K):
            copy(values[where[e, k]], own[k])
        share_out(own, units, best, choice, given[e])


@compiled
def give_by_index(
    index, where, pulls, unit, tolerance, by_pulls, by_position, rng, first, last, given
):
    """Unit by unit to the arm of the largest index; pulls (E, K) grow with what is given."""
    K, units = where.shape[1], index.shape[1]
    score, now = np.empty(K), np.empty((1, K), np.int64)
    for e in range(first, last):
        for k in range(K):
            given[e, k] = 0
            now[0, k] = pulls[e, k]
            score[k] = index[where[e, k], 0]
        for _ in range(units):
            least = score.max() - tolerance
            arm = tie_winner(score, now, ZERO, least, by_pulls, by_position, rng)
            given[e, arm] += 1
            now[0, arm] += unit
            if given[e, arm] < units:
                score[arm] = index[where[e, arm], given[e, arm]]


@compiled
def give_within(order, worth, uses, left, pulls, units, by_worth, tolerance, slack, given):
    """Unit by unit to the arm of the largest order that is worth it and fits what is left.

    order, worth (E, K, most): of the next unit of an arm, which must be worth more than nothing;
    uses (K, rows), left (E, rows). Of equal ones the arm with the fewest pulls (E, K) so far;
    by_worth: before that, the one that is worth most, since what a stage leaves unused is lost.
    """
    E, K, most = order.shape
    rows = uses.shape[1]
    room = np.empty(rows)
    for e in range(E):
        given[e] = 0
        for r in range(rows):
            room[r] = left[e, r] * (1.0 + slack) + slack
        for _ in range(units):
            best, most_worth, arm = -np.inf, -np.inf, -1
            for k in range(K):
                n = given[e, k]
                if n >= most or worth[e, k, n] <= 0.0 or order[e, k, n] < best - tolerance:
                    continue
                fits = True
                for r in range(rows):
                    fits = fits and uses[k, r] <= room[r]
                if not fits:
                    continue
                gain = worth[e, k, n] - most_worth if by_worth else 0.0
                first = order[e, k, n] > best + tolerance or gain > tolerance
                fewer = arm >= 0 and pulls[e, k] + n < pulls[e, arm] + given[e, arm]
                if first or (fewer and gain >= -tolerance):
                    arm, most_worth = k, worth[e, k, n]
                best = max(best, order[e, k, n])
            if arm < 0:
                break
            given[e, arm] += 1
            for r in range(rows):
                room[r] -= uses[arm, r]


@compiled
def forward_units(
    index, group_of_arm, alpha, beta, pulls, good, allowed, unit, units, tolerance, rng, given
):
    """For each unit a block is imagined, up to a position drawn evenly: given the arm there.

    Outcomes of the block are drawn from what is known: P(good) = (alpha + g) / (alpha + beta + n).
    """
    E, K = pulls.shape
    n, g, score = np.empty(K, np.int64), np.empty(K, np.int64), np.empty(K)
    for e in range(E):
        given[e] = 0
        for _ in range(units):
            position = int(rng.random() * units)
            copy(pulls[e], n)
            copy(good[e], g)
            for k in range(K):
                own = index[group_of_arm[k], n[k] * (n[k] + 1) // 2 + g[k]]
                score[k] = own if allowed[e, k] else -np.inf
            arm = drawn(score, score.max() - tolerance, rng)
            for _ in range(position):
                for _ in range(unit):
                    p = (alpha[arm] + g[arm]) / (alpha[arm] + beta[arm] + n[arm])
                    n[arm] += 1
                    g[arm] += rng.random() < p
                score[arm] = index[group_of_arm[arm], n[arm] * (n[arm] + 1) // 2 + g[arm]]
                arm = drawn(score, score.max() - tolerance, rng)
            given[e, arm] += 1
