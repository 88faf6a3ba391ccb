"""Joint states when several arms are pulled at once: every set of arms, every outcome.

    W_t(x) = max over sets of m arms of  sum of gains + E[ W_{t+1}(x after the m outcomes) ]

Plain enumeration; `kernels/joint.py` has the notations, and a faster way for m = 1.

Arms of a state that are equal (same k, n, g) are one *kind*: sets that differ in equal arms only
are tried once, and outcomes that differ in which of them are good are counted together.
    kinds   (q, 4)  k, n, g and the last column of the kind's run; from the last run to the first
    number  (q,)    arms of the kind
    take    (q,)    how many of them are pulled
    wins    (q,)    how many of these have a good outcome
    p, gain (q,)    chance of a good outcome, and what a pull earns
"""

import numpy as np

from ...support.kernels.compiled import compiled
from .joint import pull_row


@compiled(inline="always")
def _find_kinds(arms, t, pulls, group, good, kinds, number, p, gain, row):
    """Kinds of arms in a state, from the last column to the first; returns q."""
    chance, earned = row
    q, end = 0, pulls.size - 1
    for c in range(pulls.size - 1, -1, -1):
        k, n, g = group[c], np.int64(pulls[c]), good[c]
        same_run = c + 1 < pulls.size and group[c + 1] == k and pulls[c + 1] == n
        if not same_run:
            end = c
            pull_row(arms, k, t, n, chance, earned)
        if same_run and good[c + 1] == g:
            number[q - 1] += 1
        else:
            kinds[q, 0], kinds[q, 1], kinds[q, 2], kinds[q, 3] = k, n, g, end
            number[q], p[q], gain[q] = 1, chance[g], earned[g]
            q += 1
    return q


@compiled(inline="always")
def _spread(total, number, take):
    """Take `total` arms, of the first kinds as many as there are."""
    for i in range(take.size):
        take[i] = min(number[i], total)
        total -= take[i]


@compiled(inline="always")
def _next_choice(number, take):
    """Advance to the next way to take as many arms; return False after the last one."""
    before = 0
    for i in range(take.size):
        if before > 0 and take[i] < number[i]:
            take[i] += 1
            _spread(before - 1, number[:i], take[:i])
            return True
        before += take[i]
    return False


@compiled(inline="always")
def _shape_after(kinds, take, ladder, s):
    """Shape after all pulls, one by one: each changes the last column that is left of a run."""
    pulled, end, column = 0, -1, -1
    for i in range(take.size):
        if kinds[i, 3] != end:
            end = column = kinds[i, 3]
        for _ in range(take[i]):
            s = ladder.after[ladder.first[pulled] + s, column]
            column -= 1
            pulled += 1
    return s


@compiled
def _run_rank(under, found, r):
    """Rank of a run of r arms; found[g] of them have g good outcomes."""
    rank = i = g = 0
    while i < r:
        for _ in range(found[g]):
            i += 1
            rank += under[g, i]
        g += 1
    return rank


@compiled(inline="always")
def _open_runs(kinds, take, ranking, pulls, arms_at, runs):
    """Split the rank of the state after the pulls: returns the part that outcomes do not change.

    runs (C, 4): k, v, r and stride of the runs that pulled arms join; returns their number too.
    arms_at[k, n, g]: arms that are not pulled, by state.
    """
    fixed, stride, count, c = 0, 1, 0, pulls.size
    while c > 0:
        k, v, r = ranking.group[c - 1], np.int64(pulls[c - 1]), 0
        while r < c and ranking.group[c - 1 - r] == k and pulls[c - 1 - r] == v:
            r += 1
        joined = False
        for i in range(take.size):
            joined = joined or (take[i] > 0 and kinds[i, 0] == k and kinds[i, 1] == v - 1)
        if joined:
            runs[count, 0], runs[count, 1], runs[count, 2], runs[count, 3] = k, v, r, stride
            count += 1
        else:
            fixed += stride * _run_rank(ranking.under, arms_at[k, v], r)
        stride *= ranking.under[v + 1, r]
        c -= r
    return fixed, count


@compiled(inline="always")
def _outcome(kinds, take, wins, p, arms_at):
    """Put the pulled arms where their outcomes lead; returns the chance of these outcomes."""
    chance = 1.0
    for i in range(take.size):
        if take[i] > 0:
            k, n, g = kinds[i, 0], kinds[i, 1] + 1, kinds[i, 2]
            arms_at[k, n, g] += take[i] - wins[i]
            arms_at[k, n, g + 1] += wins[i]
            for w in range(wins[i]):
                chance *= p[i] * (take[i] - w) / (w + 1)
            for _ in range(take[i] - wins[i]):
                chance *= 1.0 - p[i]
    return chance


@compiled(inline="always")
def _expected(kinds, number, take, wins, p, ranking, pulls, after, arms_at, runs):
    """Mean of `after`, the values of the shape `pulls`, over the outcomes of the arms taken."""
    for i in range(take.size):
        arms_at[kinds[i, 0], kinds[i, 1], kinds[i, 2]] += number[i] - take[i]
    fixed, count = _open_runs(kinds, take, ranking, pulls, arms_at, runs)
    wins[:] = 0
    total, i = 0.0, 0
    while i < take.size:
        chance = _outcome(kinds, take, wins, p, arms_at)
        rank = fixed
        for j in range(count):
            k, v, r, stride = runs[j]
            rank += stride * _run_rank(ranking.under, arms_at[k, v], r)
        total += chance * after[rank]
        i = take.size
        for j in range(take.size - 1, -1, -1):
            if take[j] > 0:
                k, n, g = kinds[j, 0], kinds[j, 1] + 1, kinds[j, 2]
                arms_at[k, n, g] -= take[j] - wins[j]
                arms_at[k, n, g + 1] -= wins[j]
                if wins[j] < take[j]:
                    i = j
        if i < take.size:
            wins[:i] = 0
            wins[i] += 1
    for i in range(take.size):
        arms_at[kinds[i, 0], kinds[i, 1], kinds[i, 2]] -= number[i] - take[i]
    return total


@compiled(inline="always")
def _largest(number, gain, m):
    """Sum of the m largest gains."""
    total, before, at = 0.0, np.inf, -1  # the last one that was taken
    while m > 0:
        best = -1
        for i in range(gain.size):
            left = gain[i] < before or (gain[i] == before and i > at)
            if left and (best < 0 or gain[i] > gain[best]):
                best = i
        taken = min(number[best], m)
        total += gain[best] * taken
        m -= taken
        before, at = gain[best], best
    return total


@compiled(inline="always")
def _next_state(pulls, group, good):
    """Advance to the next state of a shape in order of rank."""
    stop = pulls.size
    while stop > 0:
        start = stop - 1
        while start > 0 and group[start - 1] == group[start] and pulls[start - 1] == pulls[start]:
            start -= 1
        for c in range(start, stop):
            if good[c] < (good[c + 1] if c + 1 < stop else pulls[c]):
                good[c] += 1
                good[start:c] = 0
                return
        good[start:stop] = 0
        stop = start


@compiled
def fill_sets(arms, t, m, ranking, shapes, first, last, values, ladder, later, after):
    """values: W_t in the states of shapes first..last-1, when m different arms are pulled.

    ladder: the levels after each pull of the stage but the last. `later`, `after`: the shapes of
    stage t + 1, and W_{t+1}; this is empty at the last stage.
    """
    group = ranking.group
    kinds, runs = np.empty((group.size, 4), np.int64), np.empty((group.size, 4), np.int64)
    number, take = np.empty(group.size, np.int64), np.empty(group.size, np.int64)
    wins = np.empty(group.size, np.int64)
    p, gain = np.empty(group.size), np.empty(group.size)
    row = np.empty(t + 1), np.empty(t + 1)
    arms_at = np.zeros((arms.alpha.size, t + 2, t + 2), np.int64)
    for s in range(first, last):
        pulls, good = shapes.pulls[s], np.zeros(group.size, np.int64)
        for x in range(shapes.offset[s], shapes.offset[s + 1]):
            q = _find_kinds(arms, t, pulls, group, good, kinds, number, p, gain, row)
            values[x] = _largest(number[:q], gain[:q], m) if after.size == 0 else -np.inf
            _spread(m, number[:q], take[:q])
            more = after.size > 0
            while more:
                target = _shape_after(kinds, take[:q], ladder, s)
                value = _expected(
                    kinds,
                    number[:q],
                    take[:q],
                    wins[:q],
                    p,
                    ranking,
                    later.pulls[target],
                    after[later.offset[target] : later.offset[target + 1]],
                    arms_at,
                    runs,
                )
                for i in range(q):
                    value += take[i] * gain[i]
                values[x] = max(values[x], value)
                more = _next_choice(number[:q], take[:q])
            _next_state(pulls, group, good)
