"""Forward through the market: where the arms are, what they earn, what they spend.

Two ways to decide what is pulled. `clearing`: states in order of their index until the pulls of the
stage are spent, the last one in part; a feasible point of the relaxed problem, whose reward is
therefore below the dual minimum. `relaxed`: states with index above the price, as the relaxed
problem has it; pulls minus what they spend is then the gradient of the dual function.

A pass is `fill`, legs of some stages, `finish`.
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.compiled import compiled
from .pricing import Forth, room_for_states


@compiled
def fresh(arms, mass, reward):
    """All arms fresh, nothing earned; first, last (G, T+2): states of a row that have mass."""
    groups, T = arms.reward_good.shape
    first = np.full((groups, T + 2), T + 2, np.int64)
    last = np.full((groups, T + 2), -1, np.int64)
    mass[:] = 0.0
    reward[:] = 0.0
    for k in range(groups):
        mass[k, 0] = arms.counts[k]
        first[k, 0] = last[k, 0] = 0
    return first, last


@compiled
def fill(arms, bands, mass, reward):
    """All arms fresh, and what a pass carries from there."""
    first, last = fresh(arms, mass, reward)
    key, weight = room_for_states(bands)
    return Forth(first, last, np.empty(arms.counts.size), key, weight)


@compiled
def offer(bands, t, blend, mass, forth):
    """Collect the band states with mass at stage t, and blend all masses into the averages.

    Fills forth.sides. Returns the number collected in forth.key and forth.weight.
    """
    first, last, key, weight = forth.first, forth.last, forth.key, forth.weight
    count = 0
    base = row_start(t)
    for k in range(mass.shape[0]):
        side = 0.0
        for n in range(t + 1):
            low, high = bands.low[k, base + n], bands.high[k, base + n]
            if high < low and last[k, n] < first[k, n]:
                continue
            own = mass[k, row_start(n) :]
            if bands.left[k, base + n]:
                for g in range(first[k, n], min(low, last[k, n] + 1)):
                    side += own[g]
            if bands.right[k, base + n]:
                for g in range(max(high + 1, first[k, n]), last[k, n] + 1):
                    side += own[g]
            at = bands.start[k, base + n] - low
            for g in range(low, high + 1):
                bands.share[at + g] += blend * (own[g] - bands.share[at + g])
                if own[g] > 0.0:
                    key[count] = bands.index[at + g]
                    weight[count] = own[g]
                    count += 1
        bands.settled[k, t] += blend * (side - bands.settled[k, t])
        forth.sides[k] = side
    return count


@compiled
def _pull(p, inverse, part, own, after_bad, after_good):
    """Move the same part of every mass along a piece of a row; p is that of its first state.

    Returns (mass moved, good outcomes among it).
    """
    pulled, good = 0.0, 0.0
    for g in range(own.shape[0]):
        x = own[g] * part
        if x > 0.0:
            y = x * (p + g * inverse)
            own[g] -= x
            after_bad[g] += x - y
            after_good[g] += y
            pulled += x
            good += y
    return pulled, good


@compiled(inline="always")
def _pull_band(p, inverse, deal, index, own, after_bad, after_good):
    """Pull states by their index: all above the price, a part of those within slack of it.

    deal: price, slack and that part.
    """
    price, slack, at_price = deal
    pulled, good = 0.0, 0.0
    for g in range(own.shape[0]):
        distance = index[g] - price
        if own[g] > 0.0 and distance >= -slack:
            part = 1.0 if distance > slack else at_price
            here = slice(g, g + 1)
            after = (own[here], after_bad[here], after_good[here])
            x, y = _pull(p + g * inverse, inverse, part, *after)
            pulled += x
            good += y
    return pulled, good


@compiled(inline="always")
def _move_row(alpha, inverse, low, high, sides, deal, index, own, following, first, last):
    """Pull one row: parts `sides` left and right of its band [low, high]; deal: `_pull_band`.

    Returns (mass pulled, good outcomes among it, first and last state that was pulled).
    """
    pulled, good = 0.0, 0.0
    left, right = sides
    a, b = last + 1, first - 1
    low, high = max(low, first), min(high, last)
    if left > 0.0 and first < low:
        end = min(low, last + 1)
        after = (own[first:end], following[first:end], following[first + 1 : end + 1])
        pulled, good = _pull((alpha + first) * inverse, inverse, left, *after)
        a, b = first, end - 1
    if low <= high:
        p, band = (alpha + low) * inverse, own[low : high + 1]
        after_bad, after_good = following[low : high + 1], following[low + 1 : high + 2]
        x, y = _pull_band(p, inverse, deal, index, band, after_bad, after_good)
        if x > 0.0:
            pulled, good = pulled + x, good + y
            a, b = min(a, low), high
    start, end = max(high + 1, first), last + 1
    if right > 0.0 and start < end:
        after = (own[start:end], following[start:end], following[start + 1 : end + 1])
        x, y = _pull((alpha + start) * inverse, inverse, right, *after)
        pulled, good = pulled + x, good + y
        a, b = min(a, start), last
    return pulled, good, a, b


@compiled
def move(arms, bands, base, t, price, slack, at_price, sure, rest, mass, forth, reward, spent):
    """Pull at stage t: band states above the price, `at_price` of those within slack of it.

    Pulled sides move by the part `sure`, the other sides by `rest` (1 and 0 unless a band was too
    narrow to clear). base: where the rows of the stage begin in the bands. Adds to reward (G,) and
    fills spent (G, T) at t.
    """
    first, last = forth.first, forth.last
    for k in range(mass.shape[0]):
        bad = arms.reward_bad[k, t]
        spread = arms.reward_good[k, t] - bad
        spent[k, t] = 0.0
        for n in range(t, -1, -1):  # descending: what enters row n+1 now is not pulled twice
            if last[k, n] < first[k, n]:
                continue
            row = base + n
            start = bands.start[k, row] + max(0, first[k, n] - bands.low[k, row])
            sides = (
                sure if bands.left[k, row] else rest,
                sure if bands.right[k, row] else rest,
            )
            inverse = 1.0 / (arms.alpha[k] + arms.beta[k] + n)
            low, high, deal = bands.low[k, row], bands.high[k, row], (price, slack, at_price)
            own, following = mass[k, row_start(n) :], mass[k, row_start(n + 1) :]
            index, begin, end = bands.index[start:], first[k, n], last[k, n]
            pulled, good, a, b = _move_row(
                arms.alpha[k], inverse, low, high, sides, deal, index, own, following, begin, end
            )
            if pulled > 0.0:
                reward[k] += pulled * bad + good * spread
                spent[k, t] += pulled
                first[k, n + 1] = min(first[k, n + 1], a)
                last[k, n + 1] = max(last[k, n + 1], b + 1)


@compiled
def finish(arms, mass, reward):
    """Add the terminal rewards of the final masses to reward (G,)."""
    for k in range(mass.shape[0]):
        for i in range(arms.terminal.shape[1]):
            reward[k] += arms.terminal[k, i] * mass[k, i]


@compiled
def relaxed_leg(arms, bands, mu, slack, at_price, mass, reward, spent, forth, start, stop):
    """Go forward from stage `start` to `stop` under the relaxed policy at prices mu."""
    for t in range(start, stop):
        deal = (mu[t], slack, at_price, 1.0, 0.0)
        move(arms, bands, row_start(t), t, *deal, mass, forth, reward, spent)
