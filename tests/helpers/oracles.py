"""Slow and obvious versions of what the package computes: the second road of the tests.

They read a problem arm by arm, never through its groups, and know nothing of slabs, bands or
threads. A state of one arm is (t, n, g): stage, pulls, good outcomes among them.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_array

from decobandit.problem import Arm, Problem

Prices = Sequence[float] | npt.NDArray[np.float64]
FEASIBILITY = 1e-10  # of the linear programs, the smallest that HiGHS takes


# -- one arm ------------------------------------------------------------------------------------


def good_chance(arm: Arm, n: int, g: int) -> float:
    """Posterior mean of the success probability."""
    return (arm.beta.good + g) / (arm.beta.good + arm.beta.bad + n)


def rewards(problem: Problem, arm: Arm, t: int) -> tuple[float, float]:
    """What a good and a bad outcome earn at stage t; stage `horizon` is the deployment."""
    if t == problem.horizon:
        assert problem.terminal is not None
        return problem.terminal.deploy, 0.0
    good, bad = arm.reward.good, arm.reward.bad
    return (
        good[t] if isinstance(good, tuple) else good,
        bad[t] if isinstance(bad, tuple) else bad,
    )


def expected_reward(problem: Problem, arm: Arm, t: int, n: int, g: int) -> float:
    p = good_chance(arm, n, g)
    good, bad = rewards(problem, arm, t)
    return p * good + (1 - p) * bad


class OneArm:
    """Bellman's equation of one arm at given prices, eq. (Pdyna) of the paper."""

    def __init__(self, problem: Problem, arm: Arm, prices: Prices) -> None:
        stages = problem.horizon + (problem.terminal is not None)
        assert len(prices) == stages

        @cache
        def V(t: int, n: int, g: int) -> float:  # noqa: N802
            if t == stages:
                return 0.0 if arm.terminal is None else arm.terminal[n][g]
            p = good_chance(arm, n, g)
            now = expected_reward(problem, arm, t, n, g) - prices[t]
            pull = now + p * V(t + 1, n + 1, g + 1) + (1 - p) * V(t + 1, n + 1, g)
            return max(V(t + 1, n, g), pull)

        self.value = V
        self._problem, self._arm = problem, arm

    def ell(self, t: int, n: int, g: int) -> float:
        return expected_reward(self._problem, self._arm, t, n, g)

    def delta(self, t: int, n: int, g: int) -> float:
        """Value of information: what a pull adds to the value of the next stage."""
        p, V = good_chance(self._arm, n, g), self.value
        return p * V(t + 1, n + 1, g + 1) + (1 - p) * V(t + 1, n + 1, g) - V(t + 1, n, g)

    def index(self, t: int, n: int, g: int) -> float:
        return self.ell(t, n, g) + self.delta(t, n, g)

    def slab(self, t: int) -> npt.NDArray[np.float64]:
        """V_t of all states in the order (0,0), (1,0), (1,1), (2,0), ..."""
        return np.array([self.value(t, n, g) for n in range(t + 1) for g in range(n + 1)])


def contents(arm: Arm) -> tuple[object, ...]:
    """What makes arms equal, as written: a list and a number are not the same here."""
    return arm.prior, arm.reward, arm.terminal


def one_arms(problem: Problem, prices: Prices) -> list[OneArm]:
    """The one-arm problem of every arm; arms written alike share theirs."""
    made: dict[object, OneArm] = {}
    for arm in problem.arms:
        if contents(arm) not in made:
            made[contents(arm)] = OneArm(problem, arm, prices)
    return [made[contents(arm)] for arm in problem.arms]


def stage_pulls(problem: Problem) -> list[int]:
    """Arms pulled at each stage, the deployment included."""
    return [problem.pulls_per_stage] * problem.horizon + [1] * (problem.terminal is not None)


def dual(problem: Problem, prices: Prices) -> float:
    """The dual function: sum over arms of V_0, plus what the pulls cost."""
    spent = math.fsum(m * mu for m, mu in zip(stage_pulls(problem), prices, strict=True))
    return math.fsum(arm.value(0, 0, 0) for arm in one_arms(problem, prices)) + spent


# -- forward ------------------------------------------------------------------------------------


class Flow(NamedTuple):
    """Expected reward and expected pulls of each stage."""

    reward: float
    pulls: list[float]


def _last_reward(arm: Arm, n: int, g: int) -> float:
    return 0.0 if arm.terminal is None else arm.terminal[n][g]


def relaxed(problem: Problem, arm: Arm, prices: Prices) -> Flow:
    """The arm alone, pulled where its index is above the price."""
    solved = OneArm(problem, arm, prices)
    mass: dict[tuple[int, int], float] = {(0, 0): 1.0}
    reward, pulls = 0.0, []
    for t, price in enumerate(prices):
        after: defaultdict[tuple[int, int], float] = defaultdict(float)
        pulled = 0.0
        for (n, g), x in mass.items():
            if solved.index(t, n, g) > price:
                p = good_chance(arm, n, g)
                after[n + 1, g + 1] += x * p
                after[n + 1, g] += x * (1 - p)
                reward += x * solved.ell(t, n, g)
                pulled += x
            else:
                after[n, g] += x
        mass = after
        pulls.append(pulled)
    return Flow(reward + sum(x * _last_reward(arm, n, g) for (n, g), x in mass.items()), pulls)


Masses = dict[tuple[int, int, int], float]  # (arm, n, g): probability


def cleared(problem: Problem, prices: Prices) -> tuple[Flow, list[Masses]]:
    """All arms, pulled in order of index until the pulls of the stage are spent, ties in parts.

    Returns also the masses at the beginning of every stage.
    """
    solved = one_arms(problem, prices)
    mass: Masses = {(a, 0, 0): 1.0 for a in range(len(solved))}
    reward, before = 0.0, []
    for t, m in enumerate(stage_pulls(problem)):
        before.append(mass)
        index = {state: solved[state[0]].index(t, *state[1:]) for state in mass}
        left = float(m)
        after: defaultdict[tuple[int, int, int], float] = defaultdict(float)
        for level in sorted(set(index.values()), reverse=True):
            tied = [state for state in mass if index[state] == level]
            weight = sum(mass[state] for state in tied)
            part = min(1.0, left / weight) if weight > 0 else 0.0
            left -= part * weight
            for a, n, g in tied:
                x, p = mass[a, n, g], good_chance(problem.arms[a], n, g)
                after[a, n, g] += x * (1 - part)
                after[a, n + 1, g + 1] += x * part * p
                after[a, n + 1, g] += x * part * (1 - p)
                reward += x * part * solved[a].ell(t, n, g)
        mass = after
    last = sum(x * _last_reward(problem.arms[a], n, g) for (a, n, g), x in mass.items())
    return Flow(reward + last, [float(m) for m in stage_pulls(problem)]), before


# -- the dual minimum, as a linear program ------------------------------------------------------


def occupancy_lp(problem: Problem) -> float:
    """The minimum of the dual function: the value of the relaxed problem over occupancies.

    A variable is the expected number of arms of one kind that are in a state at a stage and are
    pulled (1) or not (0). Mass is conserved, and the pulls of each stage are as required.
    """
    kinds = Counter(contents(arm) for arm in problem.arms)
    arm_of = {contents(arm): arm for arm in problem.arms}
    pulls = stage_pulls(problem)
    stages = len(pulls)
    rows: dict[object, int] = {("pulls", t): t for t in range(stages)}
    right: dict[object, float] = {("pulls", t): float(m) for t, m in enumerate(pulls)}
    entries: list[tuple[int, int, float]] = []
    gain: list[float] = []

    def put(row: object, column: int, x: float) -> None:
        entries.append((rows.setdefault(row, len(rows)), column, x))

    for kind, (content, count) in enumerate(kinds.items()):
        arm = arm_of[content]
        right[kind, 0, 0, 0] = float(count)
        for t, n, g, pulled in _decisions(stages):
            column = len(gain)
            p = good_chance(arm, n, g)
            # what leaves state (t, n, g) enters its successors at t + 1
            put((kind, t, n, g), column, 1.0)
            successors = {(n + 1, g + 1): p, (n + 1, g): 1 - p} if pulled else {(n, g): 1.0}
            worth = expected_reward(problem, arm, t, n, g) if pulled else 0.0
            for (n1, g1), chance in successors.items():
                if t + 1 == stages:
                    worth += chance * _last_reward(arm, n1, g1)
                else:
                    put((kind, t + 1, n1, g1), column, -chance)
            if pulled:
                put(("pulls", t), column, 1.0)
            gain.append(worth)
    i, j, x = zip(*entries, strict=True)
    solved = linprog(
        -np.array(gain),
        A_eq=coo_array((x, (i, j)), shape=(len(rows), len(gain))).tocsc(),
        b_eq=np.array([right.get(row, 0.0) for row in rows]),
        method="highs",
        options={
            "primal_feasibility_tolerance": FEASIBILITY,
            "dual_feasibility_tolerance": FEASIBILITY,
        },
    )
    assert solved.status == 0, solved.message
    return -float(solved.fun)


def _decisions(stages: int) -> Iterator[tuple[int, int, int, int]]:
    for t in range(stages):
        for n in range(t + 1):
            for g in range(n + 1):
                yield t, n, g, 0
                yield t, n, g, 1
