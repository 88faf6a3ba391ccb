"""Draws of success probabilities that reach where a nearly certain prior hardly ever goes.

Under Beta(.001, .001) a success probability is 0 or 1 as far as outcomes can tell, but for one draw
in a hundred; what those draws earn decides the last digits of a value. Where a prior has a small
parameter, draws therefore come from a mixture, half of it the prior itself (defensive importance
sampling: Hesterberg, Weighted average importance sampling and defensive mixture distributions,
Technometrics 1995; with controls: Owen and Zhou, Safe and effective importance sampling, 2000):

    g(p) = prod_k f_k(p_k) (1/2 + 1/4 mean of the ratios + 1/4 product of the ratios)
    ratios: q_k(p_k) / f_k(p_k) of the arms whose prior has a small parameter

f_k the priors, q_k = Beta(max(alpha, SMALL), max(beta, SMALL)): one of these arms is drawn from q,
or all of them are. A draw counts with the weight prod_k f_k / g, at most 2, so that
E_g[weight y(p)] = E y(p). Without such arms all draws are as they were, with weight 1.
"""

from __future__ import annotations

import numpy as np

from ..support import Floats

SMALL = 0.2  # of the parameters of a prior: those below are widened to this
OWN, ONE, ALL = 0.5, 0.25, 0.25  # shares of draws: the priors, one arm wide, all of them wide
NEAR_ONE = 1e-12  # 1 - p below which p is the same as 1, and only the chance of being there counts


class Proposal:
    """The mixture for priors Beta(alpha, beta), each (arms,)."""

    def __init__(self, alpha: Floats, beta: Floats) -> None:
        self._alpha, self._beta = alpha, beta
        self._small = np.flatnonzero(np.minimum(alpha, beta) < SMALL)
        self._wide = np.maximum(alpha, SMALL), np.maximum(beta, SMALL)

    @property
    def widened(self) -> bool:
        """Whether draws are not just those of the prior."""
        return self._small.size > 0

    def replace(self, p: Floats, rng: np.random.Generator) -> None:
        """In half of the draws p (draws, arms), draw one or all small arms from q."""
        part, one = rng.random(len(p)), rng.choice(self._small, size=len(p))
        wide = (part >= OWN + ONE)[:, None] | (
            (part >= OWN)[:, None] & (one[:, None] == self._small)
        )
        a, b = self._wide
        drawn = rng.beta(a[self._small], b[self._small], size=wide.shape)
        p[:, self._small] = np.where(wide, drawn, p[:, self._small])

    def weights(self, p: Floats) -> Floats:
        """Of draws p (draws, arms)."""
        ratios = [self._ratio(p[:, k], int(k)) for k in self._small]
        with np.errstate(over="ignore"):  # a draw may be no draw of the priors at all
            part = OWN + ONE * np.mean(ratios, axis=0) + ALL * np.prod(ratios, axis=0)
        return np.asarray(1.0 / part)

    def _ratio(self, p: Floats, k: int) -> Floats:
        """q_k / f_k, (draws,). Doubles near 1 are sparse: there, the ratio of the chances."""
        from scipy.special import betainc, betaln  # late: trials do not need scipy

        a, b, wide_a, wide_b = self._alpha[k], self._beta[k], self._wide[0][k], self._wide[1][k]
        rest = np.maximum(1.0 - p, NEAR_ONE)
        with np.errstate(divide="ignore"):
            logs = betaln(a, b) - betaln(wide_a, wide_b)
            logs += np.where(wide_a > a, (wide_a - a) * np.log(p), 0.0)
            ratio = np.exp(logs + (wide_b - b) * np.log(rest))
        if wide_b == b:
            return np.asarray(ratio)
        near = betainc(wide_b, wide_a, NEAR_ONE) / betainc(b, a, NEAR_ONE)
        return np.asarray(np.where(1.0 - p < NEAR_ONE, near, ratio))
