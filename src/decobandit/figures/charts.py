"""Charts: what is in them, how matplotlib and plotly draw them, and where figures are written.

A chart has panels over one axis. Series of a panel run along the stages, as curves with bands, as
points, as bars on top of each other, or as spans between two values; or a panel has rows, and of
each series a point in every row, with error bars.

A page of plotly holds everything it needs and asks no other host for anything; its content security
policy says so to the browser. Names of arms come from users: they are escaped wherever they appear.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from markupsafe import Markup

from ..support import Floats, write_whole
from .palette import DARK_GROUND, DARK_TEXT, NEUTRAL_COLOUR, Style
from .report_page import render_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

FIRM, LIGHT = 0.85, 0.45  # opacity of bars: alone, and behind a curve


@dataclass(frozen=True)
class Hover:
    """Text of a page at every point: a template of plotly, and the numbers in it by point."""

    template: str
    numbers: list[Any]
    title: str = ""  # in full, where the name of the series is short


@dataclass(frozen=True, eq=False)
class Series:
    """Named values along `at`: stages or row numbers. Without values: a sample for the legend."""

    name: str
    style: Style
    at: Floats
    values: Floats
    errors: Floats | None = None  # half of the width of the band or bar
    kind: Literal["curve", "points", "bars", "spans"] = "curve"
    width: float = 1.7  # of a curve; the size of points
    opacity: float = 1.0
    base: Floats | None = None  # the other ends of spans
    filled: np.typing.NDArray[np.bool_] | None = None  # points that are not open
    key: str = ""  # series that a page hides together; the name where there is none
    hover: Hover | None = None

    @property
    def band(self) -> tuple[Floats, Floats] | None:
        """Lower and upper ends of its errors, where there are some."""
        if self.errors is None or not np.any(self.errors > 0.0):
            return None
        return self.values - self.errors, self.values + self.errors


@dataclass(frozen=True)
class Panel:
    """One panel of a chart."""

    label: str
    series: tuple[Series, ...]
    rows: tuple[str, ...] = ()  # names of rows, from the top; none where curves are drawn
    from_zero: bool = True  # whether the axis of values begins at 0
    height: float = 1.0  # compared with other panels of curves

    @property
    def row_height(self) -> int:
        """Points below each other in all rows, with one for the room between them."""
        return len(self.rows) * (len(self.series) + 1)

    @property
    def shifts(self) -> Floats:
        """Vertical offsets of several series in a row."""
        number = len(self.series)
        return np.linspace(-0.35, 0.35, number) if number > 1 and self.rows else np.zeros(number)


@dataclass(frozen=True)
class Chart:
    """Panels with a common legend. `along`: what the stages are called."""

    title: str
    along: str
    panels: tuple[Panel, ...]

    @property
    def series(self) -> list[Series]:
        """All series of all panels."""
        return [series for panel in self.panels for series in panel.series]


def draw_chart(chart: Chart, interactive: bool = False) -> Any:
    """Return a chart as a figure of matplotlib, or of plotly if interactive."""
    return plotly_chart(chart) if interactive else matplotlib_charts([chart])


# -- matplotlib -----------------------------------------------------------------------------------

DPI = 150
DARK_ENDING = "-dark"
WIDTH = 6.4  # inches: letters stay readable where the figure is as wide as a phone
CURVES, ROW, AROUND = 3.4, 0.17, 1.1  # inches: a panel, a point in a row, what is around
MOST_INCHES = 8.0  # of all panels of curves
WIDER, SMALLER = 1.35, 0.6  # two charts side by side: the figure, and their panels
MOST_NAMED = 30  # names in a legend
LEGEND_COLUMNS, LEGEND_LETTERS = 3, 94  # at most; letters beside each other in all
LEGEND_SAMPLE = 11  # letters that a line and the space around it take


def new_figure(figsize: tuple[float, float]) -> Figure:
    """Return an empty matplotlib figure with constrained layout."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            'figures need matplotlib; install it with: pip install "decobandit[plot]"'
        ) from None
    return Figure(layout="constrained", figsize=figsize)


def literal(text: str) -> str:
    """Escape text for matplotlib: $ signs and a leading underscore."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def matplotlib_charts(charts: Sequence[Chart], title: str = "") -> Figure:
    """Draw charts with panels of equal heights, two of them side by side, with one legend below."""
    panels, alone = charts[0].panels, len(charts) == 1
    heights = np.array([0.7 + ROW * p.row_height if p.rows else CURVES * p.height for p in panels])
    if not panels[0].rows:
        heights *= min(1.0, MOST_INCHES / heights.sum()) if alone else SMALLER
    rows, wide = -(-len(charts) // 2), WIDTH if alone else WIDER * WIDTH
    figure = new_figure(figsize=(wide, AROUND + rows * float(heights.sum())))
    parts: Any = [figure] if alone else figure.subfigures(rows, 2, wspace=0.03, squeeze=False).flat
    for part, chart in zip(parts, charts, strict=False):
        _draw_panels(part, chart, heights.tolist())
    if title:
        figure.suptitle(literal(title), fontsize="medium")
    _add_legend(figure)
    return figure


def _add_legend(figure: Figure) -> None:
    """Add a legend below all panels, with as many columns as fit."""
    from matplotlib.lines import Line2D

    handles: dict[str, Any] = {}
    for axes in reversed(figure.axes):  # what is in all panels comes last, such as arms
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, line)
    names, lines = list(handles), list(handles.values())
    if len(names) > MOST_NAMED:
        more = len(names) - MOST_NAMED
        names[MOST_NAMED:] = [f"… and {more} more"]
        lines[MOST_NAMED:] = [Line2D([], [], linestyle="none")]
    columns = LEGEND_COLUMNS
    while columns > 1:
        parts = np.array_split([len(name) for name in names], columns)
        if sum(max(part, default=0) + LEGEND_SAMPLE for part in parts) <= LEGEND_LETTERS:
            break
        columns -= 1
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": columns}
    figure.legend(lines, names, fontsize="small", handlelength=3.2, **place)


def _draw_panels(figure: Figure | SubFigure, chart: Chart, heights: list[float]) -> None:
    curves = not chart.panels[0].rows
    panels = figure.subplots(len(heights), 1, squeeze=False, sharex=curves, height_ratios=heights)[
        :, 0
    ]
    for axes, panel in zip(panels, chart.panels, strict=True):
        (_draw_rows if panel.rows else _draw_curves)(axes, panel)
    if curves:
        panels[-1].set_xlabel(chart.along)
        panels[-1].locator_params(axis="x", integer=True)
        marks = np.hstack([np.empty(0), *(one.at for one in chart.series if one.kind != "curve")])
        ends = (np.nanmin(marks) - 0.5, np.nanmax(marks) + 0.5) if marks.size else (0.0, None)
        panels[-1].set_xlim(*ends)
        figure.align_ylabels(panels)
    figure.suptitle(literal(chart.title), fontsize="medium")


def _draw_curves(axes: Axes, panel: Panel) -> None:
    floor: Any = 0.0
    for series in panel.series:
        if series.kind == "bars":
            top, edges = floor + series.values, np.append(series.at, series.at[-1] + 1.0) - 0.5
            colour, label = series.style.colour, literal(series.name)
            drawn: dict[str, Any] = {"fill": True, "alpha": series.opacity}
            axes.stairs(top, edges, baseline=floor, label=label, color=colour, **drawn)
            floor = top
    draw = {"curve": _draw_curve, "points": _draw_points, "spans": _draw_spans}
    for series in panel.series:
        if series.kind in draw:
            draw[series.kind](axes, series, literal(series.name))
    axes.set_ylabel(panel.label)
    if panel.from_zero:
        axes.set_ylim(0, None)
    axes.grid(alpha=0.25)


def _draw_curve(axes: Axes, curve: Series, label: str) -> None:
    axes.plot(
        curve.at,
        curve.values,
        label=label,
        color=curve.style.colour,
        linestyle=curve.style.dashes,
        linewidth=curve.width,
        alpha=curve.opacity,
    )
    if curve.band is not None:
        axes.fill_between(curve.at, *curve.band, color=curve.style.colour, alpha=0.18, linewidth=0)


def _draw_points(axes: Axes, points: Series, label: str) -> None:
    filled = np.ones(points.at.shape, np.bool_) if points.filled is None else points.filled
    for some, fill in ((filled, points.style.colour), (~filled, "white")):
        if some.any():
            axes.plot(
                points.at[some],
                points.values[some],
                label=label,
                linestyle="none",
                marker=points.style.marker,
                markersize=points.width,
                markeredgecolor=points.style.colour,
                markerfacecolor=fill,
                markeredgewidth=min(1.2, 0.25 * points.width),
            )


def _draw_spans(axes: Axes, spans: Series, label: str) -> None:
    """Draw rectangles; several over each other make the colour darker."""
    from matplotlib.collections import PolyCollection

    assert spans.base is not None
    left, right = spans.at - spans.width / 2.0, spans.at + spans.width / 2.0
    low, high = np.minimum(spans.values, spans.base), np.maximum(spans.values, spans.base)
    corners = np.array([[left, left, right, right], [low, high, high, low]]).T
    colour = {"facecolor": spans.style.colour, "edgecolor": "none", "alpha": spans.opacity}
    axes.add_collection(PolyCollection(list(corners), label=label, **colour))  # type: ignore[arg-type]


def _draw_rows(axes: Axes, panel: Panel) -> None:
    for shift, points in zip(panel.shifts, panel.series, strict=True):
        axes.errorbar(
            points.values,
            points.at + shift,
            xerr=None if points.band is None else points.errors,
            label=literal(points.name),
            fmt=points.style.marker,
            color=points.style.colour,
            markersize=5,
            linewidth=1.2,
            capsize=2,
        )
    axes.set_yticks(range(len(panel.rows)), [literal(name) for name in panel.rows])
    for i in range(1, len(panel.rows)):
        axes.axhline(i - 0.5, color="0.5", alpha=0.35, linewidth=0.8)
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    negative = any(bool(np.any(points.values < 0.0)) for points in panel.series)
    axes.set_xlim(min(axes.get_xlim()[0], 0.0) if negative else 0.0, None)
    axes.set_xlabel(panel.label)
    axes.grid(axis="x", alpha=0.25)


# -- files and windows of matplotlib --------------------------------------------------------------


def save_figure(figure: Figure, path: str | Path, *, dark: bool = False) -> None:
    """Write a figure; the suffix says the format (.png, .svg, .pdf). `dark`: for a dark page."""
    file = Path(path) if Path(path).suffix else Path(f"{path}.png")
    content = io.BytesIO()
    drawn = for_dark_pages(figure) if dark else figure
    drawn.savefig(content, format=file.suffix.removeprefix("."), dpi=DPI)
    write_whole(file, content.getvalue())


def show_figure(figure: Figure) -> None:
    """Open a figure in a window, as a script does at its end; without a display, do nothing."""
    from matplotlib import pyplot as plt

    if plt.get_backend().lower() == "agg":
        return
    window = plt.figure().canvas.manager
    assert window is not None
    window.canvas.figure = figure
    figure.set_canvas(window.canvas)
    plt.show()


def dark_name(path: Path) -> Path:
    """Return the name of a figure's dark variant, such as `figure-dark.png`."""
    return path.with_stem(f"{path.stem}{DARK_ENDING}")


def small_png(figure: Figure, *, dark: bool = False, dpi: int = DPI) -> bytes:
    """Return a figure as PNG with 256 colours, a third of the size."""
    from PIL import Image  # matplotlib needs it, too

    full, content = io.BytesIO(), io.BytesIO()
    (for_dark_pages(figure) if dark else figure).savefig(full, format="png", dpi=dpi)
    few = Image.open(full).convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE)
    few.save(content, format="png", optimize=True)
    return content.getvalue()


def for_dark_pages(figure: Figure) -> Figure:
    """Return a copy with light text on a dark ground; data keep their colours."""
    from matplotlib.colors import to_rgb

    changed = {to_rgb("black"): to_rgb(DARK_TEXT), to_rgb("white"): to_rgb(DARK_GROUND)}
    copy: Figure = pickle.loads(pickle.dumps(figure))
    for artist in copy.findobj():
        for part in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
            now: Any = getattr(artist, f"get_{part}", lambda: None)()
            named = isinstance(now, str) and now != "none"
            if (named or (isinstance(now, tuple) and len(now) == 4)) and to_rgb(now) in changed:
                alpha = now[3:] if isinstance(now, tuple) else ()
                getattr(artist, f"set_{part}")((*changed[to_rgb(now)], *alpha))
    for axes in copy.axes:
        axes.tick_params(which="both", colors=DARK_TEXT)
    return copy


# -- plotly ---------------------------------------------------------------------------------------

TRANSPARENT, GRID = "rgba(0,0,0,0)", "rgba(128,128,128,0.3)"
ABOVE, TITLE, LEGEND_ROW = 20, 30, 20.0  # pixels: above the first panel, a title, a legend's row
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
PLOTLY_DASHES = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}
FEW_STAGES = 10  # each has a number below the axis
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


def plotly_chart(chart: Chart) -> Any:
    """Draw a chart by plotly, for white and dark pages."""
    figure, named = _plotly_panels(chart), set[str]()
    for number, panel in enumerate(chart.panels, start=1):
        place = {"row": number, "col": 1}
        for shift, series in zip(panel.shifts.tolist(), panel.series, strict=True):
            if series.values.size and not np.isfinite(series.values).any():
                continue  # a sample for the legend
            shown = {"showlegend": series.name not in named}
            named.add(series.name)
            figure.add_trace(_trace(panel, series, shift) | shown, **place)
            if not panel.rows and series.band is not None:
                figure.add_trace(_band(series), **place)
        if panel.rows:
            names = [as_text(name) for name in panel.rows]
            ticks = {"tickvals": list(range(len(names))), "ticktext": names, "automargin": True}
            figure.update_yaxes(ticks, range=[len(names) - 0.5, -0.5], **place)
            figure.update_xaxes(title_text=panel.label, rangemode="tozero", **place)
        else:
            mode = "tozero" if panel.from_zero else "normal"
            label = panel.label.replace("\n", "<br>")
            figure.update_yaxes(title_text=label, rangemode=mode, **place)
    return figure


def _plotly_panels(chart: Chart) -> Any:
    """Return empty panels below each other, with room for title and legend; sizes in pixels."""
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise ImportError(
            'interactive figures need plotly; install it with: pip install "decobandit[plot]"'
        ) from None
    rows, number = bool(chart.panels[0].rows), len(chart.panels)
    heights = [60.0 + 14.0 * p.row_height if p.rows else 300.0 * p.height for p in chart.panels]
    names = {series.name for series in chart.series if series.values.size}
    apart, below = 60.0 if rows else 24.0, 60.0 + LEGEND_ROW * -(-len(names) // 2)
    inside, above = sum(heights) + apart * (number - 1), ABOVE + TITLE * bool(chart.title)
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
        figure.update_xaxes(title_text=chart.along, row=number, col=1)
        if max((series.at.size for series in chart.series), default=0) <= FEW_STAGES:
            figure.update_xaxes(dtick=1)
    if chart.title:
        text = as_text(chart.title).replace("\n", "<br>")
        place = {"x": 0.5, "y": 1.0, "yanchor": "top", "pad": {"t": 10}, "font": {"size": 14}}
        figure.update_layout(title={"text": text, **place})
    return figure.update_layout(
        height=inside + below + above,
        template="none",
        hovermode="closest",
        margin={"l": 70, "r": 20, "t": above, "b": below},
        paper_bgcolor=TRANSPARENT,
        plot_bgcolor=TRANSPARENT,
        font={"color": NEUTRAL_COLOUR},
        legend=LEGEND_BELOW,
        barmode="stack",  # spans have a base and are not stacked
        bargap=0,
    )


def _numbers(values: Floats) -> list[float | None]:
    """Return values for JSON, None in gaps."""
    return [None if np.isnan(value) else value for value in values.tolist()]


def _trace(panel: Panel, series: Series, shift: float) -> dict[str, Any]:
    """Return a series as plotly takes it."""
    name, hover, style = as_text(series.name), series.hover, series.style
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
    if hover is not None:
        template = f"{hover.template}<extra></extra>"
        meta = as_text(hover.title or series.name)
        trace |= {"hovertemplate": template, "customdata": hover.numbers, "meta": meta}
    if panel.rows:
        errors = None if series.errors is None else series.errors.tolist()
        return trace | {
            "x": _numbers(series.values),
            "y": _numbers(series.at + shift),
            "marker": {"color": style.colour, "symbol": SYMBOLS[style.marker], "size": 9},
            "error_x": {"type": "data", "array": errors, "color": style.colour, "thickness": 1.5},
            "hovertemplate": "%{meta}: %{x:.4f}<extra></extra>",
        }
    if series.kind == "curve":
        line = {"color": style.colour, "width": 1.2 * series.width}
        return trace | {"mode": "lines", "line": line | {"dash": PLOTLY_DASHES[style.dashes]}}
    if series.kind == "points":
        filled = np.ones(series.at.shape) if series.filled is None else series.filled
        fills = [style.colour if fill else TRANSPARENT for fill in filled]
        edge, size = {"color": style.colour, "width": 1.2}, 1.25 * series.width
        return trace | {"marker": {"color": fills, "size": size, "line": edge}}
    del trace["mode"]
    marker = {"color": style.colour, "line": {"width": 0}}
    trace |= {"type": "bar", "marker": marker, "opacity": series.opacity}
    if series.base is None:
        return trace
    y, base = _numbers(series.values - series.base), _numbers(series.base)
    return trace | {"y": y, "base": base, "width": series.width}


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
