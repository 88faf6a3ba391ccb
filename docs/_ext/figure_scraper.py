"""Shows the figures of examples: those of pyplot, and those that the package's functions return."""

from __future__ import annotations

from textwrap import indent
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper

from decobandit.figures import save_figure

_SHOWN = "_shown_in_the_gallery"


def figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """The figures that a block of an example has made, as reStructuredText."""
    shown = matplotlib_scraper(block, block_vars, gallery_conf)
    for value in list(block_vars["example_globals"].values()):
        # a figure of pyplot has a number, and has just been shown
        if isinstance(value, Figure) and not hasattr(value, "number"):
            if not hasattr(value, _SHOWN):
                path = next(block_vars["image_path_iterator"])
                save_figure(value, path)
                shown += _shown(path, value, gallery_conf, "only-light")
                dark = next(block_vars["image_path_iterator"])
                save_figure(value, dark, dark=True)
                shown += _shown(dark, value, gallery_conf, "only-dark")
            setattr(value, _SHOWN, True)
    return shown


def _shown(path: str, figure: Figure, gallery_conf: dict[str, Any], page: str) -> str:
    """An image that is seen on light or on dark pages alone; its title says what it shows."""
    title = " ".join(figure.get_suptitle().split())
    image = figure_rst([path], gallery_conf["src_dir"], title)
    return f"\n.. container:: {page}\n\n{indent(image.strip(), '    ')}\n\n"
