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
from .accounts import GapTerms, Played, Steps, Turns, number_of_terms
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
    by_stage: bool = False,
    pulls: bool = False,
) -> Played:
    """Play all draws of a world.

    `by_stage`: keep the gap terms of every stage too; `pulls`: every pull.
    """
    played = Played(world, by_stage=by_stage, pulls=pulls)
    steps = Steps(turns, world, progress or silent)
    if has_loops(turns, world.problem):
        play_blocks(turns, world, gap, workers, steps, played)
        return played
    preparing = Stopwatch()
    tables = None if pulls else make_tables(turns, world, gap)
    played.preparation_seconds = preparing.seconds()

    def play_chunk(number: int) -> None:
        chunk = world.chunk(number)
        if tables is None or not tables.play(chunk, played):
            _Episodes(turns, world, chunk, gap, played).play(steps)
        else:
            steps.add(world.problem.stages * len(chunk.keys))

    needs_states = any(_is_asked(policy) for policy, _ in turns)
    playing = Stopwatch()
    with pool(1 if needs_states else worker_count(workers, most=world.number_of_chunks)) as threads:
        threads.map(play_chunk, range(world.number_of_chunks))
    played.seconds = playing.seconds()
    return played


def turn_of(turns: Turns, stage: int) -> Policy:
    """Return the policy that plays a stage."""
    return next((policy for policy, until in turns if stage < until), turns[-1][0])


def _is_asked(policy: Policy) -> bool:
    """Whether a policy is called in every state; it may not be thread-safe."""
    return type(policy).allocate_many is Policy.allocate_many and not policy.has_table


class _Episodes:
    """Episodes of one chunk, in arrays (E, K, W)."""

    def __init__(
        self, turns: Turns, world: World, chunk: Chunk, gap: GapTerms | None, played: Played
    ) -> None:
        self.turns, self.world, self.chunk, self.gap, self.played = turns, world, chunk, gap, played
        self.rng, self.place = chunk.rng(), world.place(chunk.number)
        self.stats = np.array(States.initial(world.problem, len(chunk.keys)).stats)
        self.restless = [k for k, g in enumerate(world.problem.groups) if g.model.restless]
        self.pulls = np.zeros(chunk.keys.shape, np.int64)
        self.draw = np.repeat(np.arange(len(chunk.weights)), world.per_draw)
        self.earned, self.predicted = np.zeros((2, len(chunk.keys)))
        budget = world.problem.budget
        self.spent = None if budget is None else np.zeros(len(chunk.keys))
        self.outcomes = outcomes_of(world.problem, chunk)
        for k in self.restless:
            group = world.problem.groups[k]
            begun = self.outcomes[k].begun(world.problem.horizon)
            self.stats[:, list(group.members), : group.model.width] = begun

    def play(self, steps: Steps) -> None:
        """Play all stages and book what came of them."""
        world, played, stages = self.world, self.played, self.world.problem.stages
        draws = len(self.chunk.weights)
        means = np.zeros((draws, stages))
        terms = np.zeros((draws, stages, number_of_terms(world.problem)))
        for stage in range(stages):
            heed_interrupt()
            policy = turn_of(self.turns, stage)
            states = States(policy.problem, self.stats, spent=self.spent).at(stage)
            pulls = self._allocated(policy, stage, states)
            if self.gap is not None:
                states_now = States(world.problem, self.stats, spent=self.spent)
                terms[:, stage] = self._by_draw(self.gap.terms(stage, states_now, pulls))
            if self.spent is not None:
                self.spent = self.spent + pulls @ world.problem.costs[stage]
                check_spent(policy.name, world.problem, stage, self.spent)
            expected = np.zeros(len(pulls))
            for k in self.restless:  # before others: they move from where they are now
                self._rest(stage, k, pulls, expected)
            for k in range(len(world.problem.groups)):
                self._pull(stage, k, pulls, expected)
            means[:, stage] = self._by_draw(expected)
            steps.add(len(pulls))
        last = self._last_rewards()
        played.reward[self.place] += self._by_draw(self.earned + last)
        played.mean_reward[self.place] += self._by_draw(last)
        played.predicted[self.place] += self._by_draw(self.predicted + last)
        played.pulls[self.place] += self._by_draw(self.pulls.astype(float))
        every = slice(0, stages)
        played.book_stages(world, self.chunk, every, means, np.zeros(draws))
        if self.gap is not None:
            played.gap[self.place] += terms.sum(axis=(1, 2))
            played.book_gap_terms(world, self.chunk, every, terms)

    def _by_draw(self, values: Floats) -> Floats:
        """Sum over the episodes of a draw."""
        return np.asarray(values.reshape(-1, self.world.per_draw, *values.shape[1:]).sum(axis=1))

    def _allocated(self, policy: Policy, stage: int, states: States) -> Ints:
        """Return pulls of every arm in every episode; refuses what is no stage of the problem."""
        problem = self.world.problem
        deployed = stage == problem.horizon
        local_stage = policy.problem.horizon if deployed else stage
        pulls = np.asarray(policy.allocate_many(local_stage, states, self.rng), dtype=np.int64)
        check_pulls(policy.name, problem, stage, pulls)
        return pulls

    def _pull(self, stage: int, k: int, pulls: Ints, expected: Floats) -> None:
        """Pull the arms of a group, and add what they earned; expected (E,): by true means."""
        group, outcomes = self.world.problem.groups[k], self.outcomes[k]
        arms = np.array(group.members)
        e, member = np.nonzero(pulls[:, arms])
        if not e.size:
            return
        arm, model, E = arms[member], group.model, len(pulls)
        base, factor = group.reward_base[stage], group.reward_factor[stage]
        count, stats = pulls[e, arm], self.stats[e, arm, : model.width]
        posterior, mean = model.mean(stats), self.chunk.means[self.draw[e], arm]
        mean = np.where(np.isnan(mean), posterior, mean)
        if stage == self.world.problem.horizon:
            total, observed = count * mean, np.full(e.shape, np.nan)
            self._keep(stage, e, arm, count, observed, base * count + factor * total, mean, True)
        elif outcomes.tallied and (self.played.record is None or self.world.problem.is_binary):
            added = outcomes.tally(e, member, self.pulls[e, arm], count)
            self.stats[e, arm, : model.width] += added
            total = model.total(added)
            self._keep(stage, e, arm, count, total, base * count + factor * total, mean, False)
        else:
            total, passed = self._one_by_one(stage, outcomes, e, member, arm, count, mean)
            if not group.model.has_law:  # states have means, and no parameters
                mean, posterior = passed / count, passed / count
        if stage < self.world.problem.horizon:
            self.pulls[e, arm] += count
        self.earned += np.bincount(e, base * count + factor * total, E)
        self.predicted += np.bincount(e, count * (base + factor * posterior), E)
        expected += np.bincount(e, count * (base + factor * mean), E)

    def _rest(self, stage: int, k: int, pulls: Ints, expected: Floats) -> None:
        """Move the arms of a group that are not pulled, and add what they earned."""
        group = self.world.problem.groups[k]
        arms, factor = np.array(group.members), group.reward_factor[stage]
        e, member = np.nonzero(pulls[:, arms] == 0)
        arm = arms[member]
        stats = self.stats[e, arm, : group.model.width]
        earned = np.bincount(e, factor * group.model.rest_mean(stats), len(pulls))
        self.stats[e, arm, : group.model.width] = self.outcomes[k].rested(e, member, stage, stats)
        self.earned += earned
        self.predicted += earned
        expected += earned

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
            reward = base[now] + factor[now] * value
            one = np.ones(now.shape, np.int64)
            self._keep(stage, e[now], arm[now], one, outcome, reward, mean[now], False)
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
        deployed: bool,
    ) -> None:
        """Record pulls if requested; observed: outcomes, or numbers of good ones."""
        if self.played.record is None:
            return
        columns: dict[str, Floats | Ints] = {"outcome": observed}
        if self.world.problem.repeat and self.world.problem.is_binary:
            pulls = np.full(e.shape, np.nan) if deployed else count.astype(float)
            columns = {"good": observed, "pulls": pulls}
        first = self.place.start * self.world.per_draw
        self.played.record.add(
            first + e, np.full(e.shape, stage), arm, **columns, reward=reward, truth=mean
        )

    def _last_rewards(self) -> Floats:
        """Return last rewards by the final states of arms, (E,)."""
        total = np.zeros(len(self.stats))
        for group in self.world.problem.groups:
            if group.terminal is not None:
                stats = self.stats[:, list(group.members), : group.model.width]
                total += group.last_rewards(stats).sum(axis=1)
        return total


def check_spent(policy: str, problem: Problem, stage: int, spent: Floats) -> None:
    """Refuse episodes that have spent more than the budget."""
    assert problem.budget is not None
    if spent.max(initial=0.0) > problem.budget * (1.0 + SLACK):
        raise InvalidArgument(
            f"policy {policy!r} has spent {spent.max():.6g} by stage {stage}; the budget is "
            f"{problem.budget:g}",
            field="policy",
        )
