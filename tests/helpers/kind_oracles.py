"""Slow and obvious versions of what the package computes of arms with other outcomes.

A state of one arm is a tuple: counts of classes, or pulls and the name of a state. Successors are
listed outcome by outcome from the formulas of a textbook; recursions are over dictionaries.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    MarkovArm,
    MarkovState,
    Problem,
    Reward,
    Terminal,
)

ArmState = tuple[object, ...]


def first_state(arm: Arm) -> ArmState:
    prior = arm.prior
    if isinstance(prior, MarkovArm):
        return (prior.first,)
    return (0,) * (len(prior.counts) if isinstance(prior, DirichletCategorical) else 2)


def _weights(arm: Arm) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Pseudo-counts and values of the classes; bad is class 0, good is class 1."""
    if isinstance(arm.prior, BetaBernoulli):
        return (arm.prior.bad, arm.prior.good), (0.0, 1.0)
    assert isinstance(arm.prior, DirichletCategorical)
    assert isinstance(arm.reward, Reward)
    assert arm.reward.values is not None
    return arm.prior.counts, arm.reward.values


def successors(arm: Arm, state: ArmState) -> list[tuple[ArmState, float]]:
    """The states after one pull, with their chances."""
    if isinstance(arm.prior, MarkovArm):
        return [((to,), chance) for chance, to in arm.prior.states[str(state[0])].next.values()]
    weights = np.array(_weights(arm)[0]) + np.array(state, dtype=float)
    return [
        (tuple(c + (i == j) for i, c in enumerate(state)), float(weights[j] / weights.sum()))  # type: ignore[operator]
        for j in range(len(state))
    ]


def mean(arm: Arm, state: ArmState) -> float:
    """Expected value of the next outcome."""
    if isinstance(arm.prior, MarkovArm):
        return arm.prior.states[str(state[0])].mean
    counts, values = _weights(arm)
    weights = np.array(counts) + np.array(state, dtype=float)
    return float(weights @ np.array(values) / weights.sum())


def reward(arm: Arm, t: int, state: ArmState) -> float:
    """Expected reward of a pull at a stage."""

    def at(each: float | tuple[float, ...]) -> float:
        return each[t] if isinstance(each, tuple) else each

    if isinstance(arm.prior, BetaBernoulli):
        good, bad = at(arm.reward.good), at(arm.reward.bad)
        return bad + (good - bad) * mean(arm, state)
    return at(arm.reward.factor) * mean(arm, state)


def after_pulls(
    arm: Arm, t: int, state: ArmState, pulls: int
) -> tuple[float, dict[ArmState, float]]:
    """Expected reward of so many pulls in a row at a stage, and the chances of what follows."""
    earned, chances = 0.0, {state: 1.0}
    for _ in range(pulls):
        earned += sum(p * reward(arm, t, s) for s, p in chances.items())
        following: dict[ArmState, float] = {}
        for s, p in chances.items():
            for to, q in successors(arm, s):
                following[to] = following.get(to, 0.0) + p * q
        chances = following
    return earned, chances


def reached(problem: Problem, arm: Arm) -> list[set[ArmState]]:
    """States that an arm may be in at stages 0 .. horizon."""
    found = [{first_state(arm)}]
    for t in range(problem.horizon):
        units = range(problem.units + 1) if problem.repeat else (0, 1)
        pulls = [a * problem.unit for a in units]
        found.append({to for s in found[-1] for n in pulls for to in after_pulls(arm, t, s, n)[1]})
    return found


def occupancy_lp(problem: Problem) -> float:
    """The minimum of the dual: the relaxed problem as a linear program over state and action."""
    T, most = problem.horizon, problem.units if problem.repeat else 1
    rows: dict[object, int] = {}
    entries: list[tuple[int, int, float]] = []
    gain: list[float] = []
    right: dict[object, float] = {("units", t): float(problem.units) for t in range(T)}
    if problem.terminal is not None:
        right["deploy"] = 1.0

    def put(row: object, x: float) -> None:
        entries.append((rows.setdefault(row, len(rows)), len(gain), x))

    for k, arm in enumerate(problem.arms):
        right[k, 0, first_state(arm)] = 1.0
        for t, states in enumerate(reached(problem, arm)):
            for state in states:
                for a in range((most if t < T else problem.terminal is not None) + 1):
                    put((k, t, state), 1.0)
                    if t == T:
                        put("deploy", float(a))
                        deploy = 0.0 if problem.terminal is None else problem.terminal.deploy
                        gain.append(a * deploy * mean(arm, state))
                        continue
                    put(("units", t), float(a))
                    earned, chances = after_pulls(arm, t, state, a * problem.unit)
                    for to, p in chances.items():
                        put((k, t + 1, to), -p)
                    gain.append(earned)
    i, j, x = zip(*entries, strict=True)
    matrix = coo_array((x, (i, j)), shape=(len(rows), len(gain))).tocsr()
    bounds = np.array([right.get(row, 0.0) for row in rows])
    found = linprog(-np.array(gain), A_eq=matrix, b_eq=bounds, method="highs")
    return float(-found.fun)


def best_value(problem: Problem) -> float:
    """The exact optimum, by Bellman's equation over the states of all arms."""
    K, m = problem.n_arms, problem.pulls_per_stage

    def given() -> Iterator[tuple[int, ...]]:
        most = problem.units if problem.repeat else 1
        for each in product(range(most + 1), repeat=K):
            if sum(each) * problem.unit == m:
                yield tuple(a * problem.unit for a in each)

    @cache
    def value(t: int, state: tuple[ArmState, ...]) -> float:
        if t == problem.horizon:
            if problem.terminal is None:
                return 0.0
            arms = zip(problem.arms, state, strict=True)
            return problem.terminal.deploy * max(mean(arm, s) for arm, s in arms)
        best = -np.inf
        for pulls in given():
            each = [after_pulls(problem.arms[k], t, state[k], pulls[k]) for k in range(K)]
            total = sum(earned for earned, _ in each)
            for joint in product(*(chances.items() for _, chances in each)):
                p = float(np.prod([chance for _, chance in joint]))
                total += p * value(t + 1, tuple(s for s, _ in joint))
            best = max(best, total)
        return best

    return value(0, tuple(map(first_state, problem.arms)))


def random_arm(rng: np.random.Generator, number: int, horizon: int) -> Arm:
    """An arm with classes, of its own states, or with good and bad outcomes."""
    name, kind = f"arm-{number}", int(rng.integers(3))
    factor = tuple(rng.normal(size=horizon)) if rng.random() < 0.3 else 1.0
    if kind == 0:
        L = int(rng.integers(2, 4))
        counts = rng.choice([0.3, 1.0, 2.0, 5.0], size=L).tolist()
        values = rng.normal(size=L).round(2).tolist()
        return Arm(
            name=name,
            prior=DirichletCategorical(counts),
            reward=Reward(values=values, factor=factor),
        )
    if kind == 1:
        names = ["a", "b", "c", "d"]
        states = {}
        for state in names:
            chances = rng.dirichlet(np.ones(3))
            chances[-1] = 1.0 - chances[:-1].sum()
            to = rng.choice(names, size=3)
            links = {f"o{i}": (float(p), str(to[i])) for i, p in enumerate(chances)}
            states[state] = MarkovState(mean=float(rng.normal()), next=links)
        return Arm(
            name=name, prior=MarkovArm(first="a", states=states), reward=Reward(factor=factor)
        )
    prior = BetaBernoulli(float(rng.choice([0.3, 1, 2])), float(rng.choice([0.3, 1, 3])))
    return Arm(name=name, prior=prior, reward=Reward(good=rng.random(), bad=-rng.random()))


def random_problem(rng: np.random.Generator, *, batches: bool = False) -> Problem:
    """A small problem of arms of several kinds."""
    K, T = int(rng.integers(1, 4)), int(rng.integers(1, 5 if not batches else 3))
    units, unit = (int(rng.integers(1, 3)), int(rng.integers(1, 3))) if batches else (1, 1)
    m = units * unit if batches else int(rng.integers(1, K + 1))
    return Problem(
        horizon=T,
        pulls_per_stage=m,
        repeat=batches,
        unit=unit,
        arms=[random_arm(rng, k, T) for k in range(K)],
        terminal=Terminal(deploy=3.0 * rng.random()) if rng.random() < 0.4 else None,
    )
