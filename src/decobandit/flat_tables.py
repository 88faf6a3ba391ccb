"""Whole tables of finite-horizon Gittins indices, for rewards that are the same at all stages.

Up to ALL_STAGES every index is solved, to ACCURACY. Longer tables end a root where the next step
would be too short to matter, and leave out roots of well-known arms, whose indices are smooth in
the pulls left; `docs/decisions/0002-calibrated-index.md` has the errors.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from .kernels.flat_index import flat_row
from .kernels.frontier import stage_start

Floats = npt.NDArray[np.float64]
ACCURACY = 1e-11  # of an index that is solved, in units of the reward difference
LAST_STEP = 3e-7  # the same in longer tables: the error after such a step is far smaller
ALL_STAGES = 128
SMOOTH, STEP = 96, 4  # from so many pulls on, roots are found at every STEP-th number of pulls left
ALONE = 48  # stages up to which threads cost more than they gain


def flat_table(
    *, alpha: float, beta: float, reward_good: float, reward_bad: float, stages: int
) -> Floats:
    """Indices of all states of all stages, as `stage_start` lays them out."""
    table = np.empty(stage_start(stages))

    def fill(n: int) -> None:
        step = STEP if stages > ALL_STAGES and n >= SMOOTH else 1
        tol = ACCURACY if stages <= ALL_STAGES else LAST_STEP
        flat_row(alpha, beta, reward_good, reward_bad, stages, n, step, tol, table)

    if stages <= ALONE:
        for n in range(stages):
            fill(n)
        return table
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, range(stages)))
    return table
