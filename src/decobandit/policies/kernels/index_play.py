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

Bounds that are a mean plus a bonus, played without a table: the bonus is a level times a width.

    x_a = mean_a + level_t width(n_a)        mean_a = g_a / n_a, both moved when the arm is pulled

Some episodes are played side by side, stage by stage: their comparisons are then vector
instructions, where those of one episode would wait for each other.

    mean, own (K, LANES)    of every arm, its mean and the width of its pulls
    level (B,)              of each stage of the block
    width (N,)              by pulls; `unpulled`: the mean of an arm never pulled

Online knowledge gradient: what one more pull of an arm is worth to all later choices.

    index_a = r_a + N (E[max_b r'_b | a] - max_b r_b) + D (E[max_b p'_b | a] - max_b p_b)

with p_a the posterior means, r_a = bad_a + (good_a - bad_a) p_a the expected rewards, primes for
those after one more pull of arm a, N stages to come and a deployment worth D times its success
probability. Only arm a moves: max_b r'_b is the larger of r'_a and the largest r_b of the others.

Arms in states whose index is the price, put in an order in which states get their shares.

    x (N,)          part of the arms in a state that the relaxed solution pulls
    code (E, K)     state of every arm, among the N of all groups

Where n arms are in a state, the j-th of them, j = 0, 1, .., is due at (j + 1/2) / (n x): of the
arms that are due first, as many are in each state as its share asks for.
"""

import numpy as np

from ...problem.kernels.layout import expected_reward, row_start, spot
from ...problem.kernels.ties import preferred, tie_winner
from ...support.kernels.arrays import ONE, ZERO
from ...support.kernels.compiled import compiled
from .episodes import pull

LANES = 32
LEAST_SHARE = 1e-9  # of a state that is not pulled: it is due last
TAKEN = -1e308  # value of an arm that is pulled already
HOLD_AFTER = 4  # pulls of one arm in a row, after the first, before it is held
HOLD_STAGES = 16  # stages for which it is held at most, before all arms are compared again


@compiled
def lay_out(index, t, b, most, table):
    """Put indices (groups, slab) of stage b of a block where they belong in the table."""
    for k in range(index.shape[0]):
        for n in range(t + 1):
            for g in range(n + 1):
                table[k, spot(g, n - g, most), b] = index[k, row_start(n) + g]


@compiled
def two_largest(score):
    """Where the largest score is, the score, the second largest; without unpredictable branches."""
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
    """Play a block of stages; an arm pulled often is held while it stays above the others."""
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


@compiled
def mix_ties(code, price, width, share, values):
    """Replace values (E, K) within `width` of the price by ones in order of when arms are due."""
    number, seen = np.zeros(share.shape[0], np.int64), np.zeros(share.shape[0], np.int64)
    for e in range(code.shape[0]):
        for k in range(code.shape[1]):
            if abs(values[e, k] - price) <= width:
                number[code[e, k]] += 1
        for k in range(code.shape[1]):
            if abs(values[e, k] - price) <= width:
                c = code[e, k]
                due = (seen[c] + 0.5) / max(number[c] * share[c], LEAST_SHARE)
                values[e, k] = price + width * (1.0 - 2.0 * due / (1.0 + due))
                seen[c] += 1
        for k in range(code.shape[1]):
            number[code[e, k]], seen[code[e, k]] = 0, 0


# -- bounds that are a mean plus a bonus ---------------------------------------------------------


@compiled(inline="always")
def compare(mean, own, level, arm, largest, second):
    """In every lane the arm of the largest bound, that bound, and the second largest."""
    for i in range(LANES):
        arm[i], largest[i], second[i] = 0.0, -np.inf, -np.inf
    for a in range(mean.shape[0]):
        for i in range(LANES):
            x, above = mean[a, i] + level * own[a, i], largest[i]
            lower = above if x > above else x
            second[i] = lower if lower > second[i] else second[i]
            arm[i] = a if x > above else arm[i]
            largest[i] = x if x > above else above


@compiled
def play_bounds(episodes, level, width, unpulled, tolerance, by_pulls, by_position, rng):
    """Play a block of stages, one pull of the largest bound in each; tolerance: of equal bounds."""
    E, K = episodes.pulls.shape
    mean, own, score = np.zeros((K, LANES)), np.zeros((K, LANES)), np.empty(K)
    best, largest, second = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    pulls, good = episodes.pulls, episodes.good
    for first in range(0, E, LANES):
        lanes = min(LANES, E - first)
        for i in range(lanes):
            for a in range(K):
                n = pulls[first + i, a]
                mean[a, i] = good[first + i, a] / n if n > 0 else unpulled
                own[a, i] = width[n]
        for b in range(level.size):
            compare(mean, own, level[b], best, largest, second)
            for i in range(lanes):
                e, arm, least = first + i, int(best[i]), largest[i] - tolerance
                if second[i] >= least:
                    for a in range(K):
                        score[a] = mean[a, i] + level[b] * own[a, i]
                    arm = tie_winner(score, pulls, e, least, by_pulls, by_position, rng)
                pull(episodes, e, b, ZERO, arm)
                n = pulls[e, arm]
                mean[arm, i] = good[e, arm] / n
                own[arm, i] = width[n]


# -- knowledge gradient --------------------------------------------------------------------------


@compiled(inline="always")
def rise(largest, others, p, up, down):
    """E[max'] - max where one arm moves to `up` with chance p, else to `down`."""
    return p * (max(others, up) - largest) + (1.0 - p) * (max(others, down) - largest)


@compiled
def fill_indices(a, b, good, bad, to_come, deploy, mean, reward, index):
    """Index of every arm with posteriors Beta(a, b), (K,); mean and reward are room for theirs."""
    K = a.size
    for k in range(K):
        mean[k] = a[k] / (a[k] + b[k])
        reward[k] = expected_reward(mean[k], bad[k], good[k])
    best, best_reward, next_reward = two_largest(reward)
    likely, best_mean, next_mean = two_largest(mean)
    for k in range(K):
        size = a[k] + b[k] + 1.0
        up, down = (a[k] + 1.0) / size, a[k] / size
        others = next_reward if k == best else best_reward
        index[k] = reward[k] + to_come * rise(
            best_reward,
            others,
            mean[k],
            expected_reward(up, bad[k], good[k]),
            expected_reward(down, bad[k], good[k]),
        )
        if deploy > 0.0:
            others = next_mean if k == likely else best_mean
            index[k] += deploy * rise(best_mean, others, mean[k], up, down)


@compiled
def play_gradient(
    episodes, to_come, alpha, beta, good, bad, deploy, tolerance, by_pulls, by_position, rng
):
    """A block of stages of all episodes, one pull in each; to_come (B,): stages after each."""
    E, K = episodes.pulls.shape
    a, b, mean, reward, index = np.empty(K), np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    for e in range(E):
        for k in range(K):
            a[k] = alpha[k] + episodes.good[e, k]
            b[k] = beta[k] + (episodes.pulls[e, k] - episodes.good[e, k])
        for t in range(to_come.size):
            fill_indices(a, b, good, bad, to_come[t], deploy, mean, reward, index)
            least = index.max() - tolerance
            arm = tie_winner(index, episodes.pulls, e, least, by_pulls, by_position, rng)
            pull(episodes, e, t, ZERO, arm)
            a[arm] = alpha[arm] + episodes.good[e, arm]
            b[arm] = beta[arm] + (episodes.pulls[e, arm] - episodes.good[e, arm])
