"""Tests of means where the variance is estimated: Student's t and Welch's, of each arm and control.

    t        one variance for both arms, pooled: n + m - 2 degrees of freedom
    welch    a variance for each arm, degrees of freedom by Satterthwaite's formula

Both are one-sided, at a difference of the margin, and use nothing but the outcomes. They are not
corrected for several arms, nor for the way pulls were allocated: in an adaptive trial the type I
error can differ from alpha, and operating characteristics say by how much.
"""

from __future__ import annotations

import numpy as np

from ..problem import Problem, Rules
from ..support import Floats, Ints


def t_p_values(
    problem: Problem, pulls: Ints, stats: Floats, control: int, rules: Rules, *, pooled: bool
) -> Floats:
    """P-values of every arm against control, (S, K); 1 for control and without variances.

    stats (S, K, 3): pulls, sums and sums of squares of the outcomes.
    """
    from scipy.special import stdtr  # late: scipy takes half a second to load

    base, factor = rules.pull_values(problem)
    n = pulls.astype(float)
    mean = stats[..., 1] / np.maximum(n, 1.0)
    scatter = factor**2 * np.maximum(stats[..., 2] - n * mean**2, 0.0)
    free = np.maximum(n - 1.0, 0.0)
    apart = base + factor * mean
    apart = apart - apart[:, [control]] - rules.margin
    with np.errstate(divide="ignore", invalid="ignore"):
        if pooled:
            freedom = free + free[:, [control]]
            variance = (scatter + scatter[:, [control]]) / freedom
            spread = np.sqrt(variance * (1.0 / n + 1.0 / n[:, [control]]))
        else:
            square = scatter / free / n
            both = square + square[:, [control]]
            terms = square**2 / free
            freedom, spread = both**2 / (terms + terms[:, [control]]), np.sqrt(both)
        p_values = np.where(spread > 0.0, stdtr(freedom, -apart / spread), apart <= 0.0)
    least = np.minimum(n, n[:, [control]])
    enough = (least >= 1.0) & (freedom >= 1.0) if pooled else least >= 2.0
    p_values = np.where(enough, p_values, 1.0)
    p_values[:, control] = 1.0
    return np.asarray(p_values)
