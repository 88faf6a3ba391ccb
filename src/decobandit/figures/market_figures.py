"""The bandit market as a figure: prices, who buys the pulls, how many arms are worth the price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..prices import Demand
from . import colours
from .episode_lines import fresh_names
from .plots import WIDTH, legend_below, literal, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def market_figure(market: Demand, *, interactive: bool = False) -> Figure | Any:
    """Three panels over the stages: price and fresh arms, pulls sold, arms worth the price.

    `interactive`: a figure of plotly in place of one of matplotlib.
    """
    if interactive:
        from .web_pages import market_panels

        return market_panels(market)
    problem = market.problem
    figure = new_figure(figsize=(WIDTH, 9.0))
    panels = figure.subplots(3, 1, sharex=True)
    shown = problem.horizon  # the deployment's price is of another size
    _draw_prices(panels[0], market, shown)
    _draw_sold(panels[1], market, shown)
    _draw_worth(panels[2], market, shown)
    last = "" if problem.stages == shown else f"; price of the deployment {market.prices[-1]:.4f}"
    figure.suptitle(
        f"the market of {problem.n_arms} arms, horizon {shown}{last}", fontsize="medium"
    )
    panels[2].set_xlabel("stage")
    figure.align_ylabels(panels)
    for axes in panels:
        axes.grid(alpha=0.25)
        axes.set_xlim(-0.5, shown - 0.5)
        axes.locator_params(axis="x", integer=True)
    pairs = {
        name: line
        for axes in panels
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    legend_below(figure, pairs.values(), pairs)
    return figure


def _draw_prices(axes: Axes, market: Demand, shown: int) -> None:
    axes.plot(
        market.prices[:shown],
        color=colours.PRICE_COLOUR,
        linewidth=3.5,
        alpha=0.65,
        label="price of a pull",
    )
    for number, name in enumerate(fresh_names(market)):
        colour = colours.FRESH_COLOUR if number == 0 else colours.SAFE_COLOURS[number - 1]
        axes.plot(
            market.fresh_index[number, :shown], color=colour, linestyle=colours.DASHES[number % 4],
            linewidth=1.5, label=literal(name),
        )  # fmt: skip
    axes.set_ylabel("price and index")


def _draw_sold(axes: Axes, market: Demand, shown: int) -> None:
    edges = np.arange(shown + 1) - 0.5
    axes.stairs(
        market.sold_fresh[:shown], edges, fill=True, color=colours.FRESH_COLOUR, alpha=0.5,
        label="sold to fresh arms",
    )  # fmt: skip
    axes.stairs(
        (market.sold_fresh + market.sold_touched)[:shown], edges,
        baseline=market.sold_fresh[:shown], fill=True, color=colours.CONGESTION_COLOUR, alpha=0.35,
        label="sold to pulled arms",
    )  # fmt: skip
    axes.set_ylim(0.0, 1.05 * float(market.problem.pulls[:shown].max()))
    axes.set_ylabel("expected pulls")


def _draw_worth(axes: Axes, market: Demand, shown: int) -> None:
    edges = np.arange(shown + 1) - 0.5
    above, both = market.above[:shown], (market.above + market.at_price)[:shown]
    axes.stairs(
        above, edges, fill=True, color=colours.PRICE_COLOUR, alpha=0.4, label="above the price"
    )
    axes.stairs(
        both,
        edges,
        baseline=above,
        fill=True,
        color=colours.AT_PRICE_COLOUR,
        alpha=0.5,
        label="at the price",
    )
    axes.plot(
        market.problem.pulls[:shown], color=colours.NEUTRAL_COLOUR, linestyle="dashed",
        linewidth=1.4, label="pulls on offer",
    )  # fmt: skip
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("expected arms")
