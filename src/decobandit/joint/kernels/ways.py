"""Product of two sparse matrices that carry moments: the pulls of both.

    P = P1 P2        A = A1 P2 + P1 A2        B = B1 P2 + 2 A1 A2 + P1 B2

Row i has the entries at[i] .. at[i + 1] - 1: columns `to`, and weight (1 or 3, N): P, or P, A, B.
"""

import numpy as np

from ...support.kernels.compiled import compiled


@compiled
def product(at, to, weight, later_at, later_to, later_weight, size):
    """at, to and weight of the product, whose rows have `size` columns."""
    rows = at.shape[0] - 1
    row_of, place = np.full(size, -1, np.int64), np.empty(size, np.int64)
    start, entries = np.zeros(rows + 1, np.int64), 0
    for i in range(rows):
        for a in range(at[i], at[i + 1]):
            for b in range(later_at[to[a]], later_at[to[a] + 1]):
                if row_of[later_to[b]] != i:
                    row_of[later_to[b]] = i
                    entries += 1
        start[i + 1] = entries
    column, total = np.empty(entries, np.int64), np.zeros((weight.shape[0], entries))
    row_of[:] = -1
    for i in range(rows):
        entries = start[i]
        for a in range(at[i], at[i + 1]):
            for b in range(later_at[to[a]], later_at[to[a] + 1]):
                j = later_to[b]
                if row_of[j] != i:
                    row_of[j], place[j], column[entries] = i, entries, j
                    entries += 1
                e, p1, p2 = place[j], weight[0, a], later_weight[0, b]
                total[0, e] += p1 * p2
                if weight.shape[0] == 3:
                    a1, a2 = weight[1, a], later_weight[1, b]
                    total[1, e] += a1 * p2 + p1 * a2
                    more = 2.0 * a1 * a2 + p1 * later_weight[2, b]
                    total[2, e] += weight[2, a] * p2 + more
    return start, column, total
