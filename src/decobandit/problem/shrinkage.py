"""Earlier outcomes by segment, shrunk towards all of them: empirical Bayes for one arm.

The means of an arm in the segments are taken to be draws from one common prior, worth kappa
outcomes; kappa maximises the marginal likelihood of the outcomes of all segments. With n_r outcomes
in segment r,

    e_r  = kappa n_r / (kappa + n_r)                         their worth for the common mean
    E_s  = sum of e_r over the segments r other than s
    w_sr = kappa / (kappa + E_s) * kappa / (kappa + n_r)     weight of an outcome of r for s

and the prior of segment s is its prior before, updated by its own outcomes and by those of each
other segment r with weight w_sr: by kappa E_s / (kappa + E_s) outcomes of the others in all. Where
segments do not differ, kappa is infinite and all outcomes count in full; where they differ by much,
kappa is small and only its own count.
"""

from __future__ import annotations

import math

import numpy as np

from ..support import Floats
from .arms import Arm, model_of

MIN_STRENGTH = 1e-3  # outcomes
MAX_STRENGTH = 100.0  # times all outcomes: beyond, segments do not differ
BASE_PULLS = 0.01  # outcomes that the arm's prior is worth in the common mean


def shrunk_stats(arm: Arm, stats: Floats) -> Floats:
    """Return the outcomes that count for each segment, (segments, width), as `stats`."""
    pulls = np.asarray(model_of(arm).pulls(stats), dtype=float)
    kappa = common_strength(arm, stats)
    if math.isinf(kappa):
        return np.broadcast_to(stats.sum(axis=0), stats.shape)
    worth = kappa * pulls / (kappa + pulls)
    weights = kappa / (kappa + worth.sum() - worth)[:, None] * (kappa / (kappa + pulls))
    np.fill_diagonal(weights, 1.0)
    return np.asarray(weights @ stats)


def common_strength(arm: Arm, stats: Floats) -> float:
    """Return kappa, the outcomes that the common prior is worth; infinite if nothing differs.

    `stats`: statistics of the arm by segment, (segments, width). It cannot be told from fewer than
    two segments with outcomes, and is infinite there.
    """
    from scipy.optimize import minimize_scalar  # late: scipy takes half a second to load

    pulls = np.asarray(model_of(arm).pulls(stats), dtype=float)
    stats, pulls = stats[pulls > 0.0], pulls[pulls > 0.0]
    if len(pulls) < 2:
        return math.inf
    points = np.linspace(math.log(MIN_STRENGTH), math.log(MAX_STRENGTH * pulls.sum()), 100)

    def loss(log_kappa: float) -> float:
        return -log_likelihood(arm, stats, pulls, math.exp(log_kappa))

    best = int(np.argmin([loss(point) for point in points]))
    if best == len(points) - 1:
        return math.inf
    around = (points[max(best - 1, 0)], points[best + 1])
    return math.exp(minimize_scalar(loss, bounds=around, method="bounded").x)


def log_likelihood(arm: Arm, stats: Floats, pulls: Floats, kappa: float) -> float:
    """Return the log marginal likelihood of the segments' outcomes, up to a constant.

    The common prior is worth `kappa` outcomes; its mean is that of all outcomes, those of segment r
    weighted by e_r / n_r.
    """
    base = arm.prior.weighted(BASE_PULLS / (model_of(arm).prior_pulls or 1.0))
    common = arm.model_copy(update={"prior": base})
    prior = model_of(common).posterior(kappa / (kappa + pulls) @ stats)
    common = arm.model_copy(update={"prior": prior})
    strength = kappa / (model_of(common).prior_pulls or 1.0)
    common = arm.model_copy(update={"prior": prior.weighted(strength)})
    return float(np.sum(model_of(common).log_evidence(stats)))
