"""One pull of arms whose posterior means lie on a lattice: the same law around every state.

A pull moves by j points with chance inner[|j|], |j| < reach. What lies c points away or more, c the
reach or the end of the next row, counts as c away: chance end[c] on either side. beyond[c] is how
far beyond, in expectation: there values continue as lines of the slopes rise and fall. `even`: both
sides are cut where the nearer end is, so that the mean is kept. inner, end, beyond (reach + 1,);
where nothing moves the reach is 0 and end[0] is 1/2. Rows have one middle: `shift` is the number in
the next row of the point that is number 0.
"""

from ...support.kernels.compiled import compiled

FAST = {"contract", "nsz", "reassoc"}


@compiled
def law_of(weights, begin, wide):
    """inner, end and beyond of the law that is laid out from here on."""
    return (
        weights[begin : begin + wide],
        weights[begin + wide : begin + 2 * wide],
        weights[begin + 2 * wide : begin + 3 * wide],
    )


@compiled(inline="always")
def shift_of(start, n):
    """Number in row n + 1 of the point that is number 0 of row n: rows have one middle."""
    return (start[n + 2] - 2 * start[n + 1] + start[n]) // 2


@compiled(inline="always")
def cuts(c, size, reach, even):
    """How far a law of this reach leads down and up from number c of a row of `size` states."""
    below, above = min(c, reach), min(size - 1 - c, reach)
    if even:
        below = above = min(below, above)
    return below, above


@compiled(fastmath=FAST)
def whole_back(inner, end, lines, reach, at, after, before):
    """As `law_back` where there is room for the whole law, from number `at` of the next row on."""
    size = before.shape[0]
    left, right = after[at - reach : at - reach + size], after[at + reach : at + reach + size]
    for k in range(size):
        before[k] = lines + end[reach] * (left[k] + right[k])
    if reach > 0:
        own = after[at : at + size]
        for k in range(size):
            before[k] += inner[0] * own[k]
    for j in range(1, reach):
        # slices, which begin at 0: indices that may be negative would keep this from vector units
        left, right, w = after[at - j : at - j + size], after[at + j : at + j + size], inner[j]
        for k in range(size):
            before[k] += w * (left[k] + right[k])


@compiled(fastmath=FAST)
def law_back(inner, end, beyond, reach, even, shift, begin, stop, rise, fall, after, before):
    """before[k] = E[after] one pull later, by a law; k = begin .. stop - 1."""
    size = after.shape[0]
    low, high = max(begin, reach - shift), min(stop, size - reach - shift)
    if low < high:
        lines = beyond[reach] * (rise + fall)
        whole_back(inner, end, lines, reach, low + shift, after, before[low:high])
    for k in range(begin, stop):
        if low <= k < high:
            continue
        c = k + shift
        below, above = cuts(c, size, reach, even)
        if below + above == 0:
            before[k] = after[c]
            continue
        total = end[below] * after[c - below] + end[above] * after[c + above]
        total += beyond[above] * rise + beyond[below] * fall
        if below > 0 and above > 0:
            total += inner[0] * after[c]
        left, right = after[c - below : c], after[c + 1 : c + 1 + above]
        for j in range(1, below):
            total += inner[j] * left[below - j]
        for j in range(1, above):
            total += inner[j] * right[j - 1]
        before[k] = total


@compiled(fastmath=FAST)
def whole_ahead(inner, end, reach, at, mass, after):
    """As `law_ahead` where there is room for the whole law, from number `at` of the next row on."""
    size = mass.shape[0]
    for j in range(reach + 1):
        w = inner[j] if j < reach else end[reach]
        left = after[at - j : at - j + size]
        for k in range(size):
            left[k] += w * mass[k]
        if j > 0 or reach == 0:
            right = after[at + j : at + j + size]
            for k in range(size):
                right[k] += w * mass[k]


@compiled(inline="always")
def law_ahead(inner, end, reach, even, shift, mass, after):
    """after += mass (states of a row,) one pull later, by a law."""
    size = after.shape[0]
    begin, stop = 0, mass.shape[0]
    while begin < stop and mass[begin] == 0.0:
        begin += 1
    while stop > begin and mass[stop - 1] == 0.0:
        stop -= 1
    low, high = max(begin, reach - shift), min(stop, size - reach - shift)
    if low < high:
        whole_ahead(inner, end, reach, low + shift, mass[low:high], after)
    for k in range(begin, stop):
        m = mass[k]
        if low <= k < high or m == 0.0:
            continue
        c = k + shift
        below, above = cuts(c, size, reach, even)
        if below + above == 0:
            after[c] += m
            continue
        after[c - below] += end[below] * m
        after[c + above] += end[above] * m
        for j in range(1 - below, above):
            after[c + j] += inner[abs(j)] * m
