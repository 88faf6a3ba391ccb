"""The index of one arm's states, from the values a stage later: eq. (ucblike) of the paper."""

from ...problem.kernels.layout import row_start
from ...problem.kernels.worth import expected_reward, worth
from ...support.kernels.compiled import compiled


@compiled
def index_terms(alpha, beta, good, bad, n, g, V):
    """(expected reward, value of information) of state (n, g); V is V_{t+1}.

    They add up to the index. The value of information is what a pull without rewards is worth.
    """
    p = (alpha + g) / (alpha + beta + n)
    own, after = V[row_start(n) + g], row_start(n + 1) + g
    return expected_reward(p, bad, good), worth(p, 0.0, 0.0, own, V[after], V[after + 1])


@compiled
def stage_index(alpha, beta, good, bad, t, V, index):
    """index (slab of t) of every state with n <= t; V is V_{t+1}."""
    for n in range(t + 1):
        for g in range(n + 1):
            ell, delta = index_terms(alpha, beta, good, bad, n, g, V)
            index[row_start(n) + g] = ell + delta
