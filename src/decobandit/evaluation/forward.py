"""Forward recursion over the joint states that a policy reaches, for every model and batch size.

A state is a row of codes, one per arm: its number among the states of one arm (`ArmStates`). States
carry moments: their probability w, and at a truth, X being the reward so far, w E[X | state] and
w E[X^2 | state]. Every pull counts in X less `middle`: of rewards far from zero, E[X^2] and E[X]^2
would agree in all digits that they have.

At a stage the policy is asked in all states at once. Those with the same allotment move on
together, arm by arm (`kernels/forward.py`). Where the horizon is random, the states
after every stage are an end, with the probability that it is the last stage.

Columns of exchangeable arms are sorted if the policy is `symmetric` or has a table of indices,
unless ties between arms in different states go by their position: then they are followed again,
each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..joint import ArmStates, Ways, distinct_rows, states_of_arms
from ..policies import Policy, check_pulls
from ..problem import Group, Problem, States, share_of_best
from ..problem.kernels.layout import slab_size
from ..support import (
    Floats,
    Ints,
    InvalidArgument,
    Progress,
    Report,
    TooLarge,
    available_bytes,
    heed_interrupt,
)
from .kernels.forward import Codes, Level, empty_level, pull

MEMORY_SHARE = 0.25  # of the available memory, for the states of two stages
EXPANSION = 8  # times as many states as the limit may be tried before equal ones are merged
# later stages have more states than those before them, or fewer by far less than this factor: where
# arms that are pulled in turn have equal numbers of pulls: more of their states are merged
SHRINKING = 8
CHUNK = 100_000  # states that are followed at once: Ctrl-C works between them


class Occupied(NamedTuple):
    """States of arms at a stage, and the units that they are given.

    masses (states, units + 1): expected number of these arms in a state that are given so many.
    """

    members: list[int]  # exchangeable arms
    group: int
    stats: Floats  # (states, width)
    masses: Floats


Watch = Callable[[int, list[Occupied]], None]
# arms where trials end: group, statistics by code, code in each state, true mean
Ended = tuple[Group, Floats, Codes, float | None]
Move = tuple[int, Ways, float, float]  # column, where its pulls lead; base and factor of rewards


@dataclass
class Total:
    """Sums over the stages."""

    merged: bool
    rewards: Floats  # (stages,)
    pulls: Floats  # (arms,) those of merged arms spread evenly over them
    states: int = 0
    probability: float = 0.0
    last_reward: float = 0.0
    best_arm: float | None = None
    ends: list[tuple[float, float, Floats]] = field(default_factory=list)

    def close(self, problem: Problem, stage: int, moments: Floats, arms: Iterable[Ended]) -> None:
        """Add the trials that end before a stage: last rewards.

        With moments of the reward, also its variance, and the best arm where arms have true means.
        """
        chance, at_truth = float(problem.ends[stage]), moments.shape[1] > 1
        if chance == 0.0 or not (at_truth or stage == problem.stages):
            return
        last, laws, arms = np.zeros(len(moments)), [], list(arms)
        for group, stats, codes, mean in arms:
            if group.terminal is not None:
                last += group.last_rewards(stats)[codes]
            if at_truth and mean is not None:
                laws.append((group.model.mean(stats)[codes], mean, 1))
        self.last_reward += chance * float(moments[:, 0] @ last)
        if at_truth:
            less = middle_until(problem, stage)
            self.ends.append((chance, less, _earned(moments, last).sum(axis=0)))
            if len(laws) == len(arms):
                best = float(moments[:, 0] @ share_of_best(laws))
                self.best_arm = (self.best_arm or 0.0) + chance * best

    @property
    def variance(self) -> float | None:
        """Variance of the reward over all ends; None without moments."""
        if not self.ends:
            return None
        usual = sum(chance * less for chance, less, _ in self.ends)
        parts = [
            chance * _earned(moments[None], np.array([less - usual]))[0]
            for chance, less, moments in self.ends
        ]
        _, first, second = np.sum(parts, axis=0)
        return max(0.0, float(second - first**2))  # below zero only by rounding


class _Positions(Exception):
    """The choice among exchangeable arms depends on their positions."""


class _Answers(NamedTuple):
    """Decisions of a policy in states: rows of a level, pulls of every arm, probabilities."""

    rows: Ints  # (A,)
    pulls: Ints  # (A, K)
    shares: Floats  # (A,)


class Forward:
    """One forward recursion over joint states: codes (S, K) and moments (S, 1 or 3)."""

    def __init__(
        self,
        policy: Policy,
        truth: Any,
        limit: int,
        progress: Report | None,
        watch: Watch | None = None,
    ) -> None:
        self.policy, self.problem, self.truth = policy, policy.problem, truth
        self.progress, self.watch = progress, watch
        self.columns = 1 if truth is None else 3
        self.limit = min(limit, _states_that_fit(4 * self.problem.n_arms + 8 * self.columns))
        self.arms: list[ArmStates] = states_of_arms(self.problem, truth, moments=truth is not None)
        self.merged = merges(policy, truth)
        self.unit = self.problem.unit
        self.survival, self.ends = self.problem.survival, self.problem.ends

    def run(self) -> Total:
        try:
            return self._run()
        except _Positions:
            self.merged = False
            return self._run()

    def _run(self) -> Total:
        problem = self.problem
        self._classes = self._exchangeable()
        self._order = np.array([arm for arms in self._classes for arm in arms])
        self._start = np.cumsum([0, *map(len, self._classes)])
        total = Total(self.merged, np.zeros(problem.stages), np.zeros(problem.n_arms))
        codes, moments = self._first_states()
        for t in range(problem.stages):
            total.close(problem, t, moments, self._ended(codes))
            total.states += len(codes)
            total.probability = float(moments[:, 0].sum())
            answers = self._answers(t, codes)
            self._book(t, codes, moments[answers.rows, 0] * answers.shares, answers, total)
            if self._matters_after(t):
                codes, moments = self._after(t, codes, moments, answers, total.states)
            self._report(t, total.states)
        for arms in self._classes:
            total.pulls[arms] = total.pulls[arms].mean()
        total.close(problem, problem.stages, moments, self._ended(codes))
        return total

    def _exchangeable(self) -> list[list[int]]:
        """Return the arms of every class: of one group and one truth, if arms are merged."""
        classes: dict[object, list[int]] = {}
        for arm, group in enumerate(self.problem.group_of_arm.tolist()):
            truth = None if self.truth is None else self.truth[arm]
            classes.setdefault((group, truth) if self.merged else arm, []).append(arm)
        return list(classes.values())

    def _first_states(self) -> tuple[Codes, Floats]:
        codes = np.zeros((1, self.problem.n_arms), np.int32)
        moments = np.eye(self.columns)[:1]
        for column, k in enumerate(self._order if self.problem.is_restless else ()):
            chances, stats = self.arms[k].model.first_states()
            weight = np.zeros((self.columns, chances.size))
            weight[0] = chances
            begins = Ways(np.array([0, chances.size]), self.arms[k].number(0, stats), weight, 0)
            move = column, begins, 0.0, 0.0
            codes, moments = self._moved(0, codes, moments, move, self._start, self.limit)
        return codes, moments

    # -- what the policy does -----------------------------------------------------------------

    def _states(self, codes: Codes) -> States:
        width = max(arm.model.width for arm in self.arms)
        stats = np.zeros((*codes.shape, width))
        for column, k in zip(codes.T, self._order, strict=True):
            arm = self.arms[k]
            stats[:, k, : arm.model.width] = arm.all_stats(int(column.max()))[column]
        return States(self.problem, stats)

    def _answers(self, t: int, codes: Codes) -> _Answers:
        if self.policy.has_table:
            check_table(self.policy, t)
        states = self._states(codes).at(t)
        answer = _Answers(*self.policy.allotments(t, states))
        if self.merged and not self.policy.draws_arms:
            self._check_positions(t, codes, states.pulls, answer.pulls)
        check_pulls(self.policy.name, self.problem, t, answer.pulls)
        sums = np.bincount(answer.rows, answer.shares, len(states))
        if np.any(np.abs(sums - 1.0) >= 1e-9):
            raise InvalidArgument(
                f"the policy's probabilities at stage {t} do not add up to 1", field="policy"
            )
        return answer

    def _check_positions(self, t: int, codes: Codes, pulls: Ints, units: Ints) -> None:
        """Call the policy again with exchangeable arms reversed, where the order may matter."""
        spans = sorted((arms[0], arms[-1]) for arms in self._classes)
        alternate = any(a[1] > b[0] for a, b in pairwise(spans))
        parts = [slice(*ends) for ends in pairwise(self._start)]
        pulls, units = pulls[:, self._order], units[:, self._order]
        differ = np.zeros(len(codes), np.bool_)
        for part in parts:
            alike = alternate | (np.diff(pulls[:, part], axis=1) == 0)
            differ |= (alike & (np.diff(codes[:, part], axis=1) != 0)).any(axis=1)
        if not differ.any():
            return
        codes, units = codes[differ], units[differ]
        other = np.concatenate([codes[:, part][:, ::-1] for part in parts], axis=1)
        again = np.asarray(self.policy.allocate_many(t, self._states(other)))[:, self._order]
        for part in parts:
            first = _paired(codes[:, part], units[:, part])
            if np.any(first != _paired(other[:, part], again[:, part])):
                raise _Positions

    # -- what comes of it ---------------------------------------------------------------------

    def _book(self, t: int, codes: Codes, weights: Floats, answers: _Answers, total: Total) -> None:
        """Add the expected rewards and pulls of a stage; tell its states where they are watched.

        weights (A,): probability of every answer.
        """
        deployed = t >= self.problem.horizon
        unit = 1 if deployed else self.unit
        occupied: list[Occupied] = []
        for column, k in enumerate(self._order.tolist()):
            arm, own, given = self.arms[k], codes[:, column], answers.pulls[:, k] // unit
            top, most = int(own.max()), int(given.max()) + 1
            place = own[answers.rows].astype(np.int64) * most + given
            masses = np.bincount(place, weights, (top + 1) * most).reshape(-1, most).astype(float)
            base, factor = arm.group.reward_base[t], arm.group.reward_factor[t]
            for units in np.flatnonzero(masses.any(axis=0)).tolist():
                if units == 0 and not self.problem.is_restless:
                    continue
                if deployed:
                    value = self._mean(k, top)
                else:
                    value = arm.all_expected(top, units * unit, self.unit)
                earned = units * unit * base + factor * value
                total.rewards[t] += float(masses[:, units] @ earned[: top + 1])
            if not deployed:
                pulls = masses.sum(axis=0) @ np.arange(most) * unit
                total.pulls[k] += float(self.survival[t] * pulls)
            if self.watch is not None:
                reached = np.flatnonzero(masses.any(axis=1))
                members = next(arms for arms in self._classes if k in arms)
                stats, group = arm.all_stats(top)[reached], int(self.problem.group_of_arm[k])
                occupied.append(Occupied(members, group, stats, masses[reached]))
        if self.watch is not None:
            self.watch(t, occupied)

    def _mean(self, k: int, top: int) -> Floats:
        """Return the expected value of an outcome by code up to this one, or further."""
        stats = self.arms[k].all_stats(top)
        if self.truth is None or self.truth[k] == ():
            return np.asarray(self.arms[k].model.mean(stats))
        return np.full(len(stats), self._true_mean(k))

    def _true_mean(self, k: int) -> float:
        truth = self.truth[k]
        parameters = np.array((truth,) if isinstance(truth, float) else truth)
        return float(self.arms[k].model.mean_at(parameters))

    def _matters_after(self, t: int) -> bool:
        """Whether states after a stage have rewards or moments to come."""
        tabled = any(group.terminal is not None for group in self.problem.groups)
        return t + 1 < self.problem.stages or self.truth is not None or tabled

    def _after(
        self, t: int, codes: Codes, moments: Floats, answers: _Answers, states: int
    ) -> tuple[Codes, Floats]:
        """Return the states after a stage; `states`: of the stages so far."""
        left = self.problem.horizon - t - 1
        room = self.limit - states
        if left > 0:  # too many are refused when this can be foretold
            room = min(room, SHRINKING * self.limit // left)
        after = empty_level(1024 + len(codes), codes.shape[1], self.columns), 0
        alone = np.arange(codes.shape[1] + 1)  # columns are not sorted before the last move
        first, place = distinct_rows(answers.pulls)
        for number, pulls in enumerate(answers.pulls[first].tolist()):
            chosen = place == number
            rows = codes[answers.rows[chosen]]
            part = moments[answers.rows[chosen]] * answers.shares[chosen, None]
            moves: list[Move] = []
            deployed = t >= self.problem.horizon
            if deployed:
                part = self._deployed(t, rows, part, pulls)
            for column, k in enumerate(() if deployed else self._order.tolist()):
                if pulls[k] or self.problem.is_restless:
                    ways = self.arms[k].all_ways(rows[:, column], pulls[k])
                    moves.append((column, ways, *self._reward(t, k, pulls[k])))
            for move in moves[:-1]:
                rows, part = self._moved(t, rows, part, move, alone, EXPANSION * room)
            last = moves[-1] if moves else (0, _standing(int(rows.max()), self.columns), 0.0, 0.0)
            after = self._pulled(t, rows, part, last, self._start, after, room)
        level, used = after
        return level.rows[:used], level.moments[:used]

    def _moved(
        self, t: int, rows: Codes, moments: Floats, move: Move, classes: Ints, room: int
    ) -> tuple[Codes, Floats]:
        """Return the distinct states that a move leads to."""
        level = empty_level(1024 + len(rows), rows.shape[1], self.columns), 0
        after, used = self._pulled(t, rows, moments, move, classes, level, room)
        return after.rows[:used], after.moments[:used]

    def _pulled(
        self,
        t: int,
        rows: Codes,
        moments: Floats,
        move: Move,
        classes: Ints,
        after: tuple[Level, int],
        room: int,
    ) -> tuple[Level, int]:
        column, ways, *reward = move
        arrays = ways.at, ways.to, ways.weight
        for begin in range(0, len(rows), CHUNK):
            part = rows[begin : begin + CHUNK], moments[begin : begin + CHUNK]
            after = pull(*part, column, arrays, *reward, classes, *after, room)
            heed_interrupt()
            if after[1] > room:
                raise too_many_states(self.limit, t, self.problem.stages)
        return after

    def _reward(self, t: int, k: int, pulls: int) -> tuple[float, float]:
        """Return what pulls earn in a stage that is played: base, and factor of outcomes' values.

        Less `middle` for each; values are those less the arm's center.
        """
        if self.truth is None:
            return 0.0, 0.0
        arm = self.arms[k]
        factor = float(arm.group.reward_factor[t] / self.survival[t])
        usual = float(arm.group.reward_base[t] / self.survival[t]) + factor * arm.center
        return pulls * (usual - middle(self.problem, t)), factor

    def _deployed(self, t: int, codes: Codes, moments: Floats, units: list[int]) -> Floats:
        """Add the expected rewards of deployed arms, which have no outcomes."""
        if self.truth is None:
            return moments
        reward = np.full(len(codes), -middle(self.problem, t))
        for column, k in enumerate(self._order):
            if units[k]:
                group = self.arms[k].group
                mean = self._mean(k, int(codes[:, column].max()))[codes[:, column]]
                reward += group.reward_base[t] + group.reward_factor[t] * mean
        return _earned(moments, reward)

    def _report(self, stage: int, states: int) -> None:
        heed_interrupt()
        if self.progress is not None:
            done = (stage, self.problem.stages, self.problem.n_arms, states)
            self.progress(Progress.of_growing_stages(self.policy.name, *done))

    def _ended(self, codes: Codes) -> Iterator[Ended]:
        has_means = self.truth is not None and () not in self.truth  # own states have none
        for column, k in zip(codes.T, self._order, strict=True):
            arm, mean = self.arms[k], self._true_mean(k) if has_means else None
            yield arm.group, arm.all_stats(int(column.max())), column, mean


def merges(policy: Policy, truth: Any = None) -> bool:
    """Whether exchangeable arms may be merged, as long as positions break no tie.

    At a truth only under random ties: pulls of single arms are reported. Where money or resources
    are short, ties are never random, and policies with random ones are not asked about positions.
    """
    symmetric, random = policy.symmetric or policy.has_table, policy.ties == "random"
    decided = random if truth is not None else policy.ties not in ("first", "last")
    return symmetric and decided and not (random and policy.problem.may_wait)


def check_table(policy: Policy, stage: int) -> None:
    """Refuse a table of indices in which one is missing."""
    index = np.array(policy.stage_index(stage), dtype=float)
    if index.shape != (len(policy.problem.groups), slab_size(stage)) or np.isnan(index).any():
        raise InvalidArgument(
            f"{policy.name!r}: not one number per state at stage {stage}", field="policy"
        )


def _standing(code: int, columns: int) -> Ways:
    """Return the ways of arms that stay in their states, up to this code."""
    states = np.arange(code + 1)
    return Ways(np.arange(code + 2), states, np.eye(columns, 1) * np.ones(code + 1), code + 1)


def _states_that_fit(bytes_per_state: int) -> int:
    """Return the number of states of two stages that fit in memory, with room for doubling."""
    return int(MEMORY_SHARE * available_bytes() / (2 * bytes_per_state + 64))


def too_many_states(limit: int, stage: int, stages: int) -> TooLarge:
    """Return the refusal, which says what to do."""
    return TooLarge(
        f"exact evaluation reaches more than {limit} states (seen at stage {stage + 1} of "
        f"{stages}); simulate the policy ('deco simulate'), or, in Python, pass a larger "
        "limit_states where memory allows"
    )


def middle(problem: Problem, stage: int) -> float:
    """Return what a pull of a stage that is played earns before anything is known, over all groups.

    Moments are taken around it; zero where the number of pulls depends on the path.
    """
    if problem.may_wait:
        return 0.0
    earned = [
        group.reward_base[stage]
        + group.reward_factor[stage]
        * float(group.model.mean(np.array(group.model.initial(), dtype=float)))
        for group in problem.groups
    ]
    return float(np.mean(earned) / problem.survival[stage])


def middle_until(problem: Problem, stage: int) -> float:
    """Return the sum of `middle` over the pulls of the stages before one."""
    return sum(float(problem.pulls[t]) * middle(problem, t) for t in range(stage)) * problem.unit


def _earned(moments: Floats, reward: Floats) -> Floats:
    """Add a reward that is certain in each state to the moments (states, 3)."""
    w, first, second = moments.T
    return np.stack([w, first + reward * w, second + reward * (2.0 * first + reward * w)], axis=1)


def _paired(codes: Codes, pulls: Ints) -> Ints:
    """Return pairs of state and pulls of exchangeable arms, sorted."""
    return np.sort(codes * (int(pulls.max(initial=0)) + 1) + pulls, axis=1)
