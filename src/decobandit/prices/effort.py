"""How long the dual of a problem takes, before it is solved: whether to solve it for a bound alone.

Where a policy is made from prices, the dual is solved however long it takes. Where nobody has asked
for it, it is solved only if one pass over the states of all kinds of arms is short: a search is a
few dozen passes.
"""

from __future__ import annotations

from math import inf

import numpy as np

from ..arm import POINTS
from ..problem import Problem

QUICK_STATES = 5e7  # states of a pass over all stages, up to which a dual takes a few seconds
QUICK_ROW_STATES = 2e7  # the same of arms of other kinds
OF_BATCHES = 10.0  # of single pulls that a state of a batch takes as long as


def is_quick(problem: Problem) -> bool:
    """Whether the dual is solved within seconds: with one kind of arms, up to 669 stages."""
    if not problem.is_binary:
        pulls = range(problem.most_pulls if problem.repeat else problem.stages)
        sizes = np.array(
            [
                [
                    min(group.model.states(n), POINTS if not group.model.finite else inf)
                    for n in pulls
                ]
                for group in problem.groups
            ]
        )
        every, number = (problem.pulls_per_stage, problem.units) if problem.repeat else (1, 1)
        passed = np.cumsum(sizes, axis=1)[:, ::every]  # states of every stage
        return bool(number * passed.sum() <= QUICK_ROW_STATES)
    units = OF_BATCHES * problem.units if problem.repeat else 1.0
    states = len(problem.groups) * problem.stages * problem.most_pulls**2 * units / 6
    return states <= QUICK_STATES
