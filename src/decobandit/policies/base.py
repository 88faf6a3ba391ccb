"""What a policy is, and the part that all index policies share.

Ties. Arms whose indices differ by at most 1e-12 of the problem's largest number are tied.
    least-pulled  the arm pulled least so far, then the first (default)
    most-pulled   the arm pulled most so far, then the first
    first         the arm that stands first in the problem
    last          the arm that stands last
    random        uniformly among the tied arms, with the caller's random generator
The first two and the last look at the arms' states before they look at which arm is which: where
that decides, exchangeable arms stay exchangeable, and exact evaluation merges them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from ..problem import Problem
from ..state import State

Floats = npt.NDArray[np.float64]
TieRule = Literal["least-pulled", "most-pulled", "first", "last", "random"]
TIE_RULES: tuple[TieRule, ...] = get_args(TieRule)
TIE_TOLERANCE = 1e-12
DEFAULT_TIES: TieRule = "least-pulled"
# as kernels see a rule: sign of the pulls that are wanted, then of the position; 0, 0 is at random
TIE_SIGNS: dict[TieRule, tuple[int, int]] = {
    "first": (0, 1),
    "last": (0, -1),
    "least-pulled": (1, 1),
    "most-pulled": (-1, 1),
    "random": (0, 0),
}


class Policy(Protocol):
    """Chooses the arms of a stage."""

    name: str
    problem: Problem

    def choose(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """Positions of the arms to pull at `stage`, as many as the problem pulls there."""
        ...


def draws_arms(policy: Policy) -> bool:
    """Whether the policy chooses at random, always or between tied arms."""
    drawn: bool = getattr(policy, "randomised", False)
    return drawn or getattr(policy, "ties", "") == "random"


def tie_tolerance(problem: Problem) -> float:
    """Indices closer than this are equal."""
    largest = max(
        float(np.abs(part).max())
        for group in problem.groups
        for part in (group.reward_good, group.reward_bad, group.terminal)
        if part is not None
    )
    return TIE_TOLERANCE * (largest or 1.0)


def check_turn(problem: Problem, stage: int, state: State) -> None:
    """A ValueError unless a policy can be asked for the arms of this stage in this state."""
    if not 0 <= stage < problem.stages:
        raise ValueError(f"stage: {stage} is not allowed; must be 0..{problem.stages - 1}")
    if len(state.pulls) != problem.number_of_arms:
        raise ValueError(
            f"state: {len(state.pulls)} arms; the problem has {problem.number_of_arms}"
        )
    if max(state.pulls) > stage:
        raise ValueError(f"state: {max(state.pulls)} pulls of one arm by stage {stage}")


def refuse_several_pulls(problem: Problem, policy: str) -> None:
    """A ValueError unless one arm is pulled at every stage."""
    if problem.pulls_per_stage != 1:
        raise ValueError(
            f"policy {policy!r} weighs single pulls; the problem has {problem.pulls_per_stage} per "
            "stage; use 'greedy', 'bayes-ucb' or 'thompson'"
        )


class IndexPolicy(ABC):
    """Pulls the arms of largest index; an arm's index depends on the stage and its own state."""

    name: str

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        if ties not in TIE_RULES:
            raise ValueError(f"ties: {ties!r} is not a rule; choose one of {', '.join(TIE_RULES)}")
        self.problem = problem
        self.ties = ties
        self._tolerance = tie_tolerance(problem)

    @abstractmethod
    def indices(self, stage: int, state: State) -> Floats:
        """Index of every arm, (arms,)."""

    def choose(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        """Positions of the arms to pull, largest index first."""
        check_turn(self.problem, stage, state)
        number = round(self.problem.pulls[stage])
        return self.pick(self.indices(stage, state), state.pulls, rng=rng, number=number)

    def pick(
        self,
        indices: Floats,
        pulls: Sequence[int],
        *,
        rng: np.random.Generator | None = None,
        number: int = 1,
        allowed: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """The arms of largest given index, largest first, of those allowed; ties by the rule.

        indices, pulls (arms,): pulls only break ties. allowed: positions, ascending.
        """
        remaining = np.arange(indices.size) if allowed is None else np.array(allowed)
        chosen: list[int] = []
        for _ in range(number):
            chosen.append(self._break_tie(self.tied(indices, remaining), pulls, rng))
            remaining = remaining[remaining != chosen[-1]]
        return tuple(chosen)

    def tied(self, indices: Floats, allowed: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Positions of the arms that share the largest index of those allowed, in their order."""
        arms = np.asarray(allowed, dtype=np.intp)
        own = indices[arms]
        return np.asarray(arms[own >= own.max() - self._tolerance], dtype=np.intp)

    def _break_tie(
        self, tied: npt.NDArray[np.intp], pulls: Sequence[int], rng: np.random.Generator | None
    ) -> int:
        if len(tied) == 1:
            return int(tied[0])
        if self.ties == "random":
            if rng is None:
                raise ValueError("ties are broken at random: pass a random generator as rng")
            return int(rng.choice(tied))
        if self.ties == "last":
            return int(tied[-1])
        if self.ties == "first":
            return int(tied[0])
        own = np.array([pulls[arm] for arm in tied])
        return int(tied[own.argmin() if self.ties == "least-pulled" else own.argmax()])
