"""Shows the figures of examples: those of pyplot, and those that the package's functions return."""

from __future__ import annotations

from textwrap import indent
from typing import Any
from weakref import WeakSet

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

from decobandit.figures import save_figure

_SHOWN: WeakSet[Figure] = WeakSet()  # by a block of the same example


def figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """The figures that a block of an example has made, as reStructuredText, light and dark."""
    returned = block_vars["example_globals"].values()
    unique = dict.fromkeys(value for value in returned if isinstance(value, Figure))
    unique |= dict.fromkeys(map(plt.figure, plt.get_fignums()))
    shown = ""
    for figure in (one for one in unique if one not in _SHOWN):
        for dark, page in ((False, "only-light"), (True, "only-dark")):
            path = next(block_vars["image_path_iterator"])
            save_figure(figure, path, dark=dark)
            shown += _shown(path, figure, gallery_conf, page)
        _SHOWN.add(figure)
    plt.close("all")
    return shown


def _shown(path: str, figure: Figure, gallery_conf: dict[str, Any], page: str) -> str:
    """An image that is seen on light or on dark pages alone; its title says what it shows."""
    title = " ".join(figure.get_suptitle().split())
    image = figure_rst([path], gallery_conf["src_dir"], title)
    return f"\n.. container:: {page}\n\n{indent(image.strip(), '    ')}\n\n"
