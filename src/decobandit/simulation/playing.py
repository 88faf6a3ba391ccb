"""The episodes of policies: stage by stage in arrays, or by a compiled loop where there is one.

Chunks of draws run in threads; what a draw adds is booked by draw, so that results do not depend
on their number. A policy that draws is asked chunk by chunk, with the generator of each.

Compiled loops: `bernoulli_playing.py` for single pulls of good and bad outcomes, `table_playing.py`
for index policies of classes, own states and counts. Both play on the outcomes that are met here.
"""

from __future__ import annotations

import numpy as np

from ..policies import Policy, check_pulls
from ..problem import Problem, States
from ..support import (
    Floats,
    Ints,
    InvalidArgument,
    Report,
    Stopwatch,
    heed_interrupt,
    pool,
    silent,
    worker_count,
)
from .accounts import GapTerms, Played, PullRecord, Steps, Turns, no_terms, turn_of
from .bernoulli_playing import has_loops, play_blocks
from .table_playing import make_tables
from .worlds import Chunk, Outcomes, World, outcomes_of

SLACK = 1e-9  # part of a budget that rounding may add to what is spent


def play(
    turns: Turns,
    world: World,
    gap: GapTerms | None = None,
    workers: int | None = None,
    progress: Report | None = None,
    *,
    pulls: bool = False,
) -> Played:
    """Play all draws of a world; `pulls`: keep every pull."""
    played = Played(world, gap, pulls=pulls)
    steps = Steps(turns, world, progress or silent)
    if has_loops(turns, world.problem):
        play_blocks(turns, played, workers, steps)
        return played
    preparing = Stopwatch()
    tables = None if pulls else make_tables(turns, world, gap)
    played.preparation_seconds = preparing.seconds()

    def play_chunk(number: int) -> None:
        chunk = world.chunk(number)
        if tables is None or not tables.play(chunk, played):
            _play_by_stage(turns, chunk, played, steps)
        else:
            steps.add(world.problem.stages * len(chunk.keys))

    asked = any(type(policy).allocate_many is Policy.allocate_many for policy, _ in turns)
    playing = Stopwatch()
    with pool(1 if asked else worker_count(workers, most=world.number_of_chunks)) as threads:
        threads.map(play_chunk, range(world.number_of_chunks))
    played.seconds = playing.seconds()
    return played


def _play_by_stage(turns: Turns, chunk: Chunk, played: Played, steps: Steps) -> None:
    world, gap, rng = played.world, played.gap, chunk.rng()
    problem, draws = world.problem, len(chunk.weights)
    arms = EpisodeArms(world, chunk, played.record)
    spent = None if problem.budget is None else np.zeros(len(chunk.keys))
    sums, means = np.zeros((3, len(chunk.keys))), np.zeros((draws, problem.stages))
    terms = None if gap is None else np.zeros((draws, *no_terms(problem).shape))

    def by_draw(values: Floats | Ints) -> Floats:
        return np.asarray(values.reshape(draws, world.per_draw, *values.shape[1:]).sum(axis=1))

    for stage in range(problem.stages):
        heed_interrupt()
        policy = turn_of(turns, stage)
        states = States(policy.problem, arms.stats, spent=spent).at(stage)
        own_stage = policy.problem.horizon if stage == problem.horizon else stage
        pulls = np.asarray(policy.allocate_many(own_stage, states, rng), dtype=np.int64)
        check_pulls(policy.name, problem, stage, pulls)
        if gap is not None and terms is not None:
            now = States(problem, arms.stats, spent=spent)
            terms[:, stage] = by_draw(gap.terms(stage, now, pulls))
        if spent is not None:
            spent = spent + pulls @ problem.costs[stage]
            check_spent(policy.name, problem, stage, spent)
        earned = arms.step(stage, pulls)
        sums += earned
        means[:, stage] = by_draw(earned[2])
        steps.add(len(pulls))
    earned_by = by_draw(sums[0]), by_draw(sums[1])
    played.book(chunk, slice(0, problem.stages), *earned_by, means, terms, np.zeros(draws))
    played.close(chunk, by_draw(arms.pulls), by_draw(arms.last_rewards()))


class EpisodeArms:
    """Arms of the episodes of a chunk: their statistics (E, K, W), and what pulls earn."""

    def __init__(self, world: World, chunk: Chunk, record: PullRecord | None = None) -> None:
        problem = world.problem
        self.world, self.problem, self.record = world, problem, record
        self.stats = np.array(States.initial(problem, len(chunk.keys)).stats)
        self.pulls = np.zeros(chunk.keys.shape, np.int64)
        self.means = np.repeat(chunk.means, world.per_draw, axis=0)  # nan where arms have none
        self.outcomes = outcomes_of(problem, chunk)
        self.counted = problem.is_binary  # pulls of a stage are kept together
        self.restless = [k for k, group in enumerate(problem.groups) if group.model.restless]
        self._first = world.place(chunk.number).start * world.per_draw  # episode of all
        for k in self.restless:
            group = problem.groups[k]
            begun = self.outcomes[k].begun(problem.horizon)
            self.stats[:, list(group.members), : group.model.width] = begun

    def step(self, stage: int, pulls: Ints) -> Floats:
        """Make pulls (E, K); return what they earn, (3, E).

        By outcomes, by posterior means and by true means.
        """
        earned = np.zeros((3, len(pulls)))
        for k in self.restless:  # before others: they move from where they are now
            earned += self._rest(stage, k, pulls)
        for k in range(len(self.problem.groups)):
            earned += self._pull(stage, k, pulls)
        return earned

    def last_rewards(self) -> Floats:
        total = np.zeros(len(self.stats))
        for group in self.problem.groups:
            if group.terminal is not None:
                stats = self.stats[:, list(group.members), : group.model.width]
                total += group.last_rewards(stats).sum(axis=1)
        return total

    def _pull(self, stage: int, k: int, pulls: Ints) -> Floats:
        """Pull the arms of a group; return what they earn, (3, E)."""
        group, outcomes = self.problem.groups[k], self.outcomes[k]
        arms = np.array(group.members)
        e, member = np.nonzero(pulls[:, arms])
        if not e.size:
            return np.zeros((3, 1))
        arm, model, deployed = arms[member], group.model, stage == self.problem.horizon
        base, factor = group.reward_base[stage], group.reward_factor[stage]
        count, stats = pulls[e, arm], self.stats[e, arm, : model.width]
        posterior, mean = model.mean(stats), self.means[e, arm]
        mean = np.where(np.isnan(mean), posterior, mean)
        if deployed:
            total, observed = count * mean, np.full(e.shape, np.nan)
            self._keep(stage, e, arm, count, observed, base * count + factor * total, mean)
        elif outcomes.tallied and (self.record is None or self.counted):
            added = outcomes.tally(e, member, self.pulls[e, arm], count)
            self.stats[e, arm, : model.width] += added
            total = model.total(added)
            self._keep(stage, e, arm, count, total, base * count + factor * total, mean)
        else:
            total, passed = self._one_by_one(stage, outcomes, e, member, arm, count, mean)
            if not group.model.has_law:  # states have means, and no parameters
                mean, posterior = passed / count, passed / count
        if not deployed:
            self.pulls[e, arm] += count
        earned = (
            base * count + factor * total,
            count * (base + factor * posterior),
            count * (base + factor * mean),
        )
        return np.stack([np.bincount(e, rewards, len(pulls)) for rewards in earned])

    def _rest(self, stage: int, k: int, pulls: Ints) -> Floats:
        """Move the arms of a group that are not pulled; return what they earn, (E,)."""
        group = self.problem.groups[k]
        arms, factor = np.array(group.members), group.reward_factor[stage]
        e, member = np.nonzero(pulls[:, arms] == 0)
        arm = arms[member]
        stats = self.stats[e, arm, : group.model.width]
        self.stats[e, arm, : group.model.width] = self.outcomes[k].rested(e, member, stage, stats)
        return np.asarray(np.bincount(e, factor * group.model.rest_mean(stats), len(pulls)), float)

    def _one_by_one(
        self,
        stage: int,
        outcomes: Outcomes,
        e: Ints,
        member: Ints,
        arm: Ints,
        count: Ints,
        mean: Floats,
    ) -> tuple[Floats, Floats]:
        """Pull one by one; return sums of outcome values, and of means before each outcome."""
        model, total, passed = outcomes.model, np.zeros(e.shape), np.zeros(e.shape)
        base, factor = self.world.base[arm, stage], self.world.factor[arm, stage]
        for j in range(int(count.max())):
            now = np.flatnonzero(count > j)
            stats = self.stats[e[now], arm[now], : model.width]
            number = self.pulls[e[now], arm[now]] + j
            if model.restless:  # outcomes go by stage, as what happens at rest does
                number = np.full(now.shape, stage)
            outcome = outcomes.one(e[now], member[now], number, stats)
            value = model.value(stats, outcome)
            self.stats[e[now], arm[now], : model.width] = model.update(stats, outcome)
            total[now] += value
            passed[now] += model.mean(stats)
            reward, one = base[now] + factor[now] * value, np.ones(now.shape, np.int64)
            self._keep(stage, e[now], arm[now], one, outcome, reward, mean[now])
        return total, passed

    def _keep(
        self,
        stage: int,
        e: Ints,
        arm: Ints,
        count: Ints,
        observed: Floats,
        reward: Floats,
        mean: Floats,
    ) -> None:
        """Record pulls if requested; observed: outcomes, or numbers of good ones."""
        if self.record is None:
            return
        columns: dict[str, Floats | Ints] = {"outcome": observed}
        if self.counted and self.problem.repeat:
            columns = {"good": observed, "pulls": np.where(np.isnan(observed), np.nan, count)}
        stages = np.full(e.shape, stage)
        self.record.add(self._first + e, stages, arm, **columns, reward=reward, truth=mean)


def check_spent(policy: str, problem: Problem, stage: int, spent: Floats) -> None:
    """Refuse episodes that have spent more than the budget."""
    assert problem.budget is not None
    if spent.max(initial=0.0) > problem.budget * (1.0 + SLACK):
        raise InvalidArgument(
            f"policy {policy!r} has spent {spent.max():.6g} by stage {stage}; the budget is "
            f"{problem.budget:g}",
            field="policy",
        )
