"""A policy followed forward where arms have other outcomes than good or bad, but finitely many.

Joint states are listed stage by stage, with moments (3,): their probability w, and, X being the
reward so far as in `forward`, w E[X | state] and w E[X^2 | state], the latter two only where the
truth is known.
Exchangeable arms are sorted if the policy declares that it is `symmetric`, unless ties between
those in different states go by their position: then they are followed again, each by itself. Plain
Python: some 100,000 states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations, product

import numpy as np

from ..joint import stored_states
from ..policies import Policy, TooManyStates
from ..policies.kinds.base import KindPolicy
from ..problem import (
    Group,
    KindTruth,
    Problem,
    State,
    States,
    Stats,
    share_of_best,
    tie_tolerance,
)
from ..support import Floats, Ints, Progress, Report
from .forward import Total, actions, merges, middle, variance

LIMIT_KIND_STATES = 200_000
Joint = tuple[Stats, ...]  # of every arm
Shares = list[tuple[tuple[int, ...], float]]  # arms to pull, probability


@dataclass(frozen=True, eq=False)
class KindLevel:
    """The joint states of a stage, and what the policy does in them."""

    stats: list[Floats]  # (N, width) of every arm
    chances: Floats  # (N,)
    pulled: Floats  # (N, K) chance that an arm is pulled


class _Positions(Exception):
    """Which of exchangeable arms is pulled depends on where they stand."""


KindWatch = Callable[[int, KindLevel], None]


class KindForward:
    """One evaluation."""

    def __init__(
        self,
        policy: Policy,
        truth: KindTruth | None,
        limit: int,
        progress: Report | None,
        watch: KindWatch | None = None,
    ) -> None:
        self.policy, self.problem, self.truth = policy, policy.problem, truth
        refuse_infinite(self.problem)
        self.limit, self.progress, self.watch = min(limit, LIMIT_KIND_STATES), progress, watch
        self.arms: list[Group] = [self.problem.groups[k] for k in self.problem.group_of_arm]
        self.merged = truth is None and merges(policy) and isinstance(policy, KindPolicy)
        self._following = cache(self._outcomes)
        self._middle = cache(partial(middle, self.problem))

    def run(self) -> Total:
        """Follow all stages."""
        try:
            return self._run()
        except _Positions:
            self.merged = False
            return self._run()

    def _run(self) -> Total:
        problem, start = self.problem, tuple(group.model.initial() for group in self.arms)
        total = Total(self.merged, np.zeros(problem.stages), np.zeros(problem.n_arms))
        level: dict[Joint, Floats] = {start: np.array([1.0, 0.0, 0.0])}
        for t in range(problem.stages):
            total.states += len(level)
            level = self._stage(t, level, total)
        moments, last = np.stack(list(level.values())), self._last_rewards(list(level))
        total.probability = float(moments[:, 0].sum())
        total.last_reward = float(moments[:, 0] @ last)
        if self.truth is not None:
            total.variance = variance(moments, last)
            total.best_arm = self._chance_of_best(level)
        return total

    def _last_rewards(self, states: list[Joint]) -> Floats:
        """By tables, of all arms together, (states,)."""
        last = np.zeros(len(states))
        for k, group in enumerate(self.arms):
            last += group.last_rewards(np.array([joint[k] for joint in states], dtype=float))
        return last

    def _stage(self, t: int, level: dict[Joint, Floats], total: Total) -> dict[Joint, Floats]:
        states = list(level)
        chances = np.array([moments[0] for moments in level.values()])
        stats = [np.array([own[k] for own in states], dtype=float) for k in range(len(self.arms))]
        shares = self._shares(t, states, stats)
        pulled, after = np.zeros((len(states), len(self.arms))), dict[Joint, Floats]()
        for i, (joint, moments) in enumerate(level.items()):
            for arms, share in shares[i]:
                pulled[i, list(arms)] += share
                self._pull(t, joint, share * moments, arms, after)
            if len(after) > self.limit:
                self._refuse(t)
            if self.progress is not None and i % 1000 == 0:
                name, stages = self.policy.name, self.problem.stages
                note = f"stage {t} of {stages}"
                self.progress(Progress.of_growing_stages(name, t, stages, len(self.arms), note))
        if self.watch is not None:
            self.watch(t, KindLevel(stats, chances, pulled))
        for k, group in enumerate(self.arms):
            expected = group.reward_base[t] + group.reward_factor[t] * self._means(k, stats[k])
            total.rewards[t] += float((chances * pulled[:, k]) @ expected)
            total.pulls[k] += float(chances @ pulled[:, k]) if t < self.problem.horizon else 0.0
        return after

    def _means(self, arm: int, stats: Floats) -> Floats:
        """Expected value of the next outcome."""
        kind = self.arms[arm].model
        if self.truth is None or not self.truth[arm]:
            return kind.mean(stats)
        return np.full(len(stats), float(kind.mean_at(np.array(self.truth[arm]))))

    def _shares(self, t: int, states: list[Joint], stats: list[Floats]) -> list[Shares]:
        """What the policy pulls in every state."""
        made = (State.of_stats(self.problem, joint) for joint in states)
        if not isinstance(self.policy, KindPolicy):
            pulls_now = round(self.problem.pulls[t])
            return [actions(self.policy, state, self.problem, pulls_now) for state in made]
        if self.policy.ties == "random":
            return [
                [(tuple(np.flatnonzero(given).tolist()), share) for given, share in own]
                for own in (self.policy.allotments(t, state) for state in made)
            ]
        known = np.zeros((len(states), len(stats), max(own.shape[1] for own in stats)))
        for k, own in enumerate(stats):
            known[:, k, : own.shape[1]] = own
        joint = States(self.problem, known)
        if self.policy.randomised:
            chances = self.policy.probabilities(t, joint)
            return [
                [((k,), float(row[k])) for k in np.flatnonzero(row).tolist()] for row in chances
            ]
        given = self.policy.allocate_many(t, joint)
        if self.merged:
            self._check_ties(self.policy.values_at(t, joint), stats, joint.pulls, given)
        return [[(tuple(np.flatnonzero(row).tolist()), 1.0)] for row in given]

    def _check_ties(self, values: Floats, stats: list[Floats], pulls: Ints, given: Ints) -> None:
        """`_Positions` where an arm is pulled for the position of merged arms alone."""
        near, group_of = tie_tolerance(self.problem), self.problem.group_of_arm
        members = [group.members for group in self.problem.groups]
        for a, b in permutations(range(len(self.arms)), 2):
            one, other = sorted([members[group_of[a]], members[group_of[b]]])
            if one != other and one[-1] < other[0]:
                continue
            tied = (given[:, a] > 0) & (given[:, b] == 0) & (pulls[:, a] == pulls[:, b])
            tied &= np.abs(values[:, a] - values[:, b]) <= near
            if np.any(tied if one != other else np.any(stats[a] != stats[b], axis=1)[tied]):
                raise _Positions

    def _pull(
        self,
        t: int,
        joint: Joint,
        moments: Floats,
        arms: tuple[int, ...],
        after: dict[Joint, Floats],
    ) -> None:
        """Add the states that outcomes of these arms lead to."""
        less = self._middle(t)
        if t >= self.problem.horizon:  # a deployment: nothing is observed
            reward = sum(self._deployed(arm, joint[arm]) - less for arm in arms)
            _add(after, joint, _moved(moments, 1.0, reward))
            return
        each = [self._following(arm, t, joint[arm]) for arm in arms]
        for outcomes in product(*each):
            chance, reward, stats = 1.0, 0.0, list(joint)
            for arm, (p, earned, own) in zip(arms, outcomes, strict=True):
                chance, reward, stats[arm] = chance * p, reward + earned - less, own
            _add(after, self._sorted(stats), _moved(moments, chance, reward))

    def _outcomes(self, arm: int, t: int, stats: Stats) -> list[tuple[float, float, Stats]]:
        """Chances of the outcomes of a pull, what they earn, and the statistics after them."""
        group = self.arms[arm]
        parameters = None if self.truth is None else self.truth[arm]
        known = np.array(stats, dtype=float)
        found = []
        for number, (chance, after) in enumerate(group.model.following(stats, parameters)):
            value = float(group.model.value(known, np.array(float(number))))
            found.append((chance, float(group.earned([t], np.array([value]))[0]), after))
        return found

    def _deployed(self, arm: int, stats: Stats) -> float:
        group, t = self.arms[arm], self.problem.horizon
        mean = self._means(arm, np.array([stats], dtype=float))[0]
        return float(group.reward_base[t] + group.reward_factor[t] * mean)

    def _sorted(self, stats: list[Stats]) -> Joint:
        if self.merged:
            for group in self.problem.groups:
                own = sorted((stats[arm] for arm in group.members), reverse=True)
                for arm, each in zip(group.members, own, strict=True):
                    stats[arm] = each
        return tuple(stats)

    def _chance_of_best(self, level: dict[Joint, Floats]) -> float | None:
        """That the arm of largest posterior mean is one of largest true mean."""
        assert self.truth is not None
        if not all(self.truth):
            return None  # own states: no mean is true
        states, chances = list(level), np.array([moments[0] for moments in level.values()])
        arms = []
        for k, (group, own) in enumerate(zip(self.arms, self.truth, strict=True)):
            stats = np.array([joint[k] for joint in states], dtype=float)
            arms.append((group.model.mean(stats), float(group.model.mean_at(np.array(own))), 1))
        return float(chances @ share_of_best(arms))

    def _refuse(self, t: int) -> None:
        most = sum(stored_states(self.problem))
        raise TooManyStates(
            f"{self.policy.name} reaches more than {self.limit:,} states at stage {t + 1}; all "
            f"stages have up to {most:.2g}: simulate it"
        )


def refuse_infinite(problem: Problem, what: str = "exact evaluation") -> None:
    """A ValueError where an arm has infinitely many states."""
    for group in problem.groups:
        if not group.model.finite:
            raise ValueError(
                f"{what}: {group.model.word} arms have infinitely many states; simulate it"
            )


def _moved(moments: Floats, chance: float, reward: float) -> Floats:
    w, first, second = moments
    return chance * np.array([w, first + reward * w, second + 2 * reward * first + reward**2 * w])


def _add(after: dict[Joint, Floats], joint: Joint, moments: Floats) -> None:
    found = after.get(joint)
    after[joint] = moments if found is None else found + moments


def watched_arms(level: KindLevel) -> Iterator[tuple[int, Floats, Floats, Floats]]:
    """Of every arm its statistics, the chances of the states, and those that it is pulled."""
    for k, own in enumerate(level.stats):
        yield k, own, level.chances, level.chances * level.pulled[:, k]
