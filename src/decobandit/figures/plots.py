"""Figures of matplotlib: what all share, and how it draws a chart; only `save_figure` writes."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ..support import write_whole
from .charts import Chart, Panel, Series, shifts
from .palette import DARK_GROUND, DARK_TEXT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

DPI = 150
DARK_ENDING = "-dark"
WIDTH = 6.4  # inches: letters stay readable where the figure is as wide as a phone
CURVES, ROW, AROUND = 3.4, 0.17, 1.1  # inches: a panel, a point in a row, what is around
MOST_INCHES = 8.0  # of all panels of curves
WIDER, SMALLER = 1.35, 0.6  # two charts side by side: the figure, and their panels
MOST_NAMED = 30  # names in a legend
LEGEND_COLUMNS, LEGEND_LETTERS = 3, 94  # at most; letters beside each other in all
LEGEND_SAMPLE = 11  # letters that a line and the space around it take

# what parts of figures have colours, as `get_` and `set_` call them
_COLOURED = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


def new_figure(figsize: tuple[float, float]) -> Figure:
    """Return an empty matplotlib figure with constrained layout."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            'figures need matplotlib; install it with: pip install "decobandit[plot]"'
        ) from None
    return Figure(layout="constrained", figsize=figsize)


def legend_below(figure: Figure, handles: Iterable[Any], labels: Iterable[str]) -> None:
    """Add a legend below all panels."""
    names, lines = list(labels), list(handles)
    if len(names) > MOST_NAMED:
        more = len(names) - MOST_NAMED
        names[MOST_NAMED:], lines[MOST_NAMED:] = [f"… and {more} more"], [_nothing()]
    figure.legend(
        lines,
        names,
        loc="outside lower center",
        ncols=_columns(names),
        fontsize="small",
        handlelength=3.2,
    )


def _nothing() -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none")


def _columns(names: list[str]) -> int:
    """Return the number of legend columns that fit."""
    for columns in range(LEGEND_COLUMNS, 1, -1):
        parts = np.array_split(np.array([len(name) for name in names]), columns)
        if sum(max(part, default=0) + LEGEND_SAMPLE for part in parts) <= LEGEND_LETTERS:
            return columns
    return 1


def literal(text: str) -> str:
    """Escape text for matplotlib: $ signs and a leading underscore."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


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
        for part in _COLOURED:
            now = getattr(artist, f"get_{part}", lambda: None)()
            if _is_one_colour(now) and to_rgb(now) in changed:
                alpha = now[3:] if isinstance(now, tuple) else ()
                getattr(artist, f"set_{part}")((*changed[to_rgb(now)], *alpha))
    for axes in copy.axes:
        axes.tick_params(which="both", colors=DARK_TEXT)
    return copy


def _is_one_colour(value: object) -> TypeGuard[str | tuple[float, float, float, float]]:
    """Return whether a value is one colour, neither an array nor "none"."""
    return (isinstance(value, str) and value != "none") or (
        isinstance(value, tuple) and len(value) == 4
    )


# -- charts -------------------------------------------------------------------------------------


def matplotlib_chart(chart: Chart) -> Figure:
    """Draw a chart by matplotlib, with the legend below."""
    return matplotlib_charts([chart])


def matplotlib_charts(charts: Sequence[Chart], title: str = "") -> Figure:
    """Draw charts with panels of equal heights, two of them side by side, with one legend below."""
    panels, alone = charts[0].panels, len(charts) == 1
    heights = np.array([_height(panel) for panel in panels])
    if not panels[0].rows:
        heights *= min(1.0, MOST_INCHES / heights.sum()) if alone else SMALLER
    rows, wide = -(-len(charts) // 2), WIDTH if alone else WIDER * WIDTH
    figure = new_figure(figsize=(wide, AROUND + rows * float(heights.sum())))
    parts = [figure] if alone else figure.subfigures(rows, 2, wspace=0.03, squeeze=False).flat
    for part, chart in zip(parts, charts, strict=False):
        _draw_panels(part, chart, heights.tolist())
    if title:
        figure.suptitle(literal(title), fontsize="medium")
    handles: dict[str, Any] = {}
    for axes in reversed(figure.axes):  # what is in all panels comes last, such as arms
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, line)
    legend_below(figure, handles.values(), handles)
    return figure


def _height(panel: Panel) -> float:
    if panel.rows:
        return 0.7 + ROW * len(panel.rows) * (len(panel.series) + 1)
    return CURVES * panel.height


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
    for bars, floor in panel.stacked():
        axes.stairs(
            floor + bars.values,
            np.append(bars.at, bars.at[-1] + 1.0) - 0.5,
            baseline=floor,
            fill=True,
            color=bars.style.colour,
            alpha=bars.opacity,
            label=literal(bars.name),
        )
    for series in panel.series:
        label = literal(series.name)
        if series.kind == "curve":
            _draw_curve(axes, series, label)
        elif series.kind == "points":
            _draw_points(axes, series, label)
        elif series.kind == "spans":
            _draw_spans(axes, series, label)
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
    for shift, points in zip(shifts(len(panel.series)), panel.series, strict=True):
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
