"""Posterior probabilities that compare arms of any kind: best, better than control, all alike.

With X_k = base_k + factor_k m_k, the mean reward of arm k, and F_k its distribution function,

    P(X_k is the largest)     = integral of prod_{j != k} F_j(x) dF_k(x)
    P(X_k > X_c + margin)     = integral of F_c(x - margin) dF_k(x)
    P(all within the margin)  = sum_k integral of prod_{j != k} (F_j(x + margin) - F_j(x)) dF_k(x)

by the trapezoidal rule between quantiles of all arms, so that each is resolved where it is steep:
to about 1e-4. Quantiles of the mean of classes take long to find: where all outcomes are bounded,
on one grid for all states (`law_rows`), to about 1e-6, with a margin 1e-4; beside unbounded
outcomes by draws, the seed is fixed.

Notations
    E, K, M   states, arms, points of the rule
    stats     (E, width) of each of the K arms, as its kind has them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...problem import Problem, Rules
from ...support import Floats
from .law_rows import common_grid, law_rows, smooth_integral, trapezoidal

Flags = npt.NDArray[np.bool_]

LEVELS = 128  # quantiles of every arm
FAR = 7.5  # standard deviations to which they reach, of a normal law
SEED = 20_160
CHUNK = 4_000_000  # numbers at a time


class KindChances:
    """Compares the arms of a problem by what is known of their mean rewards.

    Parameters
    ----------
    problem, margin
        As of `PosteriorChances`.
    rewards : bool
        Whether arms are compared by the reward of a pull; otherwise by their mean outcome.
    draws : int
        Of the posteriors, where quadrature does not serve all arms.
    """

    def __init__(
        self, problem: Problem, margin: float = 0.0, *, rewards: bool = False, draws: int = 2000
    ) -> None:
        self.margin, self.draws = margin, draws
        self.groups = [problem.groups[k] for k in problem.group_of_arm]
        rules = Rules(compare="reward" if rewards else "outcome")
        self._base, self._factor = rules.pull_values(problem)
        law = all(g.kind.has_law for g in self.groups)
        bounded = all(0.0 < np.ptp(g.kind.mean_range) < np.inf for g in self.groups)
        bounded = bounded and bool(np.all(self._factor))  # no arm of constant reward
        searched = any(g.kind.quantiles_searched for g in self.groups)
        self.by_law = law and (bounded or not searched)
        pulls = problem.horizon * problem.pulls_per_stage
        kinds = [group.kind for group in self.groups]
        self._grid, self._integral = None, trapezoidal
        if self.by_law and searched:
            self._grid = common_grid(kinds, self._base, self._factor, pulls)
            self._integral = smooth_integral

    def best(self, stats: Sequence[Floats], allowed: Flags | None = None) -> Floats:
        """P(best) of every arm among those allowed, (E, K); 0 for the others."""
        found = np.zeros((len(stats[0]), len(stats)))
        for rows, own in self._chunks(stats):
            open_ = _flags(allowed, rows, found)
            part = self._best_by_law(own, open_) if self.by_law else self._best_drawn(own, open_)
            found[rows] = part
        return found

    def better(self, stats: Sequence[Floats], control: int, allowed: Flags | None = None) -> Floats:
        """P(better than control by the margin), (E, K); 0 for control and arms not allowed."""
        found = np.zeros((len(stats[0]), len(stats)))
        for rows, own in self._chunks(stats):
            open_ = _flags(allowed, rows, found).copy()
            open_[:, control] = False
            if self.by_law:
                part = self._better_by_law(own, control)
            else:
                x = self._drawn(own)
                part = (x > x[:, :, [control]] + self.margin).mean(axis=1)
            found[rows] = np.where(open_, part, 0.0)
        return found

    def alike(self, stats: Sequence[Floats], allowed: Flags | None = None) -> Floats:
        """P(all arms allowed differ by less than the margin), (E,)."""
        found = np.zeros((len(stats[0]), len(stats)))
        for rows, own in self._chunks(stats):
            open_ = _flags(allowed, rows, found)
            if self.by_law:
                found[rows, 0] = self._alike_by_law(own, open_)
            else:
                x, shut = self._drawn(own), ~open_[:, None, :]
                low = np.where(shut, np.inf, x).min(axis=2)
                high = np.where(shut, -np.inf, x).max(axis=2)
                found[rows, 0] = (high - low < self.margin).mean(axis=1)
        return found[:, 0]

    def _chunks(self, stats: Sequence[Floats]) -> Iterator[tuple[slice, list[Floats]]]:
        per_state = len(stats) * max(LEVELS * len(stats), self.draws)
        size = max(1, CHUNK // per_state)
        for begin in range(0, len(stats[0]), size):
            rows = slice(begin, begin + size)
            yield rows, [own[rows] for own in stats]

    # -- by draws -----------------------------------------------------------------------------

    def _drawn(self, stats: Sequence[Floats]) -> Floats:
        """Mean rewards drawn from what is known, (E, draws, K); a state has the same always."""
        found = np.empty((len(stats[0]), self.draws, len(stats)))
        for k, (group, own) in enumerate(zip(self.groups, stats, strict=True)):
            states, place = np.unique(own, axis=0, return_inverse=True)
            means = np.empty((len(states), self.draws))
            for row, state in enumerate(states):
                rng = np.random.default_rng((SEED, k))
                many = np.broadcast_to(state, (self.draws, state.size))
                means[row] = group.kind.true_mean(group.kind.draw(many, rng))
            found[:, :, k] = means[place.reshape(-1)]
        return self._base + self._factor * found

    def _best_drawn(self, stats: Sequence[Floats], allowed: Flags) -> Floats:
        x = np.where(allowed[:, None, :], self._drawn(stats), -np.inf)
        first = x == x.max(axis=2, keepdims=True)  # of equal ones each has its part
        return np.asarray((first / first.sum(axis=2, keepdims=True)).mean(axis=1))

    # -- by quadrature ------------------------------------------------------------------------

    def _points(self, stats: Sequence[Floats], shifts: Sequence[float]) -> Floats:
        """Where arms are compared, moved by each of the shifts, ascending, (E, M) or (1, M)."""
        from scipy.special import ndtr

        if self._grid is not None:
            return self._grid[None, :]
        levels = ndtr(np.linspace(-FAR, FAR, LEVELS))
        found = []
        for k, (group, own) in enumerate(zip(self.groups, stats, strict=True)):
            if self._factor[k] == 0.0:  # its reward, and a point just below it
                ends = self._base[k] + np.array(shifts)
                points = np.concatenate([ends - self._step(k), ends])
                found.append(np.broadcast_to(points, (len(own), points.size)))
                continue
            up = self._factor[k] > 0.0
            each = group.kind.quantile(own[:, None, :], levels if up else levels[::-1])
            found += [self._base[k] + self._factor[k] * each + shift for shift in shifts]
        return np.sort(np.concatenate(found, axis=1), axis=1)

    def _below(self, stats: Sequence[Floats], k: int, x: Floats) -> Floats:
        """F_k at points x (E, M) or (1, M)."""
        if self._factor[k] == 0.0:
            reached = x >= self._base[k] - 0.5 * self._step(k)
            return np.broadcast_to(reached, (len(stats[k]), x.shape[1])).astype(float)
        m, kind = (x - self._base[k]) / self._factor[k], self.groups[k].kind
        if self._grid is not None:
            found = law_rows(kind).below(stats[k], m[0])
        else:
            found = kind.cdf(stats[k][:, None, :], m)
        return found if self._factor[k] > 0.0 else np.asarray(1.0 - found)

    def _step(self, k: int) -> float:
        """Width on which the distribution function of a constant reward rises."""
        return 1e-9 * max(1.0, abs(float(self._base[k])))

    def _best_by_law(self, stats: Sequence[Floats], allowed: Flags) -> Floats:
        x, K = self._points(stats, [0.0]), len(stats)
        below = np.stack([self._below(stats, k, x) for k in range(K)])  # (K, E, M)
        held = np.where(allowed.T[:, :, None], below, 1.0)
        found = np.empty(allowed.shape)
        for k in range(K):
            others = np.prod(np.delete(held, k, axis=0), axis=0)
            found[:, k] = np.where(allowed[:, k], self._integral(others, below[k]), 0.0)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def _better_by_law(self, stats: Sequence[Floats], control: int) -> Floats:
        x = self._points(stats, [0.0, self.margin] if self.margin else [0.0])
        rival = self._below(stats, control, x - self.margin)
        each = [self._integral(rival, self._below(stats, k, x)) for k in range(len(stats))]
        return np.stack(each, axis=1)

    def _alike_by_law(self, stats: Sequence[Floats], allowed: Flags) -> Floats:
        x, K = self._points(stats, [0.0, -self.margin]), len(stats)
        below = np.stack([self._below(stats, k, x) for k in range(K)])
        within = np.stack([self._below(stats, k, x + self.margin) for k in range(K)]) - below
        within = np.where(allowed.T[:, :, None], within, 1.0)
        found = np.zeros(len(allowed))
        for k in range(K):
            others = np.prod(np.delete(within, k, axis=0), axis=0)
            found += np.where(allowed[:, k], self._integral(others, below[k]), 0.0)
        return found


class KindPosteriors:
    """The same from pulls and statistics of all arms in one array, (E, K, widest)."""

    def __init__(self, problem: Problem, rules: Rules) -> None:
        by_reward = rules.compare == "reward"
        self._chances = KindChances(problem, rules.margin, rewards=by_reward)
        self._widths = [problem.groups[k].kind.width for k in problem.group_of_arm]

    def _stats(self, known: Any) -> list[Floats]:
        return [np.asarray(known[:, k, :w], dtype=float) for k, w in enumerate(self._widths)]

    def best(self, pulls: Any, known: Any, allowed: Flags | None = None) -> Floats:
        """P(best) of every arm among those allowed, (E, K)."""
        return self._chances.best(self._stats(known), allowed)

    def better(self, pulls: Any, known: Any, control: int, allowed: Flags | None = None) -> Floats:
        """P(better than control by the margin), (E, K)."""
        return self._chances.better(self._stats(known), control, allowed)

    def alike(self, pulls: Any, known: Any, allowed: Flags | None = None) -> Floats:
        """P(all arms allowed differ by less than the margin), (E,)."""
        return self._chances.alike(self._stats(known), allowed)


def _flags(allowed: Flags | None, rows: slice, like: Floats) -> Flags:
    return np.ones(like[rows].shape, np.bool_) if allowed is None else allowed[rows]
