"""Bins of success probabilities in which Thompson sampling looks for the largest draw.

The position of the bins does not affect which arm is pulled, only how often two draws share a bin.
Cuts are quantiles, at probabilities sin^2 so that outer bins are small, of a mixture: half the
distribution of the largest prior draw, where the best arm is likely to be, and half that of any.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..support import Floats
from .best_chances import cdf

CUTS = 48  # a multiple of the vector width; with more, fewer draws share a bin, but each costs time
_WIDEST = 700.0  # log-odds
_HALVINGS = 60
_LEAST = -500.0  # log of the smallest w, far above what a double can hold


class Bins(NamedTuple):
    """What `kernels.thompson_bins` plays with; see its notations."""

    cut: Floats  # (cuts,)
    x: Floats  # (2, cuts)
    below: Floats  # (arms, cuts)
    w: Floats  # (arms, cuts)


def bins(alpha: Floats, beta: Floats) -> Bins | None:
    """Bins for arms with priors Beta(alpha, beta), each (arms,).

    None where a prior is so sure of itself that w vanishes at a cut: whatever is multiplied with it
    afterwards, it could not come back, and outcomes may prove the prior wrong.
    """
    from scipy.special import betaln, expit, log_expit  # late: trials do not need scipy

    priors = list(zip(alpha.tolist(), beta.tolist(), strict=True))
    levels = np.sin(np.linspace(0.0, np.pi / 2.0, CUTS)[1:-1]) ** 2
    low, high = np.full(levels.size, -_WIDEST), np.full(levels.size, _WIDEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        below = _below(priors, middle)
        above = (below.prod(axis=0) + below.mean(axis=0)) / 2.0 >= levels
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    log_x, log_rest = log_expit(high), log_expit(-high)
    log_w = np.array([a * log_x + b * log_rest - betaln(a, b) for a, b in priors])
    if log_w.min() < _LEAST:
        return None
    w = np.exp(log_w)
    cut = np.concatenate([[-np.inf], high, [np.inf]])
    below = np.pad(_below(priors, high), ((0, 0), (1, 1)), constant_values=(0.0, 1.0))
    return Bins(cut, np.array([expit(-cut), expit(cut)]), below, np.pad(w, ((0, 0), (1, 1))))


def _below(priors: list[tuple[float, float]], y: Floats) -> Floats:
    """Chance of every arm's draw to have log-odds below y, (arms, y)."""
    laws = {prior: cdf(*prior, y) for prior in set(priors)}
    return np.array([laws[prior] for prior in priors])
