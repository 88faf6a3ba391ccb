"""Slow and obvious oracles for single-pull Bernoulli experiments with ends, windows and budgets.

`best` enumerates joint states; `relaxed` solves the occupancy linear program in which every
arm is followed alone and pulls, budget and deployments are met in expectation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import lil_array

State = tuple[int, int]  # good, bad outcomes


@dataclass(frozen=True)
class Experiment:
    """Bernoulli arms, one pull per stage, with optional features."""

    priors: Sequence[tuple[float, float]]
    horizon: int
    weights: Sequence[float] | None = None  # P(stage t is played)
    windows: Sequence[tuple[int, int] | None] | None = None  # stages at which an arm is there
    deploy: float = 0.0
    deploy_arms: int = 1
    costs: Sequence[float | Sequence[float]] | None = None
    budget: float | None = None

    def weight(self, stage: int) -> float:
        return 1.0 if self.weights is None else self.weights[stage]

    def allowed(self, arm: int, stage: int) -> bool:
        window = self.windows[arm] if self.windows else None
        return window is None or window[0] <= stage < window[1]

    def cost(self, arm: int, stage: int) -> float:
        own = 0.0 if self.costs is None else self.costs[arm]
        return own if isinstance(own, float | int) else own[stage]

    def mean(self, arm: int, state: State) -> float:
        good, bad = self.priors[arm]
        return (good + state[0]) / (good + bad + state[0] + state[1])


def best(e: Experiment) -> float:
    """Return the exact optimum by recursion over joint states and money spent."""

    @cache
    def value(stage: int, states: tuple[State, ...], spent: float) -> float:
        if stage == e.horizon:
            means = sorted((e.mean(k, s) for k, s in enumerate(states)), reverse=True)
            return e.deploy * sum(means[: e.deploy_arms])
        # a stage without a pull: always possible
        options = [value(stage + 1, states, spent)]
        for k, (good, bad) in enumerate(states):
            after = spent + e.cost(k, stage)
            if not e.allowed(k, stage) or (e.budget is not None and after > e.budget + 1e-12):
                continue
            p = e.mean(k, (good, bad))
            won = value(stage + 1, (*states[:k], (good + 1, bad), *states[k + 1 :]), after)
            lost = value(stage + 1, (*states[:k], (good, bad + 1), *states[k + 1 :]), after)
            options.append(e.weight(stage) * p + p * won + (1 - p) * lost)
        return max(options)

    return value(0, ((0, 0),) * len(e.priors), 0.0)


def relaxed(e: Experiment) -> float:
    """Return the value of the occupancy LP: the minimum of the dual function."""
    T, rows, limits = e.horizon, [], []
    reward: list[float] = []
    flow_rows: list[tuple[int, int, float]] = []
    flow_limits: list[float] = []
    used: list[list[tuple[int, float]]] = [[] for _ in range(T + 2)]  # stages, deployment, money

    def variable(gain: float) -> int:
        reward.append(gain)
        return len(reward) - 1

    for k in range(len(e.priors)):
        row_of: dict[tuple[int, State], int] = {}
        for t in range(T + 1):
            for n in range(t + 1):
                for g in range(n + 1):
                    row_of[t, (g, n - g)] = len(flow_limits)
                    flow_limits.append(1.0 if t == 0 else 0.0)
        for (t, state), row in row_of.items():
            p, (good, bad) = e.mean(k, state), state
            if t == T:
                keep = variable(e.deploy * p)
                used[T].append((keep, 1.0))
                flow_rows += [(row, keep, 1.0), (row, variable(0.0), 1.0)]
                continue
            rest = variable(0.0)
            flow_rows += [(row, rest, 1.0), (row_of[t + 1, state], rest, -1.0)]
            if e.allowed(k, t):
                pull = variable(e.weight(t) * p)
                used[t].append((pull, 1.0))
                used[T + 1].append((pull, e.cost(k, t)))
                flow_rows += [
                    (row, pull, 1.0),
                    (row_of[t + 1, (good + 1, bad)], pull, -p),
                    (row_of[t + 1, (good, bad + 1)], pull, p - 1.0),
                ]
    equal = lil_array((len(flow_limits), len(reward)))
    for row, column, number in flow_rows:
        equal[row, column] += number
    for t, uses in enumerate(used):
        limit = 1.0 if t < T else float(e.deploy_arms) if t == T else e.budget
        if limit is not None and uses:
            rows.append(uses)
            limits.append(limit)
    most = lil_array((len(rows), len(reward)))
    for i, uses in enumerate(rows):
        for column, number in uses:
            most[i, column] = number
    solved = linprog(
        -np.array(reward), most.tocsr(), limits, equal.tocsr(), flow_limits, method="highs"
    )
    return float(-solved.fun)
