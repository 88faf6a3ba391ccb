"""The exact optimum where arms have other outcomes than good or bad, but finitely many: small ones.

States of all arms together are listed stage by stage, exchangeable arms in any order, then valued
backward by Bellman's equation. Plain Python: problems of some ten thousand states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from math import inf, prod

import numpy as np

from ..problem import Problem, Stats

MOST_STATES = 200_000
ArmState = tuple[int, Stats]  # group, statistics
Joint = tuple[ArmState, ...]  # sorted


def joint_kind_states(problem: Problem) -> float:
    """Joint states of all stages, exchangeable arms in any order: an upper bound, none is made.

    f[j, n]: ways in which j arms of a group share n pulls; i arms of the s states after r pulls
    are C(s + i - 1, i) multisets.
    """
    if not all(group.model.finite for group in problem.groups):
        return inf
    most = problem.horizon * problem.pulls_per_stage
    together = np.eye(1, most + 1)[0]
    for group in problem.groups:
        f = np.zeros((group.count + 1, most + 1))
        f[0, 0] = 1.0
        for r in range(most + 1):
            states, later = group.model.states(r), f.copy()
            ways = 1.0
            for i in range(1, group.count + 1):
                if i * r > most or ways == inf:
                    break
                ways *= (states + i - 1.0) / i
                later[i:, i * r :] += ways * f[: group.count + 1 - i, : most + 1 - i * r]
            f = later
        together = np.convolve(together, f[group.count])[: most + 1]
    return float(together[:: problem.pulls_per_stage].sum())


@dataclass(frozen=True, eq=False)
class KindValues:
    """The values of all joint states, stage by stage; the last are those of the end."""

    problem: Problem
    levels: list[dict[Joint, float]]

    @property
    def value(self) -> float:
        """The optimum."""
        return next(iter(self.levels[0].values()))

    @property
    def states(self) -> int:
        """Of all stages."""
        return sum(map(len, self.levels))

    def joint(self, stats: Sequence[Stats]) -> Joint:
        """The joint state of arms with these statistics, in order of the problem."""
        return tuple(sorted(zip(self.problem.group_of_arm.tolist(), stats, strict=True)))

    def worth(self, stage: int, joint: Joint, pulled: tuple[int, ...]) -> float:
        """Expected reward of pulls of the arms at these positions of a joint state, then the best.

        A ValueError where no pulls lead to the state.
        """
        later = self.levels[stage + 1]
        try:
            rest = sum(p * later[after] for p, after in _after(self.problem, joint, pulled))
        except KeyError:
            raise ValueError(f"state before stage {stage}: no pulls lead to it") from None
        return rest + sum(_reward(self.problem, stage, *joint[i]) for i in pulled)


def kind_values(problem: Problem) -> KindValues:
    """Values of all joint states; a ValueError where they are too many."""
    _refuse_many(problem)
    start: Joint = tuple(
        sorted((int(k), problem.groups[k].model.initial()) for k in problem.group_of_arm)
    )
    m = problem.pulls_per_stage
    levels: list[dict[Joint, float]] = [{start: 0.0}]
    for _ in range(problem.horizon):
        reached: dict[Joint, float] = {}
        for joint in levels[-1]:
            for pulled in _choices(joint, m):
                for _, after in _after(problem, joint, pulled):
                    reached[after] = 0.0
        levels.append(reached)
    for joint in levels[-1]:
        levels[-1][joint] = _last(problem, joint)
    found = KindValues(problem, levels)
    for t in range(problem.horizon - 1, -1, -1):
        for joint in levels[t]:
            levels[t][joint] = max(found.worth(t, joint, pulled) for pulled in _choices(joint, m))
    return found


def _refuse_many(problem: Problem) -> None:
    for group in problem.groups:
        if not group.model.finite:
            raise ValueError(
                f"exact optimum: {group.model.word} arms have infinitely many states; use 'deco "
                "solve' for a bound"
            )
    foretold = joint_kind_states(problem)
    if foretold > MOST_STATES:
        raise ValueError(
            f"exact optimum needs {foretold:.2g} states of all arms together (limit "
            f"{MOST_STATES:,}); use 'deco solve' for a bound"
        )


@cache
def _choices(joint: Joint, m: int) -> tuple[tuple[int, ...], ...]:
    """Positions of m arms, those alike taken once."""
    found = {
        tuple(joint[i] for i in pulled): pulled for pulled in combinations(range(len(joint)), m)
    }
    return tuple(found.values())


def _after(
    problem: Problem, joint: Joint, pulled: tuple[int, ...]
) -> Iterator[tuple[float, Joint]]:
    """Chances of the outcomes of these pulls, and the joint states after them."""
    rest = [arm for i, arm in enumerate(joint) if i not in pulled]
    each = [
        [(p, (joint[i][0], after)) for p, after in _following(problem, *joint[i])] for i in pulled
    ]
    for outcome in product(*each):
        yield prod(p for p, _ in outcome), tuple(sorted([*rest, *(arm for _, arm in outcome)]))


def _following(problem: Problem, group: int, stats: Stats) -> list[tuple[float, Stats]]:
    return problem.groups[group].model.following(stats)


def _reward(problem: Problem, t: int, group: int, stats: Stats) -> float:
    own = problem.groups[group]
    mean = float(own.model.mean(np.array(stats, dtype=float)))
    return float(own.reward_base[t] + own.reward_factor[t] * mean)


def _last(problem: Problem, joint: Joint) -> float:
    if problem.terminal is None:  # tables of last rewards, if any
        own = ((problem.groups[k], np.array(stats, dtype=float)) for k, stats in joint)
        return sum(float(group.last_rewards(stats)) for group, stats in own)
    return max(_reward(problem, problem.horizon, *arm) for arm in joint)
