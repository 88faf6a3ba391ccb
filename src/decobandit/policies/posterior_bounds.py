"""Tables of an index that is costly to solve for but smooth in the stage.

Such an index is a root x(v) in every state; the parameter v is the same in all states of a stage.
The values v_k = RATIO^k cut the stages into pieces. A piece is solved at both ends, with two
derivatives, and the stages in it are interpolated (kernels/index_roots.py). A third solution, in
the middle, tells in which states the error is too large: these are solved at every stage, and so
are all states where a piece has few stages.

Every solution starts from scratch: a table depends on its stage alone, not on earlier requests.

Bayes-UCB: an upper quantile of the posterior expected reward.

    Q(1 - 1 / ((t+1) (log T)^c))        Q: quantiles of the mean reward, given what is known

Kaufmann, Cappe and Garivier, On Bayesian upper confidence bounds for bandit problems, AISTATS 2012:
t+1 is the pull about to be made, T the horizon. Their proofs need c >= 5; c = 0 is what they advise
in practice, and the default. The first pull then looks at the lowest quantile, where arms of the
same rewards tie; where some arm has no least mean, expected rewards decide it. With several pulls
per stage, t counts stages, in batches pulls. Where larger outcomes earn less, the quantile is that
of the other tail. Serves any problem whose arms have an unknown mean.

Optimistic Gittins index: the retirement reward if the next pull revealed the arm's true mean.

    lambda = (1 - gamma) E[p] + gamma E[max(lambda, p)],        p ~ Beta(a, b)

with gamma = 1 - 1/(t+2): at pull number s = t+1, about to be made, the discount factor 1 - 1/(s+1).
Farias and Gutin, Optimistic Gittins indices, NIPS 2016, with one step of lookahead. With several
pulls per stage, t counts stages, in batches pulls. Rewards may differ from arm to arm, bad above
good too: the index moves with them. Rewards that change over the stages are refused, and so are
outcomes other than good or bad: the fixed point has no formula there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..problem import DEFAULT_TIES, Problem, TieRule
from ..problem.kernels.layout import slab_size
from ..support import Cache, Floats, InvalidArgument, pool, worker_count
from .index_policy import IndexPolicy, pulls_and_good
from .kernels.index_roots import interpolate, optimistic_indices, upper_quantiles
from .requirements import binary_outcomes, steady_rewards, unknown_means

# solve(a, b, v, out): x, dx/dv and d2x/dv2, out (states, 3), of states with parameters a, b
Solve = Callable[[Floats, Floats, float, Floats], None]
RATIO = 1.0 + 1.0 / 48.0
LARGEST_ERROR = 2e-13  # of the interpolation; where it is larger, a state is solved at every stage
LARGEST_LEVEL = 1e6  # larger v are not cut into pieces
SHORTEST_PIECE = 4  # stages; shorter pieces are solved at every stage
STATES_PER_THREAD = 4096  # fewer are not worth a thread
MOST_STATES_AT_ONCE = 100_000  # some tenths of a second
MOST_LEVEL = 700.0  # exp(-700) is about the smallest number with all digits


def solved(solve: Solve, a: Floats, b: Floats, v: float, *, workers: int | None = None) -> Floats:
    """Solutions of all states, (states, 3), by threads."""
    out = np.empty((a.size, 3))
    number = worker_count(workers, most=1 + a.size // STATES_PER_THREAD)
    # more parts than threads: states with many pulls take longer, and Ctrl-C works in between
    parts_of = max(4 * number if number > 1 else 1, a.size // MOST_STATES_AT_ONCE)
    edges = np.linspace(0, a.size, parts_of + 1).astype(int)
    parts = itertools.starmap(slice, itertools.pairwise(edges))
    with pool(number) as threads:
        threads.map(lambda part: solve(a[part], b[part], v, out[part]), parts)
    return out


def middle_error(left: Floats, right: Floats, middle: Floats, h: float) -> Floats:
    """About the largest error of the interpolation between levels h apart, by the solution halfway.

    With s from 0 to 1, the error is s^3 (1-s)^3 times a function that a line stands for here. Its
    even part is largest in the middle; its odd part is known from the slope there, and at most an
    eighth of that slope times h.
    """
    guess = np.empty(len(middle))
    interpolate(left, right, 0.5, h, guess)
    slope = 15.0 / 8.0 * (right[:, 0] - left[:, 0]) / h - 7.0 / 16.0 * (left[:, 1] + right[:, 1])
    slope += h / 32.0 * (right[:, 2] - left[:, 2])  # of the interpolation, in the middle
    error = np.abs(guess - middle[:, 0]) + h / 8.0 * np.abs(slope - middle[:, 1])
    return np.asarray(error, dtype=np.float64)


# number of a range of levels, solutions (states, 3) at both ends, positions of states that are not
# smooth in between, ascending
Piece = tuple[int, Floats, Floats, npt.NDArray[np.intp]]


class Curve:
    """x of all states of one kind of arm, at any stage."""

    def __init__(
        self,
        levels: Floats,
        solve: Solve,
        parameters: Callable[[Floats, Floats], tuple[Floats, Floats]],
        *,
        workers: int | None = None,
    ) -> None:
        """Take ascending levels v of the stages, (horizon,), and arguments of `solve` by (n, g)."""
        self.levels, self.solve, self.parameters = levels, solve, parameters
        self._workers = workers
        self._piece: Piece | None = None
        self._tables = Cache[int, Floats](1)  # stages are asked for one after the other

    def at(self, stage: int) -> Floats:
        """Return x of every state of the stage, (slab,), read-only."""
        return self._tables.get_or_make(stage, lambda: self._new_table(stage))

    def _new_table(self, stage: int) -> Floats:
        v, size = float(self.levels[stage]), slab_size(stage)
        piece = self._piece_around(v)
        if piece is None:
            return self._solved(v, np.arange(size))[:, 0].copy()
        number, left, right, rough = piece
        low, high = RATIO**number, RATIO ** (number + 1)
        out = np.empty(size)
        interpolate(left, right, (v - low) / (high - low), high - low, out)
        rough = rough[: np.searchsorted(rough, size)]
        if rough.size:
            out[rough] = self._solved(v, rough)[:, 0]
        return out

    def _solved(self, v: float, position: npt.NDArray[np.intp]) -> Floats:
        a, b = self.parameters(*pulls_and_good(position))
        return solved(self.solve, a, b, v, workers=self._workers)

    def _piece_around(self, v: float) -> Piece | None:
        """Return the piece around a level unless it has few stages."""
        if not 0.0 < v < LARGEST_LEVEL:
            return None
        number = math.floor(math.log(v) / math.log(RATIO))
        low, high = RATIO**number, RATIO ** (number + 1)
        first, end = np.searchsorted(self.levels, (low, high))
        if end - first < SHORTEST_PIECE:
            return None
        last = self._piece  # read once: another thread may replace it
        if last is None or last[0] != number:
            before = last[2] if last is not None and last[0] == number - 1 else None
            self._piece = last = self._new_piece(number, low, high, slab_size(end - 1), before)
        return last

    def _new_piece(
        self, number: int, low: float, high: float, size: int, before: Floats | None
    ) -> Piece:
        """Solve at both ends; `before`: what has been solved at the left one already."""
        points = np.empty((0, 3)) if before is None else before
        left = np.concatenate([points, self._solved(low, np.arange(len(points), size))])
        right = self._solved(high, np.arange(size))
        middle = self._solved((low + high) / 2.0, np.arange(size))
        error = middle_error(left, right, middle, high - low)
        # not "larger": what is not a number is rough too
        return number, left, right, np.flatnonzero(~(error <= LARGEST_ERROR))


class PosteriorRootPolicy(IndexPolicy):
    """Index of binary arms that is a root in the posterior of the outcome that earns more.

    solve: finds the root at the level of a stage; _levels (horizon,), ascending.
    """

    solve: ClassVar[Solve]
    _levels: Floats

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        at, flat = self.compared(stage), stats.reshape(-1, 2)
        n, g = np.ascontiguousarray(flat.sum(axis=1)), np.ascontiguousarray(flat[:, 0])
        curve = self._curve(group, at)
        root = solved(curve.solve, *curve.parameters(n, g), float(self._levels[stage]))[:, 0]
        return self._better_reward(group, at, root).reshape(stats.shape[:-1])

    def index_table(self, stage: int, group: int, stats: Floats) -> Floats:
        return self._better_reward(group, stage, self._curve(group, stage).at(stage))

    def _better_reward(self, group: int, at: int, x: Floats) -> Floats:
        """Return the reward of an index x of the probability of the better outcome."""
        good, bad = (float(rewards[at]) for rewards in self.problem.groups[group].rewards)
        return np.asarray(min(good, bad) + abs(good - bad) * x, dtype=np.float64)

    @cached_property
    def _curves(self) -> dict[tuple[float, float, bool], Curve]:
        return {}

    def _curve(self, group: int, at: int) -> Curve:
        """One for each prior, for the probability of the outcome that earns more."""
        arms = self.problem.groups[group]
        alpha, beta = arms.alpha, arms.beta
        straight = bool(arms.reward_good[at] >= arms.reward_bad[at])

        def parameters(n: Floats, g: Floats) -> tuple[Floats, Floats]:
            a, b = alpha + g, beta + n - g
            return (a, b) if straight else (b, a)

        key = (alpha, beta, straight)
        if key not in self._curves:
            self._curves[key] = Curve(self._levels, type(self).solve, parameters)
        return self._curves[key]


class BayesUcbPolicy(PosteriorRootPolicy):
    """Pulls the largest upper quantile."""

    name = "bayes-ucb"
    symmetric = True
    requires = (unknown_means,)
    solve = staticmethod(upper_quantiles)

    def __init__(self, problem: Problem, *, c: float = 0.0, ties: TieRule = DEFAULT_TIES) -> None:
        if not 0.0 <= c < math.inf:
            raise InvalidArgument(
                f"c: {c} is not allowed; must be a finite number, zero or more", field="c"
            )
        self.c = c
        super().__init__(problem, ties=ties)
        # log T is below 1 for T = 1 and 2, where it would leave no quantile
        factor = c * math.log(max(math.log(problem.horizon), 1.0))
        levels = np.log1p(self.clock(np.arange(problem.horizon))) + factor
        self._levels = np.asarray(levels, dtype=np.float64)  # minus log of the probability beyond
        if self._levels[-1] > MOST_LEVEL:
            raise InvalidArgument(
                f"c: {c} is not allowed with horizon {problem.horizon}; the probability that an "
                "index is exceeded would be too small for a number",
                field="c",
            )

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        arms, at = self.problem.groups[group], self.compared(stage)
        if arms.model.counts_good:
            return super().index(stage, group, stats)
        tail, rising = math.exp(-self._levels[stage]), arms.reward_factor[at] >= 0.0
        if tail == 1.0:
            ends = [g.model.mean_range[int(g.reward_factor[at] < 0.0)] for g in self.problem.groups]
            mean = arms.model.mean(stats)
            mean = np.full_like(mean, ends[group]) if np.all(np.isfinite(ends)) else mean
        else:
            mean = arms.model.quantile(stats, 1.0 - tail if rising else tail)
        return self.reward_of(stage, group, mean)


class OgiPolicy(PosteriorRootPolicy):
    """Pulls the largest optimistic Gittins index."""

    name = "ogi"
    symmetric = True
    requires = (binary_outcomes, steady_rewards)
    solve = staticmethod(optimistic_indices)

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        levels = np.log1p(self.clock(np.arange(problem.horizon)))  # log(gamma / (1 - gamma))
        self._levels = np.asarray(levels, dtype=np.float64)
