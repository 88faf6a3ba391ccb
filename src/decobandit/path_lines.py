"""What figures and pages of a path share: its curves, and the colours and names of its arms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .paths import Path
from .problem import Problem

Floats = npt.NDArray[np.float64]
COLOURS = (  # no green, which is the price's, and no grey, which is that of fresh arms
    "#1f77b4", "#ff7f0e", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#1a2f6b",
    "#b8860b", "#7a0044",
    "#6baed6", "#fdae6b", "#fb6a6a", "#c49cde", "#c49c94", "#f4a6cf", "#7fd6e0", "#6a7fc1",
    "#dfc04d", "#c2185b",
)  # fmt: skip
COLOURS_PER_DASH = 10  # the lighter half is dashed, too
DASHES = ("solid", "dashed", "dashdot", "dotted")
FRESH_COLOUR = "#8a8a8a"
SHORTFALL_COLOUR = "#c0392b"
CONGESTION_COLOUR = "#2c5fa8"
LONGEST_NAME = 22  # characters in a legend


class Style(NamedTuple):
    """How an arm is drawn, the same in all panels."""

    colour: str
    dashes: str


def arm_styles(paths: Sequence[Path]) -> dict[int, Style]:
    """A style for every arm that is pulled in any of the paths, in their order in the problem."""
    pulled = sorted({arm for path in paths for arms in path.pulled for arm in arms})
    return {
        arm: Style(COLOURS[i % len(COLOURS)], DASHES[(i // COLOURS_PER_DASH) % len(DASHES)])
        for i, arm in enumerate(pulled)
    }


def short_name(name: str) -> str:
    """An arm's name that leaves room for the figure."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


class Line(NamedTuple):
    """A piece of a curve: some arm, or fresh arms of a group, over some stages."""

    arm: int  # for fresh arms, any of them
    fresh: bool
    group: int
    stages: slice


def lines_of(path: Path) -> Iterator[Line]:
    """The curves of a path: arms of a group share one until their first pull, then have their own.

    The deployment is left out: its rewards are of another size.
    """
    played = min(path.stages, path.problem.horizon)
    pulls = (path.good + path.bad)[:played]
    begun = np.argmax(pulls > 0, axis=0)  # stage at which the first outcome is known
    rested = ~np.any(pulls > 0, axis=0)
    begun[rested] = played
    for number, group in enumerate(path.problem.groups):
        members = np.array(group.members)
        longest = members[np.argmax(begun[members])]
        yield Line(int(longest), True, number, slice(0, int(begun[longest])))
    for arm in np.flatnonzero(~rested):
        # from the stage of its first pull, so that the curve leaves the shared one there
        first = int(begun[arm]) - 1
        yield Line(int(arm), False, int(path.problem.group_of_arm[arm]), slice(first, played))


def fresh_groups(paths: Sequence[Path]) -> list[int]:
    """Groups whose shared curve can be seen: two stages at least."""
    lines = [line for path in paths for line in lines_of(path)]
    return sorted({line.group for line in lines if line.fresh and line.stages.stop > 1})


def fresh_label(problem: Problem, group: int) -> str:
    """What the shared curve of a group's fresh arms is called."""
    if len(problem.groups) == 1:
        return "not pulled yet"
    members = problem.groups[group].members
    more = f" (+{len(members) - 1})" if len(members) > 1 else ""
    return f"fresh: {short_name(problem.arms[members[0]].name)}{more}"


def refuse_empty(paths: Sequence[Path]) -> None:
    """A ValueError where there is nothing to draw."""
    if not paths or any(path.stages == 0 for path in paths):
        raise ValueError("nothing has been pulled yet: no figure")


def checked_expected(path: Path, expected: npt.ArrayLike) -> Floats:
    """The expected loss after each stage of a path."""
    line = np.asarray(expected, dtype=float)
    if line.ndim != 1 or line.size < path.stages:
        raise ValueError(f"expected: shape {line.shape}; must be one number per stage")
    return line[: path.stages]
