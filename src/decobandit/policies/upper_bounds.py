"""Upper bounds on the mean of an arm: from its outcomes alone, and from its posterior.

Arms never pulled come first. t: stages so far, in batches pulls; x, s^2: mean and variance of the n
outcomes; r: their range by Hoeffding, the distance of the ends of bounded outcomes and twice the
noise of normal ones.

    ucb1        x + r sqrt(2 log t / n)
    ucb-tuned   x + r sqrt(log t / n min(1/4, v)),  v = s^2 / r^2 + sqrt(2 log t / n); bounded ones
    moss        x + r sqrt(max(0, log(N / (K n))) / n)        N pulls in all, K arms
    kl-ucb      the largest q with n KL(x, q) <= log(t+1)
    bayes-ucb   Q(1 - 1 / (t+1))        Q: quantiles of the mean reward, given what is known
    ogi         lambda = (1 - gamma) E[p] + gamma E[max(lambda, p)],    gamma = 1 - 1/(t+2)

Auer, Cesa-Bianchi and Fischer, Finite-time analysis of the multiarmed bandit problem, Machine
Learning 47, 2002, figure 1 and section 4; with normal outcomes r = 2 sd leaves the probability of
an error, t^-4, as it is. Audibert and Bubeck, Minimax policies for adversarial and stochastic
bandits, COLT 2009. Garivier and Cappe, The KL-UCB algorithm for bounded stochastic bandits and
beyond, COLT 2011, with c = 0 as they advise in practice; Cappe, Garivier, Maillard, Munos and
Stoltz 2013 for normal and Poisson outcomes. Kaufmann, Cappe and Garivier, On Bayesian upper
confidence bounds for bandit problems, AISTATS 2012, with c = 0 likewise: the first pull looks at
the lowest quantile, where arms of the same rewards tie; where some arm has no least mean, expected
rewards decide it. Where larger outcomes earn less, the quantile is that of the other tail. Farias
and Gutin, Optimistic Gittins indices, NIPS 2016, with one step of lookahead: the retirement reward
if the next pull revealed the arm's true mean p; binary arms whose rewards stay the same.

Where one pull is made per stage of binary arms of equal rewards, episodes of bounds that are a mean
plus a bonus are played without tables (kernels/index_play.py). Other indices are roots x(v) in
every state, with the parameter v = log(t+1) the same in all states of a stage: costly to solve for,
but smooth in v unless a prior is almost sure of 0 or 1. The values v_k = RATIO^k cut the stages
into pieces. A piece is solved at both ends, with two derivatives, and the stages in it are
interpolated (kernels/index_roots.py) to about 1e-13; where a piece has few stages, and where priors
are not smooth, every stage is solved. A table depends on its stage alone, not on earlier requests.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..problem import (
    TIE_SIGNS,
    ArmModel,
    BernoulliModel,
    CategoricalModel,
    NormalModel,
    Problem,
)
from ..problem.kernels.layout import slab_size
from ..support import Cache, Floats, pool, worker_count
from .index_policy import UNPULLED_MEAN, IndexPolicy, pulls_and_good
from .kernels.episodes import Episodes
from .kernels.index_play import play_bounds
from .kernels.index_roots import (
    interpolate,
    kl_upper_bounds,
    optimistic_indices,
)
from .requirements import (
    Requirement,
    binary_outcomes,
    known_variances,
    rising_rewards,
    steady_rewards,
    unknown_means,
)

# solve(a, b, v, out): x, dx/dv and d2x/dv2, out (states, 3), of states with parameters a, b
Solve = Callable[[Floats, Floats, float, Floats], None]
RATIO = 1.0 + 1.0 / 48.0
MIN_SMOOTH = 0.5  # parameter of a prior from which on roots are smooth in v
SHORTEST_PIECE = 4  # stages; shorter pieces are solved at every stage
STATES_PER_THREAD = 4096  # fewer are not worth a thread
MOST_STATES_AT_ONCE = 100_000  # some tenths of a second


def solved(solve: Solve, a: Floats, b: Floats, v: float) -> Floats:
    """Solutions of all states, (states, 3), by threads."""
    out = np.empty((a.size, 3))
    number = worker_count(None, most=1 + a.size // STATES_PER_THREAD)
    # more parts than threads: states with many pulls take longer, and Ctrl-C works in between
    parts_of = max(4 * number if number > 1 else 1, a.size // MOST_STATES_AT_ONCE)
    edges = np.linspace(0, a.size, parts_of + 1).astype(int)
    parts = itertools.starmap(slice, itertools.pairwise(edges))
    with pool(number) as threads:
        threads.map(lambda part: solve(a[part], b[part], v, out[part]), parts)
    return out


class Curve:
    """x of all states of one kind of arm, at any stage.

    levels v of the stages, (horizon,), ascending; arguments of `solve` by (n, g).
    """

    def __init__(
        self,
        levels: Floats,
        solve: Solve,
        parameters: Callable[[Floats, Floats], tuple[Floats, Floats]],
        *,
        smooth: bool = True,
    ) -> None:
        self.levels, self.solve, self.parameters = levels, solve, parameters
        self.smooth = smooth
        self._piece: tuple[int, Floats, Floats] | None = None  # its number, solutions at its ends
        self._tables = Cache[int, Floats](1)  # stages are asked for one after the other

    def at(self, stage: int) -> Floats:
        """Return x of every state of the stage, (slab,), read-only."""
        return self._tables.get_or_make(stage, lambda: self._new_table(stage))

    def _new_table(self, stage: int) -> Floats:
        v, size = float(self.levels[stage]), slab_size(stage)
        number = math.floor(math.log(v) / math.log(RATIO)) if v > 0.0 else 0
        low, high = RATIO**number, RATIO ** (number + 1)
        first, end = np.searchsorted(self.levels, (low, high))
        if v <= 0.0 or not self.smooth or end - first < SHORTEST_PIECE:
            return self._solved(v, np.arange(size))[:, 0].copy()
        piece = self._piece  # read once: another thread may replace it
        if piece is None or piece[0] != number:
            states = np.arange(slab_size(end - 1))
            known = piece[2] if piece is not None and piece[0] == number - 1 else np.empty((0, 3))
            left = np.concatenate([known, self._solved(low, states[len(known) :])])
            self._piece = piece = number, left, self._solved(high, states)
        out = np.empty(size)
        interpolate(*piece[1:], (v - low) / (high - low), high - low, out)
        return out

    def _solved(self, v: float, position: npt.NDArray[np.intp]) -> Floats:
        return solved(self.solve, *self.parameters(*pulls_and_good(position)), v)


def upper_quantiles(a: Floats, b: Floats, v: float, out: Floats) -> None:
    """Quantiles x of Beta(a, b) exceeded with probability exp(-v), and slopes by v, (states, 3)."""
    from scipy.special import betainccinv, betaln, xlog1py, xlogy  # late: half a second to load

    tail = math.exp(-v)
    x = betainccinv(a, b, tail)
    x[(a == b) & (tail == 0.5)] = 0.5  # which scipy misses by 1e-8 for some a
    w = np.exp(xlogy(a, x) + xlog1py(b, -x) - betaln(a, b))  # x (1 - x) times the density
    r = np.divide(tail, w, out=np.zeros_like(x), where=w > 0.0)
    first = x * (1.0 - x) * r
    out[:, 0], out[:, 1] = x, first
    out[:, 2] = first * ((1.0 - 2.0 * x) * r - 1.0 - (a - (a + b) * x) * r)


def optimistic_roots(a: Floats, b: Floats, v: float, out: Floats) -> None:
    """Optimistic Gittins indices of Beta(a, b), and slopes by v, (states, 3)."""
    from scipy.special import betaln

    optimistic_indices(a, b, betaln(a, b), v, out)


def hoeffding_range(model: ArmModel, *, bounded: bool = False) -> float | None:
    """Return r such that P(mean of n outcomes is c too large) <= exp(-2 n c^2 / r^2), if any."""
    if isinstance(model, NormalModel) and not bounded:
        return 2.0 * model.noise_sd
    low, high = model.mean_range
    return high - low if math.isfinite(high - low) else None


def _range_of_outcomes(problem: Problem, *, bounded: bool) -> str | None:
    for group in problem.groups:
        if hoeffding_range(group.model, bounded=bounded) is None:
            return (
                f"needs bounded outcomes, and those of {group.model.word} arms are not; use "
                "'kl-ucb' or 'bayes-ucb'"
            )
    return None


class UpperBoundPolicy(IndexPolicy):
    """Pulls the largest upper bound on the reward."""

    requires: ClassVar[tuple[Requirement, ...]] = (
        unknown_means,
        partial(_range_of_outcomes, bounded=False),
        rising_rewards,
    )

    def level(self, stage: int) -> float:
        """Level of all bonuses at a stage, where the bound is a level times a width."""
        return 1.0

    def width(self, n: Floats) -> Floats:
        """Width of the bonus of arms with n pulls, n at least 1, for outcomes of range 1."""
        raise NotImplementedError

    def bound(self, model: ArmModel, stage: int, n: Floats, mean: Floats, var: Floats) -> Floats:
        """Upper bound on the mean of arms with n > 0 outcomes of this mean and variance."""
        reach = hoeffding_range(model)
        assert reach is not None
        return mean + self.level(stage) * (reach * self.width(n))

    def log_clock(self, stage: int) -> float:
        """Return log t; 0 before the first pull."""
        return math.log(max(float(self.clock(stage)), 1.0))

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        model = self.problem.groups[group].model
        n = np.asarray(model.pulls(stats), dtype=np.float64)
        pulled = n > 0.0
        mean, variance = observed(model, stats[pulled])
        return self._first_unpulled(
            stage, group, pulled, self.bound(model, stage, n[pulled], mean, variance)
        )

    def _first_unpulled(
        self, stage: int, group: int, pulled: npt.NDArray[np.bool_], bounds: Floats
    ) -> Floats:
        """Index of states by the bounds of those with pulls; arms never pulled come first."""
        model = self.problem.groups[group].model
        usual = (1.0,) if model.counts_good else (1.0, *map(abs, model.usual))
        x = np.full(pulled.shape, UNPULLED_MEAN * max(usual))
        x[pulled] = bounds
        return self.reward_of(stage, group, x)

    # -- a loop of its own --------------------------------------------------------------------

    @cached_property
    def has_loop(self) -> bool:
        is_bonus = type(self).width is not UpperBoundPolicy.width
        single = self.problem.single_binary and self.problem.pulls_per_stage == 1
        return is_bonus and single and self.equal_rewards

    def play(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        levels = np.array([self.level(stage) for stage in range(first, last)])
        tolerance = self._tolerance / float(self._factor[0, first])
        widths = np.append(0.0, self.width(np.arange(1.0, self.problem.horizon + 1.0)))  # by pulls
        rule = TIE_SIGNS[self.ties]
        play_bounds(episodes, levels, widths, UNPULLED_MEAN, tolerance, *rule, rng)


class Ucb1Policy(UpperBoundPolicy):
    """Pulls the largest Hoeffding bound."""

    name = "ucb1"
    symmetric = True

    def level(self, stage: int) -> float:
        return math.sqrt(2.0 * self.log_clock(stage))

    def width(self, n: Floats) -> Floats:
        return np.asarray(1.0 / np.sqrt(n))


class MossPolicy(UpperBoundPolicy):
    """Pulls the largest minimax-optimal bound; no bonus for an arm that has had its share N / K."""

    name = "moss"
    symmetric = True

    def width(self, n: Floats) -> Floats:
        share = self.problem.horizon * self.problem.pulls_per_stage / self.problem.n_arms
        return np.asarray(np.sqrt(np.maximum(0.0, np.log(share / n)) / n))


class UcbTunedPolicy(UpperBoundPolicy):
    """Pulls the largest bound with estimated variance."""

    name = "ucb-tuned"
    symmetric = True
    requires = (unknown_means, partial(_range_of_outcomes, bounded=True), rising_rewards)

    def bound(self, model: ArmModel, stage: int, n: Floats, mean: Floats, var: Floats) -> Floats:
        reach, log_t = hoeffding_range(model), self.log_clock(stage)
        if not reach:
            return mean
        v = np.minimum(0.25, var / reach**2 + np.sqrt(2.0 * log_t / n))
        return np.asarray(mean + reach * np.sqrt(log_t / n * v), dtype=np.float64)


class KlUcbPolicy(UpperBoundPolicy):
    """Pulls the largest Kullback-Leibler bound."""

    name = "kl-ucb"
    symmetric = True
    requires = (unknown_means, known_variances, rising_rewards)

    def bound(self, model: ArmModel, stage: int, n: Floats, mean: Floats, var: Floats) -> Floats:
        level = float(self.levels[stage])
        if (bound := model.kl_bound(n, mean, level)) is not None:
            return bound
        # of bounded outcomes the divergence of good and bad ones, scaled to the ends: that of
        # other outcomes with these means is larger
        low, high = model.mean_range
        if high == low:
            return mean
        good = n * mean if model.counts_good else n * (mean - low) / (high - low)
        root = solved(kl_upper_bounds, np.ravel(n), np.ravel(good), level)[:, 0]
        return np.asarray(low + (high - low) * root.reshape(mean.shape))

    @cached_property
    def _curve(self) -> Curve:
        return Curve(self.levels, kl_upper_bounds, lambda n, g: (n, g))

    def index_table(self, stage: int, group: int, stats: Floats) -> Floats:
        bounds = self._curve.at(stage)
        return self._first_unpulled(stage, group, np.arange(bounds.size) > 0, bounds[1:])


def observed(model: ArmModel, stats: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the outcomes so far, of arms with pulls; a variance not known is 0."""
    if isinstance(model, BernoulliModel):
        mean = stats[..., 0] / model.pulls(stats)
        return mean, mean * (1.0 - mean)
    if isinstance(model, CategoricalModel):
        shares, values = stats / model.pulls(stats)[..., None], np.array(model.values)
        mean = shares @ values
        return mean, np.maximum(shares @ values**2 - mean**2, 0.0)
    mean = model.total(stats) / model.pulls(stats)
    return mean, np.zeros_like(mean)


# -- of the posterior ----------------------------------------------------------------------------


class OgiPolicy(IndexPolicy):
    """Pulls the largest optimistic Gittins index, a root in the posterior of binary arms.

    Of the posterior of the outcome that earns more. Another policy may have roots of its own.
    """

    name = "ogi"
    symmetric = True
    requires: ClassVar[tuple[Requirement, ...]] = (binary_outcomes, steady_rewards)
    solve: ClassVar[Any] = staticmethod(optimistic_roots)  # a `Solve`: finds it at a stage's level

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        at, flat = self.compared(stage), stats.reshape(-1, 2)
        n, g = np.ascontiguousarray(flat.sum(axis=1)), np.ascontiguousarray(flat[:, 0])
        curve = self._curve(group, at)
        root = solved(curve.solve, *curve.parameters(n, g), float(self.levels[stage]))[:, 0]
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
            smooth = min(alpha, beta) >= MIN_SMOOTH
            self._curves[key] = Curve(self.levels, type(self).solve, parameters, smooth=smooth)
        return self._curves[key]


class BayesUcbPolicy(OgiPolicy):
    """Pulls the largest upper quantile."""

    name = "bayes-ucb"
    symmetric = True
    requires = (unknown_means,)
    solve = staticmethod(upper_quantiles)

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        arms, at = self.problem.groups[group], self.compared(stage)
        if arms.model.counts_good:
            return super().index(stage, group, stats)
        tail, rising = math.exp(-self.levels[stage]), arms.reward_factor[at] >= 0.0
        if tail == 1.0:
            ends = [g.model.mean_range[int(g.reward_factor[at] < 0.0)] for g in self.problem.groups]
            mean = arms.model.mean(stats)
            mean = np.full_like(mean, ends[group]) if np.all(np.isfinite(ends)) else mean
        else:
            mean = arms.model.quantile(stats, 1.0 - tail if rising else tail)
        return self.reward_of(stage, group, mean)
