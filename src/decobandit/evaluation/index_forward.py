"""Compiled forward recursion of index policies for single binary pulls; see `forward.py`.

States carry moments (3,): their probability w, and, X being the reward so far, w E[X | state] and
w E[X^2 | state]; the latter two only where the truth is known. Every pull of a stage counts in X
less `middle`: of rewards far from zero, E[X^2] and E[X]^2 would agree in all digits that they have.

Two arms and one pull per stage are followed over dense boxes of states: at most T^3 / 6 at a stage,
far fewer where an arm's pulls are known; ties split evenly where the rule is random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from ..policies import Policy
from ..policies.index_policy import pulls_and_good
from ..problem import TIE_SIGNS, Problem, States, Truth, tie_tolerance
from ..problem.kernels.layout import slab_size
from ..support import (
    Floats,
    Ints,
    InvalidArgument,
    Progress,
    Report,
    available_bytes,
    heed_interrupt,
)
from .forward import Ended, Occupied, Total, Watch, middle, too_many_states
from .kernels.reach import Codes, Level, Places, Stage, empty_level, pull_largest
from .kernels.two_arms import boxes_after, reached, spread

MEMORY_SHARE = 0.25  # of the available memory, for the states of two stages
# later stages have more states than those before them, or fewer by far less than this factor: where
# arms that are pulled in turn have equal numbers of pulls: more of their states are merged
SHRINKING = 8
CHUNK = 2_000  # states between two reports

Members = list[list[int]]  # positions of each class's arms


class IndexForward:
    """Forward recursion of one index policy by its tables."""

    def __init__(
        self,
        policy: Policy,
        truth: Truth | None,
        limit: int,
        progress: Report | None,
        watch: Watch | None = None,
    ) -> None:
        self.policy, self.problem, self.truth = policy, policy.problem, truth
        self.limit, self.progress, self.watch = limit, progress, watch
        rows = np.arange(self.problem.stages + 1)
        n = np.repeat(rows, rows + 1)  # pulls of each code
        good = np.arange(n.size) - n * (n + 1) // 2
        self.stats = np.stack([good, n - good], axis=1).astype(float)

    def run(self) -> Total:
        """Follow the policy over all stages, with exchangeable arms merged where that is possible.

        Not where a tie depends on their order.
        """
        if self.truth is None or self.policy.ties == "random":
            total = self._run(merged=True)
            if total is not None:
                return total
        total = self._run(merged=False)
        assert total is not None, "arms with slots of their own have positions"
        return total

    def _places(self, merged: bool) -> tuple[Members, Places]:
        groups, spent = self.problem.groups, int(self.problem.pulls.sum())
        truth = self.truth or (-1.0,) * self.problem.n_arms
        classes: dict[tuple[int, float], list[int]] = {}
        for arm, group in enumerate(self.problem.group_of_arm.tolist()):
            classes.setdefault((group, truth[arm] if merged else arm), []).append(arm)
        members = list(classes.values())
        # unpulled arms of one group have one index, so the rule takes them in order of position
        step = -1 if self.policy.ties == "last" else 1
        touched = {arm for group in groups for arm in group.members[::step][:spent]}
        slots = [min(spent, len(arms)) if merged else int(arms[0] in touched) for arms in members]
        return members, Places(
            start=np.cumsum([0, *slots]),
            group=np.array([group for group, _ in classes]),
            surplus=np.array([len(arms) - k for arms, k in zip(members, slots, strict=True)]),
            first=np.array([arms[0] for arms in members]),
            last=np.array([arms[-1] for arms in members]),
            truth=np.array([truth[arms[0]] for arms in members]),
        )

    def _stage(self, t: int) -> Stage:
        problem, groups = self.problem, self.problem.groups
        by_pulls, by_position = TIE_SIGNS[self.policy.ties]
        less, played = self._less(t), problem.survival[t]
        tabled = any(group.terminal is not None for group in groups)
        ended = t + 1 == problem.stages and self.truth is None and not tabled
        return Stage(
            indices=stage_table(self.policy, t),
            alpha=np.array([group.alpha for group in groups]),
            beta=np.array([group.beta for group in groups]),
            good=np.array([group.reward_good[t] / played - less for group in groups]),
            bad=np.array([group.reward_bad[t] / played - less for group in groups]),
            pulls=round(problem.pulls[t]),
            tolerance=tie_tolerance(problem),
            by_pulls=by_pulls,
            by_position=by_position,
            # a deployed arm earns by its success probability: there is no outcome to wait for
            follows=0 if ended else 2 if t < problem.horizon else 1,
        )

    def _run(self, *, merged: bool) -> Total | None:
        """Process all stages; return None if a tie depends on the order of merged arms."""
        members, places = self._places(merged)
        problem, stages = self.problem, self.problem.stages
        total = Total(merged, np.zeros(stages), np.zeros(problem.n_arms))
        slots, columns = int(places.start[-1]), 1 if self.truth is None else 3
        limit = min(self.limit, _states_that_fit(4 * slots + 8 * columns))
        level, used = empty_level(1, slots, columns), 1
        level.rows[0], level.moments[0] = 0, np.eye(columns)[0]
        for t in range(stages):
            total.close(problem, t, level.moments[:used], self._ended(places, level.rows[:used]))
            now, pulls = self._stage(t), np.zeros((len(members), slab_size(t)))
            after, count = empty_level(1024 + used if now.follows else 1, slots, columns), 0
            total.states += used
            survival = problem.survival[t]
            for i in range(0, used, CHUNK):
                part, room = (level, i, min(i + CHUNK, used)), limit - total.states
                after, count, earned, unclear = pull_largest(
                    *part, places, now, after, count, room, pulls
                )
                if unclear:
                    return None
                total.rewards[t] += survival * earned
                self._report(t, total.states, total.states + count, limit)
            total.probability = float(level.moments[:used, 0].sum())
            total.rewards[t] += survival * total.probability * now.pulls * self._less(t)
            if t < problem.horizon:
                for positions, pulled in zip(members, pulls.sum(axis=1), strict=True):
                    total.pulls[positions] += survival * pulled / len(positions)
            if self.watch is not None:
                self.watch(t, self._occupied(members, places, level, used, pulls))
            if now.follows:
                level, used = after, count
        total.close(problem, stages, level.moments[:used], self._ended(places, level.rows[:used]))
        return total

    def _less(self, stage: int) -> float:
        return 0.0 if self.truth is None else middle(self.problem, stage)

    def _occupied(
        self, members: Members, places: Places, level: Level, used: int, pulls: Floats
    ) -> list[Occupied]:
        """Return the expected number of arms of each class in each state, at rest and pulled."""
        masses, weights = np.zeros(pulls.shape), level.moments[:used, 0]
        for c, codes, count in _columns(places, level.rows[:used]):
            masses[c] += count * np.bincount(codes, weights, pulls.shape[1])
        resting = np.maximum(masses - pulls, 0.0)  # below zero only by rounding
        stats = self.stats[: pulls.shape[1]]
        return [
            Occupied(positions, int(group), stats, np.stack([resting[c], pulls[c]], axis=1))
            for c, (positions, group) in enumerate(zip(members, places.group, strict=True))
        ]

    def _report(self, stage: int, states: int, next_states: int, limit: int) -> None:
        heed_interrupt()
        stages = self.problem.stages
        ahead = (next_states - states) * (self.problem.horizon - stage - 1)
        if next_states > limit or ahead > SHRINKING * self.limit:
            raise too_many_states(limit, stage, stages)
        if self.progress is not None:
            done = (stage, stages, self.problem.n_arms, states)
            self.progress(Progress.of_growing_stages(self.policy.name, *done))

    def _ended(self, places: Places, rows: Codes) -> Iterator[Ended]:
        for c, codes, count in _columns(places, rows):
            group = self.problem.groups[places.group[c]]
            yield group, self.stats, codes, float(places.truth[c]), count


def stage_table(policy: Policy, stage: int) -> Floats:
    """Return the indices of a stage, (groups, slab); refused where one is missing."""
    index = np.array(policy.stage_index(stage), dtype=float, order="C")
    if index.shape != (len(policy.problem.groups), slab_size(stage)) or np.isnan(index).any():
        raise InvalidArgument(
            f"{policy.name!r}: not one number per state at stage {stage}", field="policy"
        )
    return index


def _columns(places: Places, rows: Codes) -> Iterator[tuple[int, Codes, int]]:
    """Yield every slot and surplus: class, code in each state, number of arms."""
    for c in range(places.group.size):
        for s in range(places.start[c], places.start[c + 1]):
            yield c, rows[:, s], 1
        if places.surplus[c] > 0:
            yield c, np.zeros(len(rows), np.int32), int(places.surplus[c])


def _states_that_fit(bytes_per_state: int) -> int:
    """Return the number of states of two stages that fit in memory, with room for doubling."""
    return int(MEMORY_SHARE * available_bytes() / (2 * bytes_per_state + 64))


LIMIT_STATES = 1_000_000_000  # of all stages together: 390 stages


@dataclass(frozen=True)
class TwoArmStates:
    """States reached at a stage, and their moments."""

    stage: int
    pulls: Ints  # (states, 2)
    good: Ints  # (states, 2)
    moments: Floats  # (states, 1 or 3): probability; with the first two moments, as in `forward`

    @classmethod
    def at_start(cls, columns: int = 1) -> TwoArmStates:
        none = np.zeros((1, 2), np.int64)
        return cls(0, none, none, np.eye(columns)[:1])

    def after(
        self, problem: Problem, chances: Floats, truth: Truth | Floats | None, least: float = 0.0
    ) -> tuple[TwoArmStates, float]:
        """Return the states after one pull with these probabilities, and its expected reward.

        The truth may be an array (states, 2): different in every state. States that are not more
        likely than `least` are left out.
        """
        t = self.stage
        groups = problem.arm_groups
        if truth is None:
            stats = np.stack([self.good, self.pulls - self.good], axis=2).astype(float)
            p = np.stack([group.model.mean(stats[:, k]) for k, group in enumerate(groups)], axis=1)
        else:
            p = np.broadcast_to(np.array(truth), self.pulls.shape)
        less = middle(problem, t) if self.moments.shape[1] > 1 else 0.0
        played = float(problem.survival[t])
        boxes = boxes_after(t, self.pulls, self.good, chances)
        dense = np.zeros((int(boxes[-1][-1]), self.moments.shape[1]))
        good = np.array([group.reward_good[t] / played - less for group in groups])
        bad = np.array([group.reward_bad[t] / played - less for group in groups])
        states = self.pulls, self.good, self.moments
        about = chances, np.ascontiguousarray(p), good, bad
        earned = spread(*states, *about, *boxes, dense)
        pulled = float((self.moments[:, 0] @ chances).sum())
        later = TwoArmStates(t + 1, *reached(t + 1, *boxes, dense, least))
        return later, played * (float(earned) + less * pulled)


def states_of_two_arms(horizon: int) -> int:
    """Count the states of all stages before the last outcome."""
    t = np.arange(horizon)
    return int(((t + 1) * (t + 2) * (t + 3) // 6).sum())


def states_ahead(problem: Problem) -> float:
    """Bound the number of joint states of all stages if no arms are merged, as at a truth."""
    if problem.single_binary and problem.n_arms == 2 and problem.pulls_per_stage == 1:
        return states_of_two_arms(problem.horizon)
    if not all(group.model.finite for group in problem.groups):
        return inf
    most = (problem.horizon - 1) * problem.pulls_per_stage
    together = np.ones(1)  # joint states of the arms so far, by their pulls
    for arm in problem.group_of_arm:
        states = [problem.groups[arm].model.states(n) for n in range(most + 1)]
        together = np.convolve(together, states)[: most + 1]
    return float(together[:: problem.pulls_per_stage].sum())


def serves_two_arms(policy: Policy, limit: int = LIMIT_STATES) -> bool:
    """Whether a policy can be followed in this way: without being asked state by state."""
    problem = policy.problem
    return (
        policy.is_vectorised
        and problem.n_arms == 2
        and problem.pulls_per_stage == 1
        and problem.terminal is None
        and not problem.may_wait
        and states_of_two_arms(problem.horizon) <= limit
    )


def follow_two_arms(policy: Policy, truth: Truth | None, progress: Report | None = None) -> Total:
    """Return the results of all stages."""
    problem = policy.problem
    total = Total(False, np.zeros(problem.stages), np.zeros(2))
    level = TwoArmStates.at_start(1 if truth is None else 3)
    for t in range(problem.horizon):
        total.close(problem, t, level.moments, _ended(problem, truth, level))
        if policy.has_table:
            stage_table(policy, t)  # refuses one that is not whole
        chances = policy.probabilities(t, States.of_counts(problem, level.pulls, level.good))
        total.states += len(level.pulls)
        total.probability = float(level.moments[:, 0].sum())
        total.pulls += problem.survival[t] * (level.moments[:, 0] @ chances)
        level, total.rewards[t] = level.after(problem, chances, truth)
        if progress is not None:
            done = (t, problem.horizon, 2, total.states)
            progress(Progress.of_growing_stages(policy.name, *done))
    total.close(problem, problem.stages, level.moments, _ended(problem, truth, level))
    return total


def _ended(problem: Problem, truth: Truth | None, level: TwoArmStates) -> Iterator[Ended]:
    n, good = pulls_and_good(np.arange(slab_size(level.stage)))
    stats, codes = np.stack([good, n - good], 1), level.pulls * (level.pulls + 1) // 2 + level.good
    for arm, k in enumerate(problem.group_of_arm):
        mean = None if truth is None else truth[arm]
        yield problem.groups[k], stats, codes[:, arm], mean, 1
