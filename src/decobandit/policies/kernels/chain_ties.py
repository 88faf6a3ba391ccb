"""Arms in states whose index is the price, put in an order in which states get their shares.

    x (N,)          part of the arms in a state that the relaxed solution pulls
    code (E, K)     state of every arm, among the N of all groups

Where n arms are in a state, the j-th of them, j = 0, 1, .., is due at (j + 1/2) / (n x): of the
arms that are due first, as many are in each state as its share asks for.
"""

import numpy as np

from ...support.kernels.compiled import compiled

LEAST_SHARE = 1e-9  # of a state that is not pulled: it is due last


@compiled
def mix_ties(code, price, width, share, values):
    """Replace values (E, K) within `width` of the price by ones in order of when arms are due."""
    number, seen = np.zeros(share.shape[0], np.int64), np.zeros(share.shape[0], np.int64)
    for e in range(code.shape[0]):
        for k in range(code.shape[1]):
            if abs(values[e, k] - price) <= width:
                number[code[e, k]] += 1
        for k in range(code.shape[1]):
            if abs(values[e, k] - price) <= width:
                c = code[e, k]
                due = (seen[c] + 0.5) / max(number[c] * share[c], LEAST_SHARE)
                values[e, k] = price + width * (1.0 - 2.0 * due / (1.0 + due))
                seen[c] += 1
        for k in range(code.shape[1]):
            number[code[e, k]], seen[code[e, k]] = 0, 0
