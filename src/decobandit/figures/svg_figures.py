"""Figures of reports as SVG text: no scripts, no styles; for white and dark pages.

Lines and letters have the colour of the text around them; data have colours of the palette. Reports
and the server's pages show them where scripts and matplotlib are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf

import numpy as np
from markupsafe import Markup

from ..problem import ArmModel
from .episodes import short_name
from .palette import DASHES, FRESH_COLOUR, NEUTRAL_COLOUR, Style, arm_style, policy_style
from .report_page import render_part

WIDTH, RIGHT, BOTTOM = 400.0, 14.0, 44.0  # of a figure; room beside and below its frame
FONT = 12.0  # height of letters
LETTER = 6.3  # width of one, on average
ROW = 26.0  # height of a row
FAINT = "0.25"  # opacity of grid lines
SVG_DASHES = dict(zip(DASHES, ("", "7 4", "9 3 2 3", "2 3"), strict=True))
POINTS = 160  # of a density
PALE = "40"  # opacity of areas with an outline
FRESH = Style(FRESH_COLOUR, DASHES[0])
REST = Style(NEUTRAL_COLOUR + "66", DASHES[0])  # of all others: the page is seen through


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers from `low` to `high`."""
    if not high > low:
        return [low]
    power = 10.0 ** np.floor(np.log10((high - low) / most))
    step = next(size * power for size in (1, 2, 5, 10) if size * power * most >= high - low)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(round(k * step, 12)) for k in np.arange(first, last + 1)]


def number(value: float) -> str:
    """Format a coordinate or tick label."""
    return f"{round(value, 4) + 0.0:.6g}"


class Plot:
    """A figure under construction: a frame with linear axes of these ranges, and marks in it."""

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        height: float = 150.0,
        left: float = 44.0,
        top: float = 28.0,
    ) -> None:
        self.x, self.y, self.left, self.top = x, y, left, top
        self.frame_width, self.frame_height = WIDTH - left - RIGHT, height
        self.height = top + height + BOTTOM
        self._marks: list[tuple[str, dict[str, object], str]] = []

    def at_x(self, value: float) -> float:
        """Return the x coordinate of a value."""
        low, high = self.x
        return self.left + self.frame_width * (value - low) / ((high - low) or 1.0)

    def at_y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        low, high = self.y
        return self.top + self.frame_height * (high - value) / ((high - low) or 1.0)

    # -- marks -------------------------------------------------------------------------------

    def add(self, name: str, text: str = "", /, **attributes: object) -> None:
        """Add an element; underscores in names of attributes become hyphens, empty ones go."""
        shown = {
            key.replace("_", "-"): number(value) if isinstance(value, float) else value
            for key, value in attributes.items()
            if value != ""
        }
        self._marks.append((name, shown, text))

    def line(self, xs: Iterable[float], ys: Iterable[float], style: Style) -> None:
        """Add a line through the points."""
        at = zip(map(self.at_x, xs), map(self.at_y, ys), strict=True)
        points = " ".join(f"{number(x)},{number(y)}" for x, y in at)
        drawn = {"stroke": style.colour, "stroke_width": 2.0, "stroke_linejoin": "round"}
        self.add(
            "polyline",
            points=points,
            fill="none",
            **drawn,
            stroke_dasharray=SVG_DASHES[style.dashes],
        )

    def rule(self, start: tuple[float, float], end: tuple[float, float], **more: object) -> None:
        """Add a straight line in the text colour, from (x, y) to (x, y)."""
        (x1, y1), (x2, y2) = ((self.at_x(x), self.at_y(y)) for x, y in (start, end))
        drawn: dict[str, object] = {"stroke": "currentColor", "stroke_width": 1.0}
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, **drawn | more)

    def dot(self, x: float, y: float, colour: str, *, radius: float = 4.0, **more: object) -> None:
        """Add a circle at a point."""
        self.add("circle", cx=self.at_x(x), cy=self.at_y(y), r=radius, fill=colour, **more)

    def box(self, x: tuple[float, float], y: tuple[float, float], style: Style) -> None:
        """Add a rectangle between two values of each axis: filled, or pale with dashes around."""
        (left, right), (top, bottom) = sorted(map(self.at_x, x)), sorted(map(self.at_y, y))
        dash, drawn, inset = SVG_DASHES[style.dashes], dict[str, object](fill=style.colour), 0.0
        if dash:
            inset = min(2.0, 0.5 * (bottom - top))
            drawn = {"fill": style.colour + PALE, "stroke": style.colour, "stroke_width": inset}
        self.add(
            "rect",
            x=left + inset / 2.0,
            y=top + inset / 2.0,
            width=right - left - inset,
            height=bottom - top - inset,
            **drawn,
            stroke_dasharray=dash,
        )

    def text(self, x: float, y: float, label: str, anchor: str = "start") -> None:
        """Add text at drawing coordinates."""
        self.add("text", label, x=x, y=y, text_anchor=anchor, fill="currentColor")

    # -- axes --------------------------------------------------------------------------------

    def axis_below(
        self, label: str, at: Iterable[float] | None = None, *, grid: bool = False
    ) -> None:
        """Add the horizontal axis."""
        low, high = self.y
        self.rule((self.x[0], low), (self.x[1], low))
        for value in ticks(*self.x) if at is None else at:
            if grid:
                self.rule((value, low), (value, high), stroke_opacity=FAINT)
            self.text(self.at_x(value), self.at_y(low) + 16.0, number(value), "middle")
        self.text(self.left + self.frame_width / 2.0, self.at_y(low) + 34.0, label, "middle")

    def axis_left(self, label: str, at: Iterable[float] | None = None) -> None:
        """Add the vertical axis, with grid lines and the label above."""
        for value in ticks(*self.y, most=5) if at is None else at:
            self.rule((self.x[0], value), (self.x[1], value), stroke_opacity=FAINT)
            self.text(self.left - 6.0, self.at_y(value) + 4.0, number(value), "end")
        self.text(2.0, self.top - 12.0, label)

    def legend(self, names: Sequence[str], styles: Sequence[Style], thickness: float = 2.5) -> None:
        """Add a legend in rows under the figure."""
        x, y = self.left, self.height + 8.0
        for name, style in zip(map(short_name, names), styles, strict=True):
            width = 34.0 + LETTER * len(name)
            if x > self.left and x + width > WIDTH:
                x, y = self.left, y + 18.0
            drawn = {"stroke_width": thickness, "stroke_dasharray": SVG_DASHES[style.dashes]}
            self.add(
                "line", x1=x, x2=x + 18.0, y1=y - 4.0, y2=y - 4.0, stroke=style.colour, **drawn
            )
            self.text(x + 22.0, y, name)
            x += width
        self.height = y + 8.0

    def svg(self, label: str) -> Markup:
        """Return the SVG; `label` is its text alternative."""
        size = number(WIDTH), number(self.height), number(FONT)
        return render_part("svg", *size, label, self._marks)


def marked_policy(name: str) -> Markup:
    """Return a policy's name with its line sample, for tables."""
    style = policy_style(name)
    return render_part("marked_policy", name, style.colour, SVG_DASHES[style.dashes])


@dataclass(frozen=True)
class Interval:
    """A row of a figure: an estimate with its interval, and perhaps a second estimate."""

    name: str
    value: float
    low: float
    high: float
    other: float | None = None  # an open point
    style: Style = FRESH


def interval_figure(
    rows: Sequence[Interval],
    *,
    label: str,
    axis: str,
    x: tuple[float, float] | None = None,
    line: float | None = None,
) -> Markup:
    """Draw estimates with intervals, one row each; `line` is a dashed reference."""
    ends = [end for row in rows for end in (row.low, row.high)] + ([] if line is None else [line])
    low, high = x or (min(ends), max(ends))
    pad = 0.0 if x else 0.05 * (high - low or 1.0)
    left = 22.0 + LETTER * 1.1 * max((len(short_name(row.name)) for row in rows), default=0)
    plot = Plot(
        (low - pad, high + pad), (len(rows), 0.0), height=ROW * len(rows), left=left, top=6.0
    )
    plot.axis_below(axis, grid=True)
    if line is not None:
        plot.rule((line, 0.0), (line, len(rows)), stroke_dasharray="4 3")
    for i, row in enumerate(rows):
        y = i + 0.5
        plot.text(left - 8.0, plot.at_y(y) + 4.0, short_name(row.name), "end")
        drawn = {"stroke_width": 3.0, "stroke_dasharray": SVG_DASHES[row.style.dashes]}
        plot.rule((row.low, y), (row.high, y), stroke=row.style.colour, **drawn)
        if row.other is not None:
            plot.dot(row.other, y, "none", stroke="currentColor", stroke_width=1.5)
        plot.dot(row.value, y, row.style.colour)
    return plot.svg(label)


def share_figure(
    names: Sequence[str],
    blocks: Sequence[tuple[int, int, Sequence[float]]],
    *,
    label: str,
    rest: bool = False,
) -> Markup:
    """Draw the shares of names in blocks of allocations as stacked bars.

    `blocks`: number of the first and the last allocation, and the share of every name. `rest`: the
    last name is that of all others.
    """
    last = max((block[1] for block in blocks), default=1)
    plot = Plot((0.0, float(last)), (0.0, 100.0), height=170.0)
    styles = [*map(arm_style, range(len(names) - rest)), *[REST] * rest]
    plot.axis_left("percent of allocations", (0, 25, 50, 75, 100))
    for first, end, shares in blocks:
        below, gap = 0.0, 0.04 * (end - first + 1)
        for style, share in zip(styles, shares, strict=True):
            if share > 0.0:
                plot.box((first - 1 + gap, end - gap), (below, below + 100.0 * share), style)
            below += 100.0 * share
    plot.axis_below("allocation", filter(float.is_integer, ticks(*plot.x)))
    plot.legend(names, styles, thickness=4.0)
    return plot.svg(label)


def density_figure(
    names: Sequence[str], priors: Sequence[ArmModel], *, label: str, axis: str
) -> Markup:
    """Draw the prior densities of the means of arms."""
    ends = []
    for kind in priors:
        (least, most), (low, high) = kind.mean_range, kind.usual
        ends += [low if isinf(least) else least, high if isinf(most) else most]
    low, high = min(ends), max(ends) if max(ends) > min(ends) else min(ends) + 1.0
    edges, width = np.linspace(low, high, POINTS + 1), (high - low) / POINTS
    x = (0.5 * (edges[1:] + edges[:-1])).tolist()
    fresh = [np.array([kind.initial()], dtype=float) for kind in priors]
    pairs = zip(priors, fresh, strict=True)
    curves = [np.diff(kind.cdf(stats, edges)) / width for kind, stats in pairs]
    most = max(float(np.quantile(curve, 0.99)) for curve in curves)
    most = max(most, 1.0 / (high - low)) * 1.15
    plot = Plot((low, high), (0.0, most))
    plot.axis_left("density")
    styles = [arm_style(i) for i in range(len(names))]
    for style, curve in zip(styles, curves, strict=True):
        plot.line(x, np.minimum(curve, most).tolist(), style)
    plot.axis_below(axis)
    plot.legend(names, styles)
    return plot.svg(label)
