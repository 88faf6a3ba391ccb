"""A policy followed forward, stage by stage, over the joint states that it reaches.

States carry moments (3,): their probability w, and, X being the reward so far, w E[X | state] and
w E[X^2 | state]; the latter two only where the truth is known. Every pull of a stage counts in X
less `middle`: of rewards far from zero, E[X^2] and E[X]^2 would agree in all digits that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..policies import Distribution, Policy, TooManyStates
from ..problem import TIE_SIGNS, Problem, State, TieRule, Truth, share_of_best, tie_tolerance
from ..problem.kernels.layout import slab_size
from ..support import Floats, Progress, Report, available_bytes, heed_interrupt
from .kernels.reach import Places, Stage, pull_largest, pull_slots
from .kernels.state_table import Codes, Level, empty_level

MEMORY_SHARE = 0.25  # of the available memory, for the states of two stages
# later stages have more states than those before them, or fewer by far less than this factor: where
# arms that are pulled in turn come to have as many pulls each, more of their states are merged
SHRINKING = 8
CHUNK = 2_000  # states between two reports


# level, first state, one after the last, places, stage, level after, states in it, limit, pulls
# -> level after, states in it, expected reward, whether a tie asks for arms that are not merged
Pull = Callable[
    [Level, int, int, Places, Stage, Level, int, int, Floats], tuple[Level, int, float, bool]
]
Members = list[list[int]]  # positions of each class's arms


class Occupied(NamedTuple):
    """The states of single arms at a stage: expected number in each, and of those pulled there.

    A class is some arms that are exchangeable; codes: state (n, g) is n (n+1) / 2 + g.
    """

    members: Members  # positions of each class's arms
    group: npt.NDArray[np.int64]  # (classes,)
    masses: Floats  # (classes, codes)
    pulls: Floats  # (classes, codes)


Watch = Callable[[int, Occupied], None]


@dataclass
class Total:
    """What the stages have come to."""

    merged: bool
    rewards: Floats  # (stages,)
    pulls: Floats  # (arms,) those of merged arms spread evenly over them
    states: int = 0
    probability: float = 0.0
    last_reward: float = 0.0
    variance: float | None = None
    best_arm: float | None = None


class Forward:
    """One evaluation."""

    def __init__(
        self,
        problem: Problem,
        truth: Truth | None,
        limit: int,
        progress: Report | None,
        watch: Watch | None = None,
        *,
        name: str = "evaluation",
    ) -> None:
        """name: of the policy, for reports."""
        self.name = name
        self.problem, self.truth, self.limit, self.progress = problem, truth, limit, progress
        self.watch = watch
        self.tabled = any(group.terminal is not None for group in problem.groups)
        rows = np.arange(problem.stages + 1)
        self.n = np.repeat(rows, rows + 1)  # pulls of each code
        self.g = np.arange(self.n.size) - self.n * (self.n + 1) // 2

    def by_index(self, policy: Policy) -> Total:
        """An index policy, from its tables."""

        def stage(t: int) -> Stage:
            return self._stage(t, stage_table(policy, t), policy.ties)

        if self.truth is None or policy.ties == "random":
            total = self._run(True, *self._places(True, policy.ties), stage, pull_largest)
            if total is not None:
                return total
        total = self._run(False, *self._places(False, policy.ties), stage, pull_largest)
        assert total is not None, "arms with slots of their own have positions"
        return total

    def by_asking(self, policy: Policy) -> Total:
        """Any other policy, from what it says in each state."""
        total = None
        if self.truth is None and merges(policy):
            total = self._by_asking(policy, True)
        if total is None:
            total = self._by_asking(policy, False)
        assert total is not None, "arms with slots of their own have positions"
        return total

    def _by_asking(self, policy: Policy, merged: bool) -> Total | None:
        """None if a tie between merged arms is broken by their position."""
        members, places = self._places(merged, None)
        groups = self.problem.group_of_arm.tolist()
        slot = np.empty(self.problem.n_arms, np.int64)
        reverse = slot.copy()  # the same arms in the opposite order
        for c, arms in enumerate(members):  # most pulled first; the surplus shares a fresh one
            slot[arms] = np.maximum(places.start[c + 1] - 1 - np.arange(len(arms)), places.start[c])
            reverse[arms] = slot[arms[::-1]]

        def ask(state: State, stage: Stage) -> Distribution:
            return actions(policy, state, self.problem, stage.pulls)

        def pulled(answer: Distribution, codes: Codes) -> list[list[tuple[int, int]]]:
            """Groups and codes of the arms that are pulled."""
            return [sorted((groups[arm], int(codes[arm])) for arm in arms) for arms, _ in answer]

        def pull(
            level: Level, begin: int, end: int, places: Places, stage: Stage, after: Level,
            used: int, limit: int, pulls: Floats,
        ) -> tuple[Level, int, float, bool]:  # fmt: skip
            rows = level.rows[begin:end]
            answers = [ask(state, stage) for state in self._states(rows[:, slot])]
            if merged and not policy.draws_arms:
                for i in np.flatnonzero(self._may_tie(rows, places)):
                    (state,) = self._states(rows[i : i + 1, reverse])
                    if pulled(answers[i], rows[i, slot]) != pulled(
                        ask(state, stage), rows[i, reverse]
                    ):
                        return after, used, 0.0, True
            said = [
                (i, arms, share)
                for i, answer in enumerate(answers, start=begin)
                for arms, share in answer
            ]
            states, arms, shares = map(np.array, zip(*said, strict=True))
            return *pull_slots(
                level, states, slot[arms], shares, places, stage, after, used, limit, pulls
            ), False  # fmt: skip

        def stage(t: int) -> Stage:
            return self._stage(t, np.zeros((len(self.problem.groups), slab_size(t))), "first")

        return self._run(merged, members, places, stage, pull)

    def _states(self, codes: Codes) -> Iterator[State]:
        """States of all arms by their codes, (states, arms)."""
        return map(State, self.g[codes].tolist(), (self.n - self.g)[codes].tolist())

    def _may_tie(self, rows: Codes, places: Places) -> npt.NDArray[np.bool_]:
        """Rows with merged arms in different states that a position may tell apart.

        Those of equal pulls; where arms of two groups alternate, all.
        """
        found = np.zeros(len(rows), np.bool_)
        alternate = bool(np.any(places.last[:-1] > places.first[1:]))
        for begin, end in zip(places.start[:-1], places.start[1:], strict=True):
            own = rows[:, begin:end]  # sorted
            alike = alternate | (np.diff(self.n[own], axis=1) == 0)
            found |= (alike & (np.diff(own, axis=1) != 0)).any(axis=1)
        return found

    def _places(self, merged: bool, ties: str | None) -> tuple[Members, Places]:
        """Classes of arms, and their slots. Every arm has one where there is no rule for ties."""
        groups, spent = self.problem.groups, int(self.problem.pulls.sum())
        truth = self.truth or (-1.0,) * self.problem.n_arms
        classes: dict[tuple[int, float], list[int]] = {}
        for arm, group in enumerate(self.problem.group_of_arm.tolist()):
            classes.setdefault((group, truth[arm] if merged else arm), []).append(arm)
        members = list(classes.values())
        # unpulled arms of one group have one index, so the rule takes them in order of position
        turn = [g.members if ties is None else g.members[:: -1 if ties == "last" else 1][:spent]
                for g in groups]  # fmt: skip
        touched = {arm for arms in turn for arm in arms}
        slots = [min(spent, len(arms)) if merged else int(arms[0] in touched) for arms in members]
        return members, Places(
            start=np.cumsum([0, *slots]),
            group=np.array([group for group, _ in classes]),
            surplus=np.array([len(arms) - k for arms, k in zip(members, slots, strict=True)]),
            first=np.array([arms[0] for arms in members]),
            last=np.array([arms[-1] for arms in members]),
            truth=np.array([truth[arms[0]] for arms in members]),
        )

    def _stage(self, t: int, index: Floats, ties: TieRule) -> Stage:
        problem, groups = self.problem, self.problem.groups
        by_pulls, by_position = TIE_SIGNS[ties]
        less = self._less(t)
        ended = t + 1 == problem.stages and self.truth is None and not self.tabled
        return Stage(
            indices=index,
            alpha=np.array([group.alpha for group in groups]),
            beta=np.array([group.beta for group in groups]),
            good=np.array([group.reward_good[t] - less for group in groups]),
            bad=np.array([group.reward_bad[t] - less for group in groups]),
            pulls=round(problem.pulls[t]),
            tolerance=tie_tolerance(problem),
            by_pulls=by_pulls,
            by_position=by_position,
            # a deployed arm earns by its success probability: there is no outcome to wait for
            follows=0 if ended else 2 if t < problem.horizon else 1,
        )

    def _run(
        self, merged: bool, members: Members, places: Places, stage: Callable[[int], Stage],
        pull: Pull,
    ) -> Total | None:  # fmt: skip
        """All stages in order; None if a tie depends on the order of merged arms."""
        stages, arms = self.problem.stages, self.problem.n_arms
        total = Total(merged, np.zeros(stages), np.zeros(arms))
        slots, columns = int(places.start[-1]), 1 if self.truth is None else 3
        limit = min(self.limit, _states_that_fit(4 * slots + 8 * columns))
        level, used = empty_level(1, slots, columns), 1
        level.rows[0], level.moments[0] = 0, np.eye(columns)[0]
        for t in range(stages):
            now, pulls = stage(t), np.zeros((len(members), slab_size(t)))
            after, found = empty_level(1024 + used if now.follows else 1, slots, columns), 0
            total.states += used
            for i in range(0, used, CHUNK):
                after, found, earned, unclear = pull(
                    level, i, min(i + CHUNK, used), places, now, after, found,
                    limit - total.states, pulls,
                )  # fmt: skip
                if unclear:
                    return None
                total.rewards[t] += earned
                self._report(t, total.states, total.states + found, limit)
            total.probability = float(level.moments[:used, 0].sum())
            total.rewards[t] += total.probability * now.pulls * self._less(t)
            for own, pulled in zip(members, pulls.sum(axis=1), strict=True):
                total.pulls[own] += pulled / len(own) if t < self.problem.horizon else 0.0
            if self.watch is not None:
                masses = _masses(places, level.rows[:used], level.moments[:used, 0], pulls.shape)
                self.watch(t, Occupied(members, places.group, masses, pulls))
            if now.follows:
                level, used = after, found
        self._close(total, places, level.rows[:used], level.moments[:used])
        return total

    def _less(self, stage: int) -> float:
        return 0.0 if self.truth is None else middle(self.problem, stage)

    def _report(self, stage: int, states: int, found: int, limit: int) -> None:
        heed_interrupt()
        stages = self.problem.stages
        ahead = (found - states) * (self.problem.horizon - stage - 1)
        if found > limit or ahead > SHRINKING * self.limit:
            raise too_many_states(limit, stage, stages)
        if self.progress is not None:
            arms, note = self.problem.n_arms, f"stage {stage} of {stages}, {states:,} states"
            self.progress(Progress.of_growing_stages(self.name, stage, stages, arms, note))

    def _close(self, total: Total, places: Places, rows: Codes, moments: Floats) -> None:
        """Add last rewards; at given true success probabilities, also variance and best arm."""
        last = np.zeros(len(rows))
        for c, codes, count in _columns(places, rows):
            terminal = self.problem.groups[places.group[c]].terminal
            if terminal is not None:
                last += count * terminal[codes]
        total.last_reward = float(moments[:, 0] @ last)
        if self.truth is not None:
            total.variance = variance(moments, last)
            means = [(g.alpha + self.g) / (g.alpha + g.beta + self.n) for g in self.problem.groups]
            arms = [
                (means[places.group[c]][codes], float(places.truth[c]), count)
                for c, codes, count in _columns(places, rows)
            ]
            total.best_arm = float(moments[:, 0] @ share_of_best(arms))


def merges(policy: Policy) -> bool:
    """Whether exchangeable arms may be merged, as long as positions break no tie."""
    return policy.symmetric and policy.ties not in ("first", "last")


def too_many_states(limit: int, stage: int, stages: int) -> TooManyStates:
    """The refusal, which says what to do."""
    return TooManyStates(
        f"exact evaluation reaches more than {limit} states (seen at stage {stage + 1} of "
        f"{stages}); simulate the policy ('deco simulate'), or, in Python, pass a larger "
        "limit_states where memory allows"
    )


def stage_table(policy: Policy, stage: int) -> Floats:
    """The indices of a stage, (groups, slab); refused where one is missing."""
    index = np.array(policy.stage_index(stage), dtype=float, order="C")
    if index.shape != (len(policy.problem.groups), slab_size(stage)) or np.isnan(index).any():
        raise ValueError(f"{policy.name!r}: not one number per state at stage {stage}")
    return index


def middle(problem: Problem, stage: int) -> float:
    """What a pull of a stage earns before anything is known, over all groups."""
    fresh = [
        float(group.model.mean(np.array(group.model.initial(), float))) for group in problem.groups
    ]
    earned = [
        group.reward_base[stage] + group.reward_factor[stage] * mean
        for group, mean in zip(problem.groups, fresh, strict=True)
    ]
    return float(np.mean(earned))


def variance(moments: Floats, last: Floats) -> float:
    """Variance of the reward, `last` (states,) on top of what the moments (states, 3) have."""
    w, first, second = moments.T
    mean = float(first.sum() + w @ last)
    square = float(second.sum() + (2.0 * first + w * last) @ last)
    return max(0.0, square - mean**2)  # below zero only by rounding


def _masses(places: Places, rows: Codes, weights: Floats, shape: tuple[int, ...]) -> Floats:
    """Expected number of arms of each class in each state, (classes, codes)."""
    masses = np.zeros(shape)
    for c, codes, count in _columns(places, rows):
        masses[c] += count * np.bincount(codes, weights, shape[1])
    return masses


def _columns(places: Places, rows: Codes) -> Iterator[tuple[int, Codes, int]]:
    """Every slot and every surplus: class, code in each state, number of arms."""
    for c in range(places.group.size):
        for s in range(places.start[c], places.start[c + 1]):
            yield c, rows[:, s], 1
        if places.surplus[c] > 0:
            yield c, np.zeros(len(rows), np.int32), int(places.surplus[c])


def actions(policy: Policy, state: State, problem: Problem, pulls: int) -> Distribution:
    """Sets of arms that the policy may pull, with their probabilities."""
    stage = state.stage(problem.pulls_per_stage)
    if policy.has_distribution:
        found = policy.distribution(stage, state)
    else:
        found = [(policy.select(stage, state), 1.0)]
    for arms, _ in found:
        known = all(0 <= arm < problem.n_arms for arm in arms)
        if not known or len(arms) != pulls or len(set(arms)) != pulls:
            raise ValueError(
                f"the policy pulls {arms} at stage {stage}; must be {pulls} different arms"
            )
    if not abs(sum(share for _, share in found) - 1.0) < 1e-9:
        raise ValueError(f"the policy's probabilities at stage {stage} do not add up to 1")
    return found


def _states_that_fit(bytes_per_state: int) -> int:
    """States of two stages in the share of memory; arrays and tables grow by doubling."""
    return int(MEMORY_SHARE * available_bytes() / (2 * bytes_per_state + 64))
