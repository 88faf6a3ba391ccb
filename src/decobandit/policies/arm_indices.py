"""The index of one arm in one state, whatever the others have shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..problem import Group, Stats, arm_position, check_stats
from .allocation import ArmIndex
from .catalogue import make_policies
from .context import Context


@dataclass(frozen=True)
class NamedIndex:
    """The index that a policy gives to an arm, and where; `state` as the kind of the arm writes it.

    good, bad: of arms that have such outcomes.
    """

    policy: str
    arm: str
    stage: int
    good: int | None
    bad: int | None
    state: str
    found: ArmIndex

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the parts that the index has."""
        where = {key: value for key, value in vars(self).items() if key != "found"}
        return {k: v for k, v in where.items() if v is not None} | self.found.to_dict()


def indices_of_arm(
    context: Context,
    policies: Sequence[str],
    arm: str | None = None,
    *,
    stage: int = 0,
    good: int = 0,
    bad: int = 0,
    state: str | None = None,
) -> list[NamedIndex]:
    """Index of an arm by each policy, as exactly as it can be had; of the first arm by default.

    state: what is known of it, as its kind writes it; else good and bad outcomes.
    """
    problem = context.problem
    position = arm_position(problem, arm)
    own = problem.groups[int(problem.group_of_arm[position])]
    stats = _stats(own, stage, good, bad, state)
    check_stats(problem, stage, own, stats)
    good_seen, bad_seen = (int(n) for n in stats) if own.is_binary else (None, None)
    name, text = problem.arms[position].name, own.model.format.write(stats)
    group = int(problem.group_of_arm[position])
    return [
        NamedIndex(
            made.name, name, stage, good_seen, bad_seen, text, made.arm_index(stage, group, stats)
        )
        for made in make_policies(context, policies)
    ]


def _stats(own: Group, stage: int, good: int, bad: int, state: str | None) -> Stats:
    if state is not None:
        if good or bad:
            raise ValueError("state: give it, or good and bad outcomes, not both")
        try:
            return own.model.format.read(state)
        except ValueError as error:
            raise ValueError(f"state: {error}") from None
    if own.is_binary:
        return (good, bad)
    if good or bad:
        raise ValueError(
            f"good, bad: {own.model.word} arms have other outcomes; give the state, for example "
            f"{own.model.format.write(own.model.initial())}"
        )
    return own.model.initial()
