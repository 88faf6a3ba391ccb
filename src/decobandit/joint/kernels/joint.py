"""All arms together, backward in time: Bellman's equation over joint states.

    W_t(x) = max over choices of  gain_t + E[ W_{t+1}(x after the pulls) ],    W_T = 0

W is the value less the last rewards of the present state; what a pull changes of these is part of
its gain, so that nothing has to be stored for the end.

Notations
    shape     pulls of every arm, ascending within a group of exchangeable arms: C columns
    run       the arms of a group with the same pulls: columns of equal v; r of them
    multiset  the good outcomes g_1 <= ... <= g_r of a run, one of C(v+r, r); its rank is the sum
              of under[g_i, i] = C(g_i + i - 1, i), whatever v is
    state     a shape and a multiset per run. The states of a shape are one array, the last run
              fastest: rank = offset[shape] + mixed radix of the multisets' ranks

A pull moves one g from run (k, v) to run (k, v+1), which stands next to it. All runs before are one
index (outer), all runs after are one index (inner), the same in both shapes: so a pull of one g is
a few contiguous pieces of `inner` values.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...problem.kernels.layout import row_start, worth
from ...support import Ints
from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled


class Shapes(NamedTuple):
    """The S shapes of one level, that is of one number of pulls in all, in lexical order."""

    pulls: npt.NDArray[np.int32]  # (S, C)
    offset: Ints  # (S + 1,) rank of the shape's first state
    after: npt.NDArray[np.int32]  # (S, C) shape after a pull of column c; -1 off the end of a run


class Ranking(NamedTuple):
    """Tables for ranks, constant over levels."""

    group: Ints  # (C,) group of each column
    under: Ints  # (v, i): C(v + i - 1, i), multisets of i values below v
    start: Ints  # (r,) where the insertions into r values begin
    width: Ints  # (r,) length of their rows
    insert: Ints  # their rows, one per rank of r values; column g: rank together with g


@compiled
def pull_row(arms, k, t, n, p, gain):
    """p, gain (n + 1,): chance of a good outcome, and what a pull at stage t earns, in row n.

    The gain is the worth of a pull by rewards and terminal rewards.
    """
    inverse = 1.0 / (arms.alpha[k] + arms.beta[k] + n)
    bad = arms.reward_bad[k, t]
    spread = arms.reward_good[k, t] - bad
    own = arms.terminal[k, row_start(n) : row_start(n + 1)]
    after = arms.terminal[k, row_start(n + 1) : row_start(n + 2)]
    for g in range(n + 1):
        p[g] = (arms.alpha[k] + g) * inverse
        gain[g] = worth(p[g], bad, spread, own[g], after[g], after[g + 1])


@compiled(inline="always")
def run_length(pulls, group, c, k, v):
    """How many columns from c on are of group k and have v pulls."""
    end = c
    while end < pulls.size and group[end] == k and pulls[end] == v:
        end += 1
    return end - c


@compiled(inline="always")
def value_of_pull(gain, p, bad, good):
    """Return gain + E[ W_{t+1} ], where W_{t+1} is `bad` or `good` after the outcome."""
    return gain + bad + p * (good - bad)


@compiled(fastmath={"contract", "nsz"})
def _raise(out, bad, good, p, gain):
    """Set out = max(out, value of a pull) over states that differ in other runs only."""
    for i in range(out.shape[0]):
        x = value_of_pull(gain, p, bad[i], good[i])
        out[i] = x if x > out[i] else out[i]


@compiled(fastmath={"contract", "nsz"})
def _raise_row(out, after, p, gain):
    """Set out = max(out, value of a pull) over the good outcomes of a single arm."""
    for g in range(out.shape[0]):
        x = value_of_pull(gain[g], p[g], after[g], after[g + 1])
        out[g] = x if x > out[g] else out[g]


@compiled(inline="always")
def _raise_run(out, after, outer, inner, v, leaving, joining, sizes, p, gain):
    """Try every arm of a run in every state of a shape.

    Removing g from the run is read backwards: `leaving` has the rank of the r - 1 others with g.
    `joining` has the ranks of the run v + 1 with g. sizes: multisets of the run, of the run
    without one arm, of the next run, of that with one arm more.
    """
    full, left, near, joined = sizes
    if inner == 1 and left == 1 and near == 1:
        for o in range(outer):
            start = o * (v + 1)
            _raise_row(out[start : start + v + 1], after[start + o : start + o + v + 2], p, gain)
        return
    for o in range(outer):
        for rest in range(left):
            base = (o * left + rest) * joined
            for g in range(v + 1):
                to = (o * full + leaving[rest, g]) * near * inner
                for b in range(near):
                    bad = (base + joining[b, g]) * inner
                    good = (base + joining[b, g + 1]) * inner
                    if inner == 1:
                        x = value_of_pull(gain[g], p[g], after[bad], after[good])
                        out[to] = max(out[to], x)
                    else:
                        _raise(
                            out[to : to + inner],
                            after[bad : bad + inner],
                            after[good : good + inner],
                            p[g],
                            gain[g],
                        )
                    to += inner


@compiled(inline="always")
def _insertions(ranking, r, v):
    """Rank of every multiset of r values in 0..v with one more value, (multisets, width)."""
    rows, start, width = ranking.under[v + 1, r], ranking.start[r], ranking.width[r]
    return ranking.insert[start : start + rows * width].reshape((rows, width))


@compiled
def _at_least(out, source, floor):
    """Set out = max(source, floor)."""
    for i in range(out.shape[0]):
        out[i] = source[i] if source[i] > floor else floor


@compiled
def _fill_last(arms, t, ranking, pulls, out, p, gain):
    """out: the largest gain in every state of one shape.

    The states of the last runs stand in front of `out` and are repeated for every multiset of the
    run before, down to the first multiset, which takes their place.
    """
    inner, stop = 1, pulls.size
    out[0] = -np.inf
    while stop > 0:
        k, v, c = ranking.group[stop - 1], np.int64(pulls[stop - 1]), stop - 1
        while c > 0 and ranking.group[c - 1] == k and pulls[c - 1] == v:
            c -= 1
        pull_row(arms, k, t, v, p, gain)
        leaving = _insertions(ranking, stop - c - 1, v)
        best = np.full(ranking.under[v + 1, stop - c], -np.inf)
        for rest in range(leaving.shape[0]):
            for g in range(v + 1):
                a = leaving[rest, g]
                best[a] = max(best[a], gain[g])
        for a in range(best.size - 1, -1, -1):
            _at_least(out[a * inner : (a + 1) * inner], out[:inner], best[a])
        inner *= best.size
        stop = c


@compiled
def fill_last(arms, t, ranking, shapes, first, last, values):
    """values: W_t at the last stage, in the states of shapes first..last-1; one pull."""
    p, gain = np.empty(t + 1), np.empty(t + 1)
    for s in range(first, last):
        out = values[shapes.offset[s] : shapes.offset[s + 1]]
        _fill_last(arms, t, ranking, shapes.pulls[s], out, p, gain)


@compiled(inline="always")
def _try_run(arms, t, ranking, pulls, c, r, outer, out, reached, p, gain):
    """Try the arms of the run of r columns from c on; return its number of multisets.

    reached: W_{t+1} in the states of the shape that a pull of the run leads to.
    """
    under, group = ranking.under, ranking.group
    k, v = group[c], np.int64(pulls[c])
    near = run_length(pulls, group, c + r, k, v + 1)
    leaving, joining = _insertions(ranking, r - 1, v), _insertions(ranking, near, v + 1)
    sizes = under[v + 1, r], leaving.shape[0], joining.shape[0], under[v + 2, near + 1]
    inner = out.size // (outer * sizes[0] * sizes[2])
    pull_row(arms, k, t, v, p, gain)
    _raise_run(out, reached, outer, inner, v, leaving, joining, sizes, p, gain)
    return sizes[0]


@compiled
def _fill_before_last(arms, t, ranking, shapes, s, out, final, spare, p, gain):
    """out: W_t in the states of shape s, where t + 1 is the last stage, of the shapes `final`."""
    pulls, group = shapes.pulls[s], ranking.group
    out[:] = -np.inf
    outer, c = 1, 0
    while c < pulls.size:
        r = run_length(pulls, group, c, group[c], np.int64(pulls[c]))
        to = shapes.after[s, c + r - 1]
        reached = spare[: final.offset[to + 1] - final.offset[to]]
        _fill_last(arms, t + 1, ranking, final.pulls[to], reached, p, gain)
        outer *= _try_run(arms, t, ranking, pulls, c, r, outer, out, reached, p, gain)
        c += r


@compiled
def fill_level(arms, t, ranking, shapes, first, last, values, later, after):
    """values: W_t in the states of shapes first..last-1; one arm is pulled.

    later, after: the shapes of stage t + 1, and W_{t+1} where they begin in it.
    """
    p, gain = np.empty(t + 1), np.empty(t + 1)
    for s in range(first, last):
        out, pulls = values[shapes.offset[s] : shapes.offset[s + 1]], shapes.pulls[s]
        out[:] = -np.inf
        outer, c = 1, 0
        while c < pulls.size:
            r = run_length(pulls, ranking.group, c, ranking.group[c], np.int64(pulls[c]))
            to = shapes.after[s, c + r - 1]
            reached = after[later.offset[to] : later.offset[to + 1]]
            outer *= _try_run(arms, t, ranking, pulls, c, r, outer, out, reached, p, gain)
            c += r


@compiled
def fill_ahead(arms, t, ranking, shapes, first, last, values, later, final, near):
    """values: as in `fill_level`, where no later stage is stored: those have most states.

    final: the shapes of the last stage, which is t + 1 if `near`, with shapes `later` too, or else
    t + 2. Values of later stages are found wherever they are needed.
    """
    p, gain = np.empty(t + 3), np.empty(t + 3)
    spare = np.empty(np.diff(final.offset).max())
    between = np.empty(np.diff(later.offset).max())
    for s in range(first, last):
        out, pulls = values[shapes.offset[s] : shapes.offset[s + 1]], shapes.pulls[s]
        if near:
            _fill_before_last(arms, t, ranking, shapes, s, out, final, spare, p, gain)
            continue
        out[:] = -np.inf
        outer, c = 1, 0
        while c < pulls.size:
            r = run_length(pulls, ranking.group, c, ranking.group[c], np.int64(pulls[c]))
            to = shapes.after[s, c + r - 1]
            reached = between[: later.offset[to + 1] - later.offset[to]]
            _fill_before_last(arms, t + 1, ranking, later, to, reached, final, spare, p, gain)
            outer *= _try_run(arms, t, ranking, pulls, c, r, outer, out, reached, p, gain)
            c += r


# Values that are sums over the arms: bounds on what comes after a stage.
#
#     W(x) = min over j of  fixed[j] + sum over arms of  tables[j, k, (n, g) of the arm]
#
# The multisets g_1 <= ... <= g_r of a run whose largest value is g have the ranks from under[g, r]
# on, in the order of their other r - 1 values. fixed (J,): what does not depend on the state;
# tables (J, G, slab): state (n, g) of group k at n(n+1)/2 + g.


@compiled(inline="always")
def _sums_of_run(under, own, r, v, sums, fewer):
    """Set sums: over the r values of every multiset of 0..v, of own[value]. fewer: spare room."""
    sums[0] = 0.0
    for i in range(1, r + 1):
        before = under[v + 1, i - 1]
        copy(sums[:before], fewer)
        for g in range(v + 1):
            start = under[g, i]
            for a in range(under[g + 1, i - 1]):
                sums[start + a] = fewer[a] + own[g]


@compiled
def _added(source, more, out):
    """Set out = source + more; slices that count from 0, so that the compiler uses vectors."""
    for i in range(out.shape[0]):
        out[i] = source[i] + more


@compiled
def _lowered(source, more, fixed, out):
    """Set out = min(out, fixed + (source + more))."""
    for i in range(out.shape[0]):
        x = fixed + (source[i] + more)
        out[i] = x if x < out[i] else out[i]


@compiled(inline="always")
def _lower_shape(ranking, pulls, fixed, tables, out, found, sums, fewer):
    """out: lowered to `fixed` and the sum over all arms in every state of a shape.

    tables (G, slab). As in `joint`, the states of the last runs, in `found`, are repeated for every
    multiset of the run before; those of the first run go to `out`.
    """
    inner, stop = 1, pulls.size
    found[0] = 0.0
    while stop > 0:
        k, v, c = ranking.group[stop - 1], np.int64(pulls[stop - 1]), stop - 1
        while c > 0 and ranking.group[c - 1] == k and pulls[c - 1] == v:
            c -= 1
        own = tables[k, row_start(v) : row_start(v + 1)]
        _sums_of_run(ranking.under, own, stop - c, v, sums, fewer)
        multisets = ranking.under[v + 1, stop - c]
        for a in range(multisets - 1, -1, -1):
            first, last = a * inner, (a + 1) * inner
            if c == 0:
                _lowered(found[:inner], sums[a], fixed, out[first:last])
            else:
                _added(found[:inner], sums[a], found[first:last])
        inner *= multisets
        stop = c


@compiled
def fill_ending(ranking, shapes, fixed, tables, first, last, values):
    """values: W in the states of shapes first..last-1."""
    largest = 1
    for s in range(first, last):
        largest = max(largest, shapes.offset[s + 1] - shapes.offset[s])
    found, sums, fewer = np.empty(largest), np.empty(largest), np.empty(largest)
    for s in range(first, last):
        out = values[shapes.offset[s] : shapes.offset[s + 1]]
        out[:] = np.inf
        for j in range(fixed.size):
            _lower_shape(ranking, shapes.pulls[s], fixed[j], tables[j], out, found, sums, fewer)
