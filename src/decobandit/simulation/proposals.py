"""Draws of success probabilities that reach where a nearly certain prior hardly ever goes.

Under Beta(.001, .001) a success probability is 0 or 1 as far as outcomes can tell, but for one draw
in a hundred; what those draws earn decides the last digits of a value. Where a prior has a small
parameter, draws therefore come from a mixture, half of it the prior itself (defensive importance
sampling: Hesterberg, Weighted average importance sampling and defensive mixture distributions,
Technometrics 1995; with controls: Owen and Zhou, Safe and effective importance sampling, 2000):

    g(p) = prod_k f_k(p_k) (1/2 + 1/4 mean of the ratios + 1/4 product of the ratios)
    ratios: q_k(p_k) / f_k(p_k) of the arms whose prior has a small parameter

f_k the priors, q_k the mean of Beta(alpha, B), Beta(A, beta) and Beta(A, B), A = max(alpha, SMALL)
and B = max(beta, SMALL): the draws near 0, those near 1, each spread as under the prior, and those
between. One of these arms is drawn from q, or all of them are. A draw counts with the weight
prod_k f_k / g, at most 2, so that E_g[weight y(p)] = E y(p). Without such arms all draws are as
they were, with weight 1.
"""

from __future__ import annotations

import numpy as np

from ..support import Floats

SMALL = 0.2  # of the parameters of a prior: those below are widened to this
OWN, ONE, ALL = 0.5, 0.25, 0.25  # shares of draws: the priors, one arm wide, all of them wide
TINY = 1e-300  # p below which its logarithm is that of this
NEAR_ONE = 1e-12  # 1 - p below which p is the same as 1, and only the chance of being there counts


class Proposal:
    """The mixture for priors Beta(alpha, beta), each (arms,)."""

    def __init__(self, alpha: Floats, beta: Floats) -> None:
        self._alpha, self._beta = alpha, beta
        self._small = np.flatnonzero(np.minimum(alpha, beta) < SMALL)
        wide = np.maximum(alpha, SMALL), np.maximum(beta, SMALL)
        self._parts = ((alpha, wide[1]), (wide[0], beta), wide)  # of q

    @property
    def widened(self) -> bool:
        """Whether draws are not just those of the prior."""
        return self._small.size > 0

    def replace(self, p: Floats, rng: np.random.Generator) -> None:
        """In half of the draws p (draws, arms), draw one or all small arms from q."""
        kind, one = rng.random(len(p)), rng.choice(self._small, size=len(p))
        wide = (kind >= OWN + ONE)[:, None] | (
            (kind >= OWN)[:, None] & (one[:, None] == self._small)
        )
        part = rng.integers(len(self._parts), size=wide.shape)
        a, b = (np.choose(part, [each[i][self._small] for each in self._parts]) for i in range(2))
        p[:, self._small] = np.where(wide, rng.beta(a, b), p[:, self._small])

    def weights(self, p: Floats) -> Floats:
        """Of draws p (draws, arms)."""
        ratios = [self._ratio(p[:, k], int(k)) for k in self._small]
        with np.errstate(over="ignore"):  # a draw may be no draw of the priors at all
            part = OWN + ONE * np.mean(ratios, axis=0) + ALL * np.prod(ratios, axis=0)
        return np.asarray(1.0 / part)

    def _ratio(self, p: Floats, k: int) -> Floats:
        """q_k / f_k, (draws,)."""
        parts = [self._part_ratio(p, k, float(a[k]), float(b[k])) for a, b in self._parts]
        return np.asarray(np.mean(parts, axis=0))

    def _part_ratio(self, p: Floats, k: int, wide_a: float, wide_b: float) -> Floats:
        """Ratio of one part of q. Doubles near 1 are sparse: there, the ratio of the chances."""
        from scipy.special import betainc, betaln  # late: trials do not need scipy

        a, b = self._alpha[k], self._beta[k]
        rest = np.maximum(1.0 - p, NEAR_ONE)
        with np.errstate(divide="ignore", over="ignore"):
            logs = betaln(a, b) - betaln(wide_a, wide_b)
            logs += np.where(wide_a > a, (wide_a - a) * np.log(np.maximum(p, TINY)), 0.0)
            ratio = np.exp(logs + (wide_b - b) * np.log(rest))
        if wide_b == b:
            return np.asarray(ratio)
        near = betainc(wide_b, wide_a, NEAR_ONE) / betainc(b, a, NEAR_ONE)
        return np.asarray(np.where(1.0 - p < NEAR_ONE, near, ratio))
