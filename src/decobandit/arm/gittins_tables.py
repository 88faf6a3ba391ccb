"""Whole tables of Gittins indices, for rewards that are the same at all stages.

Of a finite horizon (`flat_table`), or discounted for ever (`discounted_table`).

Up to ALL_STAGES every index is solved, to ACCURACY. In longer tables, root finding stops when a
step is at most LAST_STEP, and indices of arms with many pulls, which are smooth where many pulls
are left, are partly interpolated; `docs/decisions/0002-calibrated-index.md` has the errors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..support import Floats, pool, worker_count
from .kernels.calibrated_sweep import stage_start
from .kernels.discounted import discounted_indices
from .kernels.gittins import flat_row

ACCURACY = 1e-11  # of an index that is solved, in units of the reward difference
LAST_STEP = 3e-7  # the same in longer tables: the error after such a step is far smaller
ALL_STAGES = 128
# Pulls of an arm, and from how many pulls left on its roots are solved every so many apart: as far
# as cubics between them are off by less than 1e-7
APART = (
    (200, ((88, 2), (120, 4), (160, 8), (256, 16))),
    (150, ((96, 2), (120, 4), (160, 8), (256, 16))),
    (120, ((96, 2), (120, 4), (160, 8))),
    (80, ((96, 2), (120, 4))),
    (64, ((96, 2),)),
)
SINGLE_THREAD_STAGES = 48  # up to here, several threads are slower than one


def flat_table(
    *,
    alpha: float,
    beta: float,
    reward_good: float,
    reward_bad: float,
    stages: int,
    workers: int | None = None,
) -> Floats:
    """Indices of all states of all stages, as `stage_start` lays them out."""
    table = np.empty(stage_start(stages))

    def fill(n: int) -> None:
        tol = ACCURACY if stages <= ALL_STAGES else LAST_STEP
        steps = steps_apart(n if stages > ALL_STAGES else 0)
        flat_row(alpha, beta, reward_good, reward_bad, stages, n, steps, tol, table)

    with pool(1 if stages <= SINGLE_THREAD_STAGES else worker_count(workers)) as threads:
        threads.map_told("table of indices", fill, range(stages))
    return table


def steps_apart(n: int) -> npt.NDArray[np.int64]:
    """Where the roots of arms with n pulls are apart, and how far; see kernels/gittins.py."""
    found = next((steps for least, steps in APART if n >= least), ())
    return np.array(found, dtype=np.int64).reshape(-1, 2)


CHARGES = 4000  # of the grid of discounted indices: errors of 1e-6 mostly, 5e-5 at worst (d = 0.99)
NEGLIGIBLE = 2e-3  # discount of the pulls beyond those that are followed
MOST_PULLS = 3000  # seconds


def discounted_table(
    *, alpha: float, beta: float, reward_good: float, reward_bad: float, discount: float, pulls: int
) -> Floats:
    """Discounted indices of all states of 0 .. `pulls` pulls: (n, g) at n (n + 1) / 2 + g.

    Examples
    --------
    >>> from decobandit.arm.gittins_tables import discounted_table
    >>> prior = {"alpha": 1.0, "beta": 1.0, "reward_good": 1.0, "reward_bad": 0.0}
    >>> round(discounted_table(**prior, discount=0.9, pulls=1)[0], 4)
    0.7029
    """
    swapped = reward_good < reward_bad
    a, b = (beta, alpha) if swapped else (alpha, beta)
    depth = int(np.ceil(np.log(NEGLIGIBLE) / np.log(discount)))
    table = np.zeros((pulls + 1) * (pulls + 2) // 2)
    # closer towards the ends, as posterior standard deviations are smaller there
    charges = np.sin(np.linspace(0.0, np.pi / 2.0, CHARGES + 1)) ** 2
    discounted_indices(a, b, discount, pulls, depth, charges, table)
    if swapped:  # of good and bad outcomes again
        rows = [table[n * (n + 1) // 2 : (n + 1) * (n + 2) // 2][::-1] for n in range(pulls + 1)]
        table = np.concatenate(rows)
    return np.asarray(min(reward_good, reward_bad) + abs(reward_good - reward_bad) * table)
