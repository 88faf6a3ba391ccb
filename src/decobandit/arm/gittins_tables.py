"""Whole tables of finite-horizon Gittins indices, for rewards that are the same at all stages.

Up to ALL_STAGES every index is solved, to ACCURACY. In longer tables, root finding stops when a
step is at most LAST_STEP, and indices of arms with many pulls, which are smooth in the pulls left,
are partly interpolated; `docs/decisions/0002-calibrated-index.md` has the errors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..support import pool, worker_count
from .kernels.calibrated_sweep import stage_start
from .kernels.gittins import flat_row

Floats = npt.NDArray[np.float64]
ACCURACY = 1e-11  # of an index that is solved, in units of the reward difference
LAST_STEP = 3e-7  # the same in longer tables: the error after such a step is far smaller
ALL_STAGES = 128
SMOOTH, STEP = 96, 4  # from so many pulls on, roots are found at every STEP-th number of pulls left
SINGLE_THREAD_STAGES = 48  # up to here, several threads are slower than one


def flat_table(
    *, alpha: float, beta: float, reward_good: float, reward_bad: float, stages: int,
    workers: int | None = None,
) -> Floats:  # fmt: skip
    """Indices of all states of all stages, as `stage_start` lays them out."""
    table = np.empty(stage_start(stages))

    def fill(n: int) -> None:
        step = STEP if stages > ALL_STAGES and n >= SMOOTH else 1
        tol = ACCURACY if stages <= ALL_STAGES else LAST_STEP
        flat_row(alpha, beta, reward_good, reward_bad, stages, n, step, tol, table)

    with pool(1 if stages <= SINGLE_THREAD_STAGES else worker_count(workers)) as threads:
        threads.map(fill, range(stages))
    return table
