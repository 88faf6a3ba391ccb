"""Forward recursion over the joint states that a policy reaches, for every model and batch size.

A state is a row of codes, one per arm: its number among the states of one arm (`ArmStates`). States
carry moments: their probability w, and at a truth, X being the reward so far, w E[X | state] and
w E[X^2 | state]. Every pull counts in X less `middle`: of rewards far from zero, E[X^2] and E[X]^2
would agree in all digits that they have.

At a stage the policy is asked in all states at once. Those with the same allotment move on
together, arm by arm: moments by the other arms (rows) and the state of the arm (columns) are a
sparse matrix, which is multiplied by the ways of the arm's pulls,

    w' = w P        m' = m P + w R        q' = q P + 2 m R + w S

R and S being P times the first two moments of the reward. Where the horizon is random, the states
after every stage are an end, with the probability that it is the last stage.

Exchangeable arms are sorted if the policy is `symmetric`, unless ties between those in different
states go by their position: then they are followed again, each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..joint import ArmStates, distinct_rows, states_of_arms
from ..policies import Policy, check_pulls
from ..problem import Group, Problem, States, share_of_best
from ..support import Floats, Ints, InvalidArgument, Progress, Report, TooLarge, heed_interrupt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LIMIT_STATES = 5_000_000  # of a stage, some 100 bytes each
EXPANSION = 8  # times as many states as the limit may be tried before equal ones are merged


class Occupied(NamedTuple):
    """States of arms at a stage, and the units that they are given.

    masses (states, units + 1): expected number of these arms in a state that are given so many.
    """

    members: list[int]  # exchangeable arms
    group: int
    stats: Floats  # (states, width)
    masses: Floats


Watch = Callable[[int, list[Occupied]], None]
# arms where trials end: group, statistics by code, code in each state, true mean, number of arms
Ended = tuple[Group, Floats, Ints | npt.NDArray[np.int32], float | None, int]


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
        for group, stats, codes, mean, count in arms:
            if group.terminal is not None:
                last += count * group.last_rewards(stats)[codes]
            if at_truth and mean is not None:
                laws.append((group.model.mean(stats)[codes], mean, count))
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


class _Level(NamedTuple):
    """States before a stage."""

    codes: Ints  # (S, K)
    moments: Floats  # (S, 1 or 3)


class _Answers(NamedTuple):
    """Decisions of a policy in states: rows of a level, pulls of every arm, probabilities."""

    rows: Ints  # (A,)
    pulls: Ints  # (A, K)
    shares: Floats  # (A,)


class Forward:
    """One forward recursion over joint states."""

    def __init__(
        self,
        policy: Policy,
        truth: Any,
        limit: int,
        progress: Report | None,
        watch: Watch | None = None,
    ) -> None:
        self.policy, self.problem, self.truth = policy, policy.problem, truth
        self.limit, self.progress, self.watch = min(limit, LIMIT_STATES), progress, watch
        self.arms: list[ArmStates] = states_of_arms(self.problem, truth, moments=truth is not None)
        self.merged = truth is None and merges(policy)
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
        total = Total(self.merged, np.zeros(problem.stages), np.zeros(problem.n_arms))
        level = self._first_level()
        for t in range(problem.stages):
            total.close(problem, t, level.moments, self._ended(level))
            total.states += len(level.codes)
            answers = self._answers(t, level)
            self._book(t, level, answers, total)
            level = self._after(t, level, answers)
            self._report(t, total.states)
        if self.merged:
            for group in problem.groups:
                total.pulls[list(group.members)] = total.pulls[list(group.members)].mean()
        total.probability = float(level.moments[:, 0].sum())
        total.close(problem, problem.stages, level.moments, self._ended(level))
        return total

    def _first_level(self) -> _Level:
        columns = 1 if self.truth is None else 3
        level = _Level(np.zeros((1, self.problem.n_arms), np.int64), np.eye(columns)[:1])
        for k, arm in enumerate(self.arms if self.problem.is_restless else ()):
            chances, stats = arm.model.first_states()
            codes = np.repeat(level.codes, chances.size, axis=0)
            codes[:, k] = np.tile(arm.number(0, stats), len(level.codes))
            moments = np.repeat(level.moments, chances.size, axis=0)
            moments *= np.tile(chances, len(level.moments))[:, None]
            level = self._added(0, self._sorted(codes), moments)
        return level

    # -- what the policy does -----------------------------------------------------------------

    def _states(self, codes: Ints) -> States:
        width = max(arm.model.width for arm in self.arms)
        stats = np.zeros((*codes.shape, width))
        for k, arm in enumerate(self.arms):
            stats[:, k, : arm.model.width] = arm.all_stats(codes[:, k].max())[codes[:, k]]
        return States(self.problem, stats)

    def _answers(self, t: int, level: _Level) -> _Answers:
        states = self._states(level.codes).at(t)
        answer = _Answers(*self.policy.allotments(t, states))
        if self.merged and not self.policy.draws_arms:
            self._check_positions(t, level.codes, states.pulls, answer.pulls)
        self._check(t, answer, len(states))
        return answer

    def _check(self, t: int, answer: _Answers, states: int) -> None:
        check_pulls(self.policy.name, self.problem, t, answer.pulls)
        sums = np.bincount(answer.rows, answer.shares, states)
        if np.any(np.abs(sums - 1.0) >= 1e-9):
            raise InvalidArgument(
                f"the policy's probabilities at stage {t} do not add up to 1", field="policy"
            )

    def _check_positions(self, t: int, codes: Ints, pulls: Ints, units: Ints) -> None:
        """Call the policy again with exchangeable arms reversed, where the order may matter."""
        order, groups = np.arange(codes.shape[1]), self.problem.groups
        spans = sorted((group.members[0], group.members[-1]) for group in groups)
        alternate = any(a[1] > b[0] for a, b in pairwise(spans))
        differ = np.zeros(len(codes), np.bool_)
        for group in groups:
            members = list(group.members)
            order[members] = members[::-1]
            alike = alternate | (np.diff(pulls[:, members], axis=1) == 0)
            differ |= (alike & (np.diff(codes[:, members], axis=1) != 0)).any(axis=1)
        if not differ.any():
            return
        other = codes[differ][:, order]
        again = np.asarray(self.policy.allocate_many(t, self._states(other)))
        for group in groups:
            members = list(group.members)
            first = _paired(codes[differ][:, members], units[differ][:, members])
            if np.any(first != _paired(other[:, members], again[:, members])):
                raise _Positions

    # -- what comes of it ---------------------------------------------------------------------

    def _book(self, t: int, level: _Level, answers: _Answers, total: Total) -> None:
        """Return the expected rewards and pulls of a stage; its states, where they are watched."""
        weights = level.moments[answers.rows, 0] * answers.shares
        occupied: list[list[Occupied]] = [[] for _ in self.problem.groups]
        for k, arm in enumerate(self.arms):
            codes, pulls = level.codes[answers.rows, k], answers.pulls[:, k]
            deployed = t >= self.problem.horizon
            least = 0 if self.problem.is_restless else 1  # pulls that earn
            for n in np.unique(pulls[pulls >= least]).tolist():
                here = pulls == n
                value = (
                    self._mean(k, codes[here])
                    if deployed
                    else arm.all_expected(int(codes.max()), n, self.unit)[codes[here]]
                )
                base, factor = arm.group.reward_base[t], arm.group.reward_factor[t]
                total.rewards[t] += float(weights[here] @ (n * base + factor * value))
            if not deployed:
                total.pulls[k] += float(self.survival[t] * (weights @ pulls))
            if self.watch is not None:
                units = pulls if deployed else pulls // self.unit
                masses = np.zeros((int(codes.max()) + 1, int(units.max()) + 1))
                np.add.at(masses, (codes, units), weights)
                reached = np.flatnonzero(masses.any(axis=1))
                stats = arm.all_stats(int(codes.max()))[reached]
                group = int(self.problem.group_of_arm[k])
                occupied[group].append(Occupied([k], group, stats, masses[reached]))
        if self.watch is not None:
            self.watch(t, [merged for arms in occupied for merged in self._joined(arms)])

    def _joined(self, arms: list[Occupied]) -> Iterator[Occupied]:
        members = [arm for arm_states in arms for arm in arm_states.members]
        for arm_states in arms:
            yield arm_states._replace(members=members) if self.merged else arm_states

    def _mean(self, k: int, codes: Ints) -> Floats:
        """Return the expected value of an outcome, at the truth where it has one."""
        arm = self.arms[k]
        if self.truth is None or self.truth[k] == ():
            return np.asarray(arm.model.mean(arm.all_stats(int(codes.max(initial=0)))[codes]))
        return np.full(len(codes), self._true_mean(k))

    def _true_mean(self, k: int) -> float:
        truth = self.truth[k]
        parameters = np.array((truth,) if isinstance(truth, float) else truth)
        return float(self.arms[k].model.mean_at(parameters))

    def _after(self, t: int, level: _Level, answers: _Answers) -> _Level:
        first, place = distinct_rows(answers.pulls)
        parts = []
        for number, units in enumerate(answers.pulls[first].tolist()):
            rows = place == number
            moments = level.moments[answers.rows[rows]] * answers.shares[rows, None]
            part = _Level(level.codes[answers.rows[rows]], moments)
            part = self._deployed(t, part, units) if t >= self.problem.horizon else part
            for k, pulls in enumerate(units if t < self.problem.horizon else ()):
                if pulls or self.problem.is_restless:
                    part = self._pull_arm(t, k, pulls, part)
            parts.append(part)
        codes = np.concatenate([part.codes for part in parts])
        moments = np.concatenate([part.moments for part in parts])
        return self._added(t, self._sorted(codes), moments)

    def _sorted(self, codes: Ints) -> Ints:
        """Return the codes with exchangeable arms in descending order, where they are merged."""
        if self.merged:
            for group in self.problem.groups:
                members = list(group.members)
                codes[:, members] = -np.sort(-codes[:, members], axis=1)
        return codes

    def _deployed(self, t: int, level: _Level, units: list[int]) -> _Level:
        """Add the expected rewards of deployed arms, which have no outcomes."""
        if self.truth is None:
            return level
        reward = np.full(len(level.codes), -middle(self.problem, t))
        for k, pulls in enumerate(units):
            if pulls:
                group = self.arms[k].group
                reward += group.reward_base[t] + group.reward_factor[t] * self._mean(
                    k, level.codes[:, k]
                )
        return level._replace(moments=_earned(level.moments, reward))

    def _pull_arm(self, t: int, k: int, pulls: int, level: _Level) -> _Level:
        from scipy.sparse import csr_array  # late: most commands do not need scipy

        codes, arm = level.codes, self.arms[k]
        ways = arm.all_ways(np.unique(codes[:, k]), pulls)
        rest = np.delete(codes, k, axis=1)
        first, place = distinct_rows(rest)
        shape = len(first), ways.chance.shape[0]
        tried = min(
            int(np.diff(ways.chance.indptr)[codes[:, k]].sum()), shape[0] * ways.chance.shape[1]
        )
        if tried > EXPANSION * self.limit:
            raise too_many_states(self.limit, t, self.problem.stages)
        before = [
            csr_array((column, (place, codes[:, k])), shape=shape) for column in level.moments.T
        ]
        after = [before[0] @ ways.chance]
        if self.truth is not None:
            first_r, second_r = self._reward_moments(t, arm, pulls, ways)
            after.append(before[1] @ ways.chance + before[0] @ first_r)
            after.append(
                before[2] @ ways.chance + 2.0 * (before[1] @ first_r) + before[0] @ second_r
            )
        entries = [matrix.tocoo() for matrix in after]
        new_codes = np.concatenate(
            [np.insert(rest[first][entry.row], k, entry.col, axis=1) for entry in entries]
        )
        moments = np.zeros((len(new_codes), len(entries)))
        start = 0
        for column, entry in enumerate(entries):
            moments[start : start + entry.nnz, column] = entry.data
            start += entry.nnz
        return (
            _Level(new_codes, moments) if len(entries) == 1 else self._added(t, new_codes, moments)
        )

    def _reward_moments(
        self, t: int, arm: ArmStates, pulls: int, ways: Any
    ) -> tuple[csr_array, csr_array]:
        """Return P times the first two moments of the reward of pulls, less `middle` for each."""
        factor = float(arm.group.reward_factor[t] / self.survival[t])
        usual = float(arm.group.reward_base[t] / self.survival[t]) + factor * arm.center
        base = pulls * (usual - middle(self.problem, t))
        first = base * ways.chance + factor * ways.first
        second = base**2 * ways.chance + 2.0 * base * factor * ways.first + factor**2 * ways.second
        return first, second

    def _added(self, t: int, codes: Ints, moments: Floats) -> _Level:
        first, place = distinct_rows(codes)
        if len(first) > self.limit:
            raise too_many_states(self.limit, t, self.problem.stages)
        sums = [np.bincount(place, column, len(first)) for column in moments.T]
        return _Level(codes[first], np.stack(sums, axis=1))

    def _report(self, stage: int, states: int) -> None:
        heed_interrupt()
        if self.progress is not None:
            done = (stage, self.problem.stages, self.problem.n_arms, states)
            self.progress(Progress.of_growing_stages(self.policy.name, *done))

    def _ended(self, level: _Level) -> Iterator[Ended]:
        has_means = self.truth is not None and () not in self.truth  # own states have none
        for k, (arm, codes) in enumerate(zip(self.arms, level.codes.T, strict=True)):
            mean = self._true_mean(k) if has_means else None
            yield arm.group, arm.all_stats(int(codes.max())), codes, mean, 1


def merges(policy: Policy) -> bool:
    """Whether exchangeable arms may be merged, as long as positions break no tie."""
    return policy.symmetric and policy.ties not in ("first", "last")


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


def _paired(codes: Ints, pulls: Ints) -> Ints:
    """Return pairs of state and pulls of exchangeable arms, sorted."""
    return np.sort(codes * (int(pulls.max(initial=0)) + 1) + pulls, axis=1)
