"""Simulated: many trials side by side, stage by stage, on outcomes that all policies share.

The k-th pull of an arm has the same outcome in a trial whatever the policy. Outcomes come to be
known in the order in which they were drawn, `delay` stages later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ..policies import RuledPolicy
from ..problem import Problem, States, Truth, check_kind_truth
from ..support import Floats, Ints, Progress, Report
from .endings import Endings, Flags

ELEMENTS = 40_000_000  # outcomes that are drawn at a time


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trials that are under way."""

    number: Ints  # (E,) which of the chunk
    given: tuple[Ints, ...]  # (E, K) pulls before each of the last stages, the oldest first
    allowed: Flags  # (E, K)
    spent: Floats  # (E,) money

    def some(self, rows: Flags) -> _Trials:
        pulls = tuple(stage_pulls[rows] for stage_pulls in self.given)
        return _Trials(self.number[rows], pulls, self.allowed[rows], self.spent[rows])


def play(
    policy: RuledPolicy,
    truth: Truth,
    draws: int,
    seed: tuple[int, ...],
    progress: Report | None = None,
) -> Endings:
    """How `draws` trials end; `seed` is the same for all policies of a scenario."""
    problem = policy.problem
    most = problem.most_pulls if problem.repeat else problem.horizon
    width = 1 if problem.is_binary else _widest(problem)
    chunk = max(100, ELEMENTS // (width * problem.n_arms * (most + 1)))
    parts = []
    for number, begin in enumerate(range(0, draws, chunk)):
        size = min(chunk, draws - begin)
        streams = np.random.SeedSequence((*seed, number)).spawn(2)
        outcomes, choices = map(np.random.default_rng, streams)
        if problem.is_binary:
            counts: npt.NDArray[Any] = _counts(outcomes, size, truth, most)
        else:
            counts = drawn_statistics(outcomes, size, problem, truth, most)
        report = partial(_report, progress, policy, begin, size, draws)
        parts.append(_Chunk(policy, counts, choices).played(report))
    ends = Endings.joined(parts)
    return replace(ends, weight=np.full(draws, 1.0 / draws))


def _report(
    progress: Report | None, policy: RuledPolicy, begin: int, size: int, draws: int, stage: int
) -> None:
    if progress is not None:
        horizon = policy.problem.horizon
        done = (begin * horizon + stage * size) // horizon
        progress(Progress(policy.name, done, draws, "simulated trials"))


def _counts(
    rng: np.random.Generator, trials: int, truth: Truth, most: int
) -> npt.NDArray[np.integer]:
    """Good outcomes among the first n pulls of each arm, (trials, arms, most + 1)."""
    width = np.int16 if most < 2**15 else np.int32
    counts = np.zeros((trials, len(truth), most + 1), width)
    for arm, p in enumerate(truth):
        good = rng.random((trials, most), dtype=np.float32) < np.float32(p)
        np.cumsum(good, axis=1, dtype=width, out=counts[:, arm, 1:])
    return counts


def drawn_statistics(
    rng: np.random.Generator, trials: int, problem: Problem, truth: tuple[Any, ...], most: int
) -> Floats:
    """Statistics after the first n pulls of each arm, (trials, arms, most + 1, widest).

    Those of an arm with states of its own are followed by what its pulls have earned.
    """
    groups = [problem.groups[k] for k in problem.group_of_arm]
    statistics = np.zeros((trials, len(groups), most + 1, _widest(problem)))
    for k, (group, parameters) in enumerate(
        zip(groups, check_kind_truth(truth, problem), strict=True)
    ):
        kind = group.model
        drawn = kind.stream(np.tile(np.array(parameters, dtype=float), (trials, 1)), most, rng)
        stats = np.tile(np.array(kind.initial(), dtype=float), (trials, 1))
        statistics[:, k, 0, : kind.width] = stats
        for n in range(most):
            outcome = kind.from_stream(drawn[:, n], stats)
            if kind.ordered:
                statistics[:, k, n + 1, kind.width] = statistics[:, k, n, kind.width] + kind.value(
                    stats, outcome
                )
            stats = kind.update(stats, outcome)
            statistics[:, k, n + 1, : kind.width] = stats
    return statistics


def _widest(problem: Problem) -> int:
    """Most numbers that the statistics of an arm are."""
    return max(group.model.width + group.model.ordered for group in problem.groups)


def _windows(problem: Problem) -> list[tuple[int, ...]]:
    """Return first stage and end of every window, one after the other, of every arm."""
    always = ((0, problem.horizon),)
    return [tuple(chain.from_iterable(arm.available or always)) for arm in problem.arms]


class _Chunk:
    """Some trials of one policy."""

    def __init__(
        self, policy: RuledPolicy, counts: npt.NDArray[Any], rng: np.random.Generator
    ) -> None:
        self.policy, self.counts, self.rng = policy, counts, rng
        self.width = max(group.model.width for group in policy.problem.groups)
        self.parts: list[Endings] = []
        concurrent = policy.rules.controls == "concurrent" and policy.problem.has_windows
        self.windows = _windows(policy.problem) if concurrent else None
        # pulls of control before the stages at which windows begin and end, (trials,) each
        self.controls: dict[int, Ints] = {}

    def played(self, report: Callable[[int], None]) -> Endings:
        """Play all trials to their ends; `report` receives the number of stages done."""
        rules, problem = self.policy.rules, self.policy.problem
        E, K = self.counts.shape[:2]
        none = np.zeros((E, K), np.int64)
        trials = _Trials(np.arange(E), (none,), np.ones((E, K), np.bool_), np.zeros(E))
        m, horizon, delay = problem.pulls_per_stage, problem.horizon, rules.delay
        ends = self._ends(E)
        for t in range(horizon + delay + 1):
            self._count_controls(trials, t)
            over = ends[trials.number] <= t
            if over.any():
                self._end(trials.some(over), np.zeros(int(over.sum()), np.int8), None)
                trials = trials.some(~over)
            recorded = m * max(0, min(t - delay, horizon))
            before = m * max(0, min(t - 1 - delay, horizon))
            if rules.looks_between(before, recorded):
                trials = self._look(trials)
            if len(trials.number) == 0:
                break
            if t < horizon:
                trials = self._pulled(trials, t, delay)
                report(t + 1)
            elif (
                t >= delay and len(trials.given) > 1
            ):  # what was pending becomes known, a stage at a time
                trials = replace(trials, given=trials.given[1:])
        self._end(trials, np.zeros(len(trials.number), np.int8), None)
        return Endings.joined(self.parts)

    def _ends(self, number: int) -> Ints:
        """Return the stage at which each trial ends, drawn; beyond all where it is known."""
        problem = self.policy.problem
        if problem.random_horizon is None:
            return np.full(number, problem.horizon + self.policy.rules.delay + 1)
        return np.searchsorted(-problem.survival, -self.rng.random(number))

    def _stats(self, trials: _Trials, pulls: Ints) -> Floats:
        """Statistics after these pulls, (E, K, W)."""
        stats = self.counts[trials.number[:, None], np.arange(pulls.shape[1]), pulls]
        if self.policy.problem.is_binary:
            return States.of_counts(self.policy.problem, pulls, stats).stats
        return np.asarray(stats)

    def _pulled(self, trials: _Trials, stage: int, delay: int) -> _Trials:
        oldest, latest = trials.given[0], trials.given[-1]
        pending = latest - oldest if delay else None
        stats = self._stats(trials, oldest)[..., : self.width]
        problem = self.policy.problem
        spent = None if problem.budget is None else trials.spent
        states = States(problem, stats, pending, trials.allowed, spent)
        pulls = self.policy.allocate_many(stage, states, self.rng)
        given = (*trials.given, latest + pulls)[-(delay + 1) :]
        return replace(trials, given=given, spent=trials.spent + pulls @ problem.costs[stage])

    def _count_controls(self, trials: _Trials, stage: int) -> None:
        """Keep the pulls of control before a stage at which windows begin or end."""
        if self.windows is None or not any(stage in edges for edges in self.windows):
            return
        counted = np.full(len(self.counts), -1)
        counted[trials.number] = trials.given[-1][:, self.policy.control]
        self.controls[stage] = counted

    def _concurrent(self, trials: _Trials) -> Floats | None:
        """Statistics of control while each arm was available, (E, K, W)."""
        if self.windows is None:
            return None
        total = trials.given[-1][:, self.policy.control]

        def after(stage: int) -> Floats:
            counted = self.controls.get(stage, np.full(len(self.counts), -1))[trials.number]
            pulls = trials.given[-1].copy()
            pulls[:, self.policy.control] = np.where(counted < 0, total, counted)
            return self._stats(trials, pulls)[:, self.policy.control]

        parts = [
            sum(after(end) - after(first) for first, end in zip(*[iter(edges)] * 2, strict=True))
            for edges in self.windows
        ]
        return np.stack(parts, axis=1)

    def _look(self, trials: _Trials) -> _Trials:
        stats = self._stats(trials, trials.given[0])
        verdict = self.policy.look(States(self.policy.problem, stats, None, trials.allowed))
        over, judged = verdict.reason > 0, replace(trials, allowed=verdict.allowed)
        self._end(judged.some(over), verdict.reason[over], verdict.declared[over])
        return judged.some(~over)

    def _end(self, trials: _Trials, reason: npt.NDArray[np.int8], declared: Flags | None) -> None:
        pulls = trials.given[-1]
        none = np.zeros(trials.allowed.shape, np.bool_) if declared is None else declared
        weight = np.ones(len(pulls))
        stats = self._stats(trials, pulls)
        ended = (pulls, stats, trials.allowed, none, reason, weight)
        spent = None if self.policy.problem.budget is None else trials.spent
        self.parts.append(Endings(*ended, self._concurrent(trials), spent))
