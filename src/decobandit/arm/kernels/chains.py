"""Arms that move at rest, all groups together: values go back over a stage, masses go ahead.

    Q0(s) = f r0(s) + E[V_{t+1} | s, rest]      Q1(s) = f r1(s) + E[V_{t+1} | s, pull]
    index(s) = Q1(s) - Q0(s)                    V_t(s) = Q0(s) + (index(s) - mu_t)^+

States of all groups are numbered one after the other, N in all; group k has start[k] ..
start[k+1] - 1. State s leads to the states to[at[s]] .. before to[at[s+1]], with the weights at the
same places: rest_* of an arm that is not pulled, pull_* of one that is. f (groups,): factor of the
rewards of a stage.
"""

from typing import NamedTuple

from ...support import Floats, Ints
from ...support.kernels.compiled import compiled


class Chains(NamedTuple):
    """States of all groups and where they lead, as above."""

    start: Ints  # (groups + 1,)
    rest_at: Ints  # (N + 1,)
    rest_to: Ints
    rest_weight: Floats
    rest_reward: Floats  # (N,)
    pull_at: Ints
    pull_to: Ints
    pull_weight: Floats
    pull_reward: Floats


@compiled(inline="always")
def expectation(at, to, weight, s, values):
    """E of values (N,) one step after state s."""
    total = 0.0
    for i in range(at[s], at[s + 1]):
        total += weight[i] * values[to[i]]
    return total


@compiled
def reach_further(chains, reached, after):
    """Mark in `after` (N,) the states that those reached (N,) lead to."""
    for s in range(reached.shape[0]):
        if reached[s]:
            for i in range(chains.rest_at[s], chains.rest_at[s + 1]):
                after[chains.rest_to[i]] = True
            for i in range(chains.pull_at[s], chains.pull_at[s + 1]):
                after[chains.pull_to[i]] = True


@compiled
def stage_margins(chains, factor, reached, later, rest, index):
    """Fill rest = Q0 and index = Q1 - Q0, (N,), from later = V_{t+1}, where reached (N,)."""
    for k in range(factor.shape[0]):
        f = factor[k]
        for s in range(chains.start[k], chains.start[k + 1]):
            if not reached[s]:
                continue
            idle = expectation(chains.rest_at, chains.rest_to, chains.rest_weight, s, later)
            used = expectation(chains.pull_at, chains.pull_to, chains.pull_weight, s, later)
            rest[s] = f * chains.rest_reward[s] + idle
            index[s] = f * chains.pull_reward[s] + used - rest[s]


@compiled
def move(chains, factor, mass, pulled, after, spent, reward):
    """Move masses (N,), of which some are pulled (N,), over a stage.

    Fills after (N,), spent (groups,); adds to reward (groups,).
    """
    for s in range(after.shape[0]):
        after[s] = 0.0
    for k in range(factor.shape[0]):
        taken, earned = 0.0, 0.0
        for s in range(chains.start[k], chains.start[k + 1]):
            m, p = mass[s], pulled[s]
            if m == 0.0:
                continue
            taken += p
            earned += p * chains.pull_reward[s] + (m - p) * chains.rest_reward[s]
            if p > 0.0:
                for i in range(chains.pull_at[s], chains.pull_at[s + 1]):
                    after[chains.pull_to[i]] += p * chains.pull_weight[i]
            if m > p:
                for i in range(chains.rest_at[s], chains.rest_at[s + 1]):
                    after[chains.rest_to[i]] += (m - p) * chains.rest_weight[i]
        spent[k] = taken
        reward[k] += factor[k] * earned
