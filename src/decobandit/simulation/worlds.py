"""Inputs of a simulation: parameters of the arms, streams of outcomes, rewards of the best arms.

Draws come in chunks of fixed size, each with a seed sequence of its own, spawned from the one of
the run: the same seed gives the same numbers, whatever the number of threads, and more draws keep
the full chunks of fewer. All policies meet the same chunks. Where a beta prior is nearly certain,
draws have weights: `Proposal`.

The j-th outcome of an arm in an episode is the same whatever policy pulls it, and whenever; arms
that move at rest have one uniform per stage, pulled or not, and one for their first state. Of
classes, own states and counts it is computed from the key of that arm in that episode
(`kernels/outcomes.py`); of any other model, streams of outcomes are drawn beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..policies.kernels.episodes import NO_ACTION, Episodes
from ..problem import (
    ArmModel,
    BernoulliModel,
    CategoricalModel,
    Group,
    KindTruth,
    MarkovModel,
    PoissonModel,
    Problem,
    best_mean_moments,
    best_mean_reward,
    best_true_rewards,
)
from ..support import Floats, Ints, streams_of
from .estimators import MIN_DRAWS, Missed
from .kernels.outcomes import draw_classes, draw_counts, draw_uniforms

CHUNK = 128  # draws, at least
CHUNK_EPISODES = 4096  # of non-binary arms: their policies work in arrays
MIN_PARAMETER = 0.2  # of a prior: smaller ones are widened to this
# shares of draws: the priors, one arm wide, all of them wide
PRIOR_SHARE, ONE_SHARE, ALL_SHARE = 0.5, 0.25, 0.25
MIN_LOG_ARGUMENT = 1e-300  # p below which its logarithm is that of this
NEAR_ONE = 1e-12  # 1 - p below which p is the same as 1, and only the chance of being there counts
Law = Literal["classes", "states", "counts", "stream"]


def law_of(model: ArmModel) -> Law:
    """Return how the outcomes of a model are drawn in simulations."""
    if isinstance(model, BernoulliModel | CategoricalModel):
        return "classes"
    if isinstance(model, MarkovModel):
        return "states"
    return "counts" if isinstance(model, PoissonModel) else "stream"


def class_outcomes(model: ArmModel) -> Floats:
    """Return the outcome of each class, in the order of statistics: good before bad."""
    return np.array([1.0, 0.0]) if model.counts_good else np.arange(float(model.width))


def class_bounds(theta: Floats) -> Floats:
    """Return the chance of a class or one before it, (..., classes)."""
    chances = np.concatenate([theta, 1.0 - theta], axis=-1) if theta.shape[-1] == 1 else theta
    return np.cumsum(chances, axis=-1)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some draws: parameters of the arms, and what decides their outcomes."""

    number: int
    theta: list[Floats]  # of every group, (draws, members, parameters)
    means: Floats  # (draws, arms) at the parameters; nan where arms have none
    weights: Floats  # (draws,) what each counts, 1 on average
    keys: npt.NDArray[np.uint64]  # (episodes, arms)
    streams: dict[int, Floats]  # outcomes of groups that have no keys, (episodes, members, pulls)
    seed: np.random.SeedSequence  # of a policy that draws at random; the same for all policies
    per_draw: int

    def rng(self) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(self.seed))

    def without_draws(self) -> Chunk:
        return replace(self, means=self.means[:0], weights=self.weights[:0], keys=self.keys[:0])

    def episodes(self, stages: int, pulls: int) -> Episodes:
        """Return episodes of good and bad outcomes before any pull, with room for some actions."""
        counts = np.zeros((2, *self.keys.shape), np.int32)
        actions = np.full((len(self.keys), stages, pulls), NO_ACTION, np.int32)
        p = np.repeat(self.means, self.per_draw, axis=0)
        return Episodes(p, self.keys, counts[0], counts[1], actions, self.per_draw)


class Extremes(NamedTuple):
    """Extremes of the rewards of an episode."""

    ranges: Floats  # (stages,) of the rewards of each stage; last rewards at the end
    size: float  # the largest sum of absolute rewards
    most: float  # the largest sum; for unbounded outcomes, one that is rarely exceeded


class World:
    """Draws of the parameters of a problem's arms, and the rewards of the best arms in them.

    problem: what really happens, its priors included; `truth`: fixed parameters of every arm
    instead of draws from the priors. `weighted`: whether draws may have weights; without, all come
    from the priors themselves.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        draws: int,
        per_draw: int,
        seed: int,
        truth: KindTruth | None = None,
        weighted: bool = True,
    ) -> None:
        self.problem, self.draws, self.per_draw, self.seed = problem, draws, per_draw, seed
        self.truth = truth
        counted = problem.is_binary
        self.chunk_draws = CHUNK if counted else max(CHUNK, CHUNK_EPISODES // per_draw)
        self._seeds = np.random.SeedSequence(seed).spawn(-(-draws // self.chunk_draws))
        arms = problem.arm_groups
        self.base = np.array([arm.reward_base for arm in arms])  # (arms, stages)
        self.factor = np.array([arm.reward_factor for arm in arms])
        self.pulls = problem.pulls.copy()  # (stages,) in single pulls; 1 at a deployment
        self.pulls[: problem.horizon] *= problem.unit
        self._betas = np.array([(arm.alpha, arm.beta) for arm in arms]).T if counted else None
        self._proposal = None if self._betas is None else Proposal(*self._betas)
        wide = self._proposal is not None and self._proposal.widened
        self.weighted = weighted and truth is None and wide

    @property
    def number_of_chunks(self) -> int:
        return len(self._seeds)

    def place(self, number: int) -> slice:
        first = number * self.chunk_draws
        return slice(first, min(first + self.chunk_draws, self.draws))

    def ends(self) -> Ints:
        """Return how many stages each episode has, (draws * per_draw,): drawn where it is random.

        From a stream of its own: outcomes and pulls do not depend on it.
        """
        episodes, survival = self.draws * self.per_draw, self.problem.survival
        u = np.random.default_rng([self.seed, episodes]).random(episodes)
        return np.searchsorted(-survival, -u, side="left")

    @property
    def largest_weight(self) -> float:
        return 1.0 / PRIOR_SHARE if self.weighted else 1.0

    # -- draws --------------------------------------------------------------------------------

    def chunk(self, number: int) -> Chunk:
        of_draws, of_policy = streams_of(self._seeds[number], 2)
        rng, place = np.random.default_rng(of_draws), self.place(number)
        draws, arms = place.stop - place.start, self.problem.n_arms
        theta = self._parameters(rng, draws)
        keys = rng.integers(2**64, size=(draws * self.per_draw, arms), dtype=np.uint64)
        weights, means = np.ones(draws), np.full((draws, arms), np.nan)
        if self.weighted:
            assert self._proposal is not None
            p = np.empty((draws, arms))
            for group, parameters in zip(self.problem.groups, theta, strict=True):
                p[:, group.members] = parameters[..., 0]
            self._proposal.replace(p, rng)
            weights = self._proposal.weights(p)
            theta = [p[:, group.members, None] for group in self.problem.groups]
        streams = {}
        for k, group in enumerate(self.problem.groups):
            if theta[k].shape[-1] and not group.model.restless:
                means[:, group.members] = group.model.mean_at(theta[k])
            if law_of(group.model) == "stream":
                streams[k] = self._stream(group, theta[k], rng.spawn(1)[0])
        return Chunk(number, theta, means, weights, keys, streams, of_policy, self.per_draw)

    def _parameters(self, rng: np.random.Generator, draws: int) -> list[Floats]:
        """Draw the parameters of every group, (draws, members, parameters)."""
        groups = self.problem.groups
        if self._betas is not None:
            alpha, beta = self._betas
            p = rng.beta(alpha, beta, size=(draws, self.problem.n_arms))
            if self.truth is None:
                return [p[:, group.members, None] for group in groups]
        if self.truth is None:
            fresh = [np.array(group.model.initial(), dtype=float) for group in groups]
            return [
                group.model.sample(np.tile(stats, (draws, group.count, 1)), rng)
                for group, stats in zip(groups, fresh, strict=True)
            ]
        values = [np.array([self.truth[arm] for arm in g.members], dtype=float) for g in groups]
        values = [row.reshape(len(row), -1) for row in values]
        return [np.broadcast_to(row, (draws, *row.shape)) for row in values]

    def _stream(self, group: Group, theta: Floats, rng: np.random.Generator) -> Floats:
        """Draw all outcomes that arms of a group may have, (episodes, members, pulls).

        Pull by pull, so that more pulls keep the outcomes of fewer.
        """
        model, most = group.model, self.problem.most_pulls
        parameters = np.repeat(theta, self.per_draw, axis=0)
        if model.restless:  # one outcome per stage, whether the arm is pulled or not
            return model.stream(parameters, self.problem.horizon, rng)
        shape = (most, *parameters.shape[:-1])
        stats = np.broadcast_to(np.array(model.initial(), dtype=float), (*shape, model.width))
        every = np.broadcast_to(parameters, (most, *parameters.shape))
        return np.moveaxis(model.sample_outcome(every, stats, rng), 0, -1)

    # -- rewards of the best arms -------------------------------------------------------------

    def best(self, means: Floats, stage: int) -> Floats:
        """Sum the largest mean rewards at a stage, (draws,); nan where arms have no parameters."""
        m = round(self.pulls[stage])
        rewards = self.base[:, stage] + self.factor[:, stage] * means
        arms = m
        if stage < self.problem.horizon:  # in batches the best takes all
            arms = self.problem.units // self.problem.most_units
        largest = -np.partition(-rewards, arms - 1, axis=1)[:, :arms]
        return np.asarray(m // arms * largest.sum(axis=1))

    @cached_property
    def changes(self) -> npt.NDArray[np.bool_]:
        """Whether a stage differs from the one before in rewards or pulls, (stages,)."""
        rows = np.vstack([self.base, self.factor, self.pulls])
        return np.append(True, np.any(rows[:, 1:] != rows[:, :-1], axis=0))

    @cached_property
    def expected_best(self) -> float | None:
        """Expected total reward of the best arms; None where it is not defined."""
        if self.truth is None:
            return best_mean_reward(self.problem)
        best = best_true_rewards(self.problem, self.chunk(0).means[:1])
        return None if best is None else float(best[0])

    # -- what is known of the parameters ------------------------------------------------------

    def controls(self, means: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return weighted functions of the parameters less their means, (draws, q); sizes (q,)."""
        if self.truth is not None:
            return np.empty((len(means), 0)), np.empty(0)
        if self._betas is None:
            return self._controls_by_group(means)
        # the first stage at which rewards depend on the arm; stage 0 if there is none
        apart = np.ptp(np.concatenate([self.base, self.base + self.factor]), axis=0) > 0.0
        stage = int(np.argmax(apart))
        base, factor = self.base[:, stage], self.factor[:, stage]
        best = (base + factor * means).max(axis=1)
        first, second = best_mean_moments(self.problem, stage)
        alpha, beta = self._betas
        mean = (alpha / (alpha + beta)).mean()
        columns = np.column_stack([best - first, best**2 - second, means.mean(axis=1) - mean])
        largest = float(np.abs([base, base + factor]).max())
        sizes = np.array([largest, largest**2, 1.0])
        if not self.weighted:
            return columns, sizes
        columns = np.column_stack([weights - 1.0, weights[:, None] * columns])  # the surest first
        return columns, np.append(1.0, sizes)

    def _controls_by_group(self, means: Floats) -> tuple[Floats, Floats]:
        """Return the distance of the drawn means of each group from its prior mean."""
        columns, sizes = [], []
        for group in self.problem.groups:
            if group.model.has_law and not group.model.restless:
                prior = float(group.model.mean(np.array(group.model.initial(), dtype=float)))
                columns.append((means[:, group.members] - prior).sum(axis=1))
                sizes.append(group.count * max(map(abs, _ends(group.model))))
        return np.stack(columns, axis=1) if columns else np.empty((len(means), 0)), np.array(sizes)

    # -- what draws may miss ------------------------------------------------------------------

    @cached_property
    def _rewards(self) -> Floats:
        """Smallest and largest rewards of a pull of every group by stage, (2 groups, stages)."""
        rewards = np.array(
            [
                np.where(g.available, g.reward_base + g.reward_factor * x, np.nan)
                for g in self.problem.groups
                for x in _ends(g.model)
            ]
        )
        return np.where(np.isnan(rewards), np.nanmax(rewards, axis=0), rewards)

    @cached_property
    def extremes(self) -> Extremes:
        """Extremes of the rewards of an episode."""
        problem, rewards = self.problem, self._rewards
        # rewards of a stage: one per pull, or one per arm where arms earn at rest
        counts = np.full(self.pulls.shape, float(problem.n_arms))
        counts = counts if problem.is_restless else self.pulls
        ranges = np.asarray(counts * np.ptp(rewards, axis=0), dtype=np.float64)
        size = float(counts @ np.abs(rewards).max(axis=0))
        most = float(counts @ rewards.max(axis=0))
        for group in problem.groups:
            if group.terminal is not None:
                ranges[-1] += group.count * float(np.ptp(group.terminal))
                size += group.count * float(np.abs(group.terminal).max())
                most += group.count * float(group.terminal.max())
        return Extremes(ranges, size, most)

    def missed(self, means: Floats, weights: Floats, pulls: Floats | None = None) -> Missed:
        """Return what draws of these means and weights may have missed.

        pulls: of every arm in an episode of each draw, (draws, arms); by default all that there can
        be.
        """
        ranges, size, largest = self.extremes
        apart, most = float(ranges.sum()), self.largest_weight
        pulls = np.full(means.shape, float(self.problem.most_pulls)) if pulls is None else pulls
        # the probability that an episode has an outcome that the draws hardly ever had. The rarer
        # outcome of a pull has probability min(p, 1 - p). Arms alike are taken together; those for
        # which MIN_DRAWS such outcomes were to be expected in all episodes have been seen
        chance = 0.0
        for group in self.problem.groups:
            if group.model.counts_good:
                p, arms = means[:, group.members], pulls[:, group.members]
                expected = (np.minimum(p, 1.0 - p) * arms).sum(axis=1)  # expected in an episode
                if expected.sum() * self.per_draw < MIN_DRAWS:
                    chance += float((weights * np.minimum(expected, 1.0)).mean())
        middle = largest - apart / 2.0
        return Missed(apart, most * apart, most * size, middle, min(chance, 1.0))


def _ends(model: ArmModel) -> tuple[float, float]:
    """Return ends of the means that are possible, or of the usual ones where these have no ends."""
    low, high = model.mean_range
    return (low, high) if np.isfinite(high - low) else model.usual


def _uniforms(keys: npt.NDArray[np.uint64], numbers: Ints) -> Floats:
    drawn = np.empty(keys.shape)
    draw_uniforms(keys, numbers, drawn)
    return drawn


class Outcomes:
    """Outcomes of one group of arms in the episodes of a chunk: functions of their numbers.

    e, member, n (N,): episodes, arms of the group, pulls that they have had before.
    """

    def __init__(self, group: Group, number: int, chunk: Chunk) -> None:
        self.model, self.law, self._per_draw = group.model, law_of(group.model), chunk.per_draw
        self._keys = chunk.keys[:, list(group.members)]
        self._stream, theta = chunk.streams.get(number), chunk.theta[number]
        self._theta = class_bounds(theta) if self.law == "classes" else theta

    def one(self, e: Ints, member: Ints, n: Ints, stats: Floats) -> Floats:
        """Return the next outcome of each, of arms with these statistics, (N,)."""
        if self._stream is not None:
            return np.asarray(self._stream[e, member, n])
        if self.law == "states":
            return self.model.from_stream(_uniforms(self._keys[e, member], n), stats)
        tally = self.tally(e, member, n, np.ones_like(n))
        if self.law == "counts":
            return np.asarray(tally[:, 1])
        return np.asarray(class_outcomes(self.model)[tally.argmax(axis=1)])

    def rested(self, e: Ints, member: Ints, stage: int, stats: Floats) -> Floats:
        """Return the statistics after a stage without a pull, of arms that move then."""
        numbers = np.full(e.shape, stage)
        return self.model.rested(_uniforms(self._keys[e, member], numbers), stats)

    def begun(self, number: int) -> Floats:
        """Return first statistics by the uniform of a number, (episodes, members, width)."""
        uniforms = _uniforms(self._keys.ravel(), np.full(self._keys.size, number))
        return self.model.begun(uniforms.reshape(self._keys.shape))

    @property
    def tallied(self) -> bool:
        """Whether outcomes of several pulls are had at once, as what they add to statistics."""
        return self.law in ("classes", "counts")

    def tally(self, e: Ints, member: Ints, n: Ints, count: Ints) -> Floats:
        """Return what the next `count` outcomes of each add to its statistics, (N, width)."""
        keys, theta = self._keys[e, member], self._theta[e // self._per_draw, member]
        added = np.zeros((len(e), self.model.width))
        if self.law == "classes":
            draw_classes(keys, n, count, np.ascontiguousarray(theta), added)
        else:
            draw_counts(keys, n, count, theta[:, 0].copy(), added)
        return added

    def after(self, e: Ints, member: Ints, n: int, count: int, stats: Floats) -> Floats:
        """Return the statistics after `count` more pulls of arms that have had n, (N, width)."""
        if self.tallied:
            return stats + self.tally(e, member, np.full(e.shape, n), np.full(e.shape, count))
        for j in range(n, n + count):
            outcome = self.one(e, member, np.full(e.shape, j), stats)
            stats = self.model.update(stats, outcome)
        return stats


def outcomes_of(problem: Problem, chunk: Chunk) -> Sequence[Outcomes]:
    """Return the outcomes of every group."""
    return [Outcomes(group, k, chunk) for k, group in enumerate(problem.groups)]


class Proposal:
    """Mixture that samples where nearly certain priors hardly ever go; alpha, beta (arms,).

    Under Beta(.001, .001) all but one draw in a hundred are 0 or 1 as far as outcomes can tell, and
    those few decide the last digits of a value. Draws therefore come from a mixture, half of it the
    prior itself (defensive importance sampling: Hesterberg, Weighted average importance sampling
    and defensive mixture distributions, 1995; Owen and Zhou, Safe and effective importance
    sampling, 2000):

        g(p) = prod_k f_k(p_k) (1/2 + 1/4 mean of the ratios + 1/4 product of the ratios)
        ratios: q_k(p_k) / f_k(p_k) of the arms whose prior has a small parameter

    f_k the priors, q_k the mean of Beta(alpha, B), Beta(A, beta) and Beta(A, B), A and B the
    parameters raised to MIN_PARAMETER: draws near 0, near 1, and between. A draw has the weight
    prod_k f_k / g, at most 2, so that E_g[weight y(p)] = E y(p).
    """

    def __init__(self, alpha: Floats, beta: Floats) -> None:
        self._alpha, self._beta = alpha, beta
        self._small = np.flatnonzero(np.minimum(alpha, beta) < MIN_PARAMETER)
        wide = np.maximum(alpha, MIN_PARAMETER), np.maximum(beta, MIN_PARAMETER)
        self._parts = ((alpha, wide[1]), (wide[0], beta), wide)  # of q

    @property
    def widened(self) -> bool:
        """Whether draws are not just those of the prior."""
        return self._small.size > 0

    def replace(self, p: Floats, rng: np.random.Generator) -> None:
        """In half of the draws p (draws, arms), draw one or all small arms from q."""
        kind, one = rng.random(len(p)), rng.choice(self._small, size=len(p))
        wide = (kind >= PRIOR_SHARE + ONE_SHARE)[:, None] | (
            (kind >= PRIOR_SHARE)[:, None] & (one[:, None] == self._small)
        )
        part = rng.integers(len(self._parts), size=wide.shape)
        a, b = (np.choose(part, [pair[i][self._small] for pair in self._parts]) for i in range(2))
        p[:, self._small] = np.where(wide, rng.beta(a, b), p[:, self._small])

    def weights(self, p: Floats) -> Floats:
        ratios = [self._ratio(p[:, k], int(k)) for k in self._small]
        with np.errstate(over="ignore"):  # a draw may be no draw of the priors at all
            part = (
                PRIOR_SHARE
                + ONE_SHARE * np.mean(ratios, axis=0)
                + ALL_SHARE * np.prod(ratios, axis=0)
            )
        return np.asarray(1.0 / part)

    def _ratio(self, p: Floats, k: int) -> Floats:
        """Return the ratio of an arm; of probabilities near 1, where doubles are sparse."""
        from scipy.special import betainc, betaln  # late: trials do not need scipy

        a, b = self._alpha[k], self._beta[k]
        log_p = np.log(np.maximum(p, MIN_LOG_ARGUMENT))
        log_rest = np.log(np.maximum(1.0 - p, NEAR_ONE))
        ratios = []
        for wide_a, wide_b in ((float(x[k]), float(y[k])) for x, y in self._parts):
            with np.errstate(divide="ignore", over="ignore"):
                logs = betaln(a, b) - betaln(wide_a, wide_b)
                logs += (wide_a - a) * log_p if wide_a > a else 0.0
                ratio = np.exp(logs + (wide_b - b) * log_rest)
            if wide_b > b:
                near = betainc(wide_b, wide_a, NEAR_ONE) / betainc(b, a, NEAR_ONE)
                ratio = np.where(1.0 - p < NEAR_ONE, near, ratio)
            ratios.append(ratio)
        return np.asarray(np.mean(ratios, axis=0))
