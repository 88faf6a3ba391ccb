"""The colours, lines and markers of all figures, tables and pages: one of each for each policy.

Each colour has a contrast of 3:1 or more with white paper and with a dark page, so that a figure is
drawn once for both. Those of `SAFE_COLOURS` differ from each other and from the price also for
readers who do not tell red from green, or blue from yellow: `tests/figures/test_palette.py` tests
it. Policies of the catalogue have theirs by their place in it, those of the paper's figures first.
Any other policy takes one of those that are left, by its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from ..policies.names import FIGURE_POLICIES, POLICIES

SAFE_COLOURS = (  # blue, red, amber, magenta, grey, lavender, pink; no green, which is the price's
    "#2461e7",
    "#ce2431",
    "#c28600",
    "#c224aa",
    "#616d6d",
    "#9a82e4",
    "#ff499e",
)
PRICE_COLOUR = "#2f9454"  # the price is green, as in the paper, and so are bounds from prices
FRESH_COLOUR = "#868d8a"
SHORTFALL_COLOUR = "#d2503f"
CONGESTION_COLOUR = "#3b78c4"
INFORMATION_COLOUR = "#c28600"
AT_PRICE_COLOUR = "#b9862f"
NEUTRAL_COLOUR = "#76807b"  # lines and letters that are neither data nor text of the page
DASHES = ("solid", "dashed", "dashdot", "dotted")
MARKERS = "osD^vPX*p"
DARK_GROUND, DARK_TEXT = "#1c2220", "#e8ece9"
# brighter, where a figure is drawn for a dark page alone
DARK_VARIANTS = {
    PRICE_COLOUR: "#5cc483",
    CONGESTION_COLOUR: "#7fb0e6",
    SHORTFALL_COLOUR: "#f09a86",
    NEUTRAL_COLOUR: DARK_TEXT,
    "#2461e7": "#6c98f5",
    "#ce2431": "#ee6a72",
    "#c224aa": "#e267cf",
    "#616d6d": "#9fabab",
    "#9a82e4": "#b9a6f0",
}


_PLACES = {name: place for place, name in enumerate(dict.fromkeys([*FIGURE_POLICIES, *POLICIES]))}
ARM_STYLES = 2 * len(SAFE_COLOURS)  # arms told apart by areas: filled ones, then dashed outlines
PAIRS = len(SAFE_COLOURS) * len(DASHES)  # their numbers have no common factor: all pairs occur
_FREE = max(PAIRS - len(_PLACES), 1)


class Style(NamedTuple):
    """Colour, dashes and marker of a policy or arm."""

    colour: str
    dashes: str  # of DASHES
    marker: str = MARKERS[0]

    @property
    def line(self) -> dict[str, str]:
        """As matplotlib's `plot` takes it: `axes.plot(x, y, **policy_style("deco").line)`."""
        return {"color": self.colour, "linestyle": self.dashes}

    @property
    def point(self) -> dict[str, str]:
        """Return the keywords of matplotlib for points."""
        return {"color": self.colour, "marker": self.marker}


def arm_style(position: int) -> Style:
    """Return the style of an arm; lines are solid until colours repeat."""
    colours = len(SAFE_COLOURS)
    return Style(SAFE_COLOURS[position % colours], DASHES[position // colours % len(DASHES)])


def policy_style(name: str) -> Style:
    """Return the style of a policy."""
    return policy_styles([name])[name]


def policy_styles(names: Iterable[str]) -> dict[str, Style]:
    """Return distinct styles for the policies of one figure."""
    styles: dict[str, Style] = {}
    taken: set[int] = set()
    for name in names:
        place = _PLACES.get(name)
        if place is None:  # a free one after the catalogue, by a hash of the name
            first = crc32(name.encode()) % _FREE
            tried = (len(_PLACES) + (first + more) % _FREE for more in range(_FREE))
            place = next((one for one in tried if one not in taken), len(_PLACES) + first)
        taken.add(place)
        parts = (SAFE_COLOURS, DASHES, MARKERS)
        styles[name] = Style(*(part[place % len(part)] for part in parts))
    return styles
