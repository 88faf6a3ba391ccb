"""Compiled simulation of single binary pulls, in blocks of stages.

A policy is played by a loop of its own (`play`) or by a table of the indices of a block, laid out
once and used by all episodes. The gap terms of a block are read from such a table of the indices at
the prices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

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


class _Player:
    """Policy that plays from the end of the player before up to stage `until`."""

    def __init__(self, policy: Policy, until: int) -> None:
        self.policy, self.until = policy, until
        self.problem: Problem = policy.problem
        self._rule = tie_tolerance(self.problem), *TIE_SIGNS[policy.ties]
        self._group, self._pulls = self.problem.group_of_arm, self.problem.pulls.astype(np.int64)

    def table(self, first: int, last: int) -> Floats | None:
        """Return indices of a block, where the policy is played by them."""
        if first >= self.problem.horizon and self.policy.has_loop:
            return _block_table(GreedyPolicy(self.problem).stage_index, self.problem, first, last)
        if self.policy.has_loop:
            return None
        steady = self.is_steady(first, last)
        return _block_table(self.policy.stage_index, self.problem, first, last, steady=steady)

    def is_steady(self, first: int, last: int) -> bool:
        """Whether one table of indices serves all these stages, none of them a deployment."""
        planned = last <= self.problem.horizon and not self.problem.has_windows
        return not self.policy.has_loop and planned and self.policy.is_steady(first, last)

    def play(
        self,
        episodes: Episodes,
        first: int,
        last: int,
        table: Floats | None,
        rng: np.random.Generator,
    ) -> None:
        """Play the stages first..last-1 of a chunk."""
        if table is None:
            self.policy.play(episodes, first, last, rng)
            return
        counts = self._pulls[first:last]
        play_indices(episodes, table, last - 1, self._group, counts, *self._rule, rng)


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
    groups, states = len(gap.problem.groups), slab_size(last - 1)
    refuse_over(
        16.0 * groups * states * (last - first),
        f"gap terms at stage {last - 1}",
        "shorten the horizon",
    )
    short = np.empty((groups, states, last - first))
    rest = np.zeros((groups, states, last - first + 1))
    for t in range(first, last):
        tell(Progress("tables of gap terms", t, gap.problem.stages))
        lay_out_gap(gap.stage_index(t), float(gap.prices[t]), t, t - first, last - 1, short, rest)
    return short, rest


@dataclass(eq=False)
class _Run:
    """Chunk of draws that is being played."""

    chunk: Chunk
    episodes: Episodes
    rng: np.random.Generator
    seen: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]  # states that the gap has reached
    regret: Floats  # (draws,) so far
    room: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    @classmethod
    def of(cls, chunk: Chunk) -> _Run:
        """Return the state before any pull."""
        episodes = chunk.episodes(0, 1)
        counts = episodes.pulls.copy(), episodes.good.copy()
        return cls(chunk, episodes, chunk.rng(), counts, np.zeros(len(chunk.weights)))

    def empty(self) -> _Run:
        """Return the episodes without draws, to play through without any effect."""
        part = self.chunk
        none = replace(part, means=part.means[:0], weights=part.weights[:0], keys=part.keys[:0])
        return _Run.of(none)

    def with_room(self, stages: int, pulls: int) -> Episodes:
        """Return the episodes with room for the actions of a block."""
        shape = (len(self.episodes.pulls), stages, pulls)
        size = int(np.prod(shape))
        if self.room.size < size:
            self.room = np.empty(size, np.int32)
        self.room[:size] = NO_ACTION
        return self.episodes._replace(actions=self.room[:size].reshape(shape))


def play_blocks(
    turns: Turns,
    world: World,
    gap: GapTerms | None,
    workers: int | None,
    steps: Steps,
    played: Played,
) -> None:
    """Play all draws of a world; where a player's stages end, the next one takes over."""
    players = [_Player(*turn) for turn in turns]
    blocks = list(_blocks(players, world.problem, gap is not None))
    with pool(worker_count(workers)) as threads:
        for wave in _waves(world, max(last - first for _, first, last in blocks)):
            runs = [_Run.of(world.chunk(number)) for number in wave]
            for player, first, last in blocks:
                preparing = Stopwatch()
                table = player.table(first, last)
                terms = None if gap is None else _gap_tables(gap, first, last)
                block = _Block(world, player, first, last, table, terms, played)
                block.run(runs[0].empty(), warming=True)  # kernels load before the clock runs
                played.preparation_seconds += preparing.seconds()
                playing = Stopwatch()
                for run, _ in zip(runs, threads.each(block.run, runs), strict=True):
                    steps.add(len(run.episodes.pulls) * (last - first))
                played.seconds += playing.seconds()
            for run in runs:
                _close(run, world, played)


def _blocks(
    players: Sequence[_Player], problem: Problem, with_gap: bool
) -> Iterator[tuple[_Player, int, int]]:
    """Return runs of stages of one player; the deployment is one by itself."""
    first = 0
    for player in players:
        groups = max(len(problem.groups), len(player.problem.groups))
        bytes_of_stage = 3 * 8 * groups * slab_size(problem.stages - 1)
        longest = max(1, min(LONGEST_BLOCK, BLOCK_BYTES // bytes_of_stage))
        planned = min(player.until, problem.horizon)
        alike = player.policy.has_loop or player.is_steady(first, planned)
        if alike and not with_gap:  # no table to make, or one: all in one go
            longest = problem.stages
        ends = [planned]
        if player is players[-1]:
            ends = [ends[0], problem.stages]
        for end in ends:
            while first < end:
                last = min(first + longest, end)
                yield player, first, last
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


@dataclass(frozen=True, eq=False)
class _Block:
    """Block of stages, the same for all chunks."""

    world: World
    player: _Player
    first: int
    last: int
    table: Floats | None
    gap: tuple[Floats, Floats] | None  # tables that its terms are read from
    played: Played

    def run(self, run: _Run, *, warming: bool = False) -> None:
        """Play the block in one chunk and book what came of it; nothing is booked of no draws."""
        world, played, stages = self.world, self.played, slice(self.first, self.last)
        episodes = run.with_room(self.last - self.first, round(world.problem.pulls[self.first]))
        self.player.play(episodes, self.first, self.last, self.table, run.rng)
        mine = slice(0, 0) if warming else world.place(run.chunk.number)
        base = np.ascontiguousarray(world.base[:, stages])
        factor = np.ascontiguousarray(world.factor[:, stages])
        means = np.zeros((len(run.chunk.weights), self.last - self.first))
        deployed = self.first >= world.problem.horizon
        book(episodes, base + factor, base, deployed, played.reward[mine], means)
        played.predicted[mine] += self._predicted(episodes) if deployed else means.sum(axis=1)
        if played.record is not None and not warming:
            first = mine.start * world.per_draw
            played.record.add_actions(first, episodes, self.first, base, factor, deployed)
        if self.gap is not None:
            self._book_gap(run, episodes, mine)
        if not warming:
            played.book_stages(world, run.chunk, stages, means, run.regret)

    def _book_gap(self, run: _Run, episodes: Episodes, mine: slice) -> None:
        assert self.gap is not None
        group, most = self.world.problem.group_of_arm, self.last - 1
        if self.played.gap_terms is not None:
            terms = np.zeros((len(run.chunk.weights), self.last - self.first, 2))
            book_gap_stages(episodes, *run.seen, *self.gap, most, group, terms)
            stages = slice(self.first, self.last)
            self.played.book_gap_terms(self.world, run.chunk, stages, terms)
        book_gap(episodes, *run.seen, *self.gap, most, group, self.played.gap[mine])

    def _predicted(self, episodes: Episodes) -> Floats:
        """Return rewards of deployed arms by posterior means, summed over the episodes of a draw.

        The kernels draw an outcome of a deployed arm, too: means are those after it. Before the
        deployment true means are as good: rewards by posterior means tell no more.
        """
        world, arm = self.world, episodes.actions[:, 0, :] >> 1  # (E, deployed)
        groups = [world.problem.groups[k] for k in world.problem.group_of_arm]
        alpha, beta = np.array([(group.alpha, group.beta) for group in groups]).T
        e = np.arange(len(arm))[:, None]
        n, g = episodes.pulls[e, arm], episodes.good[e, arm]
        mean = (alpha[arm] + g) / (alpha[arm] + beta[arm] + n)
        rewards = world.base[arm, self.first] + world.factor[arm, self.first] * mean
        return np.asarray(rewards.reshape(-1, world.per_draw * arm.shape[1]).sum(axis=1))


def _close(run: _Run, world: World, played: Played) -> None:
    """Add the last rewards that arms earn by their final states."""
    mine = world.place(run.chunk.number)
    pulls = run.episodes.pulls.reshape(-1, world.per_draw, world.problem.n_arms)
    played.pulls[mine] += pulls.sum(axis=1)
    for arm, k in enumerate(world.problem.group_of_arm):
        terminal = world.problem.groups[k].terminal
        if terminal is not None:
            n, g = run.episodes.pulls[:, arm].astype(np.int64), run.episodes.good[:, arm]
            last = terminal[n * (n + 1) // 2 + g].reshape(-1, world.per_draw).sum(axis=1)
            played.reward[mine] += last
            played.mean_reward[mine] += last
            played.predicted[mine] += last
