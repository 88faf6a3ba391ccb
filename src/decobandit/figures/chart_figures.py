"""Charts drawn by matplotlib: wide enough to read on a phone, with the legend below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .charts import Chart, Panel, shifts
from .plots import WIDTH, legend_below, literal, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES, ROW, AROUND = 3.4, 0.17, 1.1  # inches: of a panel, of a point in a row, of what is around


def matplotlib_chart(chart: Chart) -> Figure:
    """The chart as a figure."""
    heights = [_height(panel) for panel in chart.panels]
    figure = new_figure(figsize=(WIDTH, AROUND + sum(heights)))
    curves = not chart.panels[0].rows
    panels = figure.subplots(
        len(heights), 1, squeeze=False, sharex=curves, height_ratios=heights
    )[:, 0]  # fmt: skip
    for axes, panel in zip(panels, chart.panels, strict=True):
        (_draw_rows if panel.rows else _draw_curves)(axes, panel)
    if curves:
        panels[-1].set_xlabel(chart.along)
    figure.suptitle(literal(chart.title), fontsize="medium")
    handles = {
        name: line
        for axes in panels
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    legend_below(figure, handles.values(), handles)
    return figure


def _height(panel: Panel) -> float:
    return 0.7 + ROW * len(panel.rows) * (len(panel.series) + 1) if panel.rows else CURVES


def _draw_curves(axes: Axes, panel: Panel) -> None:
    for each in panel.series:
        colour = each.style.colour
        axes.plot(
            each.at, each.values, label=literal(each.name), color=colour,
            linestyle=each.style.dashes, linewidth=1.7,
        )  # fmt: skip
        if each.errors is not None and np.any(each.errors > 0.0):
            low, high = each.values - each.errors, each.values + each.errors
            axes.fill_between(each.at, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_ylabel(panel.label)
    axes.set_xlim(0, None)
    axes.set_ylim(0, None)
    axes.grid(alpha=0.25)


def _draw_rows(axes: Axes, panel: Panel) -> None:
    for shift, each in zip(shifts(len(panel.series)), panel.series, strict=True):
        errors = each.errors if each.errors is not None and np.any(each.errors > 0.0) else None
        axes.errorbar(
            each.values, each.at + shift, xerr=errors, label=literal(each.name),
            fmt=each.style.marker, color=each.style.colour, markersize=5, linewidth=1.2, capsize=2,
        )  # fmt: skip
    axes.set_yticks(range(len(panel.rows)), [literal(name) for name in panel.rows])
    for i in range(1, len(panel.rows)):
        axes.axhline(i - 0.5, color="0.5", alpha=0.35, linewidth=0.8)
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    axes.set_xlim(min(axes.get_xlim()[0], 0.0) if _any_negative(panel) else 0.0, None)
    axes.set_xlabel(panel.label)
    axes.grid(axis="x", alpha=0.25)


def _any_negative(panel: Panel) -> bool:
    """Whether some value is below 0: rewards may be."""
    return any(bool(np.any(series.values < 0.0)) for series in panel.series)
