"""Axes and marks of small figures as SVG text: no scripts, no styles; for white and dark pages.

Lines and letters have the colour of the text around them; data have colours of the palette.
The width is that of the column a figure stands in: a unit of the drawing is about a pixel on a
phone, and somewhat more on a wide page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup, escape

WIDTH = 400.0
FONT = 12.0  # height of letters
LETTER = 6.3  # width of one, on average
FAINT = "0.25"  # opacity of grid lines


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    power = 10.0 ** np.floor(np.log10((high - low) / most))
    step = next(size * power for size in (1, 2, 5, 10) if size * power * most >= high - low)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(round(k * step, 12)) for k in np.arange(first, last + 1)]


def number(value: float) -> str:
    """A coordinate, or the label of a tick, in few characters."""
    return f"{round(value, 4) + 0.0:.6g}"


class Plot:
    """A figure under construction: a frame with linear axes, and marks in it.

    Parameters
    ----------
    x, y : tuple of float
        Ranges of the axes.
    height : float
        Of the frame.
    left, right, top, bottom : float
        Room around the frame, for labels.

    Examples
    --------
    >>> from decobandit.figures.svg_plot import Plot
    >>> plot = Plot((0, 1), (0, 10), height=100)
    >>> plot.line([0, 1], [0, 10], "#3b82c4")
    >>> plot.svg("a line").startswith('<svg viewBox="0 0 400 160"')
    True
    """

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        height: float,
        left: float = 44.0,
        right: float = 14.0,
        top: float = 16.0,
        bottom: float = 44.0,
    ) -> None:
        self.x, self.y, self.frame_height = x, y, height
        self.left, self.right, self.top, self.bottom = left, right, top, bottom
        self._marks: list[Markup] = []

    @property
    def frame_width(self) -> float:
        return WIDTH - self.left - self.right

    def at_x(self, value: float) -> float:
        """Where a value of the horizontal axis is."""
        low, high = self.x
        return self.left + self.frame_width * (value - low) / ((high - low) or 1.0)

    def at_y(self, value: float) -> float:
        """Where a value of the vertical axis is; the largest is at the top."""
        low, high = self.y
        return self.top + self.frame_height * (high - value) / ((high - low) or 1.0)

    # -- marks -------------------------------------------------------------------------------

    def add(self, name: str, /, *said: str, **attributes: object) -> None:
        """An element; underscores in names of attributes are written as hyphens."""
        given = "".join(
            Markup(' {}="{}"').format(
                key.strip("_").replace("_", "-"),
                number(value) if isinstance(value, float) else value,
            )
            for key, value in attributes.items()
        )
        self._marks.append(Markup(f"<{name}{given}>{escape(''.join(said))}</{name}>"))

    def line(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        colour: str,
        *,
        dash: str = "",
        **more: object,
    ) -> None:
        """Values joined by a line."""
        points = " ".join(
            f"{number(self.at_x(x))},{number(self.at_y(y))}" for x, y in zip(xs, ys, strict=True)
        )
        drawn = {"fill": "none", "stroke": colour, "stroke_width": 2.0, "stroke_linejoin": "round"}
        self.add(
            "polyline", points=points, **drawn | ({"stroke_dasharray": dash} if dash else {}) | more
        )

    def rule(self, start: tuple[float, float], end: tuple[float, float], **more: object) -> None:
        """A straight line in the colour of the text, from (x, y) to (x, y)."""
        drawn: dict[str, object] = {"stroke": "currentColor", "stroke_width": 1.0}
        self.add(
            "line", x1=self.at_x(start[0]), y1=self.at_y(start[1]), x2=self.at_x(end[0]),
            y2=self.at_y(end[1]), **drawn | more,
        )  # fmt: skip

    def dot(self, x: float, y: float, colour: str, *, radius: float = 4.0, **more: object) -> None:
        """A value as a point."""
        self.add("circle", cx=self.at_x(x), cy=self.at_y(y), r=radius, **{"fill": colour} | more)

    def box(self, x: tuple[float, float], y: tuple[float, float], colour: str) -> None:
        """A filled rectangle between two values of each axis."""
        left, right = sorted(map(self.at_x, x))
        top, bottom = sorted(map(self.at_y, y))
        self.add(
            "rect", x=left, y=top, width=right - left, height=bottom - top, fill=colour
        )  # fmt: skip

    def text(self, x: float, y: float, said: str, anchor: str = "start", **more: object) -> None:
        """Letters at a place of the drawing, not of the axes."""
        self.add("text", said, x=x, y=y, text_anchor=anchor, **{"fill": "currentColor"} | more)

    # -- axes --------------------------------------------------------------------------------

    def axis_below(
        self, label: str, at: Iterable[float] | None = None, *, grid: bool = False
    ) -> None:
        """Ticks, their numbers and a label under the frame."""
        low, high = self.y
        self.rule((self.x[0], low), (self.x[1], low))
        for value in ticks(*self.x) if at is None else at:
            if grid:
                self.rule((value, low), (value, high), stroke_opacity=FAINT)
            self.text(self.at_x(value), self.at_y(low) + 16.0, number(value), "middle")
        middle = self.left + self.frame_width / 2.0
        self.text(middle, self.at_y(low) + 34.0, label, "middle")

    def axis_left(self, label: str, at: Iterable[float] | None = None) -> None:
        """Faint lines with their numbers left of the frame; the label stands above."""
        for value in ticks(*self.y, most=5) if at is None else at:
            self.rule((self.x[0], value), (self.x[1], value), stroke_opacity=FAINT)
            self.text(self.left - 6.0, self.at_y(value) + 4.0, number(value), "end")
        self.text(2.0, self.top - 12.0, label)

    def legend(
        self, names: Sequence[str], colours: Sequence[str], dashes: Sequence[str] = ()
    ) -> None:
        """Names with their colours, in rows under the figure, which grows by them."""
        x, y = self.left, self.top + self.frame_height + self.bottom + 8.0
        for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
            width = 34.0 + LETTER * len(name)
            if x > self.left and x + width > WIDTH:
                x, y = self.left, y + 18.0
            dash = {"stroke_dasharray": dashes[i]} if dashes and dashes[i] else {}
            self.add("line", x1=x, x2=x + 18.0, y1=y - 4.0, y2=y - 4.0, stroke=colour,
                     stroke_width=4.0 if not dashes else 2.5, **dash)  # fmt: skip
            self.text(x + 22.0, y, name)
            x += width
        self.bottom = y + 8.0 - self.top - self.frame_height

    def svg(self, label: str) -> Markup:
        """The figure; `label` says what it shows to those who do not see it."""
        height = self.top + self.frame_height + self.bottom
        return Markup(
            '<svg viewBox="0 0 {} {}" class="drawn" role="img" aria-label="{}" font-size="{}" '
            'font-family="system-ui, sans-serif">{}</svg>'
        ).format(number(WIDTH), number(height), label, number(FONT), Markup("").join(self._marks))
