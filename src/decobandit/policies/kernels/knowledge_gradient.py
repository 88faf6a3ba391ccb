"""Online knowledge gradient: what one more pull of an arm is worth to all later choices.

    index_a = r_a + N (E[max_b r'_b | a] - max_b r_b) + D (E[max_b p'_b | a] - max_b p_b)

with p_a the posterior means, r_a = bad_a + (good_a - bad_a) p_a the expected rewards, primes for
those after one more pull of arm a, N stages to come and a deployment worth D times its success
probability. Only arm a moves: max_b r'_b is the larger of r'_a and the largest r_b of the others.
"""

import numpy as np

from ...problem.kernels.ties import tie_winner
from ...problem.kernels.worth import expected_reward
from ...support.kernels.arrays import ZERO
from ...support.kernels.compiled import compiled
from .episodes import pull
from .index_play import two_largest


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
def play(episodes, to_come, alpha, beta, good, bad, deploy, tolerance, by_pulls, by_position, rng):
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
