"""What policies say: arms with probabilities, pulls with probabilities, indices, worth of arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..problem import State
from ..support import Floats

Distribution = list[tuple[tuple[int, ...], float]]  # arms to pull, probability
Allotments = list[tuple[tuple[int, ...], float]]  # pulls of every arm, probability
Ways = Sequence[tuple[State, float]]  # states that may hold, probability

# Cost of a policy, besides solving for the prices that it may need:
#   light     next to nothing
#   tables    tables that grow with the cube of the stages, once
#   decision  a search at every decision
#   solve     a dual at every decision
Cost = Literal["light", "tables", "decision", "solve"]


@dataclass(frozen=True)
class ArmIndex:
    """The index of one arm in one state, with the parts that a policy can tell of it."""

    index: float
    expected_reward: float | None = None
    value_of_information: float | None = None
    price: float | None = None
    indexable: bool | None = None  # whether a calibrated index is the only crossing
    path: str | None = None  # that it is calibrated against

    def to_dict(self) -> dict[str, float | bool | str]:
        """Plain values, without what is not known."""
        return {key: value for key, value in self.__dict__.items() if value is not None}


@dataclass(frozen=True)
class Weighed:
    """What each arm is worth now, (arms,), averaged over pending outcomes."""

    values: Floats
    arm: int | None = None  # the one to pull; None: the largest value, by the policy's tie rule
    what: str = "index"  # the values are
    tied: tuple[int, ...] = ()  # arms of as large a value as `arm`, this one included
