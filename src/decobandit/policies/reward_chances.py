"""Posterior probabilities that compare arms of good and bad outcomes by different rewards.

With X_k = low_k + span_k p_k, the expected reward of a pull of arm k, and F_k its distribution
function,

    P(X_k is the largest)     = E prod_{j != k} F_j(X_k)
    P(X_k > X_c + margin)     = E F_c(X_k - margin)
    P(all within the margin)  = sum_k E prod_{j != k} (F_j(X_k + margin) - F_j(X_k))

each by Gauss-Legendre quadrature over p_k = sin^2(theta / 2), on panels that resolve the posteriors
of all arms and are cut where the reward of another arm begins or ends. Arms of constant reward
(span 0) are points: the integrand jumps there, and equal ones share P(best).

Notations
    E, K, M   joint states, arms, nodes of arm k
    a, b      (E, K) parameters of the posteriors; of the better outcome where span > 0
"""

from __future__ import annotations

import numpy as np

from ..problem import Problem, Rules
from ..support import Floats, Ints
from .allotting import Counts
from .posterior_chances import LEAST_PRIOR, NODES, WIDTH, Flags, PosteriorChances, check_priors

CHUNK = 4_000_000  # nodes of joint states at a time
MOST_NODES = 8_000_000  # of distribution functions that are kept, in 64 MB
REFINEMENTS = 12  # panels by which ends are refined, each a sixth of the one before
NARROWEST = 1e-13  # panel of theta
SAME_REWARD = 1e-12  # constant rewards closer than this, relative to all rewards, are equal


def posterior_chances(problem: Problem, rules: Rules) -> PosteriorChances | RewardChances:
    """Return what compares arms of good and bad outcomes at looks, by the rules."""
    base, factor = rules.pull_values(problem)
    if rules.one_value(problem):
        return PosteriorChances(problem, rules.margin, float(factor[0]))
    return RewardChances(problem, rules.margin, base, factor)


def comparable_posteriors(problem: Problem) -> PosteriorChances | RewardChances | None:
    """Return what has P(best) by the rewards of every stage; None where arms differ by stage."""
    groups = problem.groups
    if min(min(group.alpha, group.beta) for group in groups) < LEAST_PRIOR:
        return None
    good = np.array([group.reward_good[: problem.horizon] for group in groups])
    bad = np.array([group.reward_bad[: problem.horizon] for group in groups])
    if np.ptp(good, axis=0).any() or np.ptp(bad, axis=0).any() or np.any(good <= bad):
        changing = np.ptp(good, axis=1).any() or np.ptp(bad, axis=1).any()
        constant = np.all(good == bad)  # Thompson sampling breaks such ties evenly
        return None if changing or constant else posterior_chances(problem, Rules())
    return PosteriorChances(problem)


class RewardChances:
    """Compares arms by base + factor times success probability, (arms,) each."""

    def __init__(self, problem: Problem, margin: float, base: Floats, factor: Floats) -> None:
        groups = [problem.groups[k] for k in problem.group_of_arm]
        self.margin, self.total = margin, problem.horizon * problem.pulls_per_stage
        self._priors = np.array([(group.alpha, group.beta) for group in groups])
        check_priors(*self._priors.T)
        self._up = factor >= 0.0
        self.low, self.span = np.minimum(base, base + factor), np.abs(factor)
        scale = float(np.abs([base, base + factor]).max())
        self._same = SAME_REWARD * scale
        self._laws: dict[tuple[int, int, float], dict[tuple[float, float], Floats]] = {}
        self._kept = 0
        self._grids: dict[int, tuple[Floats, Floats]] = {}

    def best(self, pulls: Counts, good: Counts, allowed: Flags | None = None) -> Floats:
        """P(best) of every arm among those allowed, (states, arms); 0 for the others."""
        allowed, (a, b) = _flags(pulls, allowed), self._posteriors(pulls, good)
        chances = np.zeros(pulls.shape)
        for k in range(pulls.shape[1]):
            rivals = allowed & (np.arange(pulls.shape[1]) != k)
            tied = 1.0 + (rivals & self._constant_at(self.low[k])).sum(axis=1)
            share = 1.0 if self.span[k] > 0.0 else 1.0 / tied
            chances[:, k] = share * self._mean_product(k, a, b, rivals, (0.0,))
        return np.where(allowed, chances, 0.0)

    def better(
        self, pulls: Counts, good: Counts, control: int, allowed: Flags | None = None
    ) -> Floats:
        """P(better than control by the margin), (states, arms); 0 for control."""
        allowed, (a, b) = _flags(pulls, allowed).copy(), self._posteriors(pulls, good)
        allowed[:, control] = False
        chances, rival = np.zeros(pulls.shape), np.zeros(pulls.shape, np.bool_)
        rival[:, control] = True
        for k in range(pulls.shape[1]):
            if k == control:
                continue
            if self.span[k] == self.span[control] == 0.0:
                ahead = self.low[k] - self.low[control] - self.margin
                chances[:, k] = ahead > self._same
            else:
                chances[:, k] = self._mean_product(k, a, b, rival, (-self.margin,))
        return np.where(allowed, chances, 0.0)

    def alike(self, pulls: Counts, good: Counts, allowed: Flags | None = None) -> Floats:
        """P(all arms allowed differ by less than the margin), (states,)."""
        allowed, (a, b) = _flags(pulls, allowed), self._posteriors(pulls, good)
        chances = np.zeros(len(pulls))
        for k in range(pulls.shape[1]):
            rivals = allowed & (np.arange(pulls.shape[1]) != k)
            least = self._mean_product(k, a, b, rivals, (self.margin, 0.0))
            chances += np.where(allowed[:, k], least, 0.0)
        return chances.clip(0.0, 1.0)

    # -- integrals ------------------------------------------------------------------------------

    def _posteriors(self, pulls: Counts, good: Counts) -> tuple[Floats, Floats]:
        a, b = self._priors[:, 0] + good, self._priors[:, 1] + (pulls - good)
        return np.where(self._up, a, b), np.where(self._up, b, a)

    def _constant_at(self, value: float) -> Flags:
        """Whether arms have this reward for certain, (K,)."""
        return np.asarray((self.span == 0.0) & (np.abs(self.low - value) <= self._same))

    def _mean_product(
        self, k: int, a: Floats, b: Floats, rivals: Flags, shifts: tuple[float, ...]
    ) -> Floats:
        """E over X_k of the product over rivals of F_j(X_k + shift), less that of a second shift.

        (E,); rivals (E, K).
        """
        found, p = np.empty(len(a)), self._nodes(k)[0]
        size = max(1, CHUNK // p.size)
        for begin in range(0, len(a), size):
            part = slice(begin, begin + size)
            product = self._density(k, a[part, k], b[part, k])
            for j in np.flatnonzero(rivals[part].any(axis=0)).tolist():
                below = self._below(k, j, shifts[0], a[part, j], b[part, j])
                if len(shifts) == 2:
                    below = below - self._below(k, j, shifts[1], a[part, j], b[part, j], k < j)
                product *= np.where(rivals[part, j, None], below, 1.0)
            found[part] = product.sum(axis=1)
        return found.clip(0.0, 1.0)

    def _nodes(self, k: int) -> tuple[Floats, Floats]:
        """Success probabilities at which arm k is taken, and weights of theta, (M,) each."""
        if k not in self._grids:
            self._grids[k] = self._panels(k) if self.span[k] > 0.0 else (np.zeros(1), np.ones(1))
        return self._grids[k]

    def _panels(self, k: int) -> tuple[Floats, Floats]:
        """Gauss-Legendre nodes of arm k, fine enough for the posteriors of all arms."""
        sharpest = self.total + float(self._priors.sum(axis=1).max())
        number = max(4, int(np.ceil(np.pi * np.sqrt(sharpest) / WIDTH)))
        edges = [np.linspace(0.0, np.pi, number + 1)]
        away = edges[0][1] / 6.0 ** np.arange(REFINEMENTS)
        # distribution functions of whole parameters are polynomials up to their ends
        whole = bool(np.all(self._priors == np.round(self._priors)))
        near = np.zeros(1) if whole else np.concatenate([-away, [0.0], away])
        rewards = {*zip(self.low.tolist(), self.span.tolist(), strict=True)}
        for low, span in rewards:  # panels of the other arms, as rewards of this one
            for shift in {0.0, self.margin, -self.margin}:
                ends = low + shift + span * np.sin(edges[0] / 2.0) ** 2
                p = (ends - self.low[k]) / self.span[k]
                theta = 2.0 * np.arcsin(np.sqrt(p[(p >= 0.0) & (p <= 1.0)]))
                cuts = 2.0 * np.arcsin(np.sqrt(p[[0, -1]].clip(0.0, 1.0)))
                edges += [theta, (cuts[:, None] + near).ravel()]
        cut = np.unique(np.concatenate(edges).clip(0.0, np.pi))
        cut = cut[np.append(True, np.diff(cut) > NARROWEST)]
        x, w = np.polynomial.legendre.leggauss(NODES)
        half = np.diff(cut)[:, None] / 2.0
        angle = (cut[:-1, None] + half * (1.0 + x)).ravel()
        return np.sin(angle / 2.0) ** 2, (half * w).ravel()

    def _density(self, k: int, a: Floats, b: Floats) -> Floats:
        """Probability at each node of arm k, (E, M)."""
        from scipy.special import betaln, xlogy  # late: scipy takes half a second to load

        if self.span[k] == 0.0:
            return np.ones((len(a), 1))
        p, weight = self._nodes(k)
        pairs, place = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
        x, y = pairs[:, :1], pairs[:, 1:]
        rows = weight * np.exp(xlogy(x - 0.5, p) + xlogy(y - 0.5, 1.0 - p) - betaln(x, y))
        rows /= rows.sum(axis=1, keepdims=True)
        return np.asarray(rows[place.reshape(-1)])

    def _below(
        self, k: int, j: int, shift: float, a: Floats, b: Floats, strictly: bool = False
    ) -> Floats:
        """P(X_j at most X_k + shift), or less than it, at the nodes of arm k, (E, M)."""
        from scipy.special import betainc

        x = self.low[k] + self.span[k] * self._nodes(k)[0] + shift
        if self.span[j] == 0.0:
            ahead = x - self.low[j]
            reached = ahead > self._same if strictly or shift else ahead >= -self._same
            return np.broadcast_to(reached.astype(float), (len(a), x.size))
        p = np.clip((x - self.low[j]) / self.span[j], 0.0, 1.0)
        pairs, place = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
        keys: list[tuple[float, float]] = [(float(one), float(two)) for one, two in pairs]
        if self._kept > MOST_NODES:
            self._laws, self._kept = {}, 0
        laws = self._laws.setdefault((k, j, shift), {})
        new = [key for key in keys if key not in laws]
        if new:
            one, two = np.array(new).T[:, :, None]
            laws.update(zip(new, betainc(one, two, p), strict=True))
            self._kept += len(new) * p.size
        return np.stack([laws[key] for key in keys])[place.reshape(-1)]


def _flags(like: Ints | Counts, allowed: Flags | None) -> Flags:
    return np.ones(like.shape, np.bool_) if allowed is None else allowed
