"""Compiled simulation of single binary pulls, in blocks of stages.

A policy is played by a loop of its own (`play`) or by a table of the indices of a block, laid out
once and used by all episodes. The gap terms of a block are read from such a table of the indices at
the prices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..policies import GreedyPolicy, Policy
from ..policies.kernels.episodes import NO_ACTION, Episodes
from ..policies.kernels.index_play import lay_out, play_indices
from ..problem import TIE_SIGNS, Problem, tie_tolerance
from ..problem.kernels.layout import slab_size
from ..support import Floats, Progress, Stopwatch, pool, read_only, refuse_over, tell, worker_count
from .accounts import Played, Steps, Turns
from .kernels.accounts import book, book_gap
from .worlds import CHUNK, Chunk, World

LONGEST_BLOCK = 64  # stages
BLOCK_BYTES = 256 * 2**20  # of a block's tables; long horizons get shorter blocks
WAVE_BYTES = 512 * 2**20  # of the states of all chunks that are under way together


def has_loops(turns: Turns, problem: Problem) -> bool:
    """Whether all policies play single pulls of good and bad outcomes by compiled loops."""
    compiled = all(policy.has_loop or policy.has_table for policy, _ in turns)
    return compiled and problem.single_binary and not problem.may_wait


def play_blocks(turns: Turns, played: Played, workers: int | None, steps: Steps) -> None:
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
                    steps.add(len(run.episodes.pulls) * (last - first))
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
            self.gap_table = _block_table(gap.stage_index, gap.problem, stages, "gap terms")

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
