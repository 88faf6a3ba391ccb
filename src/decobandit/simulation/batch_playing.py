"""Episodes of problems with `repeat`: all episodes stage by stage, pulls of every arm in arrays.

A policy that draws is asked chunk by chunk, with the generator of each; any other for all episodes
at once. The gap terms of a batch, whatever the policy:

    sum_k  max_a (Q_t(s_k; a) - a mu_t)  -  (Q_t(s_k; a_k) - a_k mu_t)

whose expected sum over stages is the dual function at mu minus the value of the policy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arm import BatchRelaxation
from ..policies import Policy
from ..policies.batches.base import distinct_states
from ..policies.batches.deco import values_of_states
from ..problem import Problem, States
from ..support import Floats, Ints, Progress, Report, Stopwatch, pool, worker_count
from .draws import CHUNK, Chunk, World
from .kernels.accounts import book_regret
from .kernels.batch_outcomes import pull_batch
from .played import Played
from .pull_records import PullRecord

WAVE_BYTES = 1 << 30  # of the states of all episodes that are under way together
BYTES_PER_ARM = 96  # of an episode


@dataclass(eq=False)
class _Wave:
    """Chunks under way together, one after the other in arrays (E, K)."""

    chunks: list[Chunk]
    rngs: list[np.random.Generator]
    p: Floats
    keys: npt.NDArray[np.uint64]
    pulls: Ints
    good: Ints
    stage_means: Floats  # (draws, stages) sums over the episodes of a draw
    place: slice  # of its draws among all

    @property
    def parts(self) -> list[slice]:
        """Rows of each chunk."""
        edges = np.cumsum([0, *(len(chunk.keys) for chunk in self.chunks)]).tolist()
        return [slice(a, b) for a, b in itertools.pairwise(edges)]


def play_batches(
    players: Sequence[tuple[Policy, int]],
    world: World,
    gap: BatchRelaxation | None,
    workers: int | None,
    progress: Report | None,
    *,
    by_stage: bool = False,
    pulls: bool = False,
) -> Played:
    """Play all draws; players: policies, each with the stage at which the next one takes over."""
    played = Played(world, by_stage=by_stage, pulls=pulls)
    problem, steps = world.problem, 0
    for wave in _waves(world):
        for stage in range(problem.stages):
            policy = next((each for each, until in players if stage < until), players[-1][0])
            clock = Stopwatch()
            given = _given(policy, stage, problem, wave, workers)
            if gap is not None:
                _book_gap(gap, stage, given, wave, world, played)
            _book(stage, given, wave, world, played, workers)
            played.seconds += clock.seconds()
            steps += len(given)
            if progress is not None:
                total = world.draws * world.per_draw * problem.stages
                progress(Progress(policy.name, steps, total))
        _close(wave, world, played)
    return played


def _waves(world: World) -> Iterator[_Wave]:
    arms = world.problem.n_arms
    of_chunk = min(CHUNK, world.draws) * world.per_draw * arms * BYTES_PER_ARM
    size = max(1, WAVE_BYTES // of_chunk)
    for first in range(0, world.number_of_chunks, size):
        last = min(first + size, world.number_of_chunks)
        chunks = [world.chunk(number) for number in range(first, last)]
        keys = np.concatenate([chunk.keys for chunk in chunks])
        draws = sum(len(chunk.p) for chunk in chunks)
        states = np.zeros((2, *keys.shape), dtype=np.int64)
        yield _Wave(
            chunks=chunks,
            rngs=[chunk.rng() for chunk in chunks],
            p=np.repeat(np.concatenate([chunk.p for chunk in chunks]), world.per_draw, axis=0),
            keys=keys,
            pulls=states[0],
            good=states[1],
            stage_means=np.zeros((draws, world.problem.stages)),
            place=slice(first * CHUNK, first * CHUNK + draws),
        )


def _given(policy: Policy, stage: int, problem: Problem, wave: _Wave, workers: int | None) -> Ints:
    """Pulls of every arm in every episode; refuses what is not a whole batch."""
    deployed = stage == problem.horizon
    own = policy.problem.horizon if deployed else stage
    states = States.of_counts(policy.problem, wave.pulls, wave.good)
    if not policy.draws_arms:
        given = policy.allocate_many(own, states, None)
    else:
        given = np.empty_like(wave.pulls)

        def ask(number: int) -> None:
            part = wave.parts[number]
            given[part] = policy.allocate_many(own, states.rows(part), wave.rngs[number])

        with pool(worker_count(workers, most=len(wave.chunks))) as threads:
            threads.map(ask, range(len(wave.chunks)))
    wanted, unit = (1, 1) if deployed else (problem.pulls_per_stage, problem.unit)
    wrong = (given.sum(axis=1) != wanted) | np.any((given < 0) | (given % unit > 0), axis=1)
    if wrong.any():
        raise ValueError(
            f"policy {policy.name!r} allots {tuple(given[wrong][0].tolist())} at stage {stage}; "
            f"must be {wanted} pulls in all, in units of {unit}"
        )
    return given


def _book(
    stage: int, given: Ints, wave: _Wave, world: World, played: Played, workers: int | None
) -> None:
    """Pull, and add up what it earned."""
    good, bad = world.good[:, stage], world.bad[:, stage]
    means = (given * (bad + (good - bad) * wave.p)).sum(axis=1)
    alpha, beta = world.priors
    known = (alpha + wave.good) / (alpha + beta + wave.pulls)
    predicted = (given * (bad + (good - bad) * known)).sum(axis=1)
    earned, found = means, np.zeros_like(given)
    if stage < world.problem.horizon:
        number = worker_count(workers, most=1 + len(given) // 1024)
        edges = np.linspace(0, len(given), number + 1).astype(int).tolist()
        with pool(number) as threads:
            threads.map(
                lambda part: pull_batch(
                    wave.p, wave.keys, given, *part, wave.pulls, wave.good, found
                ),
                itertools.pairwise(edges),
            )
        earned = (given * bad + (good - bad) * found).sum(axis=1)
    if played.record is not None:
        _record(stage, given, found, wave, world, played.record)
    wave.stage_means[:, stage] = _by_draw(means, world)
    played.mean_reward[wave.place] += wave.stage_means[:, stage]
    played.reward[wave.place] += _by_draw(earned, world)
    played.predicted[wave.place] += _by_draw(predicted, world)


def _record(
    stage: int, given: Ints, found: Ints, wave: _Wave, world: World, record: PullRecord
) -> None:
    """Keep what every arm got of a stage, and what came of it."""
    deployed = stage == world.problem.horizon
    e, arm = np.nonzero(given)
    pulls, p = given[e, arm], wave.p[e, arm]
    seen = found[e, arm].astype(float)
    good, bad = world.good[arm, stage], world.bad[arm, stage]
    record.add(
        wave.place.start * world.per_draw + e, np.full(e.shape, stage), arm,
        good=np.full(e.shape, np.nan) if deployed else seen,
        pulls=np.full(e.shape, np.nan) if deployed else pulls.astype(float),
        reward=pulls * bad + (good - bad) * (pulls * p if deployed else seen), truth=p,
    )  # fmt: skip


def _by_draw(each: Floats, world: World) -> Floats:
    """Sums over the episodes of a draw."""
    return np.asarray(each.reshape(-1, world.per_draw).sum(axis=1))


def _book_gap(
    gap: BatchRelaxation, stage: int, given: Ints, wave: _Wave, world: World, played: Played
) -> None:
    """Gap terms of a stage, from the states before it."""
    price = float(gap.prices[stage])
    if stage < world.problem.horizon:
        group, n, g, where = distinct_states(States.of_counts(world.problem, wave.pulls, wave.good))
        values = values_of_states(gap, stage, group, n, g)
        net = values - price * np.arange(values.shape[1])
        units = given // world.problem.unit
        loss = net.max(axis=1)[where] - net[where, units]
        # more units than the arm is worth at the price, or fewer
        short = np.where(units > net.argmax(axis=1)[where], loss, 0.0).sum(axis=1)
        total = loss.sum(axis=1)
    else:
        alpha, beta = world.priors
        mean = (alpha + wave.good) / (alpha + beta + wave.pulls)
        net = world.good[:, stage] * mean - price
        short = np.where(given > 0, np.maximum(-net, 0.0), 0.0).sum(axis=1)
        total = short + np.where(given > 0, 0.0, np.maximum(net, 0.0)).sum(axis=1)
    played.gap[wave.place] += _by_draw(total, world)
    if played.gap_terms is not None:
        terms = np.stack([_by_draw(each, world) for each in (short, total - short)], axis=1)
        weights = np.concatenate([chunk.weights for chunk in wave.chunks]) / world.per_draw
        terms *= weights[:, None]
        played.gap_terms[wave.place.start // CHUNK, stage, :, 0] += terms.sum(axis=0)
        played.gap_terms[wave.place.start // CHUNK, stage, :, 1] += (terms**2).sum(axis=0)


def _close(wave: _Wave, world: World, played: Played) -> None:
    """Last rewards by final states; regret by stage."""
    pulls = wave.pulls.reshape(-1, world.per_draw, world.problem.n_arms)
    played.pulls[wave.place] += pulls.sum(axis=1)
    for arm, k in enumerate(world.problem.group_of_arm):
        terminal = world.problem.groups[k].terminal
        if terminal is not None:
            n, g = wave.pulls[:, arm], wave.good[:, arm]
            last = _by_draw(terminal[n * (n + 1) // 2 + g], world)
            played.reward[wave.place] += last
            played.mean_reward[wave.place] += last
            played.predicted[wave.place] += last
    p = np.concatenate([chunk.p for chunk in wave.chunks])
    weights = np.concatenate([chunk.weights for chunk in wave.chunks])[:, None]
    best = np.stack([world.best(p, t) for t in range(world.problem.stages)], axis=1)
    played.best[wave.place] += best.sum(axis=1)
    book_regret(
        weights * (wave.stage_means / world.per_draw), weights * best,
        played.controls[wave.place], np.zeros(len(p)), played.moments[wave.place.start // CHUNK],
    )  # fmt: skip
