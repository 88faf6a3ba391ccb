"""Rows of numbers in kernels, and numbers that kernels hand to kernels.

`target[:] = source` may broadcast, and the compiler then also compiles the text of the error for
shapes that do not fit: seconds for each pair of types. Lengths are known here, so a loop does.
"""

import numpy as np

from .compiled import compiled

# a plain 0 that one kernel hands to another is a type of its own: the other is compiled once more
ZERO, ONE = np.int64(0), np.int64(1)


@compiled
def copy(source, target):
    """target[s] = source[s] for all entries of source (n,)."""
    for s in range(source.shape[0]):
        target[s] = source[s]
