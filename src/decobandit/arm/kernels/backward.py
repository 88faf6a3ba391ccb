"""One arm at given prices, backward in time: eq. (value=sum) of the paper.

    index_t(n, g) = ell_t + p V_{t+1}(n+1, g+1) + (1-p) V_{t+1}(n+1, g) - V_{t+1}(n, g)
    V_t(n, g)     = V_{t+1}(n, g) + (index_t(n, g) - mu_t)^+

with ell_t = reward_bad + p (reward_good - reward_bad). One slab holds V for all stages.

Two things make the sweep fast. *Dead states*: where V is zero at (n, g), (n+1, g) and (n+1, g+1),
the index is ell_t itself, so only the states with ell_t > mu_t can come alive; per row the states
with V != 0 are kept as an interval [low, high] and the rest is never touched. *Blocks of stages*:
row n-j at stage t-j needs only what row n-j+1 left at stage t-j+1, so a block of stages advances
as a slanted front over the rows and works on a few rows at a time, in cache.
"""

import math

import numpy as np

from ...problem.kernels.layout import expected_reward, row_start, worth
from ...support.kernels.compiled import compiled

STAGES_PER_BLOCK = 16


@compiled(fastmath={"contract", "nsz"})
def _raise_row(p, inverse, bad, spread, own, after_bad, after_good, ramp):
    """Add (index - price)^+ to `own` along a piece of a row; `bad` is reward_bad - price.

    p is that of the first state and grows by `inverse` per state. `ramp` holds 0.0, 1.0, ...:
    reading it is what lets the compiler use vector registers (integers do not convert there).
    """
    for g in range(own.shape[0]):
        gain = worth(p + ramp[g] * inverse, bad, spread, own[g], after_bad[g], after_good[g])
        own[g] += gain if gain > 0.0 else 0.0


@compiled
def rewarding(alpha, weight, bad, spread, price, n):
    """Interval of g that contains every state of row n with ell > price (empty: 1, 0).

    `weight` is alpha + beta + n. Rounded outwards: a state too many costs nothing.
    """
    if spread == 0.0:
        return (0, n) if bad > price else (1, 0)
    crossing = (price - bad) / spread * weight - alpha
    if spread > 0.0:
        if crossing >= n + 1:
            return 1, 0
        return max(0, int(math.floor(crossing))), n
    if crossing <= -1.0:
        return 1, 0
    return 0, n if crossing >= n else int(math.ceil(crossing))


@compiled
def alive_rows(V, rows, low, high):
    """low, high (rows + 1,): per row the interval of states with V != 0 (empty: n + 1, -1)."""
    for n in range(rows + 1):
        r = row_start(n)
        low[n], high[n] = n + 1, -1
        for g in range(n + 1):
            if V[r + g] != 0.0:
                low[n] = min(low[n], g)
                high[n] = g


@compiled
def step_row(alpha, beta, bad, spread, price, n, V, low, high, ramp):
    """Take row n back by one stage, in place; row n+1 must still be a stage ahead.

    Returns the number of states touched.
    """
    first, last = rewarding(alpha, alpha + beta + n, bad, spread, price, n)
    if last < first:
        first, last = n + 1, -1
    if high[n + 1] >= 0:
        first, last = min(first, low[n + 1] - 1), max(last, high[n + 1])
    if high[n] >= 0:
        first, last = min(first, low[n]), max(last, high[n])
    first, last = max(first, 0), min(last, n)
    if last < first:
        return 0
    r = row_start(n)
    inverse = 1.0 / (alpha + beta + n)
    own = V[r : r + n + 1]
    following = V[r + n + 1 : r + 2 * n + 3]
    _raise_row(
        (alpha + first) * inverse,
        inverse,
        bad - price,
        spread,
        own[first : last + 1],
        following[first : last + 1],
        following[first + 1 : last + 2],
        ramp[: last - first + 1],
    )
    count = last - first + 1
    while first <= last and own[first] == 0.0:
        first += 1
    while last >= first and own[last] == 0.0:
        last -= 1
    low[n], high[n] = (first, last) if first <= last else (n + 1, -1)
    return count


@compiled
def sweep(alpha, beta, reward_good, reward_bad, mu, V, start, stop):
    """Turn V = V_start into V_stop, in place (start >= stop). Returns the states touched.

    V holds rows 0..start at least; rows above `stop` are left at intermediate stages.
    """
    low = np.empty(start + 1, np.int64)
    high = np.empty(start + 1, np.int64)
    ramp = np.arange(start + 1.0)
    alive_rows(V, start, low, high)
    return lower(alpha, beta, reward_good, reward_bad, mu, V, low, high, ramp, start, stop)


@compiled
def lower(alpha, beta, reward_good, reward_bad, mu, V, low, high, ramp, start, stop):
    """Sweep as `sweep` does, given the intervals of states with V != 0, which are updated."""
    touched = 0
    top = start
    while top > stop:
        depth = min(STAGES_PER_BLOCK, top - stop)
        for front in range(top):
            for j in range(min(depth, front + 1)):
                t = top - 1 - j
                # ascending n within a stage: row n+1 is still at stage t+1 when row n is rewritten
                touched += step_row(
                    alpha,
                    beta,
                    reward_bad[t],
                    reward_good[t] - reward_bad[t],
                    mu[t],
                    front - j,
                    V,
                    low,
                    high,
                    ramp,
                )
        top -= depth
    return touched


# The index, from the values a stage later: eq. (ucblike) of the paper.


@compiled
def index_terms(alpha, beta, good, bad, n, g, V):
    """Return (expected reward, value of information) of state (n, g); V is V_{t+1}.

    They add up to the index. The value of information is what a pull without rewards is worth.
    """
    p = (alpha + g) / (alpha + beta + n)
    own, after = V[row_start(n) + g], row_start(n + 1) + g
    return expected_reward(p, bad, good), worth(p, 0.0, 0.0, own, V[after], V[after + 1])


@compiled
def stage_index(alpha, beta, good, bad, t, V, index):
    """Fill index (slab of t) of every state with n <= t; V is V_{t+1}."""
    for n in range(t + 1):
        for g in range(n + 1):
            ell, delta = index_terms(alpha, beta, good, bad, n, g, V)
            index[row_start(n) + g] = ell + delta
