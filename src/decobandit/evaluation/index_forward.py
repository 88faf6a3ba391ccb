"""Compiled forward recursion of index policies for single binary pulls; see `forward.py`.

States carry moments (3,): their probability w, and, X being the reward so far, w E[X | state] and
w E[X^2 | state]; the latter two only where the truth is known. Every pull of a stage counts in X
less `middle`: of rewards far from zero, E[X^2] and E[X]^2 would agree in all digits that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..policies import Policy
from ..problem import TIE_SIGNS, Problem, TieRule, Truth, tie_tolerance
from ..problem.kernels.layout import slab_size
from ..support import Floats, InvalidArgument, Progress, Report, available_bytes, heed_interrupt
from .forward import Occupied, Total, Watch, middle, middle_until, too_many_states
from .kernels.reach import Codes, Level, Places, Stage, empty_level, pull_largest

MEMORY_SHARE = 0.25  # of the available memory, for the states of two stages
# later stages have more states than those before them, or fewer by far less than this factor: where
# arms that are pulled in turn have equal numbers of pulls: more of their states are merged
SHRINKING = 8
CHUNK = 2_000  # states between two reports


# level, first state, one after the last, places, stage, level after, states in it, limit, pulls
# -> level after, states in it, expected reward, whether a tie asks for arms that are not merged
Pull = Callable[
    [Level, int, int, Places, Stage, Level, int, int, Floats], tuple[Level, int, float, bool]
]
Members = list[list[int]]  # positions of each class's arms


class IndexForward:
    """Forward recursion of one index policy."""

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
        """Prepare a recursion; name: of the policy, for progress reports."""
        self.name = name
        self.problem, self.truth, self.limit, self.progress = problem, truth, limit, progress
        self.watch = watch
        self.tabled = any(group.terminal is not None for group in problem.groups)
        rows = np.arange(problem.stages + 1)
        self.n = np.repeat(rows, rows + 1)  # pulls of each code
        self.g = np.arange(self.n.size) - self.n * (self.n + 1) // 2

    def by_index(self, policy: Policy) -> Total:
        """Follow an index policy by its tables."""

        def stage(t: int) -> Stage:
            return self._stage(t, stage_table(policy, t), policy.ties)

        if self.truth is None or policy.ties == "random":
            total = self._run(True, *self._places(True, policy.ties), stage, pull_largest)
            if total is not None:
                return total
        total = self._run(False, *self._places(False, policy.ties), stage, pull_largest)
        assert total is not None, "arms with slots of their own have positions"
        return total

    def _places(self, merged: bool, ties: str | None) -> tuple[Members, Places]:
        """Return classes of arms and their slots; without a tie rule every arm has a slot."""
        groups, spent = self.problem.groups, int(self.problem.pulls.sum())
        truth = self.truth or (-1.0,) * self.problem.n_arms
        classes: dict[tuple[int, float], list[int]] = {}
        for arm, group in enumerate(self.problem.group_of_arm.tolist()):
            classes.setdefault((group, truth[arm] if merged else arm), []).append(arm)
        members = list(classes.values())
        # unpulled arms of one group have one index, so the rule takes them in order of position
        turn = [
            g.members if ties is None else g.members[:: -1 if ties == "last" else 1][:spent]
            for g in groups
        ]
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
        less, played = self._less(t), problem.survival[t]
        ended = t + 1 == problem.stages and self.truth is None and not self.tabled
        return Stage(
            indices=index,
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

    def _run(
        self,
        merged: bool,
        members: Members,
        places: Places,
        stage: Callable[[int], Stage],
        pull: Pull,
    ) -> Total | None:
        """Process all stages; return None if a tie depends on the order of merged arms."""
        stages, arms = self.problem.stages, self.problem.n_arms
        total = Total(merged, np.zeros(stages), np.zeros(arms))
        slots, columns = int(places.start[-1]), 1 if self.truth is None else 3
        limit = min(self.limit, _states_that_fit(4 * slots + 8 * columns))
        level, used = empty_level(1, slots, columns), 1
        level.rows[0], level.moments[0] = 0, np.eye(columns)[0]
        for t in range(stages):
            self._close(t, total, places, level.rows[:used], level.moments[:used])
            now, pulls = stage(t), np.zeros((len(members), slab_size(t)))
            after, count = empty_level(1024 + used if now.follows else 1, slots, columns), 0
            total.states += used
            for i in range(0, used, CHUNK):
                after, count, earned, unclear = pull(
                    level,
                    i,
                    min(i + CHUNK, used),
                    places,
                    now,
                    after,
                    count,
                    limit - total.states,
                    pulls,
                )
                if unclear:
                    return None
                total.rewards[t] += self.problem.survival[t] * earned
                self._report(t, total.states, total.states + count, limit)
            total.probability = float(level.moments[:used, 0].sum())
            usual = total.probability * now.pulls * self._less(t)
            total.rewards[t] += self.problem.survival[t] * usual
            for positions, pulled in zip(members, pulls.sum(axis=1), strict=True):
                if t < self.problem.horizon:
                    total.pulls[positions] += self.problem.survival[t] * pulled / len(positions)
            if self.watch is not None:
                masses = _masses(places, level.rows[:used], level.moments[:used, 0], pulls.shape)
                resting = np.maximum(masses - pulls, 0.0)  # below zero only by rounding
                size = slab_size(t)
                stats = np.stack([self.g, self.n - self.g], axis=1)[:size].astype(float)
                self.watch(
                    t,
                    [
                        Occupied(positions, group, stats, np.stack([resting[c], pulls[c]], axis=1))
                        for c, (positions, group) in enumerate(
                            zip(members, places.group.tolist(), strict=True)
                        )
                    ],
                )
            if now.follows:
                level, used = after, count
        self._close(stages, total, places, level.rows[:used], level.moments[:used])
        return total

    def _less(self, stage: int) -> float:
        return 0.0 if self.truth is None else middle(self.problem, stage)

    def _report(self, stage: int, states: int, next_states: int, limit: int) -> None:
        heed_interrupt()
        stages = self.problem.stages
        ahead = (next_states - states) * (self.problem.horizon - stage - 1)
        if next_states > limit or ahead > SHRINKING * self.limit:
            raise too_many_states(limit, stage, stages)
        if self.progress is not None:
            done = (stage, stages, self.problem.n_arms, states)
            self.progress(Progress.of_growing_stages(self.name, *done))

    def _close(self, t: int, total: Total, places: Places, rows: Codes, moments: Floats) -> None:
        """Add the trials that end before stage t: last rewards; at a truth, variance, best arm."""
        chance = float(self.problem.ends[t])
        if chance == 0.0 or (self.truth is None and t < self.problem.stages):
            return
        last = np.zeros(len(rows))
        for c, codes, count in _columns(places, rows):
            terminal = self.problem.groups[places.group[c]].terminal
            if terminal is not None:
                last += count * terminal[codes]
        means = [(g.alpha + self.g) / (g.alpha + g.beta + self.n) for g in self.problem.groups]
        laws = [
            (means[places.group[c]][codes], float(places.truth[c]), count)
            for c, codes, count in _columns(places, rows)
        ]
        less = 0.0 if self.truth is None else middle_until(self.problem, t)
        laws = [] if self.truth is None else laws
        total.close(moments, last, laws, chance=chance, less=less)


def stage_table(policy: Policy, stage: int) -> Floats:
    """Return the indices of a stage, (groups, slab); refused where one is missing."""
    index = np.array(policy.stage_index(stage), dtype=float, order="C")
    if index.shape != (len(policy.problem.groups), slab_size(stage)) or np.isnan(index).any():
        raise InvalidArgument(
            f"{policy.name!r}: not one number per state at stage {stage}", field="policy"
        )
    return index


def _masses(places: Places, rows: Codes, weights: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the expected number of arms of each class in each state, (classes, codes)."""
    masses = np.zeros(shape)
    for c, codes, count in _columns(places, rows):
        masses[c] += count * np.bincount(codes, weights, shape[1])
    return masses


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
