"""Triangular layout shared by all kernels: where a state of one arm lives in a flat slab."""

from ...support.kernels.compiled import compiled


@compiled(inline="always")
def row_start(n):
    """Position of state (n, 0); also the number of states with fewer than n pulls."""
    return n * (n + 1) // 2


def slab_size(pulls: int) -> int:
    """Number of states with at most `pulls` pulls."""
    return (pulls + 1) * (pulls + 2) // 2


@compiled
def spot(good, bad, most):
    """Position of a state among all with at most `most` pulls, in order of bad, then good outcomes.

    One more good outcome is the next position: runs of them read on in memory.
    """
    return bad * (most + 1) - bad * (bad - 1) // 2 + good
