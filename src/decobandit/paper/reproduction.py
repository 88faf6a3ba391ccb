"""The reproduction of the paper: data, figures, and a page that compares. One function per part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..figures import episodes_figure, save_figure
from ..figures.plots import dark_name, small_png
from ..studies import csv_text
from ..support import Progress, Report, obeys_workers, silent, write_whole
from . import batches, designs, figure2, figure3, figure4, restless, table1, values
from .report import ReportPage, Section, Verdict, claims_section

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from matplotlib.figure import Figure

PARTS = ("table1", "figure2", "figure3", "figure4", "batches", "designs", "published", "restless")


@dataclass(frozen=True)
class Part:
    """Result of one part."""

    rows: Sequence[DataclassInstance]  # of its CSV file
    section: Section
    verdicts: Sequence[Verdict] = ()


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


@obeys_workers
def reproduce(
    parts: Sequence[str],
    scale: str,
    folder: Path,
    progress: Report | None = None,
    *,
    workers: int | None = None,
) -> Reproduction:
    """Compute the parts, write their data and figures, and the page `report.html`.

    What is finished is kept in `folder`/cells and not computed again.
    """
    report = progress or silent
    done = {name: _DO[name](scale, folder, report) for name in PARTS if name in parts}
    reproduction = Reproduction(scale, folder / "report.html", done)
    page = ReportPage(f"deco reproduce {' '.join(parts)} --scale {scale}")
    page.sections += [part.section for part in done.values()]
    if reproduction.verdicts:
        page.sections.append(claims_section(reproduction.verdicts))
    write_whole(reproduction.page, page.to_html())
    return reproduction


def _figure2(scale: str, folder: Path, progress: Report) -> Part:
    sizes = figure2.SCALES[scale]
    episodes = figure2.run(sizes)
    points = figure2.score(sizes, episodes)
    drawn = _written("figure2", folder, figure2.Point, points, episodes_figure(episodes))
    progress(Progress("figure2", 1, 1))
    text = (
        f"{sizes.arms} arms, horizon {sizes.horizon}, which the paper does not print; seeds "
        f"{', '.join(map(str, sizes.seeds))}. Losses that can be read off: "
        + "; ".join(
            f"run {i}: {episode.running_loss[-1]:.3f}" for i, episode in enumerate(episodes, 1)
        ),
    )
    return Part(points, Section("Figure 2: four paths", text, figure=drawn))


def _figure3(scale: str, folder: Path, progress: Report) -> Part:
    sizes = figure3.SCALES[scale]
    points = figure3.run(sizes, _cells("figure3", scale, folder), progress)
    drawn = _written("figure3", folder, figure3.Point, points, figure3.plot(sizes, points))
    section = Section("Figure 3: Bayesian regret", [figure3.caption(sizes)], figure=drawn)
    return Part(points, section, figure3.verdicts(points))


def _figure4(scale: str, folder: Path, progress: Report) -> Part:
    sizes = figure4.SCALES[scale]
    points = figure4.run(sizes, _cells("figure4", scale, folder), progress)
    drawn = _written("figure4", folder, figure4.Point, points, figure4.plot(sizes, points))
    title = "Figure 4: regret and its lower bounds"
    section = Section(title, [figure4.caption(sizes)], figure=drawn)
    return Part(points, section, figure4.verdicts(points))


def _tables(part: str, scale: str, folder: Path, progress: Report) -> Part:
    """Compute a part that has tables only, and write its data and its page."""
    module = _TABLES[part]
    report = _counter(part, len(module.cells(scale)), progress)
    rows = module.run(scale, _cells(part, scale, folder), report)
    return _page(part, scale, folder, rows, module.section(rows))


def _designs(scale: str, folder: Path, progress: Report) -> Part:
    report = _counter("designs", designs.CASES, progress)
    result = designs.run(scale, _cells("designs", scale, folder), report)
    return _page("designs", scale, folder, result.rows, designs.section(result))


def _page(
    part: str, scale: str, folder: Path, rows: Sequence[DataclassInstance], section: Section
) -> Part:
    write_whole(folder / f"{part}.csv", csv_text(type(rows[0]), rows))
    text = section.to_markdown(f"deco reproduce {part} --scale {scale}")
    write_whole(folder / f"{part}.md", text)
    return Part(rows, section)


_TABLES: dict[str, ModuleType] = {
    "table1": table1,
    "batches": batches,
    "published": values,
    "restless": restless,
}
_DO: dict[str, Callable[[str, Path, Report], Part]] = {
    "table1": partial(_tables, "table1"),
    "figure2": _figure2,
    "figure3": _figure3,
    "figure4": _figure4,
    "batches": partial(_tables, "batches"),
    "designs": _designs,
    "published": partial(_tables, "published"),
    "restless": partial(_tables, "restless"),
}


def _counter(part: str, total: int, progress: Report) -> Callable[[str], None]:
    """Return a callback that counts finished cells."""
    done = 0

    def told(line: str) -> None:
        nonlocal done
        done += 1
        progress(Progress(part, done, total))

    return told


def _cells(part: str, scale: str, folder: Path) -> Path:
    """Return the folder of a part's cells."""
    return folder / "cells" / f"{part}-{scale}"


def _written(
    part: str,
    folder: Path,
    kind: type[DataclassInstance],
    points: Sequence[DataclassInstance],
    figure: Figure,
) -> Figure:
    """Write the data and the figure of a part, for light and dark pages."""
    write_whole(folder / f"{part}.csv", csv_text(kind, points))
    file = folder / f"{part}.png"
    write_whole(file, small_png(figure))
    write_whole(dark_name(file), small_png(figure, dark=True))
    save_figure(figure, file.with_suffix(".svg"))
    return figure
