"""The reproduction of the paper: data, figures, and a page that compares. One function per part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..figures import save_figure
from ..studies import csv_text
from ..support import Progress, Report, obeys_workers, silent, write_whole
from . import batches, claims, designs, figure2, figure3, figure4, published, table1, values
from .claims import Verdict
from .report import (
    ReportPage,
    Section,
    batches_section,
    claims_section,
    designs_section,
    embedded,
    table1_section,
    values_section,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from matplotlib.figure import Figure

PARTS = ("table1", "figure2", "figure3", "figure4", "batches", "designs", "published")


@obeys_workers
def reproduce(
    parts: Sequence[str],
    scale: str,
    folder: Path,
    progress: Report | None = None,
    *,
    workers: int | None = None,
) -> Path:
    """Compute the parts, write their data and figures, and the page `report.html`.

    What is finished is kept in `folder`/cells and not computed again.
    """
    page = ReportPage(f"deco reproduce {' '.join(parts)} --scale {scale}")
    verdicts: list[Verdict] = []
    for part in (name for name in PARTS if name in parts):
        sections, found = _DO[part](scale, folder, progress or silent)
        page.sections += sections
        verdicts += found
    if verdicts:
        page.sections.append(claims_section(verdicts))
    file = folder / "report.html"
    write_whole(file, page.to_html())
    return file


def _table1(scale: str, folder: Path, progress: Report) -> tuple[list[Section], list[Verdict]]:
    told = _counter("table1", len(published.table1()), progress)
    kept = folder / "cells" / f"table1-{scale}"
    rows = table1.run(quick=scale == "quick", folder=kept, report=told)
    _tables("table1", scale, folder, table1.to_csv(rows), partial(table1.to_markdown, rows))
    return [table1_section(rows)], []


def _figure2(scale: str, folder: Path, progress: Report) -> tuple[list[Section], list[Verdict]]:
    sizes = figure2.SCALES[scale]
    episodes = figure2.run(sizes)
    points = figure2.score(sizes, episodes)
    drawn = _written("figure2", folder, figure2.Point, points, figure2.plot(episodes))
    progress(Progress("figure2", 1, 1))
    text = (
        f"{sizes.arms} arms, horizon {sizes.horizon}, which the paper does not print; seeds "
        f"{', '.join(map(str, sizes.seeds))}. Losses that can be read off: "
        + "; ".join(f"run {i}: {each.running_loss[-1]:.3f}" for i, each in enumerate(episodes, 1)),
    )
    return [Section("Figure 2: four paths", text, figure=drawn)], []


def _figure3(scale: str, folder: Path, progress: Report) -> tuple[list[Section], list[Verdict]]:
    sizes = figure3.SCALES[scale]
    points = figure3.run(sizes, _cells("figure3", scale, folder), progress)
    drawn = _written("figure3", folder, figure3.Point, points, figure3.plot(sizes, points))
    section = Section("Figure 3: Bayesian regret", [figure3.caption(sizes)], figure=drawn)
    return [section], claims.of_figure3(points)


def _figure4(scale: str, folder: Path, progress: Report) -> tuple[list[Section], list[Verdict]]:
    sizes = figure4.SCALES[scale]
    points = figure4.run(sizes, _cells("figure4", scale, folder), progress)
    drawn = _written("figure4", folder, figure4.Point, points, figure4.plot(sizes, points))
    title = "Figure 4: regret and its lower bounds"
    return [Section(title, [figure4.caption(sizes)], figure=drawn)], claims.of_figure4(points)


def _batches(scale: str, folder: Path, progress: Report) -> tuple[list[Section], list[Verdict]]:
    told = _counter("batches", len(batches.cells(scale)), progress)
    rows = batches.run(scale, _cells("batches", scale, folder), told)
    _tables("batches", scale, folder, batches.to_csv(rows), partial(batches.to_markdown, rows))
    return [batches_section(rows)], []


def _designs(scale: str, folder: Path, progress: Report) -> tuple[list[Section], list[Verdict]]:
    told = _counter("designs", designs.CASES, progress)
    found = designs.run(scale, _cells("designs", scale, folder), told)
    _tables("designs", scale, folder, designs.to_csv(found), partial(designs.to_markdown, found))
    return [designs_section(found)], []


def _published(scale: str, folder: Path, progress: Report) -> tuple[list[Section], list[Verdict]]:
    told = _counter("published", len(values.cells(scale)), progress)
    rows = values.run(scale, _cells("published", scale, folder), told)
    _tables("published", scale, folder, values.to_csv(rows), partial(values.to_markdown, rows))
    return [values_section(rows)], []


_DO: dict[str, Callable[[str, Path, Report], tuple[list[Section], list[Verdict]]]] = {
    "table1": _table1,
    "figure2": _figure2,
    "figure3": _figure3,
    "figure4": _figure4,
    "batches": _batches,
    "designs": _designs,
    "published": _published,
}


def _counter(part: str, total: int, progress: Report) -> Callable[[str], None]:
    """Tells how many of the cells of a part are done."""
    done = 0

    def told(line: str) -> None:
        nonlocal done
        done += 1
        progress(Progress(part, done, total))

    return told


def _cells(part: str, scale: str, folder: Path) -> Path:
    """Where the cells of a part are kept."""
    return folder / "cells" / f"{part}-{scale}"


class _Page(Protocol):
    def __call__(self, *, command: str) -> str: ...


def _tables(part: str, scale: str, folder: Path, data: str, page: _Page) -> None:
    """The data of a part written, and its page, which names the command."""
    write_whole(folder / f"{part}.csv", data)
    text = page(command=f"deco reproduce {part} --scale {scale}")
    write_whole(folder / f"{part}.md", text)


def _written(
    part: str,
    folder: Path,
    kind: type[DataclassInstance],
    points: Sequence[DataclassInstance],
    figure: Figure,
) -> str:
    """The data and the figure of a part written; the figure as the page has it."""
    write_whole(folder / f"{part}.csv", csv_text(kind, points))
    for suffix in (".png", ".svg"):
        save_figure(figure, folder / f"{part}{suffix}")
    return embedded(figure)
