"""What figures and pages of episodes and markets share: curves, colours and names of arms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..bounds import Episode
from ..prices import Demand
from ..problem import Problem
from ..support import Floats
from .palette import Style, arm_style

LONGEST_NAME = 22  # characters in a legend
MOST_GROUPS = 8  # kinds of fresh arms that are drawn
NO_LOSS = 1e-9  # less is rounding, which is not magnified


def arm_styles(episodes: Sequence[Episode]) -> dict[int, Style]:
    """A style for every arm that is pulled in any of the episodes, in the problem's order."""
    pulled = sorted({arm for episode in episodes for arms in episode.pulled for arm in arms})
    return {arm: arm_style(i) for i, arm in enumerate(pulled)}


def pull_labels(problem: Problem) -> tuple[str, str]:
    """What filled and open points are called."""
    if problem.is_binary:
        return "pulled, good", "pulled, bad"
    return "pulled, at least as expected", "pulled, less than expected"


def points_text(problem: Problem) -> str:
    """The same in a sentence."""
    if problem.is_binary:
        return "Filled points are pulls with a good outcome, open points pulls with a bad one."
    return (
        "Filled points are pulls whose outcome counted at least what was expected, open points "
        "pulls whose outcome counted less."
    )


def short_name(name: str) -> str:
    """An arm's name that leaves room for the figure."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


class Line(NamedTuple):
    """A piece of a curve: some arm, or fresh arms of a group, over some stages."""

    arm: int  # for fresh arms, any of them
    fresh: bool
    group: int
    stages: slice


def lines_of(episode: Episode) -> Iterator[Line]:
    """Its curves: arms of a group share one until their first pull, then have their own.

    The deployment is left out: its rewards are of another size.
    """
    played = min(episode.stages, episode.problem.horizon)
    pulls = episode.pulls[:played]
    begun = np.argmax(pulls > 0, axis=0)  # stage at which the first outcome is known
    rested = ~np.any(pulls > 0, axis=0)
    begun[rested] = played
    for number, group in enumerate(episode.problem.groups):
        members = np.array(group.members)
        longest = members[np.argmax(begun[members])]
        yield Line(int(longest), True, number, slice(0, int(begun[longest])))
    for arm in np.flatnonzero(~rested):
        # from the stage of its first pull, so that the curve leaves the shared one there
        first = int(begun[arm]) - 1
        yield Line(int(arm), False, int(episode.problem.group_of_arm[arm]), slice(first, played))


def fresh_groups(episodes: Sequence[Episode]) -> list[int]:
    """Groups whose shared curve can be seen: two stages at least."""
    lines = [line for episode in episodes for line in lines_of(episode)]
    return sorted({line.group for line in lines if line.fresh and line.stages.stop > 1})


def fresh_label(problem: Problem, group: int) -> str:
    """What the shared curve of a group's fresh arms is called."""
    if len(problem.groups) == 1:
        return "not pulled yet"
    members = problem.groups[group].members
    more = f" (+{len(members) - 1})" if len(members) > 1 else ""
    return f"fresh: {short_name(problem.arms[members[0]].name)}{more}"


def fresh_names(market: Demand) -> list[str]:
    """What the curve of each kind of fresh arms is called, for as many as are drawn."""
    problem = market.problem
    if len(problem.groups) == 1:
        return ["index of a fresh arm"]
    firsts = [problem.arms[group.members[0]].name for group in problem.groups[:MOST_GROUPS]]
    return [f"fresh: {short_name(name)}" for name in firsts]


def refuse_empty(episodes: Sequence[Episode]) -> None:
    """A ValueError where there is nothing to draw."""
    if not episodes or any(episode.stages == 0 for episode in episodes):
        raise ValueError("nothing has been pulled yet: no figure")


def checked_expected(episode: Episode, expected: npt.ArrayLike) -> Floats:
    """The expected loss after each stage of an episode."""
    line = np.asarray(expected, dtype=float)
    if line.ndim != 1 or line.size < episode.stages:
        raise ValueError(f"expected: shape {line.shape}; must be one number per stage")
    return line[: episode.stages]
