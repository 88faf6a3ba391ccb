"""The index of one arm's states, from the values a stage later: eq. (ucblike) of the paper."""

from numba import njit

from .layout import row_start


@njit(cache=True, nogil=True)
def index_terms(alpha, beta, good, bad, n, g, V):
    """(expected reward, value of information) of state (n, g); V is V_{t+1}.

    ell   = reward_bad + p (reward_good - reward_bad)
    delta = p V(n+1, g+1) + (1-p) V(n+1, g) - V(n, g)
    """
    p = (alpha + g) / (alpha + beta + n)
    own, after = V[row_start(n) + g], row_start(n + 1) + g
    return bad + p * (good - bad), V[after] - own + p * (V[after + 1] - V[after])


@njit(cache=True, nogil=True)
def stage_index(alpha, beta, good, bad, t, V, index):
    """index (slab of t) of every state with n <= t; V is V_{t+1}."""
    for n in range(t + 1):
        for g in range(n + 1):
            ell, delta = index_terms(alpha, beta, good, bad, n, g, V)
            index[row_start(n) + g] = ell + delta
