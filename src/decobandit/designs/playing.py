"""Trials of a ruled policy to their ends: all states with their probabilities, or simulated trials.

Both go stage by stage through rows, which are distinct states or single trials. A row has the known
outcomes, and the pending ones in the order in which they will be known, `delay` stages later.

    exact      a row splits by the policy's probabilities and by outcomes; equal rows are merged.
               Two arms of good and bad outcomes with one pull per stage and no delay go by dense
               arrays (`evaluation/two_arms.py`)
    simulated  the k-th pull of an arm has the same outcome in a trial whatever the policy
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial, reduce
from itertools import pairwise
from math import comb
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ..evaluation import TwoArmStates, states_of_two_arms
from ..joint import distinct_rows
from ..policies import BASELINE_POLICY, RuledPolicy
from ..problem import Problem, Rules, States, Truth, check_kind_truth, has_unknown_means
from ..support import Floats, Ints, Progress, Report, silent

# states of all stages that take seconds: by tables, by arrays of states, by asking one by one
FAST_STATES, ARRAY_STATES, ASKED_STATES = 400_000_000, 30_000_000, 100_000
NEGLIGIBLE = 1e-20  # probability of a state that is left out: of all together, below 1e-11
# of those that are sorted; a policy of two arms that does not draw reaches few of them
MERGED_STATES, SURE_STATES = 3_000_000, 15_000_000
ROUNDING = 1e-12  # of probabilities
# where outcomes are of classes, or earn unequal rewards: policies and looks take longer there
CLASS_STATES = 2_000_000
ELEMENTS = 40_000_000  # outcomes that are drawn at a time

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """Base of records of arrays with a row per trial or state; what is no array is shared."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the rows of several parts."""
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in parts[0]._arrays()
        }
        return replace(parts[0], **columns)

    def rows(self, some: Ints | Flags | slice) -> Self:
        """Return some of the rows, in this order, or some of them several times."""
        columns: dict[str, Any] = {name: array[some] for name, array in self._arrays().items()}
        return replace(self, **columns)

    def _arrays(self) -> dict[str, Any]:
        every = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: array for name, array in every.items() if isinstance(array, np.ndarray)}


@dataclass(frozen=True, eq=False)
class Endings(Rows):
    """Trials that have ended, or sets of trials that ended alike.

    S endings, K arms; all outcomes are known, also those that were pending when a trial stopped.
    """

    pulls: Ints  # (S, K)
    stats: Floats  # (S, K, W) as in `States`
    allowed: Flags  # (S, K) arms that were not dropped
    declared: Flags  # (S, K) at a look
    reason: npt.NDArray[np.int8]  # (S,) why it stopped: code of REASONS; 0: it did not
    weight: Floats  # (S,) probability; they add up to 1
    # (S, K, W) statistics of control at stages at which each arm is available; None: all stages
    controls: Floats | None = None
    spent: Floats | None = None  # (S,) money; None without a budget
    # expected number of allocations of a trial that are guessed from all earlier outcomes; None
    # where the probabilities of the policy are not known
    guesses: float | None = None

    @property
    def size(self) -> Ints:
        """Pulls of each trial."""
        return np.asarray(self.pulls.sum(axis=1), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Level(Rows):
    """Trials before a stage, R rows; L stages are pending."""

    pulls: Ints  # (R, K) whose outcomes are known
    stats: Floats  # (R, K, W) known
    allowed: Flags  # (R, K)
    pending: Ints  # (R, L, K) pulls of each arm, the oldest stage first
    weight: Floats  # (R,)
    spent: Floats  # (R,) money
    looked: Ints  # (R,) outcomes that were known a stage before
    number: Ints  # (R,) of a simulated trial

    @property
    def made(self) -> Ints:
        """All pulls so far, (R, K)."""
        return np.asarray(self.pulls + self.pending.sum(axis=1))


class _Play:
    """All trials of a policy, stage by stage."""

    def __init__(self, policy: RuledPolicy, report: Report | None, guesses: float | None) -> None:
        self.policy, self.problem = policy, policy.problem
        self.report = report or silent
        self.guesses = guesses  # expected number of correct ones so far
        self.parts: list[Endings] = []
        self.numbers: list[Ints] = []  # of the trials of each part
        self.width = max(group.model.width for group in self.problem.groups)

    def ends(self, level: _Level) -> Endings:
        """How all trials end, from their start."""
        horizon, delay = self.problem.horizon, self.policy.rules.delay
        for t in range(horizon + delay + 1):
            level = self._looked(self.after_random_end(t, level))
            if len(level.pulls) == 0:
                break
            if t < horizon:
                level = self.pulled(t, level)
                states = f"{len(level.pulls):,} states"
                self.report(Progress(self.policy.name, t + 1, horizon, states))
            elif t >= delay and level.pending.shape[1]:
                level = self.revealed(level)
        self.end(level)
        return replace(Endings.joined(self.parts), guesses=self.guesses)

    def _looked(self, level: _Level) -> _Level:
        """Look at the rows for which a look falls due; return those that go on."""
        known = level.pulls.sum(axis=1)
        due = self.policy.rules.looks_between(level.looked, known)
        level = replace(level, looked=known)
        if not due.any():
            return level
        seen = level.rows(due)
        verdict = self.policy.look(States(self.problem, seen.stats, None, seen.allowed))
        allowed, over, stopped = level.allowed.copy(), due.copy(), verdict.reason > 0
        allowed[due], over[due] = verdict.allowed, stopped
        seen = replace(seen, allowed=verdict.allowed)
        self.end(seen.rows(stopped), verdict.reason[stopped], verdict.declared[stopped])
        return replace(level, allowed=allowed).rows(~over)

    def pulled(self, t: int, level: _Level) -> _Level:
        """Pull a stage; then learn the oldest one that has waited for `delay` stages."""
        pending = level.pending.sum(axis=1) if self.policy.rules.delay else None
        spent = None if self.problem.budget is None else level.spent
        known = level.stats[..., : self.width]
        states = States(self.problem, known, pending, level.allowed, spent)
        level, units = self.chosen(t, level, states)
        level = replace(
            level,
            pending=np.concatenate([level.pending, units[:, None]], axis=1),
            spent=level.spent + units @ self.problem.costs[t],
        )
        late = level.pending.shape[1] > self.policy.rules.delay
        return self.revealed(level) if late else self.merged(level)

    def end(self, level: _Level, reason: object = 0, declared: Flags | None = None) -> None:
        """End the trials that are over; their pending outcomes are recorded."""
        rows, last = self.outcomes(level, level.pending.sum(axis=1))
        shape = level.pulls.shape
        code = np.broadcast_to(np.asarray(reason, dtype=np.int8), len(level.pulls))[rows]
        arms = (np.zeros(shape, np.bool_) if declared is None else declared)[rows]
        spent = None if self.problem.budget is None else last.spent
        ended = (last.pulls, last.stats, last.allowed, arms, code, last.weight)
        self.parts.append(Endings(*ended, spent=spent))
        self.numbers.append(last.number)

    def revealed(self, level: _Level) -> _Level:
        """Learn all outcomes of the oldest pending stage."""
        _, later = self.outcomes(level, level.pending[:, 0])
        return self.merged(replace(later, pending=later.pending[:, 1:]))

    def merged(self, level: _Level) -> _Level:
        """Add up equal rows."""
        return level

    @abstractmethod
    def after_random_end(self, t: int, level: _Level) -> _Level:
        """End the trials that the random horizon ends before stage t; return the others."""

    @abstractmethod
    def chosen(self, t: int, level: _Level, states: States) -> tuple[_Level, Ints]:
        """Return rows, and the pulls of each at a stage, (R, K)."""

    @abstractmethod
    def outcomes(self, level: _Level, pulls: Ints) -> tuple[Ints | slice, _Level]:
        """Return rows after the outcomes of these pulls are known, and from which row each is."""


def _start(stats: Floats, weight: float) -> _Level:
    """Return rows before any pull; stats (R, K, W)."""
    none = np.zeros(stats.shape[:2], np.int64)
    rows, arms = len(stats), stats.shape[1]
    return _Level(
        pulls=none,
        stats=stats,
        allowed=np.ones(none.shape, np.bool_),
        pending=np.zeros((rows, 0, arms), np.int64),
        weight=np.full(rows, weight),
        spent=np.zeros(rows),
        looked=np.zeros(rows, np.int64),
        number=np.arange(rows),
    )


# -- exact ----------------------------------------------------------------------------------------


def why_simulated(problem: Problem, rules: Rules) -> str:
    """Say why states are infinitely many, or do not tell all; empty where they do."""
    if not has_unknown_means(problem):
        return "the last state of an arm does not tell what its pulls earned"
    if not all(group.model.finite for group in problem.groups):
        return "measurements, counts and times have infinitely many states"
    if (problem.costs[: problem.horizon] != problem.costs[0]).any():
        return "costs change over the stages, and states do not tell how much money is left"
    if rules.controls == "concurrent" and problem.has_windows:
        return "the last states do not tell which controls were concurrent with an arm"
    return ""


def can_follow(policy: RuledPolicy) -> bool:
    """Whether the states are few enough, and the policy's probabilities known."""
    problem, inner, delay = policy.problem, policy.inner, policy.rules.delay
    if why_simulated(problem, policy.rules):
        return False
    single = problem.pulls_per_stage == 1
    # a batch must be shared in one way
    has_law = policy.has_probabilities if single else not (policy.randomised or inner.draws_arms)
    if not has_law or not (problem.n_arms == 2 or (single and delay == 0)):
        return False
    most = FAST_STATES if inner.has_table else ARRAY_STATES if inner.is_vectorised else ASKED_STATES
    if not _is_dense(policy):
        sure = problem.n_arms == 2 and not (policy.randomised or policy.ties == "random")
        most = min(most, SURE_STATES if sure else MERGED_STATES)
    equal = _is_dense(policy) and policy.name == BASELINE_POLICY and not policy.shared
    most = FAST_STATES if equal else most
    counts_good = all(group.model.counts_good for group in problem.groups)
    plain = counts_good and policy.rules.one_value(problem)
    if not plain or problem.random_horizon is not None:
        most = min(most, CLASS_STATES)
    return (_equal_states(policy) if equal else states_of(policy)) <= most


def _is_dense(policy: RuledPolicy) -> bool:
    """Whether states are those of two binary arms, one of which is pulled and known per stage."""
    problem = policy.problem
    two = problem.single_binary and problem.n_arms == 2 and problem.pulls_per_stage == 1
    return two and policy.rules.delay == 0 and not problem.may_wait


def _equal_states(policy: RuledPolicy) -> int:
    """States of all stages, at most, of equal allocation to two arms: their pulls differ little."""
    apart = max(policy.rules.block_sizes(), default=2) // 2 + 1
    t = np.arange(policy.problem.horizon)
    return int((apart * (t // 2 + 2) ** 2).sum())


def states_of(policy: RuledPolicy) -> int:
    """Joint states of all stages, at most: known outcomes, times the ways of what is pending."""
    problem, delay = policy.problem, policy.rules.delay
    if _is_dense(policy):
        return states_of_two_arms(problem.horizon)
    ways = comb(problem.units + problem.n_arms - 1, problem.n_arms - 1)
    if problem.most_units < problem.units:
        ways = comb(problem.n_arms, problem.units)
    waits = problem.may_wait  # known outcomes may be fewer than the stages had room for
    classes = sum(group.model.width for group in problem.arm_groups) + waits - 1
    total = 0
    for t in range(problem.horizon):
        recorded = problem.pulls_per_stage * max(t - delay, 0)
        total += comb(recorded + classes, classes) * ways ** min(t, delay)
        if total > FAST_STATES:
            break
    return total


def follow(policy: RuledPolicy, truth: Truth | None, progress: Report | None = None) -> Endings:
    """How trials end, with their exact probabilities.

    Without a truth, all arms have one success probability that is drawn uniformly: two arms, one
    pull per stage, no delay.
    """
    play = _Exact(policy, truth, progress)
    return play.ends(_start(np.zeros((1, policy.problem.n_arms, play.width)), 1.0))


class _Exact(_Play):
    """All states of a policy under a truth."""

    def __init__(
        self, policy: RuledPolicy, truth: Truth | None, progress: Report | None = None
    ) -> None:
        problem, self.truth = policy.problem, truth
        super().__init__(policy, progress, 0.0 if problem.pulls_per_stage == 1 else None)
        self.dense = _is_dense(policy)
        waiting = min(policy.rules.delay, problem.horizon) + 1
        most = 0 if self.dense else waiting * problem.most_per_stage
        self.laws = laws_of(problem, truth or (0.5, 0.5), most)

    def after_random_end(self, t: int, level: _Level) -> _Level:
        if self.problem.random_horizon is None or t > self.problem.horizon:
            return level
        alive = self.problem.survival[t - 1] if t else 1.0
        ending = float(self.problem.ends[t] / alive)
        if ending > 0.0:
            self.end(replace(level, weight=level.weight * ending))
        if t == self.problem.horizon:
            return level.rows(slice(0))
        return replace(level, weight=level.weight * (1.0 - ending))

    def pulled(self, t: int, level: _Level) -> _Level:
        if not self.dense:
            return super().pulled(t, level)
        # neither of two arms is ever dropped: with one left, a trial is over
        good = level.stats[:, :, 0].astype(np.int64)
        states = States(self.problem, level.stats, None, level.allowed)
        chances = np.ascontiguousarray(self.policy.probabilities(t, states))
        self._guess(level, chances)
        one_rate = (good.sum(axis=1, keepdims=True) + 1.0) / (t + 2.0)  # P(good | all outcomes)
        truth = self.truth or np.repeat(one_rate, 2, axis=1)
        now = TwoArmStates(t, level.pulls, good, level.weight[:, None])
        later, _ = now.after(self.problem, chances, truth, NEGLIGIBLE)
        stats = States.of_counts(self.problem, later.pulls, later.good).stats
        start = _start(stats, 0.0)
        looked = np.full(len(stats), t)
        return replace(start, pulls=later.pulls, weight=later.moments[:, 0], looked=looked)

    def chosen(self, t: int, level: _Level, states: States) -> tuple[_Level, Ints]:
        if self.guesses is None:
            return level, self.policy.allocate_many(t, states)
        chances = self.policy.probabilities(t, states)
        self._guess(level, chances)
        none = np.maximum(1.0 - chances.sum(axis=1, keepdims=True), 0.0)  # within a budget
        chances = np.hstack([chances, np.where(none > ROUNDING, none, 0.0)])
        rows, arms = np.nonzero(chances > 0.0)
        part = level.rows(rows)
        units = np.eye(self.problem.n_arms + 1, self.problem.n_arms, dtype=np.int64)[arms]
        return replace(part, weight=part.weight * chances[rows, arms]), units

    def _guess(self, level: _Level, chances: Floats) -> None:
        """Add the probability to guess the next arm: the largest of its law."""
        assert self.guesses is not None
        # over columns: faster than along short rows
        self.guesses += float(level.weight @ reduce(np.maximum, chances.T))

    def outcomes(self, level: _Level, pulls: Ints) -> tuple[Ints, _Level]:
        rows = np.arange(len(pulls))
        added, chance = np.zeros(level.stats.shape), np.ones(len(pulls))
        for arm, law in enumerate(self.laws):
            first = law.start[pulls[rows, arm]]
            number = law.start[pulls[rows, arm] + 1] - first
            again = np.repeat(np.arange(len(rows)), number)
            place = np.arange(len(again)) - (np.cumsum(number) - number)[again] + first[again]
            rows, added, chance = rows[again], added[again], chance[again] * law.chance[place]
            added[:, arm, : law.counts.shape[1]] = law.counts[place]
        part = level.rows(rows)
        weight = part.weight * chance
        return rows, replace(
            part, pulls=part.pulls + pulls[rows], stats=part.stats + added, weight=weight
        )

    def merged(self, level: _Level) -> _Level:
        size = len(level.pulls)
        parts = (level.stats, level.allowed, level.pending, level.looked)
        columns: Floats = np.hstack([part.reshape(size, -1) for part in parts]).astype(np.float64)
        first, place = distinct_rows(columns)
        weight = np.bincount(place, level.weight, len(first)).astype(np.float64)
        return replace(level.rows(first), weight=weight)


class Law(NamedTuple):
    """Of one arm: counts of classes after 0, 1, 2, .. outcomes, those after n from `start[n]`."""

    counts: Ints  # (N, classes)
    chance: Floats  # (N,)
    start: Ints  # (most + 2,)


def laws_of(problem: Problem, truth: tuple[Any, ...], most: int) -> list[Law]:
    """Return what 0 to `most` outcomes of every arm add to its statistics."""
    laws = []
    for group, parameters in zip(problem.arm_groups, check_kind_truth(truth, problem), strict=True):
        chances = tuple(map(float, parameters))
        if group.model.counts_good:
            chances = (*chances, 1.0 - sum(chances))
        laws.append(class_counts(chances, most))
    return laws


@lru_cache(maxsize=64)
def class_counts(chances: tuple[float, ...], most: int) -> Law:
    """Return possible counts of classes after 0 .. most outcomes, with multinomial chances."""
    level: dict[tuple[int, ...], float] = {(0,) * len(chances): 1.0}
    rows, likely, sizes = list(level), list(level.values()), [0, 1]
    for _ in range(most):
        later: dict[tuple[int, ...], float] = {}
        for counts, p in level.items():
            for j, chance in enumerate(chances):
                if chance > 0.0:
                    more = (*counts[:j], counts[j] + 1, *counts[j + 1 :])
                    later[more] = later.get(more, 0.0) + p * chance
        level = later
        rows += level
        likely += level.values()
        sizes.append(len(level))
    return Law(np.array(rows, dtype=np.int64), np.array(likely), np.cumsum(sizes))


# -- simulated ------------------------------------------------------------------------------------


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
    problem, parts, guesses = policy.problem, list[Endings](), list[float | None]()
    width = 1 if problem.is_binary else _widest(problem)
    chunk = max(100, ELEMENTS // (width * problem.n_arms * (problem.most_pulls + 1)))
    for number, begin in enumerate(range(0, draws, chunk)):
        size = min(chunk, draws - begin)
        outcomes, choices = map(
            np.random.default_rng, np.random.SeedSequence((*seed, number)).spawn(2)
        )
        table = OutcomeTable(outcomes, size, problem, truth)
        report = partial(_report, progress or silent, begin, size, draws)
        played = _Simulated(policy, table, choices, report, recorded=courses is not None)
        parts.append(played.endings())
        guesses.append(played.guesses)
        if courses is not None:
            courses.append(played.course())
    known = [each for each in guesses if each is not None]
    mean = sum(known) / draws if len(known) == len(guesses) else None
    return replace(Endings.joined(parts), weight=np.full(draws, 1.0 / draws), guesses=mean)


def _report(progress: Report, begin: int, size: int, draws: int, step: Progress) -> None:
    """Report stages of some of the trials as trials."""
    assert step.total is not None
    done = (begin * step.total + step.done * size) // step.total
    progress(Progress(step.what, done, draws, "simulated trials"))


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


def _widest(problem: Problem) -> int:
    """Most numbers of an arm in a table of statistics."""
    return max(group.model.width + group.model.ordered for group in problem.groups)


class OutcomeTable:
    """Statistics after the first n pulls of every arm in trials.

    table (trials, arms, most + 1, width): statistics, those of an arm with states of its own
    followed by what its pulls have earned; of binary problems the good outcomes alone. More pulls
    keep the outcomes of fewer: each arm has its own stream, pull by pull.
    """

    def __init__(
        self, rng: np.random.Generator, trials: int, problem: Problem, truth: Truth | None
    ) -> None:
        self.models = [group.model for group in problem.arm_groups]
        self.counted, most = problem.is_binary, problem.most_pulls
        parameters = drawn_parameters(rng, trials, problem, truth)
        streams, shape = rng.spawn(len(self.models)), (trials, len(self.models), most + 1)
        if self.counted:
            integer = np.int16 if most < 2**15 else np.int32
            self.table: npt.NDArray[Any] = np.zeros((*shape, 1), integer)
            for arm, (p, stream) in enumerate(zip(parameters, streams, strict=True)):
                good = stream.random((most, trials), dtype=np.float32) < p[:, 0].astype(np.float32)
                np.cumsum(good.T, axis=1, dtype=integer, out=self.table[:, arm, 1:, 0])
            return
        self.table = np.zeros((*shape, _widest(problem)))
        for k, (model, stream) in enumerate(zip(self.models, streams, strict=True)):
            stats = np.tile(np.array(model.initial(), dtype=float), (trials, 1))
            table, earned = self.table[:, k], np.zeros(trials)
            table[:, 0, : model.width] = stats
            for n, of_pull in enumerate(stream.spawn(most), start=1):
                drawn = model.stream(parameters[k], 1, of_pull)[:, 0]
                outcome = model.from_stream(drawn, stats)
                if model.ordered:
                    earned += model.value(stats, outcome)
                    table[:, n, model.width] = earned
                stats = model.update(stats, outcome)
                table[:, n, : model.width] = stats

    def after(self, trials: Ints, arms: Ints | int, pulls: Ints) -> Floats:
        """Return statistics after these pulls, one row of numbers for each."""
        known = self.table[trials, arms, pulls]
        return np.stack([known[..., 0], pulls - known[..., 0]], -1) * 1.0 if self.counted else known

    def totals(self) -> Floats:
        """Return sums of the outcomes of the first n pulls, (trials, arms, most + 1)."""
        if self.counted:
            return self.table[..., 0].astype(float)
        return np.stack(
            [
                model.total(self.table[:, k, :, : model.width])
                for k, model in enumerate(self.models)
            ],
            axis=1,
        )


class _Simulated(_Play):
    """Some trials of one policy, side by side."""

    def __init__(
        self,
        policy: RuledPolicy,
        table: OutcomeTable,
        rng: np.random.Generator,
        report: Report,
        *,
        recorded: bool,
    ) -> None:
        problem, self.table, self.rng = policy.problem, table, rng
        # the law of the next arm may be unknown
        known = policy.has_probabilities and problem.budget is None
        super().__init__(policy, report, 0.0 if known else None)
        self.trials = len(table.table)
        self.concurrent = policy.rules.controls == "concurrent" and problem.has_windows
        shape = (self.trials, problem.horizon, problem.n_arms)
        self.probabilities = np.zeros(shape if recorded else (0, 0, 0))
        self.made = np.zeros(shape if recorded or self.concurrent else (0, 0, 0), np.int64)
        # the stage at which each trial ends, drawn; beyond all where it is known
        self.last = np.full(self.trials, problem.horizon + policy.rules.delay + 1)
        if problem.random_horizon is not None:
            self.last = np.searchsorted(-problem.survival, -rng.random(self.trials))

    def endings(self) -> Endings:
        """Play all trials to their ends; return these in the order of the trials."""
        every, arms = np.arange(self.trials)[:, None], np.arange(self.problem.n_arms)
        none = np.zeros((self.trials, arms.size), np.int64)
        ends = self.ends(_start(self.table.after(every, arms, none), 1.0))
        ends = ends.rows(np.argsort(np.concatenate(self.numbers)))
        return replace(ends, controls=self._controls()) if self.concurrent else ends

    def after_random_end(self, t: int, level: _Level) -> _Level:
        over = self.last[level.number] <= t
        if over.any():
            self.end(level.rows(over))
            level = level.rows(~over)
        return level

    def chosen(self, t: int, level: _Level, states: States) -> tuple[_Level, Ints]:
        if self.guesses is None:
            units = self.policy.allocate_many(t, states, self.rng)
        else:
            chances = self.policy.probabilities(t, states, self.rng)
            self.guesses += float(chances.max(axis=1).sum())
            units = self.policy.in_units(chances, self.rng)
            if self.probabilities.size:
                self.probabilities[level.number, t] = chances
        if self.made.size:
            self.made[level.number, t] = units
        return level, units

    def outcomes(self, level: _Level, pulls: Ints) -> tuple[slice, _Level]:
        known = level.pulls + pulls
        stats = self.table.after(level.number[:, None], np.arange(known.shape[1]), known)
        return slice(None), replace(level, pulls=known, stats=stats)

    def _controls(self) -> Floats:
        """Return statistics of control over the windows of each arm, (E, K, W)."""
        control, arms = self.policy.control, self.problem.arms
        assert control is not None
        pulls = np.cumsum(self.made[:, :, control], axis=1)
        pulls = np.hstack([np.zeros((self.trials, 1), np.int64), pulls])  # before each stage

        def parts(windows: Any) -> Iterator[Floats]:
            for window in windows or ((0, self.problem.horizon),):
                known = (
                    self.table.after(np.arange(self.trials), control, pulls[:, t]) for t in window
                )
                yield from (after - before for before, after in pairwise(known))

        return np.stack([sum(parts(arm.available)) for arm in arms], axis=1)

    def course(self) -> Course:
        """Return what happened in all trials, of which the stages were recorded."""
        totals, made = self.table.totals(), self.made
        before = np.concatenate([np.zeros_like(made[:, :1]), made.cumsum(axis=1)], axis=1)
        rows, columns = np.arange(self.trials)[:, None, None], np.arange(made.shape[2])
        by_stage = np.diff(totals[rows, columns, before], axis=1)
        outcomes = np.diff(totals, axis=2)
        return Course(self.probabilities, made, by_stage, outcomes, made.sum(axis=1))
