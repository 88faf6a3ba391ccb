"""Rows of numbers in kernels.

`target[:] = source` may broadcast, and the compiler then also compiles the text of the error for
shapes that do not fit: seconds for each pair of types. Lengths are known here, so a loop does.
"""

from .compiled import compiled


@compiled
def copy(source, target):
    """target[s] = source[s] for all entries of source (n,)."""
    for s in range(source.shape[0]):
        target[s] = source[s]
