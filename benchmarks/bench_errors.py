"""Standard errors of `simulate` at its default size against exact values: z-scores by family.

About 2,000 estimates of random problems (`error_cases.py`). Errors that are bounds by the range of
the rewards count for the largest z-score, not for the standard deviation.
"""

from __future__ import annotations

import numpy as np

from .error_cases import FAMILIES, scores
from .rows import Row, at_most

PROBLEMS, SEEDS = 23, 4
MAX_Z = 5.0
LEAST_SD, LARGEST_SD = 0.8, 1.2


def run(problems: int = PROBLEMS, seeds: int = SEEDS) -> list[Row]:
    """Largest z-score of every family, and the standard deviation of all."""
    rows: list[Row] = []
    by_spread: list[float] = []
    for family in FAMILIES:
        found = [each for n in range(problems) for each in scores(family, n, range(seeds))]
        z = [abs(each.z) for each in found]
        rows.append(at_most(f"largest |z| of {len(z)}, {family}", max(z), "", MAX_Z))
        by_spread += [x.z for x in found if (x.what, x.kind) == ("value", "spread")]
    sd = float(np.sqrt(np.mean(np.square(by_spread))))
    target = f"{LEAST_SD:g} to {LARGEST_SD:g}"
    met = LEAST_SD <= sd <= LARGEST_SD
    what = f"standard deviation of z, {len(by_spread)} values"
    return [*rows, Row(what, sd, "", "true errors", 1.0, None, target, met)]
