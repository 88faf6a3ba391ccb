"""Figures of the package in a window, as the examples show them when run as scripts."""

from __future__ import annotations

import matplotlib
import pytest
from matplotlib import pyplot as plt

from decobandit.figures import new_figure, show_figure


@pytest.mark.parametrize(("backend", "windows"), [("template", 1), ("agg", 0)])
def test_a_figure_is_shown_where_there_is_a_display(backend: str, windows: int) -> None:
    before = matplotlib.get_backend()
    try:
        plt.switch_backend(backend)
        figure = new_figure((3.0, 2.0))
        show_figure(figure)
        assert len(plt.get_fignums()) == windows
        if windows:
            manager = plt.get_current_fig_manager()
            assert manager.canvas.figure is figure
    finally:
        plt.close("all")
        plt.switch_backend(before)
