"""One colour, one line and one marker for each policy, the same in every figure, table and page.

Policies of the catalogue have theirs by their place in it, those of the paper's figures first. Any
other policy takes one of those that are left, by its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from ..policies.names import FIGURE_POLICIES, POLICIES
from .colours import DASHES, MARKERS, SAFE_COLOURS

_PLACES = {name: place for place, name in enumerate(dict.fromkeys([*FIGURE_POLICIES, *POLICIES]))}
PAIRS = len(SAFE_COLOURS) * len(DASHES)  # their numbers have no common factor: all pairs occur
_FREE = max(PAIRS - len(_PLACES), 1)


class Style(NamedTuple):
    """How a policy or an arm is drawn."""

    colour: str
    dashes: str  # of DASHES
    marker: str = MARKERS[0]

    @property
    def line(self) -> dict[str, str]:
        """As matplotlib's `plot` takes it: `axes.plot(x, y, **policy_style("deco").line)`."""
        return {"color": self.colour, "linestyle": self.dashes}

    @property
    def point(self) -> dict[str, str]:
        """The same for points."""
        return {"color": self.colour, "marker": self.marker}


def arm_style(position: int) -> Style:
    """The style of an arm: lines are solid until the colours are used up."""
    colours = len(SAFE_COLOURS)
    return Style(SAFE_COLOURS[position % colours], DASHES[position // colours % len(DASHES)])


def policy_style(name: str) -> Style:
    """The style of a policy.

    Examples
    --------
    >>> from decobandit.figures import policy_style
    >>> policy_style("deco").colour, policy_style("deco").dashes
    ('#ce2431', 'dashed')
    """
    return policy_styles([name])[name]


def policy_styles(names: Iterable[str]) -> dict[str, Style]:
    """Styles of policies in one figure; two that are not of the catalogue differ, too."""
    found: dict[str, Style] = {}
    taken: set[int] = set()
    for name in names:
        known = _PLACES.get(name)
        place = _free(name, taken) if known is None else known
        taken.add(place)
        found[name] = _at(place)
    return found


def _free(name: str, taken: set[int]) -> int:
    """A place after those of the catalogue, by the name; the next one where it is taken."""
    first = crc32(name.encode()) % _FREE
    tried = (len(_PLACES) + (first + more) % _FREE for more in range(_FREE))
    return next((place for place in tried if place not in taken), len(_PLACES) + first)


def _at(place: int) -> Style:
    return Style(
        SAFE_COLOURS[place % len(SAFE_COLOURS)],
        DASHES[place % len(DASHES)],
        MARKERS[place % len(MARKERS)],
    )
