"""Colours of arms, prices and losses, and dashes, the same in figures and pages."""

PRICE_COLOUR = "#2a8a3a"  # the price is green, as in the paper
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
# at least 3:1 against white paper and against a dark page: for figures that are drawn once for both
SOLID_COLOURS = (
    "#3b82c4", "#d9711c", "#9467bd", "#c8504a", "#1f97a5", "#a8850f", "#d0569f", "#6a7fc1",
    "#a0705f", "#7d8a2e",
)  # fmt: skip
SOLID_GREY = "#868d8a"
SOLID_GREEN = "#2f9454"  # the price, and bounds that follow from prices
