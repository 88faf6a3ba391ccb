"""Slow and obvious versions of what the package computes of batches: the second road of the tests.

A state of one arm is (n, g): pulls, good outcomes among them. Chances of a batch come from the
beta-binomial distribution of SciPy; recursions are over dictionaries, arm by arm.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array
from scipy.stats import betabinom

from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, Terminal, terminal_table
from helpers.oracles import Prices, expected_reward, good_chance

States = tuple[tuple[int, int], ...]


@cache
def chances(pulls: int, good: float, bad: float) -> tuple[float, ...]:
    """Of 0, 1, .. good outcomes among so many pulls, success probability Beta(good, bad)."""
    return tuple(float(x) for x in betabinom.pmf(np.arange(pulls + 1), pulls, good, bad))


def after(arm: Arm, n: int, g: int, pulls: int) -> list[tuple[int, int, float]]:
    """States after so many pulls, with their chances."""
    found = chances(pulls, arm.beta.good + g, arm.beta.bad + n - g)
    return [(n + pulls, g + x, chance) for x, chance in enumerate(found)]


def last_reward(arm: Arm, n: int, g: int) -> float:
    return 0.0 if arm.terminal is None else arm.terminal[n][g]


# -- one arm ------------------------------------------------------------------------------------


def arm_value(problem: Problem, arm: Arm, prices: Prices) -> float:
    """What an arm earns alone at prices per unit, by Bellman's equation."""
    worth = unit_values(problem, arm, prices, 0, 0, 0)
    return max(worth[a] - a * prices[0] for a in range(problem.units + 1))


def unit_values(
    problem: Problem, arm: Arm, prices: Prices, stage: int, pulls: int, good: int
) -> list[float]:
    """What 0, 1, .. units of an arm are worth at a stage, before their price."""
    T, unit = problem.horizon, problem.unit

    @cache
    def value(t: int, n: int, g: int) -> float:
        if t == T:
            deployed = 0.0
            if problem.terminal is not None:
                deployed = max(problem.terminal.deploy * good_chance(arm, n, g) - prices[T], 0.0)
            return last_reward(arm, n, g) + deployed
        return max(worth - a * prices[t] for a, worth in enumerate(of_units(t, n, g)))

    def of_units(t: int, n: int, g: int) -> list[float]:
        each = expected_reward(problem, arm, t, n, g)
        return [
            a * unit * each
            + sum(p * value(t + 1, *state) for *state, p in after(arm, n, g, a * unit))
            for a in range(problem.units + 1)
        ]

    return of_units(stage, pulls, good)


def dual(problem: Problem, prices: Prices) -> float:
    """The dual function, arm by arm."""
    given = sum(problem.units * price for price in prices[: problem.horizon])
    last = prices[problem.horizon] if problem.terminal is not None else 0.0
    return float(sum(arm_value(problem, arm, prices) for arm in problem.arms) + given + last)


# -- the dual minimum, as a linear program ------------------------------------------------------


def occupancy_lp(problem: Problem) -> float:
    """The value of the relaxed problem: how often an arm in a state takes so many units."""
    T, unit = problem.horizon, problem.unit
    rows: dict[object, int] = {}
    entries: list[tuple[int, int, float]] = []
    gain: list[float] = []
    right: dict[object, float] = {("units", t): float(problem.units) for t in range(T)}
    if problem.terminal is not None:
        right["deploy"] = 1.0

    def put(row: object, x: float) -> None:
        entries.append((rows.setdefault(row, len(rows)), len(gain), x))

    for k, arm in enumerate(problem.arms):
        right[k, 0, 0, 0] = 1.0
        for t, n, g in _states(problem):
            if t == T:
                for deployed in (0, 1) if problem.terminal is not None else (0,):
                    put((k, t, n, g), 1.0)
                    worth = last_reward(arm, n, g)
                    if deployed and problem.terminal is not None:
                        put("deploy", 1.0)
                        worth += problem.terminal.deploy * good_chance(arm, n, g)
                    gain.append(worth)
                continue
            for a in range(problem.units + 1):
                put((k, t, n, g), 1.0)
                put(("units", t), float(a))
                for n1, g1, chance in after(arm, n, g, a * unit):
                    put((k, t + 1, n1, g1), -chance)
                gain.append(a * unit * expected_reward(problem, arm, t, n, g))
    i, j, x = zip(*entries, strict=True)
    solved = linprog(
        -np.array(gain),
        A_eq=coo_array((x, (i, j)), shape=(len(rows), len(gain))).tocsc(),
        b_eq=np.array([right.get(row, 0.0) for row in rows]),
        method="highs",
    )
    assert solved.status == 0, solved.message
    return -float(solved.fun)


def _states(problem: Problem) -> Iterator[tuple[int, int, int]]:
    for t in range(problem.horizon + 1):
        for units in range(problem.units * t + 1):
            n = units * problem.unit
            for g in range(n + 1):
                yield t, n, g


# -- all arms together --------------------------------------------------------------------------


def allocations(problem: Problem) -> Iterator[tuple[int, ...]]:
    """All ways to share the units of a stage, as pulls of every arm."""
    ranges = [range(problem.units + 1)] * len(problem.arms)
    for given in product(*ranges):
        if sum(given) == problem.units:
            yield tuple(problem.unit * units for units in given)


def joint_successors(
    problem: Problem, state: States, given: tuple[int, ...]
) -> Iterator[tuple[States, float]]:
    """States of all arms after a batch, with their chances."""
    each = [
        after(arm, n, g, pulls)
        for arm, (n, g), pulls in zip(problem.arms, state, given, strict=True)
    ]
    for combined in product(*each):
        chance = float(np.prod([p for _, _, p in combined]))
        yield tuple((n, g) for n, g, _ in combined), chance


def batch_reward(problem: Problem, t: int, state: States, given: tuple[int, ...]) -> float:
    return sum(
        pulls * expected_reward(problem, arm, t, n, g)
        for arm, (n, g), pulls in zip(problem.arms, state, given, strict=True)
    )


def final_reward(problem: Problem, state: States) -> float:
    """Last rewards of all arms, and the best deployment."""
    arms = list(zip(problem.arms, state, strict=True))
    total = sum(last_reward(arm, n, g) for arm, (n, g) in arms)
    if problem.terminal is not None:
        total += problem.terminal.deploy * max(good_chance(arm, n, g) for arm, (n, g) in arms)
    return total


def best_value(problem: Problem) -> float:
    """The exact optimum, by Bellman's equation over the states of all arms."""

    @cache
    def value(t: int, state: States) -> float:
        if t == problem.horizon:
            return final_reward(problem, state)
        return max(
            batch_reward(problem, t, state, given)
            + sum(p * value(t + 1, s) for s, p in joint_successors(problem, state, given))
            for given in allocations(problem)
        )

    return value(0, ((0, 0),) * len(problem.arms))


# -- problems -----------------------------------------------------------------------------------


def random_problem(rng: np.random.Generator, kind: str, *, largest: int = 3) -> Problem:
    """A small problem of batches; kind: "plain", "deployment" or "tables"."""
    arms, T, units = (int(x) for x in rng.integers(1, largest + 1, size=3))
    unit = int(rng.integers(1, 3))
    m = unit * units

    def arm(number: int) -> Arm:
        by_stage = rng.random() < 0.5
        good, bad = rng.normal(size=(2, T)) if by_stage else (rng.random(), 0.0)
        tables = kind == "tables"
        shift = float(rng.random())
        return Arm(
            name=f"arm-{number}",
            prior=BetaBernoulli(float(rng.choice([0.2, 1, 2, 5])), float(rng.choice([0.2, 1, 3]))),
            reward=Reward(good=good, bad=bad),
            terminal=terminal_table(T * m, lambda g, b: float(np.sin(1.3 * g + 0.7 * b + shift)))
            if tables
            else None,
        )

    return Problem(
        horizon=T,
        pulls_per_stage=m,
        repeat=True,
        unit=unit,
        arms=[arm(k) for k in range(arms)],
        terminal=Terminal(deploy=3.0 * rng.random()) if kind == "deployment" else None,
    )
