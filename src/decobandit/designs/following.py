"""Exact: all states that a ruled policy reaches under a truth, followed forward to their ends.

Two arms by dense arrays (`evaluation/two_arms.py`); more arms by merging equal states.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from ..evaluation import TwoArmStates, states_of_two_arms
from ..policies import Asked, RuledPolicy
from ..problem import Problem, Truth
from ..support import Floats, Ints, Progress, Report
from .endings import Endings, Flags

# states of all stages that take seconds: by tables, by arrays of states, by asking one by one
FAST_STATES, ARRAY_STATES, ASKED_STATES = 400_000_000, 30_000_000, 100_000
NEGLIGIBLE = 1e-20  # probability of a state that is left out: of all together, below 1e-11
MERGED_STATES = 3_000_000  # of three arms and more, which are sorted


@dataclass(frozen=True, eq=False)
class _Level:
    """Distinct states of three arms or more at a stage."""

    pulls: Ints  # (S, K)
    good: Ints  # (S, K)
    allowed: Flags  # (S, K)
    weight: Floats  # (S,)


def can_follow(policy: RuledPolicy) -> bool:
    """Whether the states are few enough, and the policy's probabilities known."""
    problem, inner = policy.problem, policy.inner
    if problem.pulls_per_stage > 1 or policy.rules.delay > 0 or not policy.has_distribution:
        return False
    most = FAST_STATES if inner.has_table else ARRAY_STATES if inner.has_chances else ASKED_STATES
    return states_of(problem) <= min(most, FAST_STATES if problem.n_arms == 2 else MERGED_STATES)


def states_of(problem: Problem) -> int:
    """Joint states of all stages, at most."""
    if problem.n_arms == 2:
        return states_of_two_arms(problem.horizon)
    return comb(problem.horizon - 1 + 2 * problem.n_arms, 2 * problem.n_arms)


def follow(policy: RuledPolicy, truth: Truth, progress: Report | None = None) -> Endings:
    """How trials end, with their exact probabilities."""
    horizon, rules = policy.problem.horizon, policy.rules
    level = _start(policy.problem.n_arms)
    parts: list[Endings] = []
    for t in range(horizon + 1):
        if rules.looks_between(t - 1, t):
            level = _look(policy, level, parts)
        if t == horizon or len(level.pulls) == 0:
            break
        none = np.zeros_like(level.pulls)
        asked = Asked(level.pulls, level.good, none, level.allowed)
        chances = policy.chances_many(t, asked)
        level = _after(policy.problem, t, level, chances, truth)
        if progress is not None:
            note = f"{len(level.pulls):,} states"
            progress(Progress(policy.name, t + 1, horizon, note))
    parts.append(_ended(level, np.zeros(len(level.pulls), np.int8), None))
    return Endings.joined(parts)


def _start(arms: int) -> _Level:
    none = np.zeros((1, arms), np.int64)
    return _Level(none, none, np.ones((1, arms), np.bool_), np.ones(1))


def _look(policy: RuledPolicy, level: _Level, parts: list[Endings]) -> _Level:
    verdict = policy.look(level.pulls, level.good, level.allowed)
    over = verdict.reason > 0
    judged = _Level(level.pulls, level.good, verdict.allowed, level.weight)
    parts.append(_ended(_some(judged, over), verdict.reason[over], verdict.declared[over]))
    return _some(judged, ~over)


def _ended(level: _Level, reason: object, declared: Flags | None) -> Endings:
    none = np.zeros(level.allowed.shape, np.bool_) if declared is None else declared
    code = np.asarray(reason, dtype=np.int8)
    return Endings(level.pulls, level.good, level.allowed, none, code, level.weight)


def _some(level: _Level, rows: Flags) -> _Level:
    return _Level(level.pulls[rows], level.good[rows], level.allowed[rows], level.weight[rows])


def _after(problem: Problem, t: int, level: _Level, chances: Floats, truth: Truth) -> _Level:
    if problem.n_arms == 2:  # arms are never dropped: with one left, a trial is over
        now = TwoArmStates(t, level.pulls, level.good, level.weight[:, None])
        later, _ = now.after(problem, np.ascontiguousarray(chances), truth, NEGLIGIBLE)
        every = np.ones(later.pulls.shape, np.bool_)
        return _Level(later.pulls, later.good, every, later.moments[:, 0])
    return _merged(problem, level, chances, truth)


def _merged(problem: Problem, level: _Level, chances: Floats, truth: Truth) -> _Level:
    """Every state after every pull and outcome; equal ones added up."""
    parts = []
    for arm, p in enumerate(truth):
        pulled = chances[:, arm] > 0.0
        own, one = _some(level, pulled), np.eye(problem.n_arms, dtype=np.int64)[arm]
        for x, likely in ((1, p), (0, 1.0 - p)):
            if likely > 0.0:
                after = own.weight * chances[pulled, arm] * likely
                parts.append(_Level(own.pulls + one, own.good + x * one, own.allowed, after))
    pulls = np.concatenate([part.pulls for part in parts])
    good = np.concatenate([part.good for part in parts])
    allowed = np.concatenate([part.allowed for part in parts])
    weight = np.concatenate([part.weight for part in parts])
    width = (problem.horizon + 1) * (problem.horizon + 2) // 2
    code = np.zeros(len(pulls), np.int64)
    for arm in range(problem.n_arms):
        code = 2 * width * code + 2 * (pulls[:, arm] * (pulls[:, arm] + 1) // 2 + good[:, arm])
        code += allowed[:, arm]
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    total = np.zeros(len(first))
    np.add.at(total, place.reshape(-1), weight)
    return _Level(pulls[first], good[first], allowed[first], total)
