"""Interactive pages, and how plotly draws a chart; needs the extra `plot`.

A page holds everything it needs and asks no other host for anything; its content security policy
says so to the browser. Names of arms come from users: they are escaped wherever they appear.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from markupsafe import Markup

from ..support import Floats
from .charts import Chart, Hover, Panel, Series, shifts
from .palette import NEUTRAL_COLOUR
from .plots import matplotlib_chart
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
    "groupclick": "togglegroup",
    "tracegroupgap": 0,
    "traceorder": "normal",
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


# -- charts -------------------------------------------------------------------------------------


def draw_chart(chart: Chart, interactive: bool = False) -> Any:
    """Return a chart as a figure of matplotlib, or of plotly if interactive."""
    return plotly_chart(chart) if interactive else matplotlib_chart(chart)


def plotly_chart(chart: Chart) -> Any:
    """Draw a chart by plotly, for white and dark pages."""
    figure = _panels(chart)
    named: set[str] = set()
    for number, panel in enumerate(chart.panels, start=1):
        offsets = shifts(len(panel.series)) if panel.rows else np.zeros(len(panel.series))
        for shift, series in zip(offsets, panel.series, strict=True):
            if series.values.size and not np.isfinite(series.values).any():
                continue  # a sample for the legend
            shown = {"showlegend": series.name not in named}
            named.add(series.name)
            place = {"row": number, "col": 1}
            figure.add_trace(_trace(panel, series, float(shift)) | shown, **place)
            if not panel.rows and series.band is not None:
                figure.add_trace(_band(series), **place)
        if panel.rows:
            _name_rows(figure, number, panel)
        elif panel.from_zero:
            figure.update_yaxes(rangemode="tozero", row=number, col=1)
    return _titled(figure, chart.title) if chart.title else figure


def _panels(chart: Chart) -> Any:
    """Return empty panels below each other, with room for the legend; sizes are in pixels."""
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise ImportError(
            'interactive figures need plotly; install it with: pip install "decobandit[plot]"'
        ) from None
    rows, number = bool(chart.panels[0].rows), len(chart.panels)
    heights = [_height(panel) for panel in chart.panels]
    apart, below = 60.0 if rows else 24.0, 60.0 + LEGEND_ROW * -(-len(chart.names) // 2)
    inside = sum(heights) + apart * (number - 1)
    figure = make_subplots(
        rows=number,
        cols=1,
        shared_xaxes=not rows,
        row_heights=heights,
        vertical_spacing=apart / inside,
    )
    axis = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID}
    figure.update_xaxes(axis)
    figure.update_yaxes(axis)
    if not rows:
        for row, panel in enumerate(chart.panels, start=1):
            figure.update_yaxes(title_text=panel.label.replace("\n", "<br>"), row=row, col=1)
        figure.update_xaxes(title_text=chart.along, row=number, col=1)
        if max((series.at.size for series in chart.series), default=0) <= FEW_STAGES:
            figure.update_xaxes(dtick=1)
    return figure.update_layout(
        height=inside + below + ABOVE,
        template="none",
        hovermode="closest",
        margin={"l": 70, "r": 20, "t": ABOVE, "b": below},
        paper_bgcolor=TRANSPARENT,
        plot_bgcolor=TRANSPARENT,
        font={"color": NEUTRAL_COLOUR},
        legend=LEGEND_BELOW,
        barmode="stack",  # spans have a base and are not stacked
        bargap=0,
    )


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


def _numbers(values: Floats) -> list[float | None]:
    """Return values for JSON, None in gaps."""
    return [None if np.isnan(value) else value for value in values.tolist()]


def _trace(panel: Panel, series: Series, shift: float) -> dict[str, Any]:
    """Return a series as plotly takes it."""
    name, hover = as_text(series.name), series.hover
    style, colour = series.style, series.style.colour
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "x": _numbers(series.at),
        "y": _numbers(series.values),
        "name": name,
        "legendgroup": series.key or name,
        "meta": name,
        "hovertemplate": "%{meta}, %{x}: %{y:.4f}<extra></extra>",
    }
    if isinstance(hover, Hover):
        template = f"{hover.template}<extra></extra>"
        meta = as_text(hover.title or series.name)
        trace |= {"hovertemplate": template, "customdata": hover.numbers, "meta": meta}
    if panel.rows:
        errors = None if series.errors is None else series.errors.tolist()
        return trace | {
            "x": _numbers(series.values),
            "y": _numbers(series.at + shift),
            "marker": {"color": colour, "symbol": SYMBOLS[style.marker], "size": 9},
            "error_x": {"type": "data", "array": errors, "color": colour, "thickness": 1.5},
            "hovertemplate": "%{meta}: %{x:.4f}<extra></extra>",
        }
    if series.kind == "curve":
        line = {"color": colour, "width": 1.2 * series.width, "dash": PLOTLY_DASHES[style.dashes]}
        return trace | {"mode": "lines", "line": line}
    if series.kind == "points":
        filled = np.ones(series.at.shape) if series.filled is None else series.filled
        fills = [colour if fill else TRANSPARENT for fill in filled]
        edge, size = {"color": colour, "width": 1.2}, 1.25 * series.width
        return trace | {"marker": {"color": fills, "size": size, "line": edge}}
    bars = trace | {
        "type": "bar",
        "marker": {"color": colour, "line": {"width": 0}},
        "opacity": series.opacity,
    }
    del bars["mode"]
    if series.base is None:
        return bars
    y, base = _numbers(series.values - series.base), _numbers(series.base)
    return bars | {"y": y, "base": base, "width": series.width}


def _band(series: Series) -> dict[str, Any]:
    assert series.band is not None
    (low, high), at, name = series.band, series.at.tolist(), as_text(series.name)
    return {
        "type": "scatter",
        "x": [*at, *at[::-1]],
        "y": [*high.tolist(), *low[::-1].tolist()],
        "fill": "toself",
        "mode": "none",
        "fillcolor": series.style.colour,
        "opacity": 0.15,
        "hoverinfo": "skip",
        "name": name,
        "legendgroup": series.key or name,
        "showlegend": False,
    }


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
