"""The relaxed problem of few states as one linear program over occupations, for the last digits.

    x[t, a, s]   expected number of arms in state s at stage t that rest (a = 0), are pulled (a = 1)
    maximise     sum of x[t, a, s] f[t] r_a(s)
    subject to   sum_s x[t, 1, s] = pulls[t]                                (dual: price of stage t)
                 sum_a x[t, a, s'] = sum_{a, s} x[t-1, a, s] P_a(s, s'), the first masses at t = 0

Where many states share one price, rounds stall and mixtures of whole flows converge slowly; here
every state is split by itself. Beyond some thousand states the program is slower than they are.
"""

from __future__ import annotations

import highspy
import numpy as np

from ..arm.kernels.chains import Chains
from ..support import Floats, Ints
from .market import Flow

MAX_STATES = 1000  # of all stages: the program takes some tenths of a second
TOLERANCE = 1e-10
STRATEGIES = (1, 4)  # dual simplex; where it gives up, primal simplex
EMPTY_MASS = 1e-12  # of an arm: a state with less is not pulled


def optimal_occupations(
    chains: Chains, factors: Floats, masses: Floats, pulls: Floats
) -> tuple[Floats, Floats] | None:
    """Return optimal prices (T,) and parts of every state that are pulled, (T, N); None if none.

    factors (T, groups): of rewards; masses (N,): of arms before the first stage.
    """
    stages, states = pulls.size, masses.size
    rewards = np.stack([chains.rest_reward, chains.pull_reward])
    by_state = np.repeat(factors, np.diff(chains.start), axis=1)
    gains = by_state[:, None, :] * rewards
    unit = float(np.abs(gains).max()) or 1.0
    columns = np.arange(gains.size).reshape(gains.shape)
    balance = stages + np.arange(stages * states).reshape(stages, states)
    rows = [
        np.broadcast_to(balance[:, None], gains.shape).ravel(),
        np.repeat(range(stages), states),
    ]
    at = [columns.ravel(), columns[:, 1].ravel()]
    entries = [np.ones(gains.size), np.ones(stages * states)]
    moves = (
        (chains.rest_at, chains.rest_to, chains.rest_weight),
        (chains.pull_at, chains.pull_to, chains.pull_weight),
    )
    for action, (start, to, weight) in enumerate(moves):
        of_state = np.repeat(np.arange(states), np.diff(start))
        rows.append(balance[1:, to].ravel())
        at.append(columns[:-1, action][:, of_state].ravel())
        entries.append(np.tile(-weight, stages - 1))
    row, column, entry = (np.concatenate(part) for part in (rows, at, entries))
    order = np.argsort(column, kind="stable")
    right = np.concatenate([pulls, masses, np.zeros((stages - 1) * states)])
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_, lp.sense_ = gains.size, right.size, highspy.ObjSense.kMaximize
    lp.col_cost_, lp.row_lower_, lp.row_upper_ = gains.ravel() / unit, right, right
    lp.col_lower_, lp.col_upper_ = np.zeros(gains.size), np.full(gains.size, highspy.kHighsInf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.searchsorted(column[order], np.arange(gains.size + 1))
    lp.a_matrix_.index_, lp.a_matrix_.value_ = row[order], entry[order]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("primal_feasibility_tolerance", TOLERANCE)
    solver.setOptionValue("dual_feasibility_tolerance", TOLERANCE)
    solver.passModel(lp)
    if not any(_is_solved(solver, strategy) for strategy in STRATEGIES):
        return None
    solution = solver.getSolution()
    occupied = np.maximum(np.array(solution.col_value), 0.0).reshape(gains.shape)
    mass = occupied.sum(axis=1)
    parts = np.where(mass > EMPTY_MASS, occupied[:, 1] / np.maximum(mass, EMPTY_MASS), 0.0)
    return unit * np.array(solution.row_dual)[:stages], parts


def _is_solved(solver: highspy.Highs, strategy: int) -> bool:
    solver.clearSolver()
    solver.setOptionValue("simplex_strategy", strategy)
    solver.run()
    return bool(solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)


def flow_of_parts(chains: Chains, factors: Floats, masses: Floats, parts: Floats) -> Flow:
    """Return the flow that pulls a part of the mass of every state, (T, N)."""
    groups = factors.shape[1]
    group = np.repeat(np.arange(groups), np.diff(chains.start))
    reward, spent = np.zeros(groups), np.zeros((groups, len(parts)))
    mass = masses
    for stage, (factor, part) in enumerate(zip(factors, parts, strict=True)):
        pulled = part * mass
        rested = mass - pulled
        earned = pulled * chains.pull_reward + rested * chains.rest_reward
        spent[:, stage] = np.bincount(group, pulled, groups)
        reward += factor * np.bincount(group, earned, groups)
        mass = _moved(chains.pull_at, chains.pull_to, chains.pull_weight, pulled)
        mass += _moved(chains.rest_at, chains.rest_to, chains.rest_weight, rested)
    return Flow(reward, spent, False)


def _moved(start: Ints, to: Ints, weight: Floats, mass: Floats) -> Floats:
    after = np.zeros(mass.size)
    np.add.at(after, to, np.repeat(mass, np.diff(start)) * weight)
    return after
