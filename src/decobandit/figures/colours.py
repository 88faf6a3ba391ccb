"""The colours of all figures and pages.

Each has a contrast of 3:1 or more with white paper and with a dark page, so that a figure is drawn
once for both. Those of `SAFE_COLOURS` differ from each other and from the price also for readers
who do not tell red from green, or blue from yellow: `tests/figures/test_palette.py` measures that.
"""

SAFE_COLOURS = (  # blue, red, amber, magenta, grey, lavender, pink; no green, which is the price's
    "#2461e7", "#ce2431", "#c28600", "#c224aa", "#616d6d", "#9a82e4", "#ff499e",
)  # fmt: skip
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
    PRICE_COLOUR: "#5cc483", CONGESTION_COLOUR: "#7fb0e6", SHORTFALL_COLOUR: "#f09a86",
    NEUTRAL_COLOUR: DARK_TEXT, "#2461e7": "#6c98f5", "#ce2431": "#ee6a72", "#c224aa": "#e267cf",
    "#616d6d": "#9fabab", "#9a82e4": "#b9a6f0",
}  # fmt: skip
