"""The index of one arm in one state, whatever the others have shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..problem import arm_position, check_state
from .catalogue import make_policies
from .context import Context
from .records import ArmIndex


@dataclass(frozen=True)
class NamedIndex:
    """The index that a policy gives to an arm, and where."""

    policy: str
    arm: str
    stage: int
    good: int
    bad: int
    found: ArmIndex

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the parts that the index has."""
        where = {key: value for key, value in vars(self).items() if key != "found"}
        return where | self.found.to_dict()


def indices_of_arm(
    context: Context,
    policies: Sequence[str],
    arm: str | None = None,
    *,
    stage: int = 0,
    good: int = 0,
    bad: int = 0,
) -> list[NamedIndex]:
    """Index of an arm by each policy, as exactly as it can be had; of the first arm by default."""
    problem = context.problem
    position = arm_position(problem, arm)
    check_state(problem, stage, good, bad)
    name, group = problem.arms[position].name, int(problem.group_of_arm[position])
    return [
        NamedIndex(made.name, name, stage, good, bad, made.arm_index(stage, group, good, bad))
        for made in make_policies(context, policies)
    ]
