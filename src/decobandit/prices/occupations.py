"""The relaxed problem of few states as one linear program over occupations, for the last digits.

    x[t, a, s]   expected number of arms in state s at stage t that rest (a = 0), are pulled (a = 1)
    maximise     sum of x[t, a, s] f[t] r_a(s)
    subject to   sum_s x[t, 1, s] = pulls[t]                                (dual: price of stage t)
                 sum_a x[t, a, s'] = sum_{a, s} x[t-1, a, s] P_a(s, s'), the first masses at t = 0

Where many states share one price, rounds stall and mixtures of whole flows converge slowly; here
every state is split by itself. Beyond some thousand states the program is slower than they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arm.kernels.chains import Chains
from ..support import Floats
from .market import Flow

MAX_STATES = 1000  # of all stages: the program takes some tenths of a second
METHODS = ("highs-ds", "highs-ipm")  # the second where the first gives up
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
EMPTY_MASS = 1e-12  # of an arm: a state with less is not pulled


def optimal_occupations(
    chains: Chains, factors: Floats, masses: Floats, pulls: Floats
) -> tuple[Floats, Floats] | None:
    """Return optimal prices (T,) and parts of every state that are pulled, (T, N); None if none.

    factors (T, groups): of rewards; masses (N,): of arms before the first stage.
    """
    from scipy.optimize import linprog  # late: scipy takes half a second to load
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    stages, states = pulls.size, masses.size
    rewards = np.stack([chains.rest_reward, chains.pull_reward])
    gains = np.repeat(factors, np.diff(chains.start), axis=1)[:, None, :] * rewards
    unit = float(np.abs(gains).max()) or 1.0
    rest, pull = _moves(chains)
    here, before = eye_array(states), eye_array(stages, k=-1)
    pulled = csr_array(np.repeat([[0.0, 1.0]], states, axis=1))  # of every action and state
    balance = kron(eye_array(stages), hstack([here, here])) - kron(before, hstack([rest, pull]))
    rows = vstack([kron(eye_array(stages), pulled), balance])
    right = np.concatenate([pulls, masses, np.zeros((stages - 1) * states)])
    cost = -gains.ravel() / unit
    for method in METHODS:
        solved = linprog(cost, A_eq=rows, b_eq=right, method=method, options=EXACT)
        if solved.status == 0:
            break
    else:
        return None
    occupied = np.maximum(solved.x, 0.0).reshape(gains.shape)
    mass = occupied.sum(axis=1)
    parts = np.where(mass > EMPTY_MASS, occupied[:, 1] / np.maximum(mass, EMPTY_MASS), 0.0)
    return -unit * solved.eqlin.marginals[:stages], parts


def flow_of_parts(chains: Chains, factors: Floats, masses: Floats, parts: Floats) -> Flow:
    """Return the flow that pulls a part of the mass of every state, (T, N)."""
    groups = factors.shape[1]
    group = np.repeat(np.arange(groups), np.diff(chains.start))
    reward, spent = np.zeros(groups), np.zeros((groups, len(parts)))
    mass, (rest, pull) = masses, _moves(chains)
    for stage, (factor, part) in enumerate(zip(factors, parts, strict=True)):
        pulled = part * mass
        rested = mass - pulled
        earned = pulled * chains.pull_reward + rested * chains.rest_reward
        spent[:, stage] = np.bincount(group, pulled, groups)
        reward += factor * np.bincount(group, earned, groups)
        mass = pull @ pulled + rest @ rested
    return Flow(reward, spent, False)


def _moves(chains: Chains) -> tuple[Any, Any]:
    """Return sparse matrices of a rest and of a pull, that move masses (N,)."""
    from scipy.sparse import csr_array

    size = chains.rest_reward.size
    sides = (
        (chains.rest_weight, chains.rest_to, chains.rest_at),
        (chains.pull_weight, chains.pull_to, chains.pull_at),
    )
    rest, pull = (csr_array(side, shape=(size, size)).T for side in sides)
    return rest, pull
