"""The episodes of one policy: blocks of stages, chunks of draws in threads, sums of the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arm import Relaxation
from ..policies import GreedyPolicy, Policy
from ..policies.kernels.episodes import NO_ACTION, Episodes, pull
from ..policies.kernels.index_play import lay_out, play_indices
from ..problem import TIE_SIGNS, Problem, State, tie_tolerance
from ..problem.kernels.layout import slab_size
from ..support import (
    Floats,
    Progress,
    Report,
    Stopwatch,
    pool,
    read_only,
    refuse_over,
    silent,
    tell,
    worker_count,
)
from .draws import CHUNK, Chunk, World
from .kernels.accounts import book, book_gap, book_gap_stages, book_regret, lay_out_gap
from .played import Played

LONGEST_BLOCK = 64  # stages
BLOCK_BYTES = 256 * 2**20  # of a block's tables; long horizons get shorter blocks
WAVE_BYTES = 512 * 2**20  # of the states of all chunks that are under way together
MOST_ANSWERS = 1_000_000  # of a policy that is asked, remembered


class Player:
    """A policy and the stages that it plays: from the end of the player before, up to `until`."""

    def __init__(self, policy: Policy, until: int) -> None:
        self.policy = policy
        self.until = until
        self.problem: Problem = policy.problem
        self.kind = "own" if policy.has_loop else "table" if policy.has_table else "ask"
        self._rule = tie_tolerance(self.problem), *TIE_SIGNS[policy.ties]
        self._group, self._pulls = self.problem.group_of_arm, self.problem.pulls.astype(np.int64)
        self._answers: dict[Any, tuple[int, ...]] | None = None if policy.draws_arms else {}

    def table(self, first: int, last: int) -> Floats | None:
        """Indices of a block, where the policy is played by them."""
        if first >= self.problem.horizon and self.kind == "own":
            return block_table(GreedyPolicy(self.problem).stage_index, self.problem, first, last)
        if self.kind != "table":
            return None
        steady = self.is_steady(first, last)
        return block_table(self.policy.stage_index, self.problem, first, last, steady=steady)

    def is_steady(self, first: int, last: int) -> bool:
        """Whether one table of indices serves all these stages, none of them a deployment."""
        planned = last <= self.problem.horizon
        return self.kind == "table" and planned and self.policy.is_steady(first, last)

    def play(
        self, episodes: Episodes, first: int, last: int, table: Floats | None,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        """Play the stages first..last-1 of a chunk."""
        if table is not None:
            counts = self._pulls[first:last]
            play_indices(episodes, table, last - 1, self._group, counts, *self._rule, rng)
        elif self.kind == "own":
            self.policy.play(episodes, first, last, rng)
        else:
            self._ask(episodes, first, last, rng)

    def _ask(self, episodes: Episodes, first: int, last: int, rng: np.random.Generator) -> None:
        for e in range(len(episodes.pulls)):
            for t in range(first, last):
                good, pulls = episodes.good[e], episodes.pulls[e]
                key = (t, good.tobytes(), pulls.tobytes())
                arms = self._answers.get(key) if self._answers is not None else None
                if arms is None:
                    state = State(tuple(good.tolist()), tuple((pulls - good).tolist()))
                    arms = self.policy.select(t, state, rng)
                    if self._answers is not None and len(self._answers) < MOST_ANSWERS:
                        self._answers[key] = arms
                self._check(arms, t)
                for i, arm in enumerate(arms):
                    pull(episodes, e, t - first, i, arm)

    def _check(self, arms: tuple[int, ...], stage: int) -> None:
        wanted = self._pulls[stage]
        known = all(0 <= arm < self.problem.n_arms for arm in arms)
        if not known or len(set(arms)) != wanted or len(arms) != wanted:
            raise ValueError(
                f"policy {self.policy.name!r} pulls {arms} at stage {stage}; "
                f"must be {wanted} different arms"
            )


def block_table(
    stage_index: Callable[[int], Floats], problem: Problem, first: int, last: int, *,
    steady: bool = False,
) -> Floats:  # fmt: skip
    """Indices of some stages, (groups, states, stages): contiguous for an unpulled arm.

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


def gap_tables(relaxation: Relaxation, first: int, last: int) -> tuple[Floats, Floats]:
    """Gap terms of pulled and unpulled states in some stages; see `book_gap`."""
    groups, states = len(relaxation.problem.groups), slab_size(last - 1)
    refuse_over(
        16.0 * groups * states * (last - first), f"gap terms at stage {last - 1}",
        "shorten the horizon",
    )  # fmt: skip
    short = np.empty((groups, states, last - first))
    rest = np.zeros((groups, states, last - first + 1))
    for t in range(first, last):
        tell(Progress("tables of gap terms", t, relaxation.problem.stages))
        index, price = relaxation.stage_index(t), float(relaxation.prices[t])
        lay_out_gap(index, price, t, t - first, last - 1, short, rest)
    return short, rest


@dataclass(eq=False)
class _Run:
    """One chunk under way."""

    chunk: Chunk
    place: slice  # of its draws among all
    episodes: Episodes
    seen: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]  # states that the gap has reached
    rng: np.random.Generator
    regret: Floats  # (draws,) so far
    best: Floats  # (draws,) what the best arms earn at this stage
    room: npt.NDArray[np.int32]  # for the actions of a block


def play(
    players: Sequence[Player],
    world: World,
    gap: Relaxation | None,
    workers: int | None,
    progress: Report | None,
    *,
    by_stage: bool = False,
    pulls: bool = False,
) -> Played:
    """Play all draws of a world; where a player's stages end, the next one takes over.

    `by_stage`: keep the gap terms of every stage too; `pulls`: every pull.
    """
    played = Played(world, by_stage=by_stage, pulls=pulls)
    blocks = list(_blocks(players, world.problem, gap is not None))
    asked = any(player.kind == "ask" for player in players)
    number = 1 if asked else worker_count(workers)
    report, steps = progress or silent, 0
    total = world.draws * world.per_draw * world.problem.stages
    with pool(number) as threads:
        for wave in _waves(world, max(last - first for _, first, last in blocks)):
            runs = [_begin(world, number) for number in wave]
            for player, first, last in blocks:
                preparing = Stopwatch()
                table = player.table(first, last)
                terms = None if gap is None else gap_tables(gap, first, last)
                block = _Block(world, player, first, last, table, terms)
                block.run(_empty_run(runs[0]), played)  # kernels are loaded before the clock runs
                played.preparation_seconds += preparing.seconds()
                playing = Stopwatch()
                report(Progress(player.policy.name, steps, total))
                done = threads.each(partial(block.run, played=played), runs)
                for run, _ in zip(runs, done, strict=True):
                    steps += len(run.episodes.pulls) * (last - first)
                    report(Progress(player.policy.name, steps, total))
                played.seconds += playing.seconds()
            for run in runs:
                _close(run, world, played)
    return played


def _blocks(
    players: Sequence[Player], problem: Problem, with_gap: bool
) -> Iterator[tuple[Player, int, int]]:
    """Runs of stages of one player; the deployment is one by itself."""
    first = 0
    for player in players:
        groups = max(len(problem.groups), len(player.problem.groups))
        bytes_of_stage = 3 * 8 * groups * slab_size(problem.stages - 1)
        longest = max(1, min(LONGEST_BLOCK, BLOCK_BYTES // bytes_of_stage))
        planned = min(player.until, problem.horizon)
        alike = player.kind == "own" or player.is_steady(first, planned)
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
    """Numbers of chunks that are played together, in blocks of up to so many stages."""
    problem = world.problem
    bytes_of_episode = 32 * problem.n_arms + 4 * int(problem.pulls.max()) * stages
    bytes_of_chunk = min(CHUNK, world.draws) * world.per_draw * bytes_of_episode
    refuse_over(
        bytes_of_chunk, f"{CHUNK} draws of {world.per_draw} episodes", "use fewer episodes per draw"
    )
    size = max(1, WAVE_BYTES // bytes_of_chunk)
    for first in range(0, world.number_of_chunks, size):
        yield range(first, min(first + size, world.number_of_chunks))


def _begin(world: World, number: int) -> _Run:
    chunk = world.chunk(number)
    first = number * CHUNK
    episodes = chunk.episodes(0, 1)
    return _Run(
        chunk=chunk,
        place=slice(first, first + len(chunk.p)),
        episodes=episodes,
        seen=(episodes.pulls.copy(), episodes.good.copy()),
        rng=chunk.rng(),
        regret=np.zeros(len(chunk.p)),
        best=np.zeros(len(chunk.p)),
        room=np.empty(0, np.int32),
    )


def _empty_run(run: _Run) -> _Run:
    """A chunk without draws, to play through without any effect."""
    own = run.chunk
    chunk = replace(own, p=own.p[:0], weights=own.weights[:0], keys=own.keys[:0])
    episodes, none = chunk.episodes(0, 1), np.zeros(0)
    seen = (episodes.pulls, episodes.good)
    return _Run(chunk, slice(0, 0), episodes, seen, chunk.rng(), none, none, np.empty(0, np.int32))


@dataclass(frozen=True, eq=False)
class _Block:
    """One block of stages, the same for all chunks."""

    world: World
    player: Player
    first: int
    last: int
    table: Floats | None
    gap: tuple[Floats, Floats] | None  # tables that its terms are read from

    def run(self, run: _Run, played: Played) -> None:
        """Play the block in one chunk and book what came of it."""
        world, stages = self.world, slice(self.first, self.last)
        m = round(world.problem.pulls[self.first])
        shape = (len(run.episodes.pulls), self.last - self.first, m)
        size = int(np.prod(shape))
        if run.room.size < size:
            run.room = np.empty(size, np.int32)
        run.room[:size] = NO_ACTION
        episodes = run.episodes._replace(actions=run.room[:size].reshape(shape))
        self.player.play(episodes, self.first, self.last, self.table, run.rng)
        good = np.ascontiguousarray(world.good[:, stages])
        bad = np.ascontiguousarray(world.bad[:, stages])
        means = np.zeros((len(run.chunk.p), self.last - self.first))
        deployed = self.first >= world.problem.horizon
        mine = run.place
        book(episodes, good, bad, deployed, played.reward[mine], played.mean_reward[mine], means)
        played.predicted[mine] += self._predicted(episodes) if deployed else means.sum(axis=1)
        if played.record is not None:
            first = mine.start * world.per_draw
            played.record.add_actions(first, episodes, self.first, good, bad, deployed)
        if self.gap is not None:
            group = world.problem.group_of_arm
            if played.gap_terms is not None:
                terms = np.zeros((*means.shape, 2))
                book_gap_stages(episodes, *run.seen, *self.gap, self.last - 1, group, terms)
                terms *= (run.chunk.weights / world.per_draw)[:, None, None]
                played.gap_terms[mine.start // CHUNK, stages, :, 0] += terms.sum(axis=0)
                played.gap_terms[mine.start // CHUNK, stages, :, 1] += (terms**2).sum(axis=0)
            book_gap(episodes, *run.seen, *self.gap, self.last - 1, group, played.gap[mine])
        best = np.empty_like(means)
        for t in range(self.first, self.last):
            if world.changes[t]:
                run.best = world.best(run.chunk.p, t)
            best[:, t - self.first] = run.best
        played.best[mine] += best.sum(axis=1)
        weights = run.chunk.weights[:, None]
        book_regret(
            weights * (means / world.per_draw), weights * best, played.controls[mine], run.regret,
            played.moments[mine.start // CHUNK, stages],
        )  # fmt: skip

    def _predicted(self, episodes: Episodes) -> Floats:
        """What the posterior means of deployed arms earn, summed over the episodes of a draw.

        The kernels draw an outcome of a deployed arm, too: means are those after it. Before the
        deployment true means are as good: rewards by posterior means tell no more.
        """
        (alpha, beta), arm = self.world.priors, episodes.actions[:, 0, 0] >> 1
        e = np.arange(len(arm))
        n, g = episodes.pulls[e, arm], episodes.good[e, arm]
        mean = (alpha[arm] + g) / (alpha[arm] + beta[arm] + n)
        good, bad = self.world.good[arm, self.first], self.world.bad[arm, self.first]
        return np.asarray((bad + (good - bad) * mean).reshape(-1, self.world.per_draw).sum(axis=1))


def _close(run: _Run, world: World, played: Played) -> None:
    """Add the last rewards that arms earn by their final states."""
    pulls = run.episodes.pulls.reshape(-1, world.per_draw, world.problem.n_arms)
    played.pulls[run.place] += pulls.sum(axis=1)
    for arm, k in enumerate(world.problem.group_of_arm):
        terminal = world.problem.groups[k].terminal
        if terminal is not None:
            n, g = run.episodes.pulls[:, arm].astype(np.int64), run.episodes.good[:, arm]
            last = terminal[n * (n + 1) // 2 + g].reshape(-1, world.per_draw).sum(axis=1)
            played.reward[run.place] += last
            played.mean_reward[run.place] += last
            played.predicted[run.place] += last
