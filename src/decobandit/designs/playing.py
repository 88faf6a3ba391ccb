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
from .endings import Endings, Flags, Rows

ELEMENTS = 40_000_000  # outcomes that are drawn at a time


@dataclass(frozen=True, eq=False)
class _Trials:
    """Trials that are under way."""

    number: Ints  # (E,) which of the chunk
    given: tuple[Ints, ...]  # (E, K) pulls before each of the last stages, the oldest first
    allowed: Flags  # (E, K)
    spent: Floats  # (E,) money
    looked: Ints  # (E,) outcomes that were known a stage before

    def some(self, rows: Flags) -> _Trials:
        pulls = tuple(stage_pulls[rows] for stage_pulls in self.given)
        others = (self.allowed[rows], self.spent[rows], self.looked[rows])
        return _Trials(self.number[rows], pulls, *others)


@dataclass(frozen=True, eq=False)
class Course(Rows):
    """Pulls and outcomes of E trials, stage by stage; T stages, K arms, N pulls at most."""

    probabilities: Floats  # (E, T, K) of allocation; 0 after the end, and where they are not known
    pulls: Ints  # (E, T, K)
    totals: Floats  # (E, T, K) sums of the outcomes
    outcomes: Floats  # (E, K, N) of every arm, pull by pull
    counts: Ints  # (E, K) how many of these the trial has


def play(
    policy: RuledPolicy,
    truth: Truth | None,
    draws: int,
    seed: tuple[int, ...],
    progress: Report | None = None,
    *,
    courses: list[Course] | None = None,
) -> Endings:
    """How `draws` trials end, in their order; `seed` is the same for all policies of a scenario.

    Without a truth, that of every trial is drawn from the priors. `courses` receives what happened
    in them.
    """
    problem = policy.problem
    most = problem.most_pulls
    width = 1 if problem.is_binary else _widest(problem)
    chunk = max(100, ELEMENTS // (width * problem.n_arms * (most + 1)))
    parts, guesses = [], []
    for number, begin in enumerate(range(0, draws, chunk)):
        size = min(chunk, draws - begin)
        streams = np.random.SeedSequence((*seed, number)).spawn(2)
        outcomes, choices = map(np.random.default_rng, streams)
        drawn = _counts if problem.is_binary else drawn_statistics
        counts: npt.NDArray[Any] = drawn(outcomes, size, problem, truth, most)
        report = partial(_report, progress, policy, begin, size, draws)
        played = _Chunk(policy, counts, choices, recorded=courses is not None)
        parts.append(played.played(report))
        guesses.append(played.guesses)
        if courses is not None:
            courses.append(played.course())
    known = [each for each in guesses if each is not None]
    mean = sum(known) / draws if len(known) == len(guesses) else None
    return replace(Endings.joined(parts), weight=np.full(draws, 1.0 / draws), guesses=mean)


def _report(
    progress: Report | None, policy: RuledPolicy, begin: int, size: int, draws: int, stage: int
) -> None:
    if progress is not None:
        horizon = policy.problem.horizon
        done = (begin * horizon + stage * size) // horizon
        progress(Progress(policy.name, done, draws, "simulated trials"))


def drawn_parameters(
    rng: np.random.Generator, trials: int, problem: Problem, truth: Truth | None
) -> list[Floats]:
    """Return the parameters of every arm, (trials, parameters): the truth, or from the prior."""
    if truth is not None:
        every = check_kind_truth(truth, problem)
        return [np.tile(np.array(values, dtype=float), (trials, 1)) for values in every]
    models = [group.model for group in problem.arm_groups]
    return [
        model.sample(np.tile(np.array(model.initial(), dtype=float), (trials, 1)), rng)
        for model in models
    ]


def _counts(
    rng: np.random.Generator, trials: int, problem: Problem, truth: Truth | None, most: int
) -> npt.NDArray[np.integer]:
    """Good outcomes among the first n pulls of each arm, (trials, arms, most + 1).

    More pulls keep the outcomes of fewer: each arm has its own stream, pull by pull.
    """
    width = np.int16 if most < 2**15 else np.int32
    parameters = drawn_parameters(rng, trials, problem, truth)
    counts = np.zeros((trials, len(parameters), most + 1), width)
    for arm, (p, stream) in enumerate(zip(parameters, rng.spawn(len(parameters)), strict=True)):
        good = stream.random((most, trials), dtype=np.float32) < p[:, 0].astype(np.float32)
        np.cumsum(good.T, axis=1, dtype=width, out=counts[:, arm, 1:])
    return counts


def drawn_statistics(
    rng: np.random.Generator, trials: int, problem: Problem, truth: Truth | None, most: int
) -> Floats:
    """Statistics after the first n pulls of each arm, (trials, arms, most + 1, widest).

    Those of an arm with states of its own are followed by what its pulls have earned. More pulls
    keep the outcomes of fewer.
    """
    models = [group.model for group in problem.arm_groups]
    parameters = drawn_parameters(rng, trials, problem, truth)
    statistics = np.zeros((trials, len(models), most + 1, _widest(problem)))
    for k, (model, stream) in enumerate(zip(models, rng.spawn(len(models)), strict=True)):
        stats = np.tile(np.array(model.initial(), dtype=float), (trials, 1))
        statistics[:, k, 0, : model.width] = stats
        for n, of_pull in enumerate(stream.spawn(most)):
            drawn = model.stream(parameters[k], 1, of_pull)[:, 0]
            outcome = model.from_stream(drawn, stats)
            if model.ordered:
                statistics[:, k, n + 1, model.width] = statistics[
                    :, k, n, model.width
                ] + model.value(stats, outcome)
            stats = model.update(stats, outcome)
            statistics[:, k, n + 1, : model.width] = stats
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
        self,
        policy: RuledPolicy,
        counts: npt.NDArray[Any],
        rng: np.random.Generator,
        *,
        recorded: bool = False,
    ) -> None:
        self.policy, self.counts, self.rng = policy, counts, rng
        self.recorded = recorded
        # trials, probabilities if known, and pulls of every stage
        self.stages: list[tuple[Ints, Floats | None, Ints]] = []
        self.width = max(group.model.width for group in policy.problem.groups)
        self.parts: list[Endings] = []
        # correct guesses of all trials so far; None where the law of the next arm is not known
        known = policy.has_probabilities and policy.problem.budget is None
        self.guesses = 0.0 if known else None
        self.numbers: list[Ints] = []  # of the trials of each part
        concurrent = policy.rules.controls == "concurrent" and policy.problem.has_windows
        self.windows = _windows(policy.problem) if concurrent else None
        # pulls of control before the stages at which windows begin and end, (trials,) each
        self.controls: dict[int, Ints] = {}

    def played(self, report: Callable[[int], None]) -> Endings:
        """Play all trials to their ends; `report` receives the number of stages done."""
        rules, problem = self.policy.rules, self.policy.problem
        E, K = self.counts.shape[:2]
        none = np.zeros((E, K), np.int64)
        every = np.ones((E, K), np.bool_)
        trials = _Trials(np.arange(E), (none,), every, np.zeros(E), np.zeros(E, np.int64))
        horizon, delay = problem.horizon, rules.delay
        ends = self._ends(E)
        for t in range(horizon + delay + 1):
            self._count_controls(trials, t)
            over = ends[trials.number] <= t
            if over.any():
                self._end(trials.some(over), np.zeros(int(over.sum()), np.int8), None)
                trials = trials.some(~over)
            recorded = trials.given[0].sum(axis=1)
            due = rules.looks_between(trials.looked, recorded)
            trials = replace(trials, looked=recorded)
            if due.any():
                trials = self._look(trials, due)
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
        return Endings.joined(self.parts).rows(np.argsort(np.concatenate(self.numbers)))

    def course(self) -> Course:
        """Return what happened in all trials, of which the stages were recorded."""
        problem = self.policy.problem
        cumulated = np.asarray(self.counts, dtype=float)
        if not problem.is_binary:
            models = [group.model for group in problem.arm_groups]
            totals = [
                model.total(self.counts[:, k, :, : model.width]) for k, model in enumerate(models)
            ]
            cumulated = np.stack(totals, axis=1)
        trials, arms = cumulated.shape[:2]
        pulls = np.zeros((trials, problem.horizon, arms), np.int64)
        probabilities = np.zeros(pulls.shape)
        for stage, (number, chances, allocated) in enumerate(self.stages):
            pulls[number, stage] = allocated
            if chances is not None:
                probabilities[number, stage] = chances
        before = np.concatenate([np.zeros((trials, 1, arms), np.int64), pulls.cumsum(axis=1)], 1)
        rows, columns = np.arange(trials)[:, None, None], np.arange(arms)
        totals_of = np.diff(cumulated[rows, columns, before], axis=1)
        outcomes = np.diff(cumulated, axis=2)
        return Course(probabilities, pulls, totals_of, outcomes, pulls.sum(axis=1))

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
        chances = None
        if self.guesses is None:
            pulls = self.policy.allocate_many(stage, states, self.rng)
        else:
            chances = self.policy.probabilities(stage, states, self.rng)
            self.guesses += float(chances.max(axis=1).sum())
            pulls = self.policy.in_units(chances, self.rng)
        if self.recorded:
            self.stages.append((trials.number, chances, pulls))
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

    def _look(self, trials: _Trials, due: Flags) -> _Trials:
        """Look at some of the trials: return those that go on, with the arms that they keep."""
        seen = trials.some(due)
        stats = self._stats(seen, seen.given[0])
        verdict = self.policy.look(States(self.policy.problem, stats, None, seen.allowed))
        allowed, over = trials.allowed.copy(), np.zeros(due.shape, np.bool_)
        allowed[due], over[due] = verdict.allowed, verdict.reason > 0
        stopped = verdict.reason > 0
        judged = replace(trials, allowed=allowed)
        self._end(judged.some(over), verdict.reason[stopped], verdict.declared[stopped])
        return judged.some(~over)

    def _end(self, trials: _Trials, reason: npt.NDArray[np.int8], declared: Flags | None) -> None:
        pulls = trials.given[-1]
        none = np.zeros(trials.allowed.shape, np.bool_) if declared is None else declared
        weight = np.ones(len(pulls))
        stats = self._stats(trials, pulls)
        ended = (pulls, stats, trials.allowed, none, reason, weight)
        spent = None if self.policy.problem.budget is None else trials.spent
        self.numbers.append(trials.number)
        self.parts.append(Endings(*ended, self._concurrent(trials), spent))
