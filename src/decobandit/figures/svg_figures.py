"""Figures of reports as SVG: intervals, shares over time, densities, values of several policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf

import numpy as np
from markupsafe import Markup

from ..problem import ArmModel
from .colours import DASHES, FRESH_COLOUR, NEUTRAL_COLOUR
from .episode_lines import short_name
from .palette import arm_style, policy_style
from .svg_plot import LETTER, WIDTH, Plot, ticks

ROW = 26.0  # height of a row
SVG_DASHES = dict(zip(DASHES, ("", "7 4", "9 3 2 3", "2 3"), strict=True))
POINTS = 160  # of a density
REST_COLOUR = NEUTRAL_COLOUR + "66"  # of all others: an area through which the page is seen


def solid(position: int) -> str:
    """The colour of the arm at a position."""
    return arm_style(position).colour


def _dash(position: int) -> str:
    return SVG_DASHES[arm_style(position).dashes]


def _room_for(names: Sequence[str]) -> float:
    """Room left of a frame for names."""
    return 22.0 + LETTER * 1.1 * max((len(short_name(name)) for name in names), default=0)


def marked_policy(name: str) -> Markup:
    """A policy's name after the line that it has in figures, for tables.

    Examples
    --------
    >>> from decobandit.figures import marked_policy
    >>> "#ce2431" in marked_policy("deco")
    True
    """
    style = policy_style(name)
    return Markup(
        '<span class="policy"><svg class="mark" viewBox="0 0 24 8" width="24" height="8" '
        'aria-hidden="true"><line x1="1" y1="4" x2="23" y2="4" stroke="{}" stroke-width="3" '
        'stroke-dasharray="{}"/></svg>{}</span>'
    ).format(style.colour, SVG_DASHES[style.dashes], name)


@dataclass(frozen=True)
class Interval:
    """A row of a figure: an estimate with its interval, and perhaps a second estimate."""

    name: str
    value: float
    low: float
    high: float
    other: float | None = None  # an open point
    colour: str = FRESH_COLOUR


def interval_figure(
    rows: Sequence[Interval],
    *,
    label: str,
    axis: str,
    x: tuple[float, float] | None = None,
    line: float | None = None,
) -> Markup:
    """Estimates with their intervals, one row each; `line`: a value to compare with, dashed.

    Examples
    --------
    >>> from decobandit.figures.svg_figures import Interval, interval_figure
    >>> figure = interval_figure([Interval("a", 0.5, 0.4, 0.6)], label="rates", axis="rate")
    >>> figure.count("<circle")
    1
    """
    ends = [end for row in rows for end in (row.low, row.high)] + ([] if line is None else [line])
    low, high = x or (min(ends), max(ends))
    pad = 0.0 if x else 0.05 * (high - low or 1.0)
    plot = Plot(
        (low - pad, high + pad), (float(len(rows)), 0.0), height=ROW * len(rows),
        left=_room_for([row.name for row in rows]), top=6.0,
    )  # fmt: skip
    plot.axis_below(axis, grid=True)
    if line is not None:
        plot.rule((line, 0.0), (line, len(rows)), stroke_dasharray="4 3")
    for i, row in enumerate(rows):
        y = i + 0.5
        plot.text(plot.left - 8.0, plot.at_y(y) + 4.0, short_name(row.name), "end")
        plot.rule((row.low, y), (row.high, y), stroke=row.colour, stroke_width=3.0)
        if row.other is not None:
            plot.dot(row.other, y, "none", stroke="currentColor", stroke_width=1.5)
        plot.dot(row.value, y, row.colour)
    return plot.svg(label)


def share_figure(
    names: Sequence[str],
    blocks: Sequence[tuple[int, int, Sequence[float]]],
    *,
    label: str,
    rest: bool = False,
) -> Markup:
    """Shares of names in blocks of consecutive allocations, as stacked bars.

    `blocks`: number of the first and the last allocation, and the share of every name. `rest`: the
    last name is that of all others.

    Examples
    --------
    >>> from decobandit.figures.svg_figures import share_figure
    >>> figure = share_figure(["a", "b"], [(1, 10, [0.5, 0.5]), (11, 20, [0.2, 0.8])], label="x")
    >>> figure.count("<rect")
    4
    """
    last = max((block[1] for block in blocks), default=1)
    plot = Plot((0.0, float(last)), (0.0, 100.0), height=170.0, top=28.0)
    colours = [solid(i) for i in range(len(names))]
    if rest:
        colours[-1] = REST_COLOUR
    plot.axis_left("percent of allocations", (0, 25, 50, 75, 100))
    for first, end, shares in blocks:
        below = 0.0
        gap = 0.04 * (end - first + 1)
        for colour, share in zip(colours, shares, strict=True):
            if share > 0.0:
                plot.box((first - 1 + gap, end - gap), (below, below + 100.0 * share), colour)
            below += 100.0 * share
    plot.axis_below("allocation", filter(float.is_integer, ticks(*plot.x)))
    plot.legend([short_name(name) for name in names], colours)
    return plot.svg(label)


def density_figure(
    names: Sequence[str],
    priors: Sequence[ArmModel],
    *,
    label: str,
    axis: str = "success probability",
) -> Markup:
    """Densities of what is known of the means of arms before they are pulled.

    Examples
    --------
    >>> from decobandit.figures.svg_figures import density_figure
    >>> from decobandit.problem import Binary
    >>> density_figure(["a"], [Binary(12, 28)], label="prior").count("<polyline")
    1
    """
    low, high = _shown_means(priors)
    edges = np.linspace(low, high, POINTS + 1)
    x, width = 0.5 * (edges[1:] + edges[:-1]), (high - low) / POINTS
    fresh = [np.array(kind.initial(), dtype=float) for kind in priors]
    pairs = zip(priors, fresh, strict=True)
    curves = [np.diff(kind.cdf(own[None, :], edges)) / width for kind, own in pairs]
    most = max(float(np.quantile(curve, 0.99)) for curve in curves)
    most = max(most, 1.0 / (high - low)) * 1.15
    plot = Plot((low, high), (0.0, most), height=150.0, top=28.0)
    plot.axis_left("density")
    for i, curve in enumerate(curves):
        shown = np.minimum(curve, most)
        plot.line(x.tolist(), shown.tolist(), solid(i), dash=_dash(i))
    plot.axis_below(axis)
    shown_names = [short_name(name) for name in names]
    colours, dashes = ([f(i) for i in range(len(names))] for f in (solid, _dash))
    plot.legend(shown_names, colours, dashes)
    return plot.svg(label)


def _shown_means(kinds: Sequence[ArmModel]) -> tuple[float, float]:
    """From where to where: all possible means where they are bounded, else the usual ones."""
    ends = []
    for kind in kinds:
        (least, most), (low, high) = kind.mean_range, kind.usual
        ends += [low if isinf(least) else least, high if isinf(most) else most]
    return min(ends), max(ends) if max(ends) > min(ends) else min(ends) + 1.0


__all__ = [
    "WIDTH",
    "Interval",
    "density_figure",
    "interval_figure",
    "marked_policy",
    "share_figure",
    "solid",
]
