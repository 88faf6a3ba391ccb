"""Charts drawn by plotly: transparent, in greys that are seen on white and on dark pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from .charts import Chart, Panel, Series, names_in, shifts
from .web_pages import ABOVE, LEGEND_BELOW, LEGEND_ROW, PLOTLY_DASHES, as_text, new_panels

TITLE = 30  # pixels
SYMBOLS = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down",
    "P": "cross", "X": "x", "*": "star", "p": "pentagon",
}  # fmt: skip


def plotly_chart(chart: Chart) -> Any:
    """The chart as a figure of plotly."""
    rows = bool(chart.panels[0].rows)
    labels = tuple("" if rows else panel.label for panel in chart.panels)
    lines = -(-len(names_in(chart)) // 2)  # of the legend, in two columns
    figure = new_panels(
        labels, heights=[_height(panel) for panel in chart.panels], along=chart.along,
        apart=60.0 if rows else 24.0, below=60.0 + LEGEND_ROW * lines,
    )  # fmt: skip
    named: set[str] = set()
    for number, panel in enumerate(chart.panels, start=1):
        moved = shifts(len(panel.series)) if panel.rows else np.zeros(len(panel.series))
        for shift, each in zip(moved, panel.series, strict=True):
            draw = _add_points if panel.rows else _add_curve
            draw(figure, number, each, float(shift), each.name not in named)
            named.add(each.name)
        if panel.rows:
            _name_rows(figure, number, panel)
    figure.update_layout(
        title={
            "text": as_text(chart.title).replace("\n", "<br>"), "font": {"size": 14}, "x": 0.5,
            "y": 1.0, "yanchor": "top", "pad": {"t": 10},
        },
        margin={"t": ABOVE + TITLE}, height=figure.layout.height + TITLE,
        legend=LEGEND_BELOW,
    )  # fmt: skip
    return figure


def _height(panel: Panel) -> float:
    return 60.0 + 14.0 * len(panel.rows) * (len(panel.series) + 1) if panel.rows else 300.0


def _add_curve(figure: Any, row: int, each: Series, shift: float, shown: bool) -> None:
    at, values, style = each.at.tolist(), each.values, each.style
    name = as_text(each.name)
    figure.add_scatter(
        x=at, y=values.tolist(), mode="lines", name=name, legendgroup=name, showlegend=shown,
        line={"color": style.colour, "width": 2, "dash": PLOTLY_DASHES[style.dashes]}, meta=name,
        hovertemplate="%{meta}, %{x}: %{y:.4f}<extra></extra>", row=row, col=1,
    )  # fmt: skip
    if each.errors is not None and np.any(each.errors > 0.0):
        edge = [*(values + each.errors), *(values - each.errors)[::-1]]
        figure.add_scatter(
            x=[*at, *at[::-1]], y=[float(y) for y in edge], fill="toself", mode="none",
            fillcolor=style.colour, opacity=0.15, hoverinfo="skip", legendgroup=name,
            showlegend=False, row=row, col=1,
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero", row=row, col=1)


def _add_points(figure: Any, row: int, each: Series, shift: float, shown: bool) -> None:
    name, colour = as_text(each.name), each.style.colour
    errors = None if each.errors is None else each.errors.tolist()
    figure.add_scatter(
        x=each.values.tolist(), y=(each.at + shift).tolist(), mode="markers", name=name,
        legendgroup=name, showlegend=shown, meta=name,
        marker={"color": colour, "symbol": SYMBOLS[each.style.marker], "size": 9},
        error_x={"type": "data", "array": errors, "color": colour, "thickness": 1.5},
        hovertemplate="%{meta}: %{x:.4f}<extra></extra>", row=row, col=1,
    )  # fmt: skip


def _name_rows(figure: Any, number: int, panel: Panel) -> None:
    figure.update_yaxes(
        tickvals=list(range(len(panel.rows))), ticktext=[as_text(name) for name in panel.rows],
        range=[len(panel.rows) - 0.5, -0.5], automargin=True, row=number, col=1,
    )  # fmt: skip
    figure.update_xaxes(title_text=panel.label, rangemode="tozero", row=number, col=1)
