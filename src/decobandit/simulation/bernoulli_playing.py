"""Compiled simulation of single binary pulls, in blocks of stages.

A policy is played by a loop of its own (`play`) or by a table of the indices of a block, laid out
once and used by all episodes. The gap terms of a block are read from such a table of the indices at
the prices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..policies import GreedyPolicy, Policy
from ..policies.kernels.episodes import NO_ACTION, Episodes
from ..policies.kernels.index_play import lay_out, play_indices
from ..problem import TIE_SIGNS, Problem, tie_tolerance
from ..problem.kernels.layout import slab_size
from ..support import Floats, Progress, Stopwatch, pool, read_only, refuse_over, tell, worker_count
from .accounts import GapTerms, Played, Steps, Turns
from .kernels.accounts import book, book_gap, book_gap_stages, lay_out_gap
from .worlds import CHUNK, Chunk, World

LONGEST_BLOCK = 64  # stages
BLOCK_BYTES = 256 * 2**20  # of a block's tables; long horizons get shorter blocks
WAVE_BYTES = 512 * 2**20  # of the states of all chunks that are under way together


def has_loops(turns: Turns, problem: Problem) -> bool:
    """Whether all policies play single pulls of good and bad outcomes by compiled loops."""
    compiled = all(policy.has_loop or policy.has_table for policy, _ in turns)
    return compiled and problem.single_binary and not problem.may_wait


def play_blocks(
    turns: Turns,
    world: World,
    gap: GapTerms | None,
    workers: int | None,
    steps: Steps,
    played: Played,
) -> None:
    """Play all draws of a world; where a policy's stages end, the next one takes over."""
    spans = list(_spans(turns, world.problem, gap is not None))
    with pool(worker_count(workers)) as threads:
        for wave in _waves(world, max(last - first for _, first, last in spans)):
            runs = [_Run(world.chunk(number)) for number in wave]
            for policy, first, last in spans:
                preparing = Stopwatch()
                table = _policy_table(policy, first, last)
                terms = None if gap is None else _gap_tables(gap, first, last)
                block = _Block(world, played, policy, first, last, table, terms)
                block.play(_Run(runs[0].chunk.without_draws()))  # load kernels
                played.preparation_seconds += preparing.seconds()
                playing = Stopwatch()
                for run, _ in zip(runs, threads.each(block.run, runs), strict=True):
                    steps.add(len(run.episodes.pulls) * (last - first))
                played.seconds += playing.seconds()
            for run in runs:
                _close(run, world, played)


# -- blocks of stages ---------------------------------------------------------------------------


def _spans(turns: Turns, problem: Problem, with_gap: bool) -> Iterator[tuple[Policy, int, int]]:
    """Return runs of stages of one policy; the deployment is one by itself."""
    first = 0
    for policy, until in turns:
        groups = max(len(problem.groups), len(policy.problem.groups))
        bytes_of_stage = 3 * 8 * groups * slab_size(problem.stages - 1)
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


def _policy_table(policy: Policy, first: int, last: int) -> Floats | None:
    """Return indices of a block, where the policy is played by them."""
    problem = policy.problem
    if not policy.has_loop:
        steady = _is_steady(policy, first, last)
        return _block_table(policy.stage_index, problem, first, last, steady=steady)
    if first >= problem.horizon:
        return _block_table(GreedyPolicy(problem).stage_index, problem, first, last)
    return None


def _block_table(
    stage_index: Callable[[int], Floats],
    problem: Problem,
    first: int,
    last: int,
    *,
    steady: bool = False,
) -> Floats:
    """Return indices of some stages, (groups, states, stages): contiguous for an unpulled arm.

    steady: all of them have those of the last one, (groups, states, 1).
    """
    stages = range(last - 1 if steady else first, last)
    shape = (len(problem.groups), slab_size(last - 1), len(stages))
    refuse_over(
        8.0 * np.prod(shape), f"a table of indices at stage {last - 1}", "shorten the horizon"
    )
    table = np.empty(shape)
    for t in stages:
        tell(Progress("tables of stages", t, problem.stages))
        lay_out(read_only(stage_index(t)), t, t - stages.start, last - 1, table)
    return table


def _gap_tables(gap: GapTerms, first: int, last: int) -> tuple[Floats, Floats]:
    """Return gap terms of pulled and unpulled states in a block of stages; see `book_gap`."""
    shape = len(gap.problem.groups), slab_size(last - 1), last - first
    refuse_over(16.0 * np.prod(shape), f"gap terms at stage {last - 1}", "shorten the horizon")
    short, rest = np.empty(shape), np.zeros((*shape[:2], shape[2] + 1))
    for t in range(first, last):
        tell(Progress("tables of gap terms", t, gap.problem.stages))
        lay_out_gap(gap.stage_index(t), float(gap.prices[t]), t, t - first, last - 1, short, rest)
    return short, rest


class _Run:
    """Chunk of draws that is being played, before any pull."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk, self.rng, self.episodes = chunk, chunk.rng(), chunk.episodes(0, 1)
        # states that the gap has reached, and the regret of each draw so far
        self.reached = self.episodes.pulls.copy(), self.episodes.good.copy()
        self.regret = np.zeros(len(chunk.weights))


@dataclass(frozen=True, eq=False)
class _Block:
    """Block of stages, the same for all chunks."""

    world: World
    played: Played
    policy: Policy
    first: int
    last: int
    table: Floats | None
    gap: tuple[Floats, Floats] | None  # tables that its terms are read from

    def play(self, run: _Run) -> Episodes:
        stages, pulls = self.last - self.first, round(self.world.problem.pulls[self.first])
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
        world, played, stages = self.world, self.played, slice(self.first, self.last)
        episodes, mine = self.play(run), world.place(run.chunk.number)
        base = np.ascontiguousarray(world.base[:, stages])
        factor = np.ascontiguousarray(world.factor[:, stages])
        means = np.zeros((len(run.chunk.weights), self.last - self.first))
        deployed = self.first >= world.problem.horizon
        book(episodes, base + factor, base, deployed, played.reward[mine], means)
        played.predicted[mine] += self._predicted(episodes) if deployed else means.sum(axis=1)
        if played.record is not None:
            first = mine.start * world.per_draw
            played.record.add_actions(first, episodes, self.first, base, factor, deployed)
        if self.gap is not None:
            shared = (*run.reached, *self.gap, self.last - 1, world.problem.group_of_arm)
            if played.gap_terms is not None:
                terms = np.zeros((*means.shape, 2))
                book_gap_stages(episodes, *shared, terms)
                played.book_gap_terms(world, run.chunk, stages, terms)
            book_gap(episodes, *shared, played.gap[mine])
        played.book_stages(world, run.chunk, stages, means, run.regret)

    def _predicted(self, episodes: Episodes) -> Floats:
        """Return rewards of deployed arms by posterior means, summed over the episodes of a draw.

        The kernels draw an outcome of a deployed arm, too: means are those after it. Before the
        deployment true means are as good: rewards by posterior means tell no more.
        """
        world, arm = self.world, episodes.actions[:, 0, :] >> 1  # (E, deployed)
        groups = world.problem.arm_groups
        alpha, beta = np.array([(group.alpha, group.beta) for group in groups]).T
        e = np.arange(len(arm))[:, None]
        n, g = episodes.pulls[e, arm], episodes.good[e, arm]
        mean = (alpha[arm] + g) / (alpha[arm] + beta[arm] + n)
        rewards = world.base[arm, self.first] + world.factor[arm, self.first] * mean
        return np.asarray(rewards.reshape(-1, world.per_draw * arm.shape[1]).sum(axis=1))


def _close(run: _Run, world: World, played: Played) -> None:
    mine = world.place(run.chunk.number)
    pulls = run.episodes.pulls.reshape(-1, world.per_draw, world.problem.n_arms)
    played.pulls[mine] += pulls.sum(axis=1)
    for arm, k in enumerate(world.problem.group_of_arm):
        terminal = world.problem.groups[k].terminal
        if terminal is not None:
            n, g = run.episodes.pulls[:, arm].astype(np.int64), run.episodes.good[:, arm]
            last = terminal[n * (n + 1) // 2 + g].reshape(-1, world.per_draw).sum(axis=1)
            for sums in (played.reward, played.mean_reward, played.predicted):
                sums[mine] += last
