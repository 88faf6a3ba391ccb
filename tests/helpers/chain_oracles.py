"""Oracles of restless arms: the joint recursion."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

from decobandit import Arm, Problem

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are not installed

from benchmarks.occupancy_lp import chain_arrays, dual_minimum

__all__ = ["dual_minimum", "joint_value", "problem_of"]


def problem_of(chains, horizon, pulls, factors=None):
    """One arm per chain; factors: of the rewards of every arm."""
    arms = []
    for k, chain in enumerate(chains):
        reward = {} if factors is None else {"reward": {"factor": factors[k]}}
        arms.append(Arm(name=f"a{k}", prior=chain, **reward))
    return Problem(arms=arms, horizon=horizon, pulls_per_stage=pulls)


def joint_value(problem, choose=None):
    """Value of the best policy over joint states, or of choose(stage, states) -> pulled arms."""
    K, m = problem.n_arms, problem.pulls_per_stage
    parts = [chain_arrays(problem, problem.groups[k]) for k in problem.group_of_arm]
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
