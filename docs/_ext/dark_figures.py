"""Figures of text pages on dark pages: beside `figure.png`, `figure-dark.png` is shown there.

Commands write both, by the name of the file. Pages name the one for white pages alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from decobandit.figures.charts import dark_name


class DarkFigures(SphinxTransform):
    """Puts the dark variant beside every image that has one; the theme shows one of them."""

    default_priority = 400  # before images are collected

    def apply(self, **_: Any) -> None:
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for image in list(self.document.findall(nodes.image)):
            place = Path(image["uri"])
            if not (folder / dark_name(place)).is_file():
                continue
            dark = image.deepcopy()
            dark["uri"] = dark_name(place).as_posix()
            image["classes"].append("only-light")
            dark["classes"].append("only-dark")
            image.parent.insert(image.parent.index(image) + 1, dark)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(DarkFigures)
    return {"parallel_read_safe": True}
