"""Thompson sampling played on a chunk of episodes, with hardly more than one full draw per stage.

Arms are drawn one after the other, beginning with the one pulled last. Once m are drawn, let x be
what the success probability of the next arm would have to exceed for it to be among the m largest.
Only a draw above x matters, and where the density f of Beta(a, b) is log-concave and falls at x
with slope -s,

    f(y) <= f(x) exp(-s (y - x))   for y > x,    so that   P(p > x) <= f(x) / s.

With probability f(x) / s a point is proposed from the exponential tail, and it is taken with
probability f(y) / (f(x) exp(-s (y - x))): points above x then have density f, and all the rest is
a draw that does not matter. This is exact, except that
probabilities below exp(NEGLIGIBLE_LOG) are ignored.

Notations
    a, b      posterior of the better outcome: its mean reward is low + span p, p ~ Beta(a, b)
    log_beta  log B(a, b)
    x         the cut; logs and slopes: log x and log (1 - x), and the size of their derivatives
    keys      decide between equal rewards: how far a draw is from the end of the rewards that it
              was rounded to, by `key`; random, and next to nothing, where the reward does not vary
"""

import math

import numpy as np

from ...support.kernels.compiled import compiled
from .episodes import pull, uniform

NEGLIGIBLE_LOG = -46.0  # log of 1e-20
SURE_KEY = 1e-15  # below the keys of all arms that vary: logs of draws are above -4e13
LARGE_COUNTS = 1e5  # a + b above which log B(a, b) has lost the digits that a density needs


@compiled
def gamma(a, rng):
    """A gamma draw, a >= 1: Marsaglia and Tsang, A simple method for generating gamma variables."""
    d = a - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        z = rng.standard_normal()
        v = 1.0 + c * z
        if v <= 0.0:
            continue
        v = v * v * v
        u = rng.random()
        if u < 1.0 - 0.0331 * z * z * z * z:
            return d * v
        if math.log(u) < 0.5 * z * z + d * (1.0 - v + math.log(v)):
            return d * v


@compiled(inline="always")
def log_gamma(a, rng):
    """The logarithm of a gamma draw, which itself may be too small for a double where a < 1."""
    return math.log(gamma(a + 1.0, rng)) + math.log(1.0 - rng.random()) / a


@compiled
def key(log_odds, span):
    """Grows with the distance span p from the lower end, or -span (1 - p) from the upper one.

    -1 / log of the distance, which is below 1: above any key of an arm that does not vary at the
    lower end, below it at the upper end.
    """
    log_distance = min(math.log(span) - abs(log_odds), -1.0)
    return -1.0 / log_distance if log_odds < 0.0 else 1.0 / log_distance


@compiled(inline="always")
def draw(a, b, low, span, rng):
    """The mean reward of one draw from Beta(a, b), and its key."""
    if span == 0.0:
        return low, SURE_KEY * (rng.random() - 0.5)
    if a >= 1.0 and b >= 1.0:
        x = gamma(a, rng)
        return low + span * (x / (x + gamma(b, rng))), 0.0
    log_odds = log_gamma(a, rng) - log_gamma(b, rng)
    return low + span * (1.0 / (1.0 + math.exp(-log_odds))), key(log_odds, span)


@compiled(inline="always")
def tail(a, b, log_beta, logs, slopes):
    """Density of Beta(a, b) at x, and the slope with which its logarithm falls there."""
    fall = (b - 1.0) * slopes[1] - (a - 1.0) * slopes[0]
    log_f = (a - 1.0) * logs[0] + (b - 1.0) * logs[1] - log_beta
    if fall > 0.0 and log_f < NEGLIGIBLE_LOG:  # f falls from x on: P(p > x) <= f(x)
        return 0.0, fall
    return math.exp(log_f), fall


@compiled(inline="always")
def draw_beyond(a, b, x, fall, rng):
    """A point proposed above x, or 0 where it is not taken."""
    y = x + rng.standard_exponential() / fall
    if y >= 1.0:
        return 0.0
    log_ratio = (a - 1.0) * math.log(y / x) + (b - 1.0) * math.log((1.0 - y) / (1.0 - x))
    return y if -rng.standard_exponential() < log_ratio + fall * (y - x) else 0.0


@compiled(inline="always")
def play_episode(episodes, e, a, b, log_beta, good, bad, rng, top, values, keys):
    """A block of stages, one for each row of rewards good, bad: (stages, arms)."""
    K, m, start = a.size, top.size, 0
    # a stream of its own, as a call of the generator costs more than the rest of a rejection
    stream, used = np.uint64(rng.random() * 2.0**53), 0
    for t in range(good.shape[0]):
        x, logs, slopes, filled = -1.0, (0.0, 0.0), (0.0, 0.0), 0
        for k in range(start, start + K):
            arm = k if k < K else k - K
            low, span = min(good[t, arm], bad[t, arm]), abs(good[t, arm] - bad[t, arm])
            a_, b_ = a[arm], b[arm]
            if good[t, arm] < bad[t, arm]:
                a_, b_ = b_, a_
            cut = 0.0
            if filled == m and span > 0.0 and min(a_, b_) >= 1.0 and a_ + b_ < LARGE_COUNTS:
                cut = (values[m - 1] - low) / span
            if cut >= 1.0:
                continue
            f, fall = 0.0, 0.0
            if cut > 0.0:
                if cut != x:
                    x, logs = cut, (math.log(cut), math.log1p(-cut))
                    slopes = (1.0 / cut, 1.0 / (1.0 - cut))
                f, fall = tail(a_, b_, log_beta[arm], logs, slopes)
            if f < fall:
                used += 1
                if uniform(stream, used) * fall >= f:
                    continue
                p = draw_beyond(a_, b_, x, fall, rng)
                if p == 0.0:
                    continue
                value, rank = low + span * p, 0.0
            else:
                value, rank = draw(a_, b_, low, span, rng)
            filled = insert(arm, value, rank, top, values, keys, filled)
        for i in range(m):
            arm = top[i]
            outcome = pull(episodes, e, t, i, arm)
            # B(a+1, b) = B(a, b) a / (a + b), and likewise for b
            log_beta[arm] += math.log((a[arm] if outcome else b[arm]) / (a[arm] + b[arm]))
            a[arm] += outcome
            b[arm] += 1 - outcome
        start = top[0]


@compiled(inline="always")
def insert(arm, value, key, top, values, keys, filled):
    """Put an arm in its place among the m largest, which are sorted. Returns how many there are."""
    i = filled
    while i > 0 and (values[i - 1] < value or (values[i - 1] == value and keys[i - 1] < key)):
        i -= 1
        if i + 1 < top.size:
            top[i + 1], values[i + 1], keys[i + 1] = top[i], values[i], keys[i]
    if i < top.size:
        top[i], values[i], keys[i] = arm, value, key
    return min(filled + 1, top.size)


@compiled
def play(episodes, m, alpha, beta, good, bad, rng):
    """A block of stages of all episodes, m pulls in each; rewards good, bad: (stages, arms)."""
    E, K = episodes.pulls.shape
    a, b, log_beta = np.empty(K), np.empty(K), np.empty(K)
    top, values, keys = np.zeros(m, np.int64), np.empty(m), np.empty(m)
    for e in range(E):
        for k in range(K):
            a[k] = alpha[k] + episodes.good[e, k]
            b[k] = beta[k] + (episodes.pulls[e, k] - episodes.good[e, k])
            log_beta[k] = math.lgamma(a[k]) + math.lgamma(b[k]) - math.lgamma(a[k] + b[k])
        play_episode(episodes, e, a, b, log_beta, good, bad, rng, top, values, keys)
