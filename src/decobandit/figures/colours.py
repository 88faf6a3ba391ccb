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
