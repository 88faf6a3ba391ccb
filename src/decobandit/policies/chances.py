"""Allocation probabilities in many states at once, whatever kind a policy is of.

Notations as in `allotting`; beyond them
    chances (E, K)    share of a stage's pulls that an arm gets, on average; rows sum to 1
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..problem import TIE_SIGNS, Problem, State, States, TieRule, tie_tolerance
from ..support import Floats, Ints, read_only
from .kernels.index_chances import index_chances
from .records import Allotments

Allowed = npt.NDArray[np.bool_]


def allowed_in(states: States) -> Allowed:
    """Arms that may be pulled, (E, K); all of them where `states` does not restrict them."""
    allowed = states.allowed
    return np.ones(states.stats.shape[:2], np.bool_) if allowed is None else allowed


def pending_in(states: States) -> Ints:
    """Pulls whose outcomes are not known yet, (E, K)."""
    pending = states.pending
    return np.zeros(states.stats.shape[:2], np.int64) if pending is None else pending


def pulls_made(states: States) -> Ints:
    """Pulls of every arm whether their outcomes are known or pending, (E, K)."""
    return states.pulls if states.pending is None else states.pulls + states.pending


def of_allowed(values: Floats, states: States) -> Floats:
    """Values of arms that may be pulled, (E, K); minus infinity for the others."""
    return values if states.allowed is None else np.where(states.allowed, values, -np.inf)


def chances_by_table(problem: Problem, index: Floats, ties: TieRule, states: States) -> Floats:
    """The largest index, averaged over pending outcomes; index (groups, slab)."""
    groups = [problem.groups[k] for k in problem.group_of_arm]
    alpha = np.array([group.alpha for group in groups])
    beta = np.array([group.beta for group in groups])
    pending = np.ascontiguousarray(pending_in(states), dtype=np.int64)
    chances = np.empty(pending.shape)
    index_chances(
        read_only(np.ascontiguousarray(index)),
        problem.group_of_arm,
        alpha,
        beta,
        states.pulls,
        states.good,
        pending,
        allowed_in(states),
        tie_tolerance(problem),
        *TIE_SIGNS[ties],
        chances,
    )
    return chances


def distinct_rows(states: States) -> tuple[States, Ints]:
    """Different joint states, and where each of `states` is among them, (E,)."""
    flat = states.stats.reshape(len(states), -1)
    _, first, place = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    return States(states.problem, states.stats[first]), place.reshape(-1)


def chances_by_asking(ask: Callable[[State], Allotments], states: States) -> Floats:
    """Asked in each state; what goes to arms that are not allowed is shared by the others."""
    rows, place = distinct_rows(states)
    chances = np.zeros(rows.stats.shape[:2])
    for e in range(len(rows)):
        for allotment, chance in ask(rows.state(e)):
            chances[e] += chance * np.array(allotment) / sum(allotment)
    return restricted(chances[place], states.allowed)


def restricted(chances: Floats, allowed: Allowed | None) -> Floats:
    """Chances of the arms allowed, scaled up to 1; even where they have none."""
    if allowed is None:
        return chances
    kept = np.where(allowed, chances, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    even = allowed / allowed.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0.0, kept / np.where(total > 0.0, total, 1.0), even))


def drawn_arms(chances: Floats, units: int, rng: np.random.Generator) -> Ints:
    """Units of every arm, (E, K): on average `units` times its chance, and within 1 of it."""
    edges = np.cumsum(chances, axis=1)
    if units > 1:  # each edge is moved by the same fraction of a unit, then rounded down
        moved = np.floor(units * edges / edges[:, -1:] + rng.random((len(edges), 1)))
        moved[:, -1] = units
        return np.asarray(np.diff(moved, axis=1, prepend=0.0), dtype=np.int64)
    arm = (rng.random(len(chances))[:, None] * edges[:, -1:] >= edges[:, :-1]).sum(axis=1)
    return np.asarray(arm[:, None] == np.arange(chances.shape[1]), dtype=np.int64)
