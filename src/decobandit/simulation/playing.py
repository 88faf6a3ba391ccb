"""The episodes of policies: stage by stage in arrays, or by a compiled loop where there is one.

Chunks of draws run in threads; what a draw adds is booked by draw, so that results do not depend
on their number. A policy that draws is asked chunk by chunk, with the generator of each.

    stage by stage    any policy, on any arms (`EpisodeArms`)
    blocks of stages  single pulls of good and bad outcomes: a policy's own loop (`play`), or a
                      table of the indices of a block, used by all episodes
    tables            index policies of classes, own states and counts: the index of every state
                      at every stage. The states of an arm are numbered row by row, by pulls. Sums
                      of counts have no largest one: where an episode leaves the table, its chunk is
                      played stage by stage

All of them play on the outcomes of `worlds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from ..joint import distinct_rows
from ..policies import GreedyPolicy, IndexPolicy, Policy, check_pulls
from ..policies.kernels.episodes import NO_ACTION, Episodes
from ..policies.kernels.index_play import lay_out, play_indices
from ..problem import (
    TIE_SIGNS,
    ArmModel,
    MarkovModel,
    PoissonModel,
    Problem,
    States,
    tie_tolerance,
)
from ..problem.kernels.layout import slab_size
from ..support import (
    Floats,
    Ints,
    InvalidArgument,
    Progress,
    Report,
    Stopwatch,
    heed_interrupt,
    pool,
    read_only,
    refuse_over,
    silent,
    tell,
    worker_count,
)
from .accounts import GapTerms, Played, PullRecord, Turns, no_terms, turn_of
from .kernels.playing import BY_CLASS, BY_COUNT, BY_STATE, book, book_gap, play_tables
from .worlds import CHUNK, Chunk, World, class_bounds, class_outcomes, law_of, outcomes_of

SLACK = 1e-9  # part of a budget that rounding may add to what is spent
LONGEST_BLOCK = 64  # stages
BLOCK_BYTES = 256 * 2**20  # of a block's tables; long horizons get shorter blocks
WAVE_BYTES = 512 * 2**20  # of the states of all chunks that are under way together
MOST_CELLS = 2**25  # of a table: states times stages
TAIL = 1e-9  # chance of a sum of counts beyond the end of its row
CODES = {"classes": BY_CLASS, "states": BY_STATE, "counts": BY_COUNT}
Count = Callable[[int], None]  # of steps played
Arrays = dict[str, npt.NDArray[Any]]  # in the order of `play_tables`


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
    played, problem = Played(world, gap, pulls=pulls), world.problem
    report, lock, steps = progress or silent, Lock(), 0
    total = world.draws * world.per_draw * problem.stages

    def count(more: int) -> None:
        nonlocal steps
        with lock:
            steps += more
            report(Progress(turns[0][0].name, steps, total))

    count(0)
    compiled = all(policy.has_loop or policy.has_table for policy, _ in turns)
    if compiled and problem.single_binary and not problem.may_wait:
        _play_blocks(turns, played, workers, count)
        return played
    preparing = Stopwatch()
    tables = None if pulls else make_tables(turns, world, gap)
    played.preparation_seconds = preparing.seconds()

    def play_chunk(number: int) -> None:
        chunk = world.chunk(number)
        if tables is None or not tables.play(chunk, played):
            _play_by_stage(turns, chunk, played, count)
        else:
            count(problem.stages * len(chunk.keys))

    asked = any(type(policy).allocate_many is Policy.allocate_many for policy, _ in turns)
    playing = Stopwatch()
    with pool(1 if asked else worker_count(workers, most=world.number_of_chunks)) as threads:
        threads.map(play_chunk, range(world.number_of_chunks))
    played.seconds = playing.seconds()
    return played


# -- stage by stage -------------------------------------------------------------------------------


def _play_by_stage(turns: Turns, chunk: Chunk, played: Played, count: Count) -> None:
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
            _check_spent(policy.name, problem, stage, spent)
        earned = arms.step(stage, pulls)
        sums += earned
        means[:, stage] = by_draw(earned[2])
        count(len(pulls))
    earned_by = by_draw(sums[0]), by_draw(sums[1])
    played.book(chunk, slice(0, problem.stages), *earned_by, means, terms, np.zeros(draws))
    played.close(chunk, by_draw(arms.pulls), by_draw(arms.last_rewards()))


def _check_spent(policy: str, problem: Problem, stage: int, spent: Floats) -> None:
    """Refuse episodes that have spent more than the budget."""
    assert problem.budget is not None
    if spent.max(initial=0.0) > problem.budget * (1.0 + SLACK):
        raise InvalidArgument(
            f"policy {policy!r} has spent {spent.max():.6g} by stage {stage}; the budget is "
            f"{problem.budget:g}",
            field="policy",
        )


class EpisodeArms:
    """Arms of the episodes of a chunk: their statistics (E, K, W), and what pulls earn."""

    def __init__(self, world: World, chunk: Chunk, record: PullRecord | None = None) -> None:
        problem = world.problem
        self.problem, self.record = problem, record
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
        if not deployed and not (outcomes.tallied and (self.record is None or self.counted)):
            total, passed = self._one_by_one(stage, k, e, member, count, mean)
            if not model.has_law:  # states have means, and no parameters
                mean, posterior = passed / count, passed / count
        else:
            total, observed = count * mean, np.full(e.shape, np.nan)
            if not deployed:
                added = outcomes.tally(e, member, self.pulls[e, arm], count)
                self.stats[e, arm, : model.width] += added
                total = observed = model.total(added)
            self._keep(stage, e, arm, count, observed, base * count + factor * total, mean)
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
        self, stage: int, k: int, e: Ints, member: Ints, count: Ints, mean: Floats
    ) -> tuple[Floats, Floats]:
        """Pull one by one; return sums of outcome values, and of means before each outcome."""
        group, outcomes = self.problem.groups[k], self.outcomes[k]
        model, arm = group.model, np.array(group.members)[member]
        total, passed = np.zeros((2, *e.shape))
        base, factor = group.reward_base[stage], group.reward_factor[stage]
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
            reward, one = base + factor * value, np.ones(now.shape, np.int64)
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


# -- blocks of stages of single binary pulls ------------------------------------------------------


def _play_blocks(turns: Turns, played: Played, workers: int | None, count: Count) -> None:
    """Play all draws of a world; where a policy's stages end, the next one takes over."""
    world = played.world
    spans = list(_spans(turns, world.problem, played.gap is not None))
    with pool(worker_count(workers)) as threads:
        for wave in _waves(world, max(last - first for _, first, last in spans)):
            runs = [_Run(world.chunk(number)) for number in wave]
            for policy, first, last in spans:
                preparing = Stopwatch()
                block = _Block(played, policy, first, last)
                block.play(_Run(runs[0].chunk.without_draws()))  # load kernels
                played.preparation_seconds += preparing.seconds()
                playing = Stopwatch()
                for run, _ in zip(runs, threads.each(block.run, runs), strict=True):
                    count(len(run.episodes.pulls) * (last - first))
                played.seconds += playing.seconds()
            for run in runs:
                _close(run, played)


def _spans(turns: Turns, problem: Problem, with_gap: bool) -> Iterator[tuple[Policy, int, int]]:
    """Return runs of stages of one policy; the deployment is one by itself."""
    first = 0
    for policy, until in turns:
        groups = max(len(problem.groups), len(policy.problem.groups))
        bytes_of_stage = 2 * 8 * groups * slab_size(problem.stages - 1)
        longest = max(1, min(LONGEST_BLOCK, BLOCK_BYTES // bytes_of_stage))
        planned = min(until, problem.horizon)
        alike = policy.has_loop or _is_steady(policy, first, planned)
        if alike and not with_gap:  # no table to make, or one: all in one go
            longest = problem.stages
        for end in (planned, problem.stages) if policy is turns[-1][0] else (planned,):
            while first < end:
                last = min(first + longest, end)
                yield policy, first, last
                first = last


def _waves(world: World, stages: int) -> Iterator[range]:
    """Yield numbers of chunks that are played together, in blocks of up to `stages` stages."""
    problem = world.problem
    bytes_of_episode = 32 * problem.n_arms + 4 * int(problem.pulls.max()) * stages
    bytes_of_chunk = min(CHUNK, world.draws) * world.per_draw * bytes_of_episode
    refuse_over(
        bytes_of_chunk, f"{CHUNK} draws of {world.per_draw} episodes", "use fewer episodes per draw"
    )
    size = max(1, WAVE_BYTES // bytes_of_chunk)
    for first in range(0, world.number_of_chunks, size):
        yield range(first, min(first + size, world.number_of_chunks))


def _is_steady(policy: Policy, first: int, last: int) -> bool:
    """Whether one table of indices serves all these stages, none of them a deployment."""
    planned = last <= policy.problem.horizon and not policy.problem.has_windows
    return not policy.has_loop and planned and policy.is_steady(first, last)


def _block_table(
    stage_index: Callable[[int], Floats], problem: Problem, stages: range, what: str
) -> Floats:
    """Return indices of some stages, (groups, states, stages): contiguous for an unpulled arm."""
    last = stages.stop - 1
    shape = (len(problem.groups), slab_size(last), len(stages))
    refuse_over(8.0 * np.prod(shape), f"a table of {what} at stage {last}", "shorten the horizon")
    table = np.empty(shape)
    for t in stages:
        tell(Progress(f"tables of {what}", t, problem.stages))
        lay_out(read_only(stage_index(t)), t, t - stages.start, last, table)
    return table


class _Run:
    """Chunk of draws that is being played, before any pull."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk, self.rng, self.episodes = chunk, chunk.rng(), chunk.episodes(0, 1)
        # states that the gap has reached, and the regret of each draw so far
        self.reached = self.episodes.pulls.copy(), self.episodes.good.copy()
        self.regret = np.zeros(len(chunk.weights))


class _Block:
    """Block of stages, the same for all chunks."""

    def __init__(self, played: Played, policy: Policy, first: int, last: int) -> None:
        self.played, self.policy, self.first, self.last = played, policy, first, last
        problem, gap, stages = policy.problem, played.gap, range(first, last)
        self.table = None
        if not policy.has_loop:  # steady: the indices of all stages are those of the last one
            made = stages[-1:] if _is_steady(policy, first, last) else stages
            self.table = _block_table(policy.stage_index, problem, made, "stages")
        elif first >= problem.horizon:
            self.table = _block_table(GreedyPolicy(problem).stage_index, problem, stages, "stages")
        if gap is not None:
            self.gap_table = _block_table(gap.tables.stage_index, gap.problem, stages, "gap terms")

    def play(self, run: _Run) -> Episodes:
        stages, pulls = self.last - self.first, round(self.played.world.problem.pulls[self.first])
        actions = np.full((len(run.episodes.pulls), stages, pulls), NO_ACTION, np.int32)
        episodes = run.episodes._replace(actions=actions)
        if self.table is None:
            self.policy.play(episodes, self.first, self.last, run.rng)
            return episodes
        problem = self.policy.problem
        counts = problem.pulls.astype(np.int64)[self.first : self.last]
        rule = tie_tolerance(problem), *TIE_SIGNS[self.policy.ties]
        most, groups = self.last - 1, problem.group_of_arm
        play_indices(episodes, self.table, most, groups, counts, *rule, run.rng)
        return episodes

    def run(self, run: _Run) -> None:
        """Play the block in one chunk and book what came of it."""
        played, world, episodes = self.played, self.played.world, self.play(run)
        stages, draws = slice(self.first, self.last), len(run.chunk.weights)
        base = np.ascontiguousarray(world.base[:, stages])
        factor = np.ascontiguousarray(world.factor[:, stages])
        reward, means, terms = np.zeros(draws), np.zeros((draws, self.last - self.first)), None
        deployed = self.first >= world.problem.horizon
        book(episodes, base + factor, base, deployed, reward, means)
        if played.record is not None:
            first = world.place(run.chunk.number).start * world.per_draw
            played.record.add_actions(first, episodes, self.first, base, factor, deployed)
        if played.gap is not None:
            terms = np.zeros((*means.shape, 2))
            most, groups = self.last - 1, world.problem.group_of_arm
            prices = np.ascontiguousarray(played.gap.prices[stages])
            book_gap(episodes, *run.reached, self.gap_table, prices, most, groups, terms)
        predicted = self._predicted(episodes) if deployed else None
        played.book(run.chunk, stages, reward, predicted, means, terms, run.regret)

    def _predicted(self, episodes: Episodes) -> Floats:
        """Return rewards of deployed arms by posterior means, summed over the episodes of a draw.

        The kernels draw an outcome of a deployed arm, too: means are those after it. Before the
        deployment true means are as good: rewards by posterior means tell no more.
        """
        world, arm = self.played.world, episodes.actions[:, 0, :] >> 1  # (E, deployed)
        groups = world.problem.arm_groups
        alpha, beta = np.array([(group.alpha, group.beta) for group in groups]).T
        e = np.arange(len(arm))[:, None]
        n, g = episodes.pulls[e, arm], episodes.good[e, arm]
        mean = (alpha[arm] + g) / (alpha[arm] + beta[arm] + n)
        rewards = world.base[arm, self.first] + world.factor[arm, self.first] * mean
        return np.asarray(rewards.reshape(-1, world.per_draw * arm.shape[1]).sum(axis=1))


def _close(run: _Run, played: Played) -> None:
    world, last = played.world, np.zeros(len(run.chunk.weights))
    for arm, group in enumerate(world.problem.arm_groups):
        if group.terminal is not None:
            n, g = run.episodes.pulls[:, arm].astype(np.int64), run.episodes.good[:, arm]
            last += group.terminal[n * (n + 1) // 2 + g].reshape(-1, world.per_draw).sum(axis=1)
    pulls = run.episodes.pulls.reshape(-1, world.per_draw, world.problem.n_arms)
    played.close(run.chunk, pulls.sum(axis=1), last)


# -- tables over the states of arms ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ArmStates:
    """States of an arm, row by row; S of them, with up to L outcomes each."""

    stats: Floats  # (S, width)
    start: Ints  # (rows + 1,) where rows begin
    links: Ints  # (S, L) state after each outcome; of counts: the state after 0, and most that fit
    below: Floats  # (S, L) of own states, chance of an outcome or one before it; else (S, 0)

    def lengths(self, stages: int) -> Ints:
        """Return the number of stages at which every state may be reached, (S,)."""
        rows = np.diff(self.start)
        return np.repeat(stages - np.arange(len(rows)), rows)


def _arm_states(world: World, k: int) -> ArmStates:
    """Return the states of the arms of a group after 0 .. horizon pulls."""
    group, rows = world.problem.groups[k], world.problem.horizon + 1
    model = group.model
    if isinstance(model, PoissonModel):
        largest = None  # mean where means are fixed
        if world.truth is not None:
            largest = float(np.max([world.truth[arm] for arm in group.members]))
        return _count_states(model, rows, largest)
    if not isinstance(model, MarkovModel):
        return _states_by_outcome(model, rows, class_outcomes(model))
    chances = [[chance for chance, _ in model.links(i)] for i in range(len(model.arrays.names))]
    below = np.ones((len(chances), max(map(len, chances))))
    for row, row_chances in zip(below, chances, strict=True):
        row[: len(row_chances) - 1] = np.cumsum(row_chances)[:-1]
    states = _states_by_outcome(model, rows, np.arange(float(below.shape[1])))
    return replace(states, below=below[states.stats[:, 1].astype(np.int64)])


def _states_by_outcome(model: ArmModel, rows: int, outcomes: Floats) -> ArmStates:
    """Return rows of the distinct statistics after all outcomes of the row before."""
    level = np.array([model.initial()], dtype=float)
    stats, links, start = [level], [], [0, 1]
    for _ in range(rows - 1):
        later = model.update(np.repeat(level, outcomes.size, axis=0), np.tile(outcomes, len(level)))
        first, place = distinct_rows(later)
        level = later[first]
        links.append(start[-1] + place.reshape(-1, outcomes.size))
        stats.append(level)
        start.append(start[-1] + len(level))
    links.append(np.zeros((len(level), outcomes.size), np.int64))
    joined = np.concatenate(stats)
    return ArmStates(joined, np.array(start), np.concatenate(links), np.empty((len(joined), 0)))


def _count_states(model: PoissonModel, rows: int, largest: float | None) -> ArmStates:
    """Return rows of sums of counts, up to the end of each row."""
    from scipy.stats import nbinom, poisson  # late: scipy takes half a second to load

    pulls = np.arange(1.0, rows)
    if largest is None:
        ends = nbinom.isf(TAIL, model.shape, model.rate / (model.rate + pulls))
    else:
        ends = poisson.isf(TAIL, pulls * largest)
    sizes = np.concatenate([[1], np.minimum(ends, MOST_CELLS).astype(np.int64) + 1])
    start = np.concatenate([[0], np.cumsum(sizes)])
    sums = np.arange(start[-1]) - np.repeat(start[:-1], sizes)
    n = np.repeat(np.arange(rows), sizes)
    after = start[np.minimum(n + 1, rows - 1)] + sums
    room = np.append(sizes[1:], 0)[n] - 1 - sums
    stats = np.stack([n, sums], axis=1).astype(float)
    return ArmStates(stats, start, np.stack([after, room], axis=1), np.empty((len(stats), 0)))


class Tables:
    """Tables of all arms, by which chunks are played."""

    def __init__(self, turns: Turns, world: World, arrays: Arrays) -> None:
        self.policy, self.world, self.arrays = turns[0][0], world, arrays
        self._with_gap = arrays["excess"].size > 0

    def play(self, chunk: Chunk, played: Played) -> bool:
        """Play a chunk and book what came of it; False, and nothing is booked, where it leaves."""
        world, problem = self.world, self.world.problem
        draws, stages = len(chunk.weights), problem.stages
        reward, predicted, last = np.zeros((3, draws))
        pulls, means = np.zeros((draws, problem.n_arms)), np.zeros((draws, stages))
        terms = np.zeros((draws if self._with_gap else 0, stages, 2))
        fits = play_tables(
            (chunk.keys, world.per_draw, self._theta(chunk), chunk.means),
            tuple(self.arrays.values()),
            (world.base, world.factor, problem.pulls.astype(np.int64), problem.horizon),
            (tie_tolerance(self.policy.problem), *TIE_SIGNS[self.policy.ties]),
            chunk.rng(),
            (reward, predicted, last, pulls, means, terms),
        )
        if not fits:
            return False
        gap_terms = terms if self._with_gap else None
        every, no_regret = slice(0, stages), np.zeros(draws)
        played.book(chunk, every, reward, predicted, means, gap_terms, no_regret)
        played.close(chunk, pulls, last)
        return True

    def _theta(self, chunk: Chunk) -> Floats:
        """Return cumulative chances of classes, or means, (draws, K, L)."""
        problem = self.world.problem
        chances = np.ones((len(chunk.weights), problem.n_arms, self.arrays["links"].shape[1]))
        for group, theta in zip(problem.groups, chunk.theta, strict=True):
            arms, law = list(group.members), law_of(group.model)
            if law == "counts":
                chances[:, arms, 0] = theta[..., 0]
            elif law == "classes":
                below = class_bounds(theta)
                chances[:, arms, : below.shape[-1] - 1] = below[..., :-1]
        return chances


def make_tables(turns: Turns, world: World, gap: GapTerms | None) -> Tables | None:
    """Make the tables of index policies; None where there are none, or they would be too large."""
    problem, policies = world.problem, [policy for policy, _ in turns]
    models = [group.model for group in problem.groups]
    if problem.has_windows or problem.is_restless or problem.may_wait:
        return None
    if not all(
        isinstance(one, IndexPolicy) and one.by_arm and one.has_own_index for one in policies
    ):
        return None
    if any(law_of(model) == "stream" for model in models):
        return None
    groups = policies[0].problem.group_of_arm.tolist(), problem.group_of_arm.tolist()
    pairs = list(zip(*groups, strict=True))  # of every arm, as believed and as it is
    parts = list(dict.fromkeys(pairs))
    most = min(MOST_CELLS, world.draws * world.per_draw * problem.n_arms * problem.stages)
    cells = 0.0
    for _, k in parts:
        if models[k].finite:
            rows = np.array([models[k].states(n) for n in range(problem.horizon)], dtype=float)
            cells += float(np.cumsum(rows).sum())
    if cells > most:
        return None
    states = [_arm_states(world, k) for _, k in parts]
    if sum(int(one.lengths(problem.stages).sum()) for one in states) > most:
        return None
    tell(Progress("tables of stages", 0, problem.stages))
    table_of = np.array([parts.index(pair) for pair in pairs])
    return Tables(turns, world, _joined(turns, problem, gap, table_of, parts, states))


def _joined(
    turns: Turns,
    problem: Problem,
    gap: GapTerms | None,
    table_of: Ints,
    parts: list[tuple[int, int]],
    states: list[ArmStates],
) -> Arrays:
    begin = np.cumsum([0, *(len(one.stats) for one in states)])
    size, width = int(begin[-1]), max(one.links.shape[1] for one in states)
    lengths = np.concatenate([one.lengths(problem.stages) for one in states])
    cells = int(lengths.sum())
    own_laws = any(one.below.shape[1] for one in states)
    made: Arrays = {
        "table_of": table_of,
        "begin": begin[:-1],
        "law": np.empty(len(parts), np.int64),
        "place": np.cumsum(lengths) - problem.stages,
        "links": np.zeros((size, width), np.int32),
        "below": np.ones((size, width)) if own_laws else np.empty((0, 0)),
        "values": np.zeros((len(parts), width)),
        "mean": np.empty(size),
        "last": np.empty(size),
        "index": np.empty(cells),
        "excess": np.empty(cells if gap is not None else 0),
    }
    for i, ((believed, k), one) in enumerate(zip(parts, states, strict=True)):
        group, here = problem.groups[k], slice(int(begin[i]), int(begin[i + 1]))
        made["law"][i] = CODES[law_of(group.model)]
        made["links"][here, : one.links.shape[1]] = one.links + begin[i]
        if made["law"][i] == BY_COUNT:
            made["links"][here, 1] = one.links[:, 1]
        elif made["law"][i] == BY_CLASS:
            outcomes = class_outcomes(group.model)
            first = np.repeat(one.stats[:1], outcomes.size, axis=0)
            made["values"][i, : outcomes.size] = group.model.value(first, outcomes)
        made["below"][here, : one.below.shape[1]] = one.below if own_laws else 1.0
        made["mean"][here], made["last"][here] = (
            group.model.mean(one.stats),
            group.last_rewards(one.stats),
        )
        for t in range(problem.stages):
            reached = one.stats[: int(one.start[min(t, problem.horizon) + 1])]
            at = made["place"][here][: len(reached)] + t
            made["index"][at] = _index(turns, problem, t, believed, reached)
            if gap is not None:
                made["excess"][at] = gap.index(t, k, reached) - gap.prices[t]
    return made


def _index(turns: Turns, problem: Problem, stage: int, group: int, stats: Floats) -> Floats:
    """Index of states by the policy that plays a stage; at a deployment, what it expects."""
    policy = turn_of(turns, stage)
    if stage < problem.horizon:
        assert isinstance(policy, IndexPolicy)
        return policy.index(stage, group, stats)
    arms, last = policy.problem.groups[group], policy.problem.horizon
    return np.asarray(arms.reward_base[last] + arms.reward_factor[last] * arms.model.mean(stats))
