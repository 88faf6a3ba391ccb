"""Charts: what is in them, apart from how matplotlib and plotly draw it.

A chart has panels over one axis. Series of a panel run along the stages, as curves with bands, as
points, as bars on top of each other, or as spans between two values; or a panel has rows, and of
each series a point in every row, with error bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..support import Floats
from .palette import Style

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

    def stacked(self) -> list[tuple[Series, Floats]]:
        """Return each series of bars with its baseline."""
        bars = [series for series in self.series if series.kind == "bars"]
        totals = np.cumsum([series.values for series in bars], axis=0)
        return [(series, total - series.values) for series, total in zip(bars, totals, strict=True)]


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

    @property
    def names(self) -> Sequence[str]:
        """Names of all series that have values, each once."""
        return list(dict.fromkeys(one.name for one in self.series if one.values.size))


def shifts(number: int, height: float = 0.7) -> Floats:
    """Return the vertical offsets of several series in a row."""
    return np.linspace(-height / 2.0, height / 2.0, number) if number > 1 else np.zeros(1)
