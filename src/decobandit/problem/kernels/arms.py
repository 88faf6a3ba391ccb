"""Groups of arms as kernels see them.

Compiled code reads the fields by their order. They stand here, among the kernels, so that code that
was compiled for another order is never used (`support.machine_code`).
"""

from typing import NamedTuple

from ...support import Floats


class Arms(NamedTuple):
    """G groups of exchangeable arms over T stages; `slab` counts the states with n <= T."""

    alpha: Floats  # (G,) prior weight of good
    beta: Floats  # (G,) prior weight of bad
    counts: Floats  # (G,) arms in the group
    reward_good: Floats  # (G, T)
    reward_bad: Floats  # (G, T)
    terminal: Floats  # (G, slab) V_T
