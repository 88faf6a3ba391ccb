"""How trials of a design end: states with their probabilities, whether followed or simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ..problem import Problem, States
from ..support import Floats, Ints

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Endings:
    """Trials that have ended, or sets of trials that ended alike.

    S endings, K arms; all outcomes are known, also those that were pending when a trial stopped.
    """

    pulls: Ints  # (S, K)
    good: Ints  # (S, K)
    allowed: Flags  # (S, K) arms that were not dropped
    declared: Flags  # (S, K) at a look
    reason: npt.NDArray[np.int8]  # (S,) why it stopped: code of REASONS; 0: it did not
    weight: Floats  # (S,) probability; they add up to 1

    @property
    def size(self) -> Ints:
        """Pulls of each trial."""
        return np.asarray(self.pulls.sum(axis=1), dtype=np.int64)

    @staticmethod
    def joined(parts: Sequence[Endings]) -> Endings:
        """All of them."""
        names = [each.name for each in fields(Endings)]
        return Endings(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def seen_states(
    problem: Problem,
    pulls: Ints,
    seen: Any,
    pending: Ints | None = None,
    allowed: Flags | None = None,
) -> States:
    """Joint states of trials, from good outcomes (S, K) or, of other outcomes, statistics."""
    known = States.of_counts(problem, pulls, seen).stats if problem.is_binary else seen
    return States(problem, known, pending, allowed)


def chance_se(mean: Floats, trials: int) -> Floats:
    """Error of a probability; as if one trial more had gone either way, so that it is never 0."""
    p = (mean * trials + 1.0) / (trials + 2.0)
    return np.asarray(np.sqrt(p * (1.0 - p) / trials))
