"""Allocation probabilities in many states at once, whatever kind a policy is of.

Notations as in `allotting`; beyond them
    pending (E, K)    pulls whose outcomes are not known yet
    allowed (E, K)    arms that may be pulled: others have been dropped
    chances (E, K)    share of a stage's pulls that an arm gets, on average; rows sum to 1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..problem import TIE_SIGNS, Problem, State, TieRule, tie_tolerance
from ..support import Floats, read_only
from .allotting import Counts, state_of
from .kernels.index_chances import index_chances
from .records import Allotments

Allowed = npt.NDArray[np.bool_]


class Asked(NamedTuple):
    """What a policy is asked about: joint states, and which arms it may pull there."""

    pulls: Counts  # (E, K) known
    good: Any  # (E, K); of other kinds (E, K, widest)
    pending: Counts  # (E, K)
    allowed: Allowed  # (E, K)

    @classmethod
    def of(cls, pulls: Counts, good: Any) -> Asked:
        """All arms, nothing pending."""
        return cls(pulls, good, np.zeros_like(pulls), np.ones(pulls.shape, np.bool_))

    @classmethod
    def of_states(cls, problem: Problem, states: Sequence[State]) -> Asked:
        """All arms, nothing pending, in these states.

        Of other outcomes than good or bad, `good` are statistics of all arms, (E, K, widest).
        """
        pulls = np.array([state.pulls for state in states])
        if problem.is_binary:
            return cls.of(pulls, np.array([state.good for state in states]))
        widest = max(group.model.width for group in problem.groups)
        known = np.zeros((*pulls.shape, widest))
        for e, state in enumerate(states):
            for k, own in enumerate(state.stats(problem)):
                known[e, k, : own.size] = own
        return cls.of(pulls, known)

    def rows(self, some: npt.NDArray[np.generic]) -> Asked:
        """Some of the joint states."""
        return Asked(self.pulls[some], self.good[some], self.pending[some], self.allowed[some])


def chances_by_table(problem: Problem, index: Floats, ties: TieRule, asked: Asked) -> Floats:
    """The largest index, averaged over pending outcomes; index (groups, slab)."""
    groups = [problem.groups[k] for k in problem.group_of_arm]
    alpha = np.array([group.alpha for group in groups])
    beta = np.array([group.beta for group in groups])
    counts = (np.ascontiguousarray(part, dtype=np.int64) for part in asked[:3])
    chances = np.empty(asked.pulls.shape)
    index_chances(
        read_only(np.ascontiguousarray(index)), problem.group_of_arm, alpha, beta, *counts,
        asked.allowed, tie_tolerance(problem), *TIE_SIGNS[ties], chances,
    )  # fmt: skip
    return chances


def chances_by_asking(ask: Callable[[State], Allotments], asked: Asked) -> Floats:
    """Asked in each state; what goes to arms that are not allowed is shared by the others."""
    both = np.hstack([asked.pulls, asked.good])
    rows, place = np.unique(both, axis=0, return_inverse=True)
    chances = np.zeros((len(rows), asked.pulls.shape[1]))
    for i, row in enumerate(rows):
        n, g = np.split(row, 2)
        for allotment, chance in ask(state_of(n, g)):
            chances[i] += chance * np.array(allotment) / sum(allotment)
    return restricted(chances[place.reshape(-1)], asked.allowed)


def restricted(chances: Floats, allowed: Allowed) -> Floats:
    """Chances of the arms allowed, scaled up to 1; even where they have none."""
    kept = np.where(allowed, chances, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    even = allowed / allowed.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0.0, kept / np.where(total > 0.0, total, 1.0), even))


def with_floor(chances: Floats, allowed: Allowed, floor: float) -> Floats:
    """Chances below the floor are raised to it, the others scaled down; until none is below.

    A policy that is sure of its arm gives `floor` to each of the others and the rest to this one.
    """
    if floor <= 0.0:
        return chances
    raised = np.zeros(chances.shape, np.bool_)
    result = chances
    for _ in range(chances.shape[1]):
        more = allowed & ~raised & (result < floor)
        if not more.any():
            break
        raised |= more
        left = 1.0 - floor * raised.sum(axis=1, keepdims=True)
        rest = np.where(raised, 0.0, chances)
        total = rest.sum(axis=1, keepdims=True)
        free = (allowed & ~raised) / np.maximum((allowed & ~raised).sum(axis=1, keepdims=True), 1)
        scaled = np.where(total > 0.0, rest / np.where(total > 0.0, total, 1.0), free)
        result = np.where(raised, floor, left * scaled)
    return result


def drawn_arms(chances: Floats, units: int, rng: np.random.Generator) -> Counts:
    """Units of every arm, (E, K): on average `units` times its chance, and within 1 of it."""
    edges = np.cumsum(chances, axis=1)
    if units > 1:  # each edge is moved by the same fraction of a unit, then rounded down
        moved = np.floor(units * edges / edges[:, -1:] + rng.random((len(edges), 1)))
        moved[:, -1] = units
        return np.asarray(np.diff(moved, axis=1, prepend=0.0), dtype=np.int64)
    arm = (rng.random(len(chances))[:, None] * edges[:, -1:] >= edges[:, :-1]).sum(axis=1)
    return np.asarray(arm[:, None] == np.arange(chances.shape[1]), dtype=np.int64)
