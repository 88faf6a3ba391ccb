"""Exact: all states that a ruled policy reaches under a truth, followed forward to their ends.

A state is what is known, and what is pending in the order in which it will be known. Two arms of
good and bad outcomes with one pull per stage and no delay by dense arrays
(`evaluation/index_forward.py`); others by merging equal states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from math import comb, log2
from typing import Any, NamedTuple

import numpy as np

from ..evaluation import TwoArmStates, states_of_two_arms
from ..policies import BASELINE_POLICY, RuledPolicy
from ..problem import Problem, Rules, States, Truth, check_kind_truth, has_unknown_means
from ..support import Floats, Ints, Progress, Report
from .endings import Endings, Flags, Rows

# states of all stages that take seconds: by tables, by arrays of states, by asking one by one
FAST_STATES, ARRAY_STATES, ASKED_STATES = 400_000_000, 30_000_000, 100_000
NEGLIGIBLE = 1e-20  # probability of a state that is left out: of all together, below 1e-11
# of those that are sorted; a policy of two arms that does not draw reaches few of them
MERGED_STATES, SURE_STATES = 3_000_000, 15_000_000
CODE_BITS = 62.0  # of a state
ROUNDING = 1e-12  # of probabilities
# where outcomes are of classes, or earn unequal rewards: policies and looks take longer there
KIND_STATES = 2_000_000


@dataclass(frozen=True, eq=False)
class _Level(Rows):
    """Distinct states at a stage; L stages are pending."""

    pulls: Ints  # (S, K) known
    known: Ints  # (S, K, width) good outcomes, or counts of classes
    allowed: Flags  # (S, K)
    pending: Ints  # (S, L, K) pulls of each arm, the oldest stage first
    weight: Floats  # (S,)
    # (S,) outcomes known a stage before, where a stage may have no pull and looks depend on them
    looked: Ints


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
    single = problem.pulls_per_stage == 1 and not problem.repeat
    # a batch must be shared in one way
    has_law = policy.has_probabilities if single else not (policy.randomised or inner.draws_arms)
    small = problem.n_arms == 2 or (single and delay == 0)
    if not has_law or not small or _code_bits(policy) > CODE_BITS:
        return False
    most = FAST_STATES if inner.has_table else ARRAY_STATES if inner.is_vectorised else ASKED_STATES
    if not _is_dense(policy):
        sure = problem.n_arms == 2 and not (policy.randomised or policy.ties == "random")
        most = min(most, SURE_STATES if sure else MERGED_STATES)
    equal = _is_dense(policy) and policy.name == BASELINE_POLICY and not policy.shared
    most = FAST_STATES if equal else most
    plain = problem.is_binary and policy.rules.one_value(problem)
    if not plain or problem.random_horizon is not None:
        most = min(most, KIND_STATES)
    return (_equal_states(policy) if equal else states_of(problem, delay)) <= most


def _equal_states(policy: RuledPolicy) -> int:
    """States of all stages, at most, of equal allocation to two arms: their pulls differ little."""
    apart = max(policy.rules.block_sizes(), default=2) // 2 + 1
    t = np.arange(policy.problem.horizon)
    return int((apart * (t // 2 + 2) ** 2).sum())


def _is_dense(policy: RuledPolicy) -> bool:
    problem = policy.problem
    single = problem.pulls_per_stage == 1 and not problem.repeat
    two = problem.is_binary and problem.n_arms == 2
    return two and single and policy.rules.delay == 0 and not problem.may_wait


def states_of(problem: Problem, delay: int = 0) -> int:
    """Joint states of all stages, at most: known outcomes, times the ways of what is pending."""
    arms, pulls = problem.n_arms, problem.pulls_per_stage
    waits = problem.may_wait
    if problem.is_binary and arms == 2 and pulls == 1 and delay == 0 and not waits:
        return states_of_two_arms(problem.horizon)
    units = problem.units
    ways = comb(units + arms - 1, arms - 1) if problem.repeat else comb(arms, pulls)
    total = 0
    for t in range(problem.horizon):
        recorded = pulls * max(t - delay, 0)
        total += joint_states(problem, recorded, up_to=waits) * ways ** min(t, delay)
        if total > FAST_STATES:
            break
    return total


def _code_bits(policy: RuledPolicy) -> float:
    """Return the bits of the number that identifies a state."""
    problem, delay = policy.problem, policy.rules.delay
    radix = log2(2 * _slab(problem)) * problem.n_arms
    radix += log2(_most(problem) + 1) * _looks_at_own_times(policy)
    return radix + min(delay, problem.horizon) * problem.n_arms * log2(problem.pulls_per_stage + 1)


def _looks_at_own_times(policy: RuledPolicy) -> bool:
    """Whether looks fall due at stages that differ between trials."""
    return policy.problem.may_wait and policy.rules.stop.any


def _most(problem: Problem) -> int:
    """Return the maximum number of pulls of a trial."""
    return problem.horizon * problem.pulls_per_stage


def _slab(problem: Problem) -> int:
    """Numbers that states of one arm may have."""
    most = _most(problem)
    return (most + 1) * (most + 2) // 2 if problem.is_binary else (most + 1) ** _width(problem)


def _numbers(problem: Problem, level: _Level) -> Ints:
    """Return numbers that tell the states of each arm apart, (S, K)."""
    if problem.is_binary:
        return np.asarray(level.pulls * (level.pulls + 1) // 2 + level.known[:, :, 0])
    most = _most(problem)
    return level.known @ (most + 1) ** np.arange(level.known.shape[2], dtype=np.int64)


def _stats(problem: Problem, level: _Level) -> Floats:
    """Statistics of what is known, (S, K, W)."""
    if problem.is_binary:
        return States.of_counts(problem, level.pulls, level.known[:, :, 0]).stats
    return level.known.astype(float)


def follow(policy: RuledPolicy, truth: Truth | None, progress: Report | None = None) -> Endings:
    """How trials end, with their exact probabilities.

    Without a truth, all arms have one success probability that is drawn uniformly: two arms, one
    pull per stage, no delay.
    """
    return _Following(policy, truth).ends(progress)


class _Following:
    """All states of a policy under a truth, stage by stage."""

    def __init__(self, policy: RuledPolicy, truth: Truth | None) -> None:
        self.policy, self.problem, self.truth = policy, policy.problem, truth
        self.dense, self.parts = _is_dense(policy), list[Endings]()
        self.own_times = _looks_at_own_times(policy)
        problem = self.problem
        waiting = min(policy.rules.delay, problem.horizon) + 1
        most = waiting * problem.most_per_stage
        self.guesses: float | None = 0.0  # expected number of correct ones so far
        self.ways = ways_of(problem, truth or (0.5, 0.5), 0 if self.dense else most)

    def ends(self, progress: Report | None) -> Endings:
        """To the end of all of them."""
        rules, horizon = self.policy.rules, self.problem.horizon
        level = _start(self.problem)
        for t in range(horizon + rules.delay + 1):
            level = self._after_random_end(t, level)
            level = self._after_look(t, level)
            if len(level.pulls) == 0:
                break
            if t >= horizon:
                late = t >= rules.delay and level.pending.shape[1]
                level = self._revealed(level) if late else level
                continue
            level = self._dense(t, level) if self.dense else self._pulled(t, level)
            if progress is not None:
                states = f"{len(level.pulls):,} states"
                progress(Progress(self.policy.name, t + 1, horizon, states))
        self._end(level, np.zeros(len(level.pulls), np.int8), None)
        return replace(Endings.joined(self.parts), guesses=self.guesses)

    def _after_random_end(self, t: int, level: _Level) -> _Level:
        """End the trials that the random horizon ends before stage t."""
        if self.problem.random_horizon is None or t > self.problem.horizon:
            return level
        alive = self.problem.survival[t - 1] if t else 1.0
        ending = float(self.problem.ends[t] / alive)
        if ending > 0.0:
            ended = replace(level, weight=level.weight * ending)
            self._end(ended, np.zeros(len(level.pulls), np.int8), None)
        if t == self.problem.horizon:
            return level.rows(np.zeros(len(level.pulls), np.bool_))
        return replace(level, weight=level.weight * (1.0 - ending))

    def _after_look(self, t: int, level: _Level) -> _Level:
        """Look at the states for which a look falls due; those that go on."""
        m, delay, horizon = (
            self.problem.pulls_per_stage,
            self.policy.rules.delay,
            self.problem.horizon,
        )
        now = level.pulls.sum(axis=1)
        before = level.looked if self.own_times else m * max(0, min(t - 1 - delay, horizon))
        due = self.policy.rules.looks_between(before, now)
        level = replace(level, looked=now) if self.own_times else level
        if not due.any():
            return level
        judged = self._look(level.rows(due))
        return judged if due.all() else _Level.joined([judged, level.rows(~due)])

    def _look(self, level: _Level) -> _Level:
        stats = _stats(self.problem, level)
        verdict = self.policy.look(States(self.problem, stats, None, level.allowed))
        over = verdict.reason > 0
        judged = replace(level, allowed=verdict.allowed)
        self._end(judged.rows(over), verdict.reason[over], verdict.declared[over])
        return judged.rows(~over)

    def _end(self, level: _Level, reason: object, declared: Flags | None) -> None:
        """End the trials that are over; their pending outcomes are recorded."""
        none = np.zeros(level.allowed.shape, np.bool_) if declared is None else declared
        code, late = np.asarray(reason, dtype=np.int8), level.pending.sum(axis=1)
        rows, added, chance = outcomes(self.ways, late)
        last = replace(
            level.rows(rows), pulls=(level.pulls + late)[rows], known=level.known[rows] + added
        )
        stats, weight = _stats(self.problem, last), last.weight * chance
        paid = self.problem.budget is not None
        spent = last.pulls @ self.problem.costs[0] if paid else None
        ends = Endings(last.pulls, stats, last.allowed, none[rows], code[rows], weight, spent=spent)
        self.parts.append(ends)

    # -- one stage ------------------------------------------------------------------------------

    def _dense(self, t: int, level: _Level) -> _Level:
        """Two arms, of which none is ever dropped: with one left, a trial is over."""
        good = level.known[:, :, 0]
        states = States(self.problem, _stats(self.problem, level), None, level.allowed)
        chances = np.ascontiguousarray(self.policy.probabilities(t, states))
        self._guess(level, chances)
        now = TwoArmStates(t, level.pulls, good, level.weight[:, None])
        later, _ = now.after(self.problem, chances, self.truth or _one_rate(t, good), NEGLIGIBLE)
        every = np.ones(later.pulls.shape, np.bool_)
        pending, looked = np.zeros((len(every), 0, 2), np.int64), np.zeros(len(every), np.int64)
        weight = later.moments[:, 0]
        return _Level(later.pulls, later.good[:, :, None], every, pending, weight, looked)

    def _pulled(self, t: int, level: _Level) -> _Level:
        """Pull a stage; then learn the oldest one that has waited for `delay` stages."""
        problem, policy = self.problem, self.policy
        pending = level.pending.sum(axis=1)
        states = States(problem, _stats(problem, level), pending, level.allowed)
        if problem.pulls_per_stage == 1 and not problem.repeat:
            chances = policy.probabilities(t, states)
            self._guess(level, chances)
            none = np.maximum(1.0 - chances.sum(axis=1, keepdims=True), 0.0)  # within a budget
            chances = np.hstack([chances, np.where(none > ROUNDING, none, 0.0)])
            rows, arms = np.nonzero(chances > 0.0)
            units = np.eye(problem.n_arms + 1, problem.n_arms, dtype=np.int64)[arms]
            chance = chances[rows, arms]
        else:
            self.guesses = None
            units, rows = policy.allocate_many(t, states), np.arange(len(level.pulls))
            chance = np.ones(len(rows))
        part = level.rows(rows)
        pending = np.concatenate([part.pending, units[:, None, :]], axis=1)
        after = replace(part, pending=pending, weight=part.weight * chance)
        if pending.shape[1] <= policy.rules.delay:
            return _merged(problem, after)
        return self._revealed(after)

    def _guess(self, level: _Level, chances: Floats) -> None:
        """Add the probability to guess the next arm: the largest of its law."""
        if self.guesses is not None:
            largest = reduce(np.maximum, chances.T)  # faster than along short rows
            self.guesses += float(level.weight @ largest)

    def _revealed(self, level: _Level) -> _Level:
        """Learn all outcomes of the oldest pending stage."""
        first = level.pending[:, 0]
        rows, added, chance = outcomes(self.ways, first)
        part = level.rows(rows)
        revealed = _Level(
            part.pulls + first[rows],
            part.known + added,
            part.allowed,
            part.pending[:, 1:],
            part.weight * chance,
            part.looked,
        )
        return _merged(self.problem, revealed)


def _one_rate(t: int, good: Ints) -> Floats:
    """P(good | outcomes of both arms) of every state and arm, where the rate is one and uniform."""
    return np.repeat((good.sum(axis=1, keepdims=True) + 1.0) / (t + 2.0), 2, axis=1)


def _start(problem: Problem) -> _Level:
    none = np.zeros((1, problem.n_arms), np.int64)
    counts = np.zeros((*none.shape, _width(problem)), np.int64)
    pending = np.zeros((1, 0, problem.n_arms), np.int64)
    every, looked = np.ones(none.shape, np.bool_), np.zeros(1, np.int64)
    return _Level(none, counts, every, pending, np.ones(1), looked)


def _merged(problem: Problem, level: _Level) -> _Level:
    """Equal states added up."""
    slab, arms, most = _slab(problem), problem.n_arms, problem.pulls_per_stage + 1
    code, numbers = np.zeros(len(level.pulls), np.int64), _numbers(problem, level)
    for arm in range(arms):
        code = 2 * slab * code + 2 * numbers[:, arm] + level.allowed[:, arm]
    for stage in range(level.pending.shape[1]):
        for arm in range(arms):
            code = most * code + level.pending[:, stage, arm]
    if level.looked.any():
        code = (_most(problem) + 1) * code + level.looked
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    total = np.zeros(len(first))
    np.add.at(total, place.reshape(-1), level.weight)
    return replace(level.rows(first), weight=total)


# -- outcomes of pulls under a truth, where they are finitely many -------------------------------
# What is known of an arm is a row of whole numbers: good outcomes where all arms have good and bad
# ones, else counts of classes, (S, K, width), those of an arm in its first columns.


class Ways(NamedTuple):
    """Of one arm: what 0, 1, 2, .. pulls may add to what is known, those of n from `start[n]`."""

    added: Ints  # (N, width)
    chance: Floats  # (N,)
    start: Ints  # (most + 2,)


def _width(problem: Problem) -> int:
    """How many numbers are known of an arm."""
    return 1 if problem.is_binary else max(group.model.width for group in problem.groups)


def ways_of(problem: Problem, truth: tuple[Any, ...], most: int) -> list[Ways]:
    """Return the outcome laws of every arm, up to this number of pulls."""
    ways = []
    for k, parameters in zip(problem.group_of_arm, check_kind_truth(truth, problem), strict=True):
        kind, width = problem.groups[k].model, _width(problem)
        chances = (1.0 - sum(parameters), *parameters) if kind.counts_good else parameters
        counts, chance, start = class_counts(tuple(map(float, chances)), most)
        if kind.counts_good:  # bad, good: as statistics are, or the good ones alone
            counts = counts[:, 1:] if problem.is_binary else counts[:, ::-1]
        added = np.zeros((len(counts), width), np.int64)
        added[:, : counts.shape[1]] = counts
        ways.append(Ways(added, chance, start))
    return ways


@lru_cache(maxsize=64)
def class_counts(chances: tuple[float, ...], most: int) -> Ways:
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
    return Ways(np.array(rows, dtype=np.int64), np.array(likely), np.cumsum(sizes))


def outcomes(ways: list[Ways], pulls: Ints) -> tuple[Ints, Ints, Floats]:
    """All outcomes of these pulls, (S, K): of which row, what each arm adds, probability."""
    rows, width = np.arange(len(pulls)), ways[0].added.shape[1]
    added, chance = np.zeros((*pulls.shape, width), np.int64), np.ones(len(pulls))
    for arm, arm_ways in enumerate(ways):
        first = arm_ways.start[pulls[rows, arm]]
        number = arm_ways.start[pulls[rows, arm] + 1] - first
        again = np.repeat(np.arange(len(rows)), number)
        place = np.arange(len(again)) - (np.cumsum(number) - number)[again] + first[again]
        rows, added, chance = rows[again], added[again], chance[again] * arm_ways.chance[place]
        added[:, arm] = arm_ways.added[place]
    return rows, added, chance


def joint_states(problem: Problem, recorded: int, *, up_to: bool = False) -> int:
    """Joint states after so many known outcomes, or up to so many: counts of classes of arms."""
    classes = sum(problem.groups[k].model.width for k in problem.group_of_arm) + up_to
    return comb(recorded + classes - 1, classes - 1)
