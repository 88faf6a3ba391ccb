"""Oracles of restless arms: the occupancy linear program, and the joint recursion."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

from decobandit import Arm, Chain, Problem

# the circulant example: with one arm in five pulled, an optimal policy keeps turning
CIRCULANT = Chain(
    [[0.5, 0, 0, 0.5], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]],
    [[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0, 0.5]],
    [-1, 0, 0, 1],
    [-1, 0, 0, 1],
    first=[0.25] * 4,
)


def random_chain(rng, states, *, alpha=0.5, first=None, resting=True):
    """A chain with Dirichlet rows and uniform rewards."""
    rows = [rng.dirichlet(np.full(states, alpha), size=states) for _ in range(2)]
    rest_reward = rng.random(states) if resting else np.zeros(states)
    first = int(rng.integers(states)) if first is None else first
    return Chain(*rows, rest_reward, rng.random(states), first=first)


def problem_of(chains, horizon, pulls, factors=None):
    """One arm per chain; factors: of the rewards of every arm."""
    arms = []
    for k, chain in enumerate(chains):
        reward = {} if factors is None else {"reward": {"factor": factors[k]}}
        arms.append(Arm(name=f"a{k}", prior=chain, **reward))
    return Problem(arms=arms, horizon=horizon, pulls_per_stage=pulls)


def _matrices(problem, arm):
    table, factor = problem.arms[arm].prior, problem.arms[arm].reward.factor
    factors = np.broadcast_to(factor, (problem.horizon,))
    law = np.eye(len(table.rest))[table.first] if isinstance(table.first, int) else table.first
    moves = np.array([table.rest, table.pull])
    return moves, np.array([table.rest_reward, table.reward]), factors, np.array(law)


def occupancy_value(problem):
    """Largest reward of expected occupancies that spend exactly the pulls of every stage."""
    T, groups = problem.horizon, problem.groups
    parts = [(*_matrices(problem, group.members[0]), group.count) for group in groups]
    sizes = [len(part[3]) for part in parts]
    first = np.concatenate([[0], np.cumsum([2 * size * T for size in sizes])])
    rows = sum(size * T for size in sizes) + T
    matrix, right, cost = lil_matrix((rows, first[-1])), np.zeros(rows), np.zeros(first[-1])
    right[-T:] = problem.pulls_per_stage
    row = 0
    for (moves, rewards, factors, law, count), begin in zip(parts, first, strict=False):
        size = len(law)
        column = begin + np.arange(2 * size * T).reshape(T, 2, size)
        for t in range(T):
            for a in (0, 1):
                cost[column[t, a]] = -factors[t] * rewards[a]
                matrix[range(row, row + size), column[t, a]] = 1.0
                if t > 0:
                    before = column[t - 1, a]
                    matrix[row : row + size, before[0] : before[-1] + 1] = -moves[a].T
            matrix[rows - T + t, column[t, 1]] = 1.0
            right[row : row + size] = count * law if t == 0 else 0.0
            row += size
    found = linprog(cost, A_eq=matrix.tocsr(), b_eq=right, method="highs")
    assert found.status == 0
    return -found.fun


def joint_value(problem, choose=None):
    """Value of the best policy over joint states, or of choose(stage, states) -> pulled arms."""
    K, m = problem.n_arms, problem.pulls_per_stage
    parts = [_matrices(problem, arm) for arm in range(K)]
    states = list(itertools.product(*(range(len(part[3])) for part in parts)))
    after = dict.fromkeys(states, 0.0)

    def worth(t, state, pulled):
        acts = [int(arm in pulled) for arm in range(K)]
        now = sum(
            factors[t] * rewards[a][s]
            for (_, rewards, factors, _), a, s in zip(parts, acts, state, strict=True)
        )
        later = 0.0
        for following in states:
            p = 1.0
            for (moves, *_), a, s, to in zip(parts, acts, state, following, strict=True):
                p *= moves[a, s, to]
            later += p * after[following]
        return now + later

    for t in reversed(range(problem.horizon)):
        options = list(itertools.combinations(range(K), m))
        after = {
            state: (
                max(worth(t, state, pulled) for pulled in options)
                if choose is None
                else worth(t, state, choose(t, state))
            )
            for state in states
        }
    total = 0.0
    for state in states:
        total += np.prod([part[3][s] for part, s in zip(parts, state, strict=True)]) * after[state]
    return total
