"""Counts of events: the negative binomial law of the next count, spread to the points of a grid.

With a gamma prior of shape r and rate b on the mean, the next count x has the chance

    P(x) = Gamma(r + x) / (Gamma(r) x!) (b / (b + 1))^r (1 / (b + 1))^x

A count that leads between two points of the grid goes to both, so that its mean is kept (chords);
what leads beyond the last point goes there, and how far beyond is summed.
"""

import numpy as np

from ...support.kernels.compiled import compiled

FAINT_CHANCE = 1e-16  # relative to the likeliest count: below it counts are left out


@compiled
def count_chances(r, b, chance):
    """chance[x - low] of the counts low, low + 1, ...; returns low and how many there are.

    Relative to the likeliest count, up and down, then divided by the sum. Fewer than needed where
    `chance` is too short: then 0, 0.
    """
    q = 1.0 / (b + 1.0)
    mode = int(max(0.0, (r - 1.0) / b))
    room = chance.shape[0]
    down = 0
    p = 1.0
    while mode - down > 0 and p > FAINT_CHANCE:
        x = mode - down
        p *= x / ((r + x - 1.0) * q)
        down += 1
        if down >= room:
            return 0, 0
    low = mode - down
    p = 1.0
    chance[down] = p
    for x in range(mode, low, -1):
        p *= x / ((r + x - 1.0) * q)
        chance[x - 1 - low] = p
    p = 1.0
    count = down + 1
    x = mode
    while p > FAINT_CHANCE:
        p *= (r + x) * q / (x + 1.0)
        x += 1
        if count >= room:
            return 0, 0
        chance[count] = p
        count += 1
    total = 0.0
    for i in range(count):
        total += chance[i]
    for i in range(count):
        chance[i] /= total
    return low, count


@compiled
def count_reach(shape, rate, n, step, size, following, room):
    """Points of the next row, `following` apart, that counts lead to from any state of row n."""
    widest = 1
    chance = np.empty(room)
    for k in range(size):
        low, count = count_chances(shape + k * step, rate + n, chance)
        if count == 0:
            return 0
        begin = (k * step + low) // following
        end = (k * step + low + count - 1 + following - 1) // following
        widest = max(widest, end - begin + 1)
    return widest


@compiled
def count_weights(shape, rate, n, step, size, following, last, wide, room, first, weights, up):
    """Fill first (size,), weights (size, wide) and up (size,) of row n: sums 0, step, 2 step, ...

    The next row has the sums 0 .. last * following, `following` apart.
    """
    chance = np.empty(room)
    for k in range(size):
        total = k * step
        low, count = count_chances(shape + total, rate + n, chance)
        begin = min((total + low) // following, last - wide + 1)
        first[k] = begin
        for i in range(count):
            y = total + low + i
            cell = y // following
            if cell >= last:
                weights[k, last - begin] += chance[i]
                up[k] += chance[i] * (y - last * following)
            else:
                part = (y - cell * following) / following
                weights[k, cell - begin] += chance[i] * (1.0 - part)
                weights[k, cell + 1 - begin] += chance[i] * part
        up[k] /= rate + n + 1.0
