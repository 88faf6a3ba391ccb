"""The whole paper again: data, figures, and the page that compares. One function per part."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..plots import save_figure
from . import claims, figure2, figure3, figure4, published, table1
from .claims import Verdict
from .report import Report, Section, claims_section, embedded, table1_section

PARTS = ("table1", "figure2", "figure3", "figure4")
Progress = Callable[[str, int, int], None]  # part, done, in all


def reproduce(parts: Sequence[str], scale: str, folder: Path, progress: Progress) -> Path:
    """Compute the parts, write their data and figures, and the page `report.html`.

    What is finished is kept in `folder`/cells and not computed again.
    """
    report = Report(f"deco reproduce {' '.join(parts)} --scale {scale}")
    verdicts: list[Verdict] = []
    for part in (name for name in PARTS if name in parts):
        sections, found = _DO[part](scale, folder, progress)
        report.sections += sections
        verdicts += found
    if verdicts:
        report.sections.append(claims_section(verdicts))
    page = folder / "report.html"
    page.write_text(report.to_html(), encoding="utf-8")
    return page


def _table1(scale: str, folder: Path, progress: Progress) -> tuple[list[Section], list[Verdict]]:
    total, done = len(published.table1()), 0

    def report(line: str) -> None:
        nonlocal done
        done += 1
        progress("table1", done, total)

    cells = folder / "cells" / f"table1-{scale}"
    rows = table1.run(quick=scale == "quick", folder=cells, report=report)
    (folder / "table1.csv").write_text(table1.to_csv(rows), encoding="utf-8")
    text = table1.to_markdown(rows, command=f"deco reproduce table1 --scale {scale}")
    (folder / "table1.md").write_text(text, encoding="utf-8")
    return [table1_section(rows)], []


def _figure2(scale: str, folder: Path, progress: Progress) -> tuple[list[Section], list[Verdict]]:
    settings = figure2.SCALES[scale]
    paths = figure2.run(settings)
    _write_points(figure2.score(settings, paths), folder / "figure2.csv")
    figure = figure2.plot(paths)
    _write_figure(figure, folder / "figure2")
    progress("figure2", 1, 1)
    text = (
        f"{settings.arms} arms, horizon {settings.horizon}, which the paper does not print; seeds "
        f"{', '.join(map(str, settings.seeds))}. Losses that can be read off: "
        + "; ".join(f"run {i}: {path.running_loss[-1]:.3f}" for i, path in enumerate(paths, 1)),
    )
    return [Section("Figure 2: four paths", text, figure=embedded(figure))], []


def _figure3(scale: str, folder: Path, progress: Progress) -> tuple[list[Section], list[Verdict]]:
    settings = figure3.SCALES[scale]
    points = figure3.run(
        settings, folder / "cells" / f"figure3-{scale}", lambda i, n: progress("figure3", i, n)
    )
    _write_points(points, folder / "figure3.csv")
    figure = figure3.plot(settings, points)
    _write_figure(figure, folder / "figure3")
    text = (
        f"{settings.runs.draws} draws of {settings.runs.per_draw} episodes (IDS: "
        f"{settings.ids.draws} of {settings.ids.per_draw}). Top: over the horizon, policies that "
        "know it solved anew for each. Bottom: over the stages of the longest. The paper's third "
        "panel is headed 10 arms and captioned 15; both are here.",
    )
    section = Section("Figure 3: Bayesian regret", text, figure=embedded(figure))
    return [section], claims.of_figure3(points)


def _figure4(scale: str, folder: Path, progress: Progress) -> tuple[list[Section], list[Verdict]]:
    settings = figure4.SCALES[scale]
    points = figure4.run(
        settings, folder / "cells" / f"figure4-{scale}", lambda i, n: progress("figure4", i, n)
    )
    _write_points(points, folder / "figure4.csv")
    figure = figure4.plot(settings, points)
    _write_figure(figure, folder / "figure4")
    text = (
        f"{settings.runs.draws} draws of {settings.runs.per_draw} episodes. Bounds: regret that no "
        f"policy avoids, from prices, and from {settings.scenarios} scenarios up to "
        f"{settings.few} arms; where they are below zero they say nothing.",
    )
    section = Section("Figure 4: regret and its lower bounds", text, figure=embedded(figure))
    return [section], claims.of_figure4(points)


_DO: dict[str, Callable[[str, Path, Progress], tuple[list[Section], list[Verdict]]]] = {
    "table1": _table1,
    "figure2": _figure2,
    "figure3": _figure3,
    "figure4": _figure4,
}


def _write_points(points: Sequence[Any], path: Path) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(asdict(points[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(point) for point in points)
    path.write_text(text.getvalue(), encoding="utf-8")


def _write_figure(figure: Any, path: Path) -> None:
    for suffix in (".png", ".svg"):
        save_figure(figure, path.with_suffix(suffix))
