"""Information-directed sampling: least squared regret per bit learnt about which arm is best.

    min over distributions q of (sum_a q_a Delta_a)^2 / sum_a q_a g_a
    Delta_a = E[max_b X_b] - E[X_a]          expected regret; X: mean reward of a pull at the stage
    ids     g_a = I(best arm; outcome of a)                      what an outcome of a tells
    v-ids   g_a = sum_i p*(i) (E[X_a | i is best] - E[X_a])^2    variance that the best explains

Russo and Van Roy, Learning to optimize via information-directed sampling, Operations Research 2018:
two arms are enough for the minimum. p*(i) is the probability that arm i is best; section 6.3: the
variance bounds the information from below, up to a factor. One pull per stage; which arm is best
must not change over the stages. Binary arms of equal rewards: posteriors on a grid, see
`kernels.information`. Any other outcomes and rewards:

The laws of all X are cut at points x_0 < x_1 < ..., dense where any of them has weight. In bin j
arm k has weight w_k[j], and F_k[j] is what it has below, with half of the bin itself:

    P(i is best, X_a in bin j) = w_a[j] C_ia[j]
    C_aa[j] = prod_{k != a} F_k[j]
    C_ia[j] = sum_{l > j} w_i[l] prod_{k != i, a} F_k[l], and half of the term l = j
    P(i is best, outcome y)    = sum_j P(y) w_a^y[j] C_ia[j]

w^y: weights after the outcome y. This table over i and y is all that the information needs,
whatever the outcomes are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..problem import DEFAULT_TIES, Problem, States, TieRule
from ..support import Floats
from .allocation import Random, distinct_states, drawn_arms, restricted
from .comparison import mean_cdf, mean_points
from .index_policy import IndexPolicy
from .kernels.episodes import Episodes
from .kernels.information import (
    best_pairs,
    decide,
    fill_row,
    make_grid,
    make_room,
    play,
)
from .requirements import one_pull, unknown_means

GRID_POINTS = 1000
CHUNK = 1_000_000  # numbers at a time
POINTS = 160  # at which laws are cut, shared by the arms,
MIN_POINTS_PER_ARM = 24  # and no fewer than this of each
MAX_Z = 5.5  # deviations to which they reach
STEP_MARGIN = 1e-9  # distance of a point from a step, in parts of its place


def _lasting_ranks(problem: Problem) -> str | None:
    """Rewards of later stages are those of the first, scaled and shifted."""
    T = problem.horizon
    base = np.array([group.reward_base[:T] for group in problem.groups])
    factor = np.array([group.reward_factor[:T] for group in problem.groups])
    largest = int(np.argmax(np.abs(factor[:, 0])))
    scale = factor[largest] / (factor[largest, 0] or 1.0)
    offset = base - scale * base[:, :1]
    alike = np.isclose(factor, scale * factor[:, :1], rtol=1e-12, atol=0.0).all(axis=0)
    stages = alike & np.isclose(offset, offset[:1], rtol=1e-12, atol=1e-12).all(axis=0)
    stages &= scale > 0.0
    if stages.all():
        return None
    return (
        f"asks which arm is best, and that may change: at stage "
        f"{int(np.argmin(stages))} rewards of the arms are not those of stage 0 times one "
        "factor; use 'deco' or 'knowledge-gradient'"
    )


class IdsPolicy(IndexPolicy):
    """Pulls one of two arms, those of the least squared regret per gain."""

    name = "ids"
    symmetric = True
    requires = (one_pull, unknown_means, _lasting_ranks)
    cost = "decision"
    randomised = True
    by_variance = False

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=DEFAULT_TIES)
        self.grid = make_grid(GRID_POINTS)
        self._on_grid = problem.single_binary and self.equal_rewards
        for k, group in enumerate(self.groups):  # a mean that is known is part of the base
            least, most = group.model.mean_range
            if least == most:
                self._base[k] += self._factor[k] * least
                self._factor[k] = 0.0
        K, L = problem.n_arms, max(MIN_POINTS_PER_ARM, POINTS // problem.n_arms)
        # equal arms have different points: together they are as dense as those of different ones
        self._z = MAX_Z * (2.0 * (np.arange(L) + (np.arange(K)[:, None] + 0.5) / K) / L - 1.0)

    # -- what is pulled -----------------------------------------------------------------------

    def probabilities(self, stage: int, states: States, rng: Random = None) -> Floats:
        if stage >= self.problem.horizon:
            return super().probabilities(stage, states, rng)
        rows, place = distinct_states(states)
        E, K = rows.stats.shape[:2]
        first, second, q = np.empty(E, np.int64), np.empty(E, np.int64), np.empty(E)
        room = make_room(K, self.grid)
        if self._on_grid:
            alpha, beta = self.beta_priors
            for e, stats in enumerate(rows.stats):
                for arm, (good, bad) in enumerate(stats):
                    fill_row(arm, alpha[arm] + good, beta[arm] + bad, room)
                first[e], second[e], q[e] = decide(room, self.by_variance)
        else:
            of_arms, size = self.arm_stats(rows), max(1, CHUNK // (self._z.size * (K + 32)))
            for begin in range(0, E, size):
                part = slice(begin, begin + size)
                tables = self._tables(stage, [stats[part] for stats in of_arms])
                best_pairs(*tables, room, first[part], second[part], q[part])
        probabilities, every = np.zeros((E, K)), np.arange(E)
        probabilities[every, first] += q
        probabilities[every, second] += 1.0 - q
        return restricted(probabilities[place], states.allowed)

    def values(self, stage: int, states: States, rng: Random = None) -> Floats:
        if rng is None:
            raise self.no_generator()
        return drawn_arms(self.probabilities(stage, states), 1, rng).astype(float)

    @property
    def has_loop(self) -> bool:
        return self._on_grid

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        room = make_room(self.problem.n_arms, self.grid)
        play(episodes, last - first, *self.beta_priors, self.by_variance, room, rng)

    # -- probabilities of being best, regrets and gains --------------------------------------

    def _tables(self, stage: int, stats: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
        """P(i is best) (E, K); E[X_a; i is best] (E, K, K); gains (E, K), none by variance."""
        E, K = len(stats[0]), len(stats)
        x = np.sort(np.concatenate([self._points(stage, k, stats[k]) for k in range(K)], 1), 1)
        below = np.stack([self._below(stage, k, stats[k], x) for k in range(K)])  # (K, E, M + 1)
        weight, middle = np.diff(below, axis=2), 0.5 * (x[:, 1:] + x[:, :-1])
        under = 0.5 * (below[..., 1:] + below[..., :-1])
        joint, gain = np.empty((E, K, K)), np.empty((0 if self.by_variance else E, K))
        for a in range(K):
            best = _best_given(a, weight, under)  # (E, K, M)
            here = best * weight[a][:, None, :]
            probability = here.sum(axis=2)
            total = probability.sum(axis=1, keepdims=True)
            joint[:, :, a] = (here * middle[:, None, :]).sum(axis=2) / total
            if not self.by_variance:
                gain[:, a] = _information(best @ self._by_outcome(stage, a, stats[a], x))
        return np.ascontiguousarray(probability / total), joint, gain

    def _points(self, stage: int, arm: int, stats: Floats) -> Floats:
        means = mean_points(self.groups[arm].model, stats, self._z[arm])
        points = np.asarray(self._base[arm, stage] + self._factor[arm, stage] * means)
        is_step = points[:, 0] == points[:, -1]  # the law is a step: one point stands before it
        points[is_step, 0] -= STEP_MARGIN * np.maximum(1.0, np.abs(points[is_step, 0]))
        return points

    def _below(self, stage: int, arm: int, stats: Floats, x: Floats) -> Floats:
        """Chance that the mean reward of an arm is at most x (E, M): (E, M)."""
        base, factor = self._base[arm, stage], self._factor[arm, stage]
        if factor == 0.0:
            return np.asarray(x >= base, dtype=float)
        model = self.groups[arm].model
        probability = mean_cdf(model, stats[:, None, :], (x - base) / factor)[:, 0]
        return probability if factor > 0.0 else np.asarray(1.0 - probability)

    def _by_outcome(self, stage: int, arm: int, stats: Floats, x: Floats) -> Floats:
        """P(outcome y, mean reward in bin j), (E, M, J)."""
        base, factor = self._base[arm, stage], self._factor[arm, stage]
        model = self.groups[arm].model
        probabilities, after = model.transitions(stats)
        if factor == 0.0:
            weight = np.diff((x >= base).astype(float), axis=1)[:, None, :]
        else:
            weight = np.abs(np.diff(mean_cdf(model, after, (x - base) / factor), axis=2))
        return np.asarray((probabilities[:, :, None] * weight).transpose(0, 2, 1))


class VarianceIdsPolicy(IdsPolicy):
    """Pulls one of two arms, those of the least squared regret per variance."""

    name = "v-ids"
    symmetric = True
    by_variance = True


def _best_given(a: int, weight: Floats, under: Floats) -> Floats:
    """C_ia[j] of all arms i, (E, K, M); weight and under (K, E, M)."""
    K, E, M = weight.shape
    values = np.empty((E, K, M))
    rivals = [k for k in range(K) if k != a]
    rest = np.ones((E, M))
    for i in rivals:  # what stands before each of them, then what stands behind
        values[:, i] = rest
        rest = rest * under[i]
    values[:, a] = rest
    rest = np.ones((E, M))
    for i in reversed(rivals):
        term = weight[i] * values[:, i] * rest
        rest = rest * under[i]
        values[:, i] = np.cumsum(term[:, ::-1], axis=1)[:, ::-1] - 0.5 * term
    return values


def _information(table: Floats) -> Floats:
    """Mutual information of rows and columns of tables of probabilities, (E, K, J) -> (E,)."""
    from scipy.special import xlogy  # late: scipy takes half a second to load

    table = np.maximum(table, 0.0)
    table /= table.sum(axis=(1, 2), keepdims=True)
    rows, columns = table.sum(axis=2), table.sum(axis=1)
    apart = xlogy(table, table).sum(axis=(1, 2))
    together = xlogy(rows, rows).sum(axis=1) + xlogy(columns, columns).sum(axis=1)
    return np.asarray(np.maximum(apart - together, 0.0))
