"""The exact optimum of small problems of batches.

    V_t(s) = max over shares of  reward + E[V_{t+1}]        V_T: last rewards, the best deployment

shape by shape; the expectation is a product with one matrix per arm that is pulled.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..problem import Problem
from ..support import Floats, Progress, Report
from .batch_states import (
    Batches,
    Shape,
    least_states,
    number_of_shares,
    shares,
    sizes,
    sorted_shapes,
)

MOST_WORK = 2e9  # states times shares
Values = dict[Shape, Floats]


def count_batch_states(problem: Problem) -> list[int]:
    """Joint states at stages 0 .. horizon that are stored."""
    return [
        sum(prod(sizes(problem, shape)) for shape in sorted_shapes(problem, problem.units * t))
        for t in range(problem.horizon + 1)
    ]


def work(problem: Problem) -> float:
    """At least so many states times shares."""
    return float(least_states(problem)) * number_of_shares(problem)


def sweep_batches(problem: Problem, report: Report) -> float:
    """Backward over all stages; the value of the first state."""
    batches = Batches(problem)
    after: Values = {
        shape: _final(batches, shape)
        for shape in sorted_shapes(problem, problem.units * problem.horizon)
    }
    ways = list(shares(problem.units, problem.n_arms))
    for t in range(problem.horizon - 1, -1, -1):
        after = {
            shape: _best(batches, t, shape, ways, after)
            for shape in sorted_shapes(problem, problem.units * t)
        }
        report(Progress("optimum", problem.horizon - t, problem.horizon))
    (first,) = after.values()
    return float(first.reshape(-1)[0])


def _final(batches: Batches, shape: Shape) -> Floats:
    problem, values = batches.problem, batches.last(shape)
    if problem.terminal is not None:
        means = np.full(values.shape, -np.inf)
        for arm, units in enumerate(shape):
            means = np.maximum(means, batches.mean(arm, units))
        values = values + problem.terminal.deploy * means
    return values


def _best(batches: Batches, stage: int, shape: Shape, ways: list[Shape], after: Values) -> Floats:
    best = np.full(sizes(batches.problem, shape), -np.inf)
    for given in ways:
        values = _unsorted(batches.problem, tuple(np.add(shape, given).tolist()), after)
        for arm, units in enumerate(given):
            if units:
                chances = batches.chances(arm, shape[arm], units)
                values = np.moveaxis(np.tensordot(chances, values, axes=(1, arm)), 0, arm)
        best = np.maximum(best, values + batches.reward(stage, shape, given))
    return best


def _unsorted(problem: Problem, shape: Shape, values: Values) -> Floats:
    """The values of a shape, from those of its sorted form."""
    axis_of = list(range(problem.n_arms))  # of each arm, in the sorted form
    stored = list(shape)
    for group in problem.groups:
        ranked = sorted(group.members, key=lambda arm: -shape[arm])
        for place, arm in zip(group.members, ranked, strict=True):
            axis_of[arm] = place
            stored[place] = shape[arm]
    return values[tuple(stored)].transpose(axis_of)
