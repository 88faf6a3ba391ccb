"""Triangular layout shared by all kernels: where a state of one arm lives in a flat slab."""

from numba import njit


@njit(cache=True, nogil=True, inline="always")
def row_start(n):
    """Position of state (n, 0); also the number of states with fewer than n pulls."""
    return n * (n + 1) // 2


def slab_size(pulls: int) -> int:
    """Number of states with at most `pulls` pulls."""
    return (pulls + 1) * (pulls + 2) // 2
