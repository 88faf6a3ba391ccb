"""Values of joint states that are sums over the arms: bounds on what comes after a stage.

    W(x) = min over j of  fixed[j] + sum over arms of  tables[j, k, (n, g) of the arm]

Shapes, runs and ranks are those of `joint`. The multisets g_1 <= ... <= g_r of a run whose largest
value is g have the ranks from under[g, r] on, in the order of their other r - 1 values.

Notations
    J              bounds of which the smallest is taken
    fixed (J,)     what does not depend on the state
    tables (J, G, slab)  state (n, g) of group k at n(n+1)/2 + g
"""

import numpy as np

from ...problem.kernels.layout import row_start
from ...support.kernels.arrays import copy
from ...support.kernels.compiled import compiled


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
