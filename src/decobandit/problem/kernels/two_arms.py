"""Joint states of two arms after t pulls, one per stage, in one flat array.

State (n1, g1, g2), with n2 = t - n1, is at start[n1] + g1 (n2 + 1) + g2.
"""

import numpy as np

from ...support.kernels.compiled import compiled


@compiled
def slab_starts(t):
    """First states with n1 = 0..t pulls of arm 1; last: the number of states."""
    start = np.empty(t + 2, np.int64)
    start[0] = 0
    for n in range(t + 1):
        start[n + 1] = start[n] + (n + 1) * (t - n + 1)
    return start
