"""What a policy earns in batches, by a plain recursion over the states of all arms."""

from functools import cache
from itertools import product

import numpy as np
from scipy.stats import binom

from decobandit.policies import Policy
from decobandit.problem import State
from helpers.batch_oracles import States, batch_reward, joint_successors, last_reward
from helpers.oracles import good_chance
from helpers.policies import allotted


def as_state(state: States) -> State:
    return State.of_counts(tuple(g for _, g in state), tuple(n - g for n, g in state))


def policy_value(policy: Policy) -> float:
    """Expected reward of a policy over the prior, by the pulls that it allots."""
    problem = policy.problem

    @cache
    def value(t: int, state: States) -> float:
        if t == problem.horizon:
            return final(state)
        return sum(
            share
            * (
                batch_reward(problem, t, state, given)
                + sum(p * value(t + 1, s) for s, p in joint_successors(problem, state, given))
            )
            for given, share in allotted(policy, t, as_state(state))
        )

    def final(state: States) -> float:
        total = sum(last_reward(arm, *own) for arm, own in zip(problem.arms, state, strict=True))
        if problem.terminal is None:
            return total
        return total + sum(
            share * problem.terminal.deploy * good_chance(problem.arms[k], *state[k])
            for given, share in allotted(policy, problem.horizon, as_state(state))
            for k in np.flatnonzero(given)
        )

    return value(0, ((0, 0),) * problem.n_arms)


def value_at_truth(policy: Policy, truth: tuple[float, ...]) -> float:
    """The same at given success probabilities, of problems without tables of last rewards."""
    problem = policy.problem
    arms = range(problem.n_arms)

    def earns(t: int, k: int) -> float:
        group = problem.groups[problem.group_of_arm[k]]
        return float(group.reward_bad[t] + truth[k] * (group.reward_good - group.reward_bad)[t])

    @cache
    def value(t: int, state: States) -> float:
        total = 0.0
        if t == problem.stages:
            return 0.0
        for given, share in allotted(policy, t, as_state(state)):
            earned = sum(given[k] * earns(t, k) for k in arms)
            if t == problem.horizon:
                total += share * earned
                continue
            outcomes = [
                [(x, float(binom.pmf(x, given[k], truth[k]))) for x in range(given[k] + 1)]
                for k in arms
            ]
            for combined in product(*outcomes):
                chance = float(np.prod([p for _, p in combined]))
                after = tuple((state[k][0] + given[k], state[k][1] + combined[k][0]) for k in arms)
                total += share * chance * value(t + 1, after)
            total += share * earned
        return total

    return value(0, ((0, 0),) * problem.n_arms)
