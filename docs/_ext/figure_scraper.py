"""Shows the figures of examples: those of pyplot, and those that the package's functions return."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper

_SHOWN = "_shown_in_the_gallery"


def figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """The figures that a block of an example has made, as reStructuredText."""
    shown = matplotlib_scraper(block, block_vars, gallery_conf)
    for value in list(block_vars["example_globals"].values()):
        # a figure of pyplot has a number, and has just been shown
        if isinstance(value, Figure) and not hasattr(value, "number"):
            if not hasattr(value, _SHOWN):
                path = next(block_vars["image_path_iterator"])
                value.savefig(path)
                shown += figure_rst([path], gallery_conf["src_dir"])
            setattr(value, _SHOWN, True)
    return shown
