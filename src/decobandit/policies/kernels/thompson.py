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
    keys      random: decide between equal rewards; rounded ones are above the lower end, and below
              the upper one, of what is certain

Thompson sampling played by bins, where all arms have the same rewards: one uniform per stage.

The log-odds of the success probabilities are cut into bins. With F_k(c) = P(arm k's draw < c),

    P(all draws < c) = prod_k F_k(c),

so one uniform u determines the bin of the largest draw, and which arms have a draw in that bin
(`winner`). Draws are made only if there are several, from their distributions within the bin.
Probabilities are exact for any cuts, up to rounding. A pull moves F of one arm, at all cuts:

    I_x(a+1, b) = I_x(a, b) - w / a,    I_x(a, b+1) = I_x(a, b) + w / b,    w as in `beta`.

Notations, besides those of `episodes`
    C            cuts, the first at -inf and the last at inf; bin j is from cut j to cut j+1
    cut (C,), x (2, C)   log-odds of the cuts; 1-x and x there, by which an outcome multiplies w
    below, w (K, C)      F and w at the cuts
    lead, rest (C,)      the arm that is expected to win; product of `below` over all the others
"""

import math

import numpy as np

from ...support.kernels.arrays import ZERO, copy
from ...support.kernels.compiled import compiled
from .episodes import pull, uniform

NEGLIGIBLE_LOG = -46.0  # log of 1e-20
LIKELY_BIN = 0.25  # probability from which on rejection from the whole distribution is used
FLAT_BIN = 0.5  # fall of the log density over a bin up to which a constant bounds it well
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


@compiled(inline="always")
def draw(a, b, low, span, rng):
    """The mean reward of one draw from Beta(a, b), and its key."""
    if span == 0.0:
        return low, -rng.random()
    if a >= 1.0 and b >= 1.0:
        x = gamma(a, rng)
        return low + span * (x / (x + gamma(b, rng))), 0.0
    log_odds, u = log_gamma(a, rng) - log_gamma(b, rng), rng.random()
    return low + span * (1.0 / (1.0 + math.exp(-log_odds))), u if log_odds < 0.0 else -1.0 - u


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


# -- by bins -------------------------------------------------------------------------------------


@compiled
def move(below, w, x, k, a, b, outcome):
    """The law of arm k's draw after one more outcome; a, b: its posterior before."""
    own = a if outcome else b
    step, ratio = (-1.0 if outcome else 1.0) / own, (a + b) / own
    for j in range(below.shape[1]):
        below[k, j] += step * w[k, j]
        w[k, j] *= ratio * x[outcome, j]


@compiled(inline="always")
def recall(below, w, x, k, alpha, beta, n, g):
    """The law after n outcomes, g of them good, taken evenly: else w could vanish on the way."""
    good = 0
    for i in range(n):
        outcome = 1 if (i + 1) * g // n > good else 0
        move(below, w, x, k, alpha + good, beta + i - good, outcome)
        good += outcome


@compiled
def multiply(below, lead, rest):
    """Product of `below` over all arms but `lead`."""
    for j in range(rest.size):
        rest[j] = 1.0
    for k in range(below.shape[0]):
        if k != lead:
            for j in range(rest.size):
                rest[j] *= below[k, j]


@compiled(inline="always")
def softplus(y):
    """log(1 + exp(y))."""
    return max(y, 0.0) + math.log1p(math.exp(-abs(y)))


@compiled(inline="always")
def draw_anywhere(a, b, rng):
    """Log-odds of a draw from Beta(a, b)."""
    if a >= 1.0 and b >= 1.0:
        return math.log(gamma(a, rng) / gamma(b, rng))
    return log_gamma(a, rng) - log_gamma(b, rng)


@compiled(inline="always")
def draw_within(a, b, cut, x, j, chance, rng):
    """Log-odds y of a draw from Beta(a, b) that is known to be in bin j, which has some chance.

    The density of y is log-concave, proportional to exp(a y - (a+b) log(1 + e^y)), and therefore
    below its tangent at the point of the bin where it is largest. A bin that has no small chance
    may be much wider than the density, and an outer bin that has the largest density inside has no
    end: there, draws from the whole law are made until one hits. All others have a good part of
    what is below the tangent.
    """
    low, high, both = cut[j], cut[j + 1], a + b
    peak, slope = low, a - both * x[1, j]
    if slope > 0.0:
        peak, slope = high, a - both * x[1, j + 1]
        if slope < 0.0:
            peak, slope = math.log(a / b), 0.0
    # nothing flat is above a bin without end
    while chance > LIKELY_BIN or (slope == 0.0 and high - low == np.inf):
        y = draw_anywhere(a, b, rng)
        if low < y < high:
            return y
    tangent = slope if abs(slope) * (high - low) > FLAT_BIN else 0.0
    middle = min(max(0.5, x[1, j]), x[1, j + 1])
    bend = 0.5 * both * middle * (1.0 - middle)  # of the log density: half its curvature, at most
    while True:
        y, v = low + rng.random() * (high - low), rng.random()
        if tangent != 0.0:
            y = peak + math.log1p(rng.random() * math.expm1(-abs(tangent) * (high - low))) / tangent
        d = y - peak
        # v < 1 + z implies log v < z: spares the logarithms most of the time
        if v < 1.0 + (slope - tangent) * d - bend * d * d:
            return y
        if math.log(v) < (a - tangent) * d - both * (softplus(y) - softplus(peak)):
            return y


@compiled(inline="always")
def winner(below, cut, x, rest, lead, j, u, a, b, rng):
    """The arm of the largest draw, which is in bin j, where `lead` is not alone.

    One arm after the other, `lead` last, is moved from the chance that its draw is below the
    bin's upper end to that of being below its lower end. The arm at which the product falls to u
    or less is the first in the bin. The same again, with a new u, gives the next.
    """
    K = below.shape[0]
    product, least = rest[j + 1] * below[lead, j + 1], rest[j] * below[lead, j]
    best, value = -1, -np.inf
    for i in range(K + 1):
        if i == lead:
            continue
        k = i if i < K else lead
        product *= below[k, j] / below[k, j + 1]
        if product > u:
            continue
        u = rng.random() * product
        if u < least and best < 0:
            return k
        y = draw_within(a[k], b[k], cut, x, j, below[k, j + 1] - below[k, j], rng)
        if best < 0 or y > value:
            best, value = k, y
        if u < least:
            break
    return best if best >= 0 else lead


@compiled(inline="always")
def play_episode_by_bins(episodes, e, a, b, cut, x, below, w, rest, rng):
    """A block of stages."""
    stream = np.uint64(rng.random() * 2.0**53)  # of its own: a call of the generator is slow
    lead = ZERO
    multiply(below, lead, rest)
    for t in range(episodes.actions.shape[1]):
        u = uniform(stream, t)
        j = -1  # nothing is below the first cut: it always counts
        for i in range(rest.size):
            j += 1 if rest[i] * below[lead, i] <= u else 0
        arm = lead
        if u >= rest[j] * below[lead, j + 1]:
            arm = winner(below, cut, x, rest, lead, j, u, a, b, rng)
        outcome = pull(episodes, e, t, ZERO, arm)
        move(below, w, x, arm, a[arm], b[arm], outcome)
        a[arm] += outcome
        b[arm] += 1 - outcome
        if arm != lead:
            if a[arm] + b[arm] >= a[lead] + b[lead]:
                lead = arm
            multiply(below, lead, rest)


@compiled
def play_bins(episodes, alpha, beta, cut, x, below, w, rng):
    """A block of stages of all episodes; below, w: of the priors."""
    E, K = episodes.pulls.shape
    a, b, rest = np.empty(K), np.empty(K), np.empty(cut.size)
    own_below, own_w = np.empty_like(below), np.empty_like(w)
    for e in range(E):
        for k in range(K):
            copy(below[k], own_below[k])
            copy(w[k], own_w[k])
            n, g = episodes.pulls[e, k], episodes.good[e, k]
            recall(own_below, own_w, x, k, alpha[k], beta[k], n, g)
            a[k], b[k] = alpha[k] + g, beta[k] + (n - g)
        play_episode_by_bins(episodes, e, a, b, cut, x, own_below, own_w, rest, rng)
