"""The reproduction of the paper: data, figures, and a page that compares. One function per part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..figures import save_figure
from ..figures.charts import dark_name, small_png
from ..studies import csv_text
from ..support import Report, silent, write_whole
from . import batches, designs, figure2, figure3, figure4, restless, table1, values
from .experiments import Part, Verdict, reproduction_page

# how a part is computed: at a scale, with a folder for its cells
PARTS: dict[str, Callable[[str, Path, Report], Part]] = {
    "table1": table1.part,
    "figure2": figure2.part,
    "figure3": figure3.part,
    "figure4": figure4.part,
    "batches": batches.part,
    "designs": designs.part,
    "published": values.part,
    "restless": restless.part,
}


@dataclass(frozen=True)
class Reproduction:
    """All parts of one run, by their names, and the page that compares them."""

    scale: str
    page: Path
    parts: dict[str, Part]

    @property
    def verdicts(self) -> list[Verdict]:
        """On the paper's sentences."""
        return [verdict for part in self.parts.values() for verdict in part.verdicts]

    def to_dict(self) -> dict[str, object]:
        """Plain values: the rows of every part."""
        rows = {name: [asdict(row) for row in part.rows] for name, part in self.parts.items()}
        claims = [asdict(verdict) for verdict in self.verdicts]
        return {"scale": self.scale, "page": str(self.page), **rows, "claims": claims}


def reproduce(
    parts: Sequence[str], scale: str, folder: Path, progress: Report | None = None
) -> Reproduction:
    """Compute the parts, keep cells in `folder`/cells, write data, figures and `report.html`."""
    done: dict[str, Part] = {}
    for name, compute in PARTS.items():
        if name in parts:
            done[name] = compute(scale, folder / "cells" / f"{name}-{scale}", progress or silent)
            _write(done[name], folder / f"{name}.csv", f"deco reproduce {name} --scale {scale}")
    reproduction = Reproduction(scale, folder / "report.html", done)
    sections = [part.section for part in done.values()]
    command = f"deco reproduce {' '.join(parts)} --scale {scale}"
    write_whole(reproduction.page, reproduction_page(command, sections, reproduction.verdicts))
    return reproduction


def _write(part: Part, file: Path, command: str) -> None:
    """Write the data of a part, and its figure, for light and dark pages, or its tables."""
    write_whole(file, csv_text(type(part.rows[0]), part.rows))
    figure = part.section.figure
    if figure is None:
        write_whole(file.with_suffix(".md"), part.section.to_markdown(command))
        return
    picture = file.with_suffix(".png")
    write_whole(picture, small_png(figure))
    write_whole(dark_name(picture), small_png(figure, dark=True))
    save_figure(figure, file.with_suffix(".svg"))
