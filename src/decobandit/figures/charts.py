"""Charts of results: what is in them, apart from how matplotlib and plotly draw it.

A chart has panels over one axis. Curves of a panel run along the stages, with bands; or a panel has
rows, and of each series a point in every row, with error bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..support import Floats
from .palette import Style


@dataclass(frozen=True, eq=False)
class Series:
    """Values of one policy: along `at`, which is stages or numbers of rows."""

    name: str
    style: Style
    at: Floats
    values: Floats
    errors: Floats | None = None  # half of the width of the band or bar


@dataclass(frozen=True)
class Panel:
    """One panel, and what its values are."""

    label: str
    series: tuple[Series, ...]
    rows: tuple[str, ...] = ()  # names of rows, from the top; none where curves are drawn


@dataclass(frozen=True)
class Chart:
    """Panels with a common legend. `along`: what the stages are called."""

    title: str
    along: str
    panels: tuple[Panel, ...]


def shifts(number: int, height: float = 0.7) -> Floats:
    """Where the points of so many series are in a row, from its middle."""
    return np.linspace(-height / 2.0, height / 2.0, number) if number > 1 else np.zeros(1)


def names_in(chart: Chart) -> Sequence[str]:
    """Names of all series, each once."""
    return list(dict.fromkeys(each.name for panel in chart.panels for each in panel.series))
