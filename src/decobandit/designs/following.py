"""Exact: all states that a ruled policy reaches under a truth, followed forward to their ends.

A state is what is known, and what is pending in the order in which it will be known. Two arms with
one pull per stage and no delay by dense arrays (`evaluation/two_arms.py`); others by merging equal
states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb, log2

import numpy as np

from ..evaluation import TwoArmStates, states_of_two_arms
from ..policies import Asked, RuledPolicy
from ..problem import Problem, Truth
from ..support import Floats, Ints, Progress, Report
from .endings import Endings, Flags

# states of all stages that take seconds: by tables, by arrays of states, by asking one by one
FAST_STATES, ARRAY_STATES, ASKED_STATES = 400_000_000, 30_000_000, 100_000
NEGLIGIBLE = 1e-20  # probability of a state that is left out: of all together, below 1e-11
# of those that are sorted; a policy of two arms that does not draw reaches few of them
MERGED_STATES, SURE_STATES = 3_000_000, 15_000_000
CODE_BITS = 62.0  # of a state


@dataclass(frozen=True, eq=False)
class _Level:
    """Distinct states at a stage; L stages are pending."""

    pulls: Ints  # (S, K) known
    good: Ints  # (S, K)
    allowed: Flags  # (S, K)
    pending: Ints  # (S, L, K) pulls of each arm, the oldest stage first
    weight: Floats  # (S,)

    def rows(self, some: Ints | Flags) -> _Level:
        """Some of the states, or some of them several times."""
        return _Level(
            self.pulls[some],
            self.good[some],
            self.allowed[some],
            self.pending[some],
            self.weight[some],
        )


def can_follow(policy: RuledPolicy) -> bool:
    """Whether the states are few enough, and the policy's probabilities known."""
    problem, inner, delay = policy.problem, policy.inner, policy.rules.delay
    if not problem.is_binary:
        return False
    single = problem.pulls_per_stage == 1 and not problem.repeat
    # a batch must be shared in one way
    known = policy.has_distribution if single else not (policy.randomised or inner.draws_arms)
    small = problem.n_arms == 2 or (single and delay == 0)
    if not known or not small or _code_bits(problem, delay) > CODE_BITS:
        return False
    most = FAST_STATES if inner.has_table else ARRAY_STATES if inner.has_chances else ASKED_STATES
    if not _is_dense(policy):
        sure = problem.n_arms == 2 and not (policy.randomised or policy.ties == "random")
        most = min(most, SURE_STATES if sure else MERGED_STATES)
    return states_of(problem, delay) <= most


def _is_dense(policy: RuledPolicy) -> bool:
    problem = policy.problem
    single = problem.pulls_per_stage == 1 and not problem.repeat
    return problem.n_arms == 2 and single and policy.rules.delay == 0


def states_of(problem: Problem, delay: int = 0) -> int:
    """Joint states of all stages, at most: known outcomes, times the ways of what is pending."""
    arms, pulls = problem.n_arms, problem.pulls_per_stage
    if arms == 2 and pulls == 1 and delay == 0:
        return states_of_two_arms(problem.horizon)
    units = problem.units if problem.repeat else 1
    ways = comb(units + arms - 1, arms - 1) if problem.repeat else comb(arms, pulls)
    total = 0
    for t in range(problem.horizon):
        known = pulls * max(t - delay, 0)
        total += comb(known + 2 * arms - 1, 2 * arms - 1) * ways ** min(t, delay)
        if total > FAST_STATES:
            break
    return total


def _code_bits(problem: Problem, delay: int) -> float:
    """Of the number that tells states apart."""
    radix = log2(2 * _slab(problem)) * problem.n_arms
    return radix + min(delay, problem.horizon) * problem.n_arms * log2(problem.pulls_per_stage + 1)


def _slab(problem: Problem) -> int:
    """States of one arm."""
    most = problem.horizon * problem.pulls_per_stage
    return (most + 1) * (most + 2) // 2


def follow(policy: RuledPolicy, truth: Truth, progress: Report | None = None) -> Endings:
    """How trials end, with their exact probabilities."""
    problem, rules = policy.problem, policy.rules
    horizon, m = problem.horizon, problem.pulls_per_stage
    level, dense = _start(problem.n_arms), _is_dense(policy)
    parts: list[Endings] = []
    for t in range(horizon + rules.delay + 1):
        known, before = (m * max(0, min(stage - rules.delay, horizon)) for stage in (t, t - 1))
        if rules.looks_between(before, known):
            level = _look(policy, level, truth, parts)
        if len(level.pulls) == 0:
            break
        if t >= horizon:
            level = _revealed(problem, level, truth) if level.pending.shape[1] else level
            continue
        level = _dense(policy, t, level, truth) if dense else _pulled(policy, t, level, truth)
        if progress is not None:
            progress(Progress(policy.name, t + 1, horizon, f"{len(level.pulls):,} states"))
    parts.append(_ended(level, truth, np.zeros(len(level.pulls), np.int8), None))
    return Endings.joined(parts)


def _start(arms: int) -> _Level:
    none = np.zeros((1, arms), np.int64)
    pending = np.zeros((1, 0, arms), np.int64)
    return _Level(none, none, np.ones((1, arms), np.bool_), pending, np.ones(1))


def _look(policy: RuledPolicy, level: _Level, truth: Truth, parts: list[Endings]) -> _Level:
    verdict = policy.look(level.pulls, level.good, level.allowed)
    over = verdict.reason > 0
    judged = replace(level, allowed=verdict.allowed)
    declared = verdict.declared[over]
    parts.append(_ended(judged.rows(over), truth, verdict.reason[over], declared))
    return judged.rows(~over)


def _ended(level: _Level, truth: Truth, reason: object, declared: Flags | None) -> Endings:
    """Trials that are over; what is pending comes to be known."""
    none = np.zeros(level.allowed.shape, np.bool_) if declared is None else declared
    code, late = np.asarray(reason, dtype=np.int8), level.pending.sum(axis=1)
    rows, good, chance = _outcomes(late, truth)
    return Endings(
        (level.pulls + late)[rows], level.good[rows] + good, level.allowed[rows], none[rows],
        code[rows], level.weight[rows] * chance,
    )  # fmt: skip


# -- one stage ----------------------------------------------------------------------------------


def _dense(policy: RuledPolicy, t: int, level: _Level, truth: Truth) -> _Level:
    """Two arms, of which none is ever dropped: with one left, a trial is over."""
    asked = Asked(level.pulls, level.good, np.zeros_like(level.pulls), level.allowed)
    chances = policy.chances_many(t, asked)
    now = TwoArmStates(t, level.pulls, level.good, level.weight[:, None])
    later, _ = now.after(policy.problem, np.ascontiguousarray(chances), truth, NEGLIGIBLE)
    every = np.ones(later.pulls.shape, np.bool_)
    pending = np.zeros((len(every), 0, 2), np.int64)
    return _Level(later.pulls, later.good, every, pending, later.moments[:, 0])


def _pulled(policy: RuledPolicy, t: int, level: _Level, truth: Truth) -> _Level:
    """A stage is pulled; then the oldest one that has waited for `delay` stages is known."""
    problem = policy.problem
    asked = Asked(level.pulls, level.good, level.pending.sum(axis=1), level.allowed)
    if problem.pulls_per_stage == 1 and not problem.repeat:
        chances = policy.chances_many(t, asked)
        rows, arms = np.nonzero(chances > 0.0)
        given, chance = np.eye(problem.n_arms, dtype=np.int64)[arms], chances[rows, arms]
    else:
        given, rows = np.asarray(policy.allot_asked(t, asked)), np.arange(len(level.pulls))
        chance = np.ones(len(rows))
    own = level.rows(rows)
    pending = np.concatenate([own.pending, given[:, None, :]], axis=1)
    after = replace(own, pending=pending, weight=own.weight * chance)
    if pending.shape[1] <= policy.rules.delay:
        return _merged(problem, after)
    return _revealed(problem, after, truth)


def _revealed(problem: Problem, level: _Level, truth: Truth) -> _Level:
    """The oldest pending stage is known, with all its outcomes."""
    first = level.pending[:, 0]
    rows, good, chance = _outcomes(first, truth)
    own = level.rows(rows)
    known = _Level(
        own.pulls + first[rows], own.good + good, own.allowed, own.pending[:, 1:],
        own.weight * chance,
    )  # fmt: skip
    return _merged(problem, known)


def _outcomes(pulls: Ints, truth: Truth) -> tuple[Ints, Ints, Floats]:
    """All outcomes of these pulls, (S, K): of which row, good ones of each arm, probability."""
    rows = np.arange(len(pulls))
    good, chance = np.zeros(pulls.shape, np.int64), np.ones(len(pulls))
    most = int(pulls.max(initial=0))
    for arm, p in enumerate(truth):
        table = _binomials(most, p)
        number = pulls[rows, arm] + 1
        first = np.cumsum(number) - number
        again = np.repeat(np.arange(len(rows)), number)
        x = np.arange(len(again)) - first[again]
        likely = table[number[again] - 1, x]
        kept = likely > 0.0
        again, x = again[kept], x[kept]
        rows, good, chance = rows[again], good[again], chance[again] * likely[kept]
        good[:, arm] = x
    return rows, good, chance


def _binomials(most: int, p: float) -> Floats:
    """Probability of x good outcomes of n pulls, at [n, x]."""
    table = np.zeros((most + 1, most + 1))
    table[0, 0] = 1.0
    for n in range(1, most + 1):
        table[n] = (1.0 - p) * table[n - 1]
        table[n, 1:] += p * table[n - 1, :-1]
    return table


def _merged(problem: Problem, level: _Level) -> _Level:
    """Equal states added up."""
    slab, arms, most = _slab(problem), problem.n_arms, problem.pulls_per_stage + 1
    code = np.zeros(len(level.pulls), np.int64)
    for arm in range(arms):
        own = level.pulls[:, arm] * (level.pulls[:, arm] + 1) // 2 + level.good[:, arm]
        code = 2 * slab * code + 2 * own + level.allowed[:, arm]
    for stage in range(level.pending.shape[1]):
        for arm in range(arms):
            code = most * code + level.pending[:, stage, arm]
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    total = np.zeros(len(first))
    np.add.at(total, place.reshape(-1), level.weight)
    return replace(level.rows(first), weight=total)
