"""Episodes of problems with arms of any kind: all episodes of a chunk stage by stage, in arrays.

Parameters are drawn from the priors, and for every arm the stream that decides its first, second,
... outcome: the same for all policies. What a pull earns is counted by its outcome and by the mean
at the true parameters, whose average varies less; own arms have states and no parameters, so that
there both are the mean of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..policies import Policy
from ..policies.kinds.base import KindPolicy
from ..problem import Group, KindTruth, Problem, States, best_mean_reward, best_true_rewards
from ..support import Floats, Ints, Progress, Report, Stopwatch, pool, worker_count
from .chunks import Chunked
from .estimators import Missed, Sample, estimate
from .pull_records import PullRecord
from .results import PolicyResult

CHUNK = 4096  # episodes
Watched = Callable[[int, int, States, Ints], None]  # first episode, stage, states, pulls (E, K)


class KindWorld(Chunked):
    """Draws of the parameters of arms of any kind, and streams of their outcomes."""

    def __init__(
        self, problem: Problem, *, draws: int, per_draw: int, seed: int, truth: KindTruth | None
    ) -> None:
        """truth: parameters of every arm, where they are not drawn."""
        super().__init__(draws, max(1, CHUNK // per_draw), seed)
        self.problem, self.per_draw, self.truth = problem, per_draw, truth

    def chunk(self, number: int) -> KindChunk:
        """The draws of a chunk."""
        rng, policy, size = self.opened(number)
        streams: list[Floats] = []
        means: list[Floats | None] = []
        for group in self.problem.groups:
            kind, M = group.model, group.count
            first = np.tile(np.array(kind.initial(), dtype=float), (size, M, 1))
            true = self._true(group, size) if self.truth else kind.sample(first, rng)
            drawn = np.repeat(true, self.per_draw, axis=0)  # (E, M, parameters)
            flat = drawn.reshape(len(drawn) * M, -1)
            stream = kind.stream(flat, self.problem.most_pulls, rng)
            streams.append(stream.reshape(len(drawn), M, -1))
            means.append(None if drawn.shape[-1] == 0 else kind.mean_at(drawn))
        stats = States.initial(self.problem, size * self.per_draw).stats
        return KindChunk(stats, streams, means, np.random.default_rng(policy))

    def _true(self, group: Group, size: int) -> Floats:
        """The true parameters of a group's arms, (size, members, parameters)."""
        assert self.truth is not None
        own = np.array([self.truth[arm] for arm in group.members], dtype=float)
        return np.broadcast_to(own, (size, *own.shape))

    @property
    def range(self) -> float:
        """How far apart the rewards of two episodes usually are, at most."""
        last = sum(count * float(np.ptp(table)) for count, table in self._tables)
        return float(self.problem.pulls @ np.ptp(self._ends, axis=0)) + last

    @property
    def size(self) -> float:
        """Sum of the absolute rewards of an episode, usually at most."""
        last = sum(count * float(np.abs(table).max()) for count, table in self._tables)
        return float(self.problem.pulls @ np.abs(self._ends).max(axis=0)) + last

    @property
    def middle(self) -> float:
        """Between the smallest and the largest of the usual rewards."""
        last = sum(count * float(table.max() + table.min()) for count, table in self._tables)
        ends = self._ends.max(axis=0) + self._ends.min(axis=0)
        return (float(self.problem.pulls @ ends) + last) / 2.0

    @property
    def _ends(self) -> Floats:
        """Usual rewards of a pull, the smallest and the largest of every group, by stage."""
        return np.array(
            [
                g.reward_base + g.reward_factor * x
                for g in self.problem.groups
                for x in g.model.usual
            ]
        )

    @property
    def _tables(self) -> list[tuple[int, Floats]]:
        return [(g.count, g.terminal) for g in self.problem.groups if g.terminal is not None]

    # -- what is known of the parameters ------------------------------------------------------

    @cached_property
    def expected_best(self) -> float | None:
        """Reward of always pulling the best arms: over the prior, or at the truth."""
        if self.truth is None:
            return best_mean_reward(self.problem)
        best = self.best_of(self.chunk(0))
        return None if best is None else float(best[0])

    def best_of(self, chunk: KindChunk) -> Floats | None:
        """The same at the parameters of each draw, (draws,)."""
        means = np.empty((len(chunk.stats) // self.per_draw, self.problem.n_arms))
        for group, own in zip(self.problem.groups, chunk.means, strict=True):
            if own is None:
                return None
            means[:, group.members] = own[:: self.per_draw]
        return best_true_rewards(self.problem, means)

    @property
    def control_sizes(self) -> Floats:
        """Of the means that the controls are differences of, (groups,)."""
        drawn = [g for g in self.problem.groups if g.model.has_law and self.truth is None]
        return np.array([g.count * float(np.abs(g.model.usual).max()) for g in drawn])

    def controls_of(self, chunk: KindChunk) -> Floats:
        """How far the means of each group were drawn from those of the priors, (draws, groups)."""
        found = []
        for group, own in zip(self.problem.groups, chunk.means, strict=True):
            if own is not None and self.truth is None:
                prior = float(group.model.mean(np.array(group.model.initial(), dtype=float)))
                found.append((own[:: self.per_draw] - prior).sum(axis=1))
        draws = len(chunk.stats) // self.per_draw
        return np.stack(found, axis=1) if found else np.empty((draws, 0))


@dataclass(eq=False)
class KindChunk:
    """Episodes of some draws: statistics (E, K, W); streams of every group, (E, members, T)."""

    stats: Floats
    streams: list[Floats]
    means: list[Floats | None]  # (E, members) at the true parameters; None where there are none
    rng: np.random.Generator  # of the policy


def play_kinds(
    policy: Policy,
    world: KindWorld,
    workers: int | None,
    progress: Report | None,
    *,
    pulls: bool = False,
    watch: Watched | None = None,
) -> PolicyResult:
    """Play all draws with one policy; `pulls`: keep every one; `watch`: sees all stages."""
    if not isinstance(policy, KindPolicy):
        raise ValueError(f"policy {policy.name!r} does not serve arms of these kinds")
    record = PullRecord(world) if pulls else None
    clock = Stopwatch()
    done = 0
    total = world.draws * world.per_draw * world.problem.stages

    def part(number: int) -> tuple[Floats, ...]:
        nonlocal done
        first = number * world.chunk_draws * world.per_draw
        found = _played(policy, world, world.chunk(number), first, record, watch)
        done += found[0].size * world.per_draw * world.problem.stages
        if progress is not None:
            progress(Progress(policy.name, min(done, total), total))
        return found

    with pool(worker_count(workers, most=world.number_of_chunks)) as threads:
        parts: Sequence[tuple[Floats, ...]] = threads.map(part, range(world.number_of_chunks))
    reward, mean, predicted, controls, each_best = (
        np.concatenate(own) for own in zip(*parts, strict=True)
    )
    weights, best = np.ones(world.draws), world.expected_best
    sample = Sample(
        reward=reward, mean_reward=mean, predicted=None if world.truth else predicted,
        best=None if best is None else each_best, expected_best=best, gap=None, upper_bound=None,
        controls=controls, control_sizes=world.control_sizes, weights=weights,
        missed=Missed(world.range, world.range, world.size, world.middle),
    )  # fmt: skip
    found = estimate(sample)
    regret = None if best is None else best - found.best.value
    return PolicyResult(
        policy=policy.name, estimates=found, regret=regret, curve=None, steps=total,
        seconds=clock.seconds(), preparation_seconds=0.0,
        episodes=None if record is None else record.columns(weights),
    )  # fmt: skip


def _played(
    policy: KindPolicy, world: KindWorld, chunk: KindChunk, first: int, record: PullRecord | None,
    watch: Watched | None,
) -> tuple[Floats, ...]:  # fmt: skip
    """Rewards of each draw, by outcomes, by true and by posterior means, averaged over its
    episodes; controls; rewards of the best arms.

    `first`: number of the first episode.
    """
    problem = world.problem
    E, K = chunk.stats.shape[:2]
    pulls = np.zeros((E, K), dtype=np.int64)
    earned, expected, predicted = np.zeros((3, E))
    for stage in range(problem.stages):
        states = States(problem, chunk.stats)
        left = policy.allocate_many(stage, states, chunk.rng)
        if watch is not None:
            watch(first, stage, states, left)
        while left.any():  # in batches an arm is pulled several times: one pull of each in turn
            for k, group in enumerate(problem.groups):
                arms = np.array(group.members)
                e, which = np.nonzero(left if len(problem.groups) == 1 else left[:, arms])
                if not e.size:
                    continue
                base, factor = group.reward_base[stage], group.reward_factor[stage]
                made = pulls[e, arms[which]]
                stats = chunk.stats[e, arms[which], : group.model.width]
                known = group.model.mean(stats)
                seen, got, mean = _pulled(
                    group, chunk, k, stats, e, which, made, stage < problem.horizon
                )
                pulls[e, arms[which]] = made + 1
                earned += np.bincount(e, base + factor * got, E)
                expected += np.bincount(e, base + factor * mean, E)
                predicted += np.bincount(e, base + factor * known, E)
                if record is not None:
                    record.add(
                        first + e, np.full(e.shape, stage), arms[which], outcome=seen,
                        reward=base + factor * got, truth=mean,
                    )  # fmt: skip
            left = np.maximum(left - 1, 0)
    for k, group in enumerate(problem.groups):
        last = group.last_rewards(States(problem, chunk.stats).of_group(k)).sum(axis=1)
        earned, expected, predicted = earned + last, expected + last, predicted + last
    share = (-1, world.per_draw)
    each = [own.reshape(share).mean(axis=1) for own in (earned, expected, predicted)]
    best = world.best_of(chunk)
    return *each, world.controls_of(chunk), np.zeros_like(each[0]) if best is None else best


def _pulled(
    group: Group,
    chunk: KindChunk,
    k: int,
    stats: Floats,
    e: Ints,
    which: Ints,
    made: Ints,
    observed: bool,
) -> tuple[Floats, Floats, Floats]:
    """Outcomes of arms of one group, their values, true means; a deployment has none.

    e, which: episodes and members; made: pulls of each so far.
    """
    kind, known = group.model, chunk.means[k]
    mean = kind.mean(stats) if known is None else known[e, which]
    if not observed:
        return np.full(e.shape, np.nan), mean, mean
    outcome = kind.from_stream(chunk.streams[k][e, which, made], stats)
    arms = np.array(group.members)[which]
    chunk.stats[e, arms, : kind.width] = kind.update(stats, outcome)
    return outcome, kind.value(stats, outcome), mean
