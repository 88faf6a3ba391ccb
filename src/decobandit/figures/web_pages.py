"""Figures of plotly and interactive pages: charts, episodes, markets; needs the extra `plot`.

A page holds everything it needs and asks no other host for anything; its content security policy
says so to the browser. Names of arms come from users: they are escaped wherever they appear.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from ..support import Floats, write_whole
from .charts import Chart, Panel, Series, shifts
from .palette import NEUTRAL_COLOUR
from .report_page import render_page

TRANSPARENT = "rgba(0,0,0,0)"
ABOVE = 20  # pixels above the first panel
LEGEND_ROW = 20.0  # pixels
LEGEND_BELOW: dict[str, Any] = {
    "orientation": "h",
    "yref": "container",
    "y": 0.0,
    "yanchor": "bottom",
    "entrywidth": 0.5,
    "entrywidthmode": "fraction",
    "font": {"size": 11},
}
TITLE = 30  # pixels
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "P": "cross",
    "X": "x",
    "*": "star",
    "p": "pentagon",
}
FEW_STAGES = 10  # each has a number below the axis
GRID = "rgba(128,128,128,0.3)"
PLOTLY_DASHES = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)


def save_page(page: str, file: str | Path) -> None:
    """Write a page, whole or not at all."""
    write_whole(file, page)


# -- what all are made of ----------------------------------------------------------------------


def new_panels(
    titles: tuple[str, ...],
    heights: list[float],
    *,
    along: str = "stage",
    apart: float = 34.0,
    below: float = 50.0,
) -> Any:
    """Return plotly panels below each other, for white and dark pages.

    Heights, the distance of panels and the room below them are in pixels. Panels share their
    horizontal axis, called `along`, if there is a name for it.
    """
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise ImportError(
            'interactive figures need plotly; install it with: pip install "decobandit[plot]"'
        ) from None
    rows = len(titles)
    inside = sum(heights) + apart * (rows - 1)
    figure = make_subplots(
        rows=rows,
        cols=1,
        shared_xaxes=bool(along),
        row_heights=heights,
        vertical_spacing=apart / inside,
    )
    for row, title in enumerate(titles, start=1):
        figure.update_yaxes(title_text=title, row=row, col=1)
    figure.update_xaxes(title_text=along, row=rows, col=1)
    axis = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID}
    figure.update_xaxes(axis)
    figure.update_yaxes(axis)
    figure.update_layout(
        height=inside + below + ABOVE,
        template="none",
        hovermode="closest",
        margin={"l": 70, "r": 20, "t": ABOVE, "b": below},
        paper_bgcolor=TRANSPARENT,
        plot_bgcolor=TRANSPARENT,
        font={"color": NEUTRAL_COLOUR},
        legend={"groupclick": "togglegroup", "tracegroupgap": 0, "traceorder": "normal"},
    )
    return figure


def named_below(figure: Any) -> Any:
    """Move the legend below the figure, in two columns."""
    names = sum(trace.showlegend is not False for trace in figure.data)
    room = 12.0 + LEGEND_ROW * -(-names // 2)
    below = figure.layout.margin.b + room
    return figure.update_layout(
        height=figure.layout.height + room,
        margin={"l": 56, "r": 8, "b": below},
        legend=LEGEND_BELOW,
    )


def whole_stages(figure: Any, stages: int) -> None:
    """Show integer stages only, if there are few."""
    if stages <= FEW_STAGES:
        figure.update_xaxes(dtick=1)


def figure_page(figure: Any, title: str, text: str = "") -> str:
    """Return a plotly figure as a self-contained page."""
    drawn = figure.to_html(
        full_html=False,
        include_plotlyjs=True,
        include_mathjax=False,
        div_id="figure",
        config={"displaylogo": False, "responsive": True, "showLink": False},
    )
    return render_page(
        "figure.html.j2", policy=POLICY, title=title, text=text, figure=Markup(drawn)
    )


def as_text(name: str) -> str:
    """Escape a name for plotly: tags, %{} templates and $ signs."""
    return escape(name).replace("$", "&#36;").replace("%", "&#37;")


def add_curve(
    figure: Any,
    row: int,
    values: Floats,
    name: str,
    colour: str,
    *,
    width: float = 1.8,
    dash: str = "solid",
) -> None:
    """Add a curve over the stages to a panel."""
    figure.add_scatter(
        x=list(range(len(values))),
        y=values.tolist(),
        mode="lines",
        name=as_text(name),
        line={"color": colour, "width": width, "dash": dash},
        meta=as_text(name),
        hovertemplate="%{meta}, stage %{x}: %{y:.4f}<extra></extra>",
        row=row,
        col=1,
    )


# -- charts -------------------------------------------------------------------------------------


def plotly_chart(chart: Chart) -> Any:
    """Draw a chart by plotly."""
    rows = bool(chart.panels[0].rows)
    labels = tuple("" if rows else panel.label for panel in chart.panels)
    lines = -(-len(chart.names) // 2)  # of the legend, in two columns
    figure = new_panels(
        labels,
        heights=[_height(panel) for panel in chart.panels],
        along=chart.along,
        apart=60.0 if rows else 24.0,
        below=60.0 + LEGEND_ROW * lines,
    )
    named: set[str] = set()
    for number, panel in enumerate(chart.panels, start=1):
        offsets = shifts(len(panel.series)) if panel.rows else np.zeros(len(panel.series))
        for shift, series in zip(offsets, panel.series, strict=True):
            shown = {"showlegend": series.name not in named, "row": number, "col": 1}
            named.add(series.name)
            if panel.rows:
                _add_points(figure, series, float(shift), shown)
            elif series.kind == "bars":
                _add_bars(figure, series, shown)
            else:
                _add_values(figure, series, shown)
        if panel.rows:
            _name_rows(figure, number, panel)
        elif panel.from_zero:
            figure.update_yaxes(rangemode="tozero", row=number, col=1)
    figure.update_layout(legend=LEGEND_BELOW, barmode="stack", bargap=0)
    return _titled(figure, chart.title) if chart.title else figure


def _titled(figure: Any, title: str) -> Any:
    above = {"x": 0.5, "y": 1.0, "yanchor": "top", "pad": {"t": 10}, "font": {"size": 14}}
    return figure.update_layout(
        title={"text": as_text(title).replace("\n", "<br>"), **above},
        margin={"t": ABOVE + TITLE},
        height=figure.layout.height + TITLE,
    )


def _height(panel: Panel) -> float:
    if panel.rows:
        return 60.0 + 14.0 * len(panel.rows) * (len(panel.series) + 1)
    return 300.0 * panel.height


def _legend(series: Series) -> dict[str, Any]:
    """Return the name of a trace, for legend and hover."""
    name = as_text(series.name)
    return {"name": name, "legendgroup": name, "meta": name}


def _add_values(figure: Any, series: Series, shown: dict[str, Any]) -> None:
    at, values, style = series.at.tolist(), series.values, series.style
    dash = PLOTLY_DASHES[style.dashes]
    figure.add_scatter(
        x=at,
        y=values.tolist(),
        mode="lines",
        line={"color": style.colour, "width": 1.2 * series.width, "dash": dash},
        hovertemplate="%{meta}, %{x}: %{y:.4f}<extra></extra>",
        **_legend(series),
        **shown,
    )
    if series.band is not None:
        low, high = series.band
        figure.add_scatter(
            x=[*at, *at[::-1]],
            y=[*high.tolist(), *low[::-1].tolist()],
            fill="toself",
            mode="none",
            fillcolor=style.colour,
            opacity=0.15,
            hoverinfo="skip",
            **_legend(series),
            **shown | {"showlegend": False},
        )


def _add_bars(figure: Any, series: Series, shown: dict[str, Any]) -> None:
    figure.add_bar(
        x=series.at.tolist(),
        y=series.values.tolist(),
        marker={"color": series.style.colour, "line": {"width": 0}},
        opacity=series.opacity,
        hovertemplate="%{meta}, %{x}: %{y:.4f}<extra></extra>",
        **_legend(series),
        **shown,
    )


def _add_points(figure: Any, series: Series, shift: float, shown: dict[str, Any]) -> None:
    colour = series.style.colour
    errors = None if series.errors is None else series.errors.tolist()
    figure.add_scatter(
        x=series.values.tolist(),
        y=(series.at + shift).tolist(),
        mode="markers",
        marker={"color": colour, "symbol": SYMBOLS[series.style.marker], "size": 9},
        error_x={"type": "data", "array": errors, "color": colour, "thickness": 1.5},
        hovertemplate="%{meta}: %{x:.4f}<extra></extra>",
        **_legend(series),
        **shown,
    )


def _name_rows(figure: Any, number: int, panel: Panel) -> None:
    figure.update_yaxes(
        tickvals=list(range(len(panel.rows))),
        ticktext=[as_text(name) for name in panel.rows],
        range=[len(panel.rows) - 0.5, -0.5],
        automargin=True,
        row=number,
        col=1,
    )
    figure.update_xaxes(title_text=panel.label, rangemode="tozero", row=number, col=1)
