"""Outcomes of several pulls of an arm, as requests and events have them.

good or bad    good outcomes and outcomes, [30, 50]
others         text, as the kind of the arm writes a tally: counts of classes "2+0+1", sum and
               number "12.5/4", own outcomes in the order of the pulls "fine+worn"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..problem import LARGEST_SUM, ArmModel, Stats

Told = tuple[int, int] | str
Counts = tuple[tuple[str, Told], ...]  # arm, and what was told of it; each arm once


def tally_of(kind: ArmModel, told: Told) -> Stats:
    """The tally of what an event has; a ValueError where it cannot be one of the arm."""
    if kind.counts_good != (not isinstance(told, str)):
        raise ValueError("outcomes of another kind than the arm has")
    if not isinstance(told, str):
        good, pulls = told
        return (good, pulls - good)
    tally = kind.read_tally(told)
    if told_of(kind, tally) != told or not kind.tally_pulls(tally):
        raise ValueError("not written as logs have it")
    return tally


def told_of(kind: ArmModel, tally: Stats) -> Told:
    """What events have of a tally; a ValueError where it is not one."""
    if not all(abs(each) <= LARGEST_SUM for each in tally):
        raise ValueError("the sum of the outcomes is too large")
    if kind.counts_good:
        good, bad = map(int, tally)
        return (good, good + bad)
    return kind.write_tally(tally)


def told_text(told: Told) -> str:
    """For people."""
    return told if isinstance(told, str) else f"{told[0]}/{told[1]}"


def given_tally(kind: ArmModel, given: object) -> Stats:
    """The tally of what people give: text, or its parts; a ValueError where it is none."""
    words, mark = kind.tally_form
    if not isinstance(given, str):
        try:
            given = mark.join(map(_part, given))  # type: ignore[call-overload]
        except TypeError:
            raise ValueError(f"{given!r}; must be {words}") from None
    return kind.read_tally(given.strip())


def _part(value: object) -> str:
    """A number or a name as text."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number and not isinstance(value, str):
        raise TypeError
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)


def counts_tree(counts: Counts) -> dict[str, Any]:
    """As events have them, by the arms that are named."""
    return {arm: told if isinstance(told, str) else list(told) for arm, told in counts}


def counts_from(tree: Mapping[str, Any]) -> Counts:
    """Read what `counts_tree` wrote; a ValueError where it cannot be that."""
    found = tuple((str(arm), _told(given)) for arm, given in sorted(tree.items()))
    if not found:
        raise ValueError("counts name an arm at least")
    return found


def _told(given: Any) -> Told:
    if isinstance(given, str) and given:
        return given
    good, pulls = given
    whole = type(good) is int and type(pulls) is int
    if not whole or not 0 <= good <= pulls or not pulls:
        raise ValueError("counts are good outcomes and outcomes, one at least")
    return (good, pulls)
