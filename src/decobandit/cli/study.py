"""`deco study run`, `deco study show`: a grid of problems, policies and seeds, kept in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import AsJson, check_figure, check_writable, make_folder, print_json, say, show_levels

if TYPE_CHECKING:
    from ..cell_files import Collected
    from ..studies import Outcome

BAD_INPUT = 2
INTERRUPTED = 130
# sums that linear algebra takes on several threads differ in their last digits
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

study = typer.Typer(
    name="study", help="Simulate a grid of problems, policies and seeds; one file per cell."
)


@study.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="STUDY", help="Study file, .toml or .json.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where cells go; beside the study file by default."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="tcp://HOST:PORT", help="Compute on the cluster of this scheduler."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads per cell; as many as cores by default, 1 on a cluster."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the cells that are not there yet. Ctrl-C keeps those that are finished."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # read when numpy is imported: below
    from ..cell_files import finished
    from ..studies import here, run_study
    from ..study_files import load_study

    described = load_study(file)
    folder = file.with_suffix("") if out is None else out
    finished(described, folder)  # refuse other settings before anything is made
    if scheduler is None:
        runner = here(threads)
    else:
        from ..cluster import check_cluster, on_cluster

        check_cluster(scheduler)
        runner = on_cluster(scheduler, threads)
    make_folder(folder)
    with show_levels(described.name) as levels:
        outcome = run_study(described, folder, runner=runner, progress=levels)
    _tell(outcome, described.name, folder, as_json)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)
    if outcome.failed:
        raise typer.Exit(BAD_INPUT)


def _tell(outcome: Outcome, name: str, folder: Path, as_json: bool) -> None:
    for cell, reason in outcome.failed.items():
        say(f"{cell}: {reason}")
    if outcome.interrupted:
        say(
            f"interrupted: {outcome.kept} of {outcome.cells} cells are finished and kept in "
            f"{folder}; the same command goes on from there"
        )
    if as_json:
        print_json(
            {
                "study": name,
                "folder": str(folder),
                "cells": outcome.cells,
                "skipped": outcome.skipped,
                "made": outcome.made,
                "failed": outcome.failed,
                "interrupted": outcome.interrupted,
            }
        )
    elif not outcome.interrupted:
        failed = f", {len(outcome.failed)} failed" if outcome.failed else ""
        print(
            f"{outcome.made} cells computed, {outcome.skipped} were there{failed}: {folder}\n"
            f"deco study show {folder}"
        )


@study.command()
def show(
    source: Annotated[
        Path, typer.Argument(metavar="DIR|STUDY", help="Folder of cells, or study file.")
    ],
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a CSV file.")] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Parquet file.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write regrets as a Markdown table."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the regrets (.png, .svg, .pdf).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the cells that are there, and name those that are missing."""
    from ..study_tables import check_parquet, rows_of, save_csv, save_markdown, save_parquet

    for path in (csv, parquet, markdown):
        if path is not None:
            check_writable(path)
    if plot is not None:
        check_figure(plot)
    if parquet is not None:
        check_parquet()
    found = _collected(source)
    rows = rows_of(found.cells)
    if csv is not None:
        save_csv(rows, csv)
    if parquet is not None:
        save_parquet(rows, parquet)
    if markdown is not None:
        save_markdown(rows, markdown)
    if plot is not None:
        from ..plots import save_figure, study_figure

        save_figure(study_figure(rows, found.name), plot)
    if as_json:
        print_json({"study": found.name, "cells": rows, "missing": list(found.missing)})
    else:
        _print_cells(found, rows)


def _collected(source: Path) -> Collected:
    from ..cell_files import collect_folder, collect_study

    if source.is_dir():
        return collect_folder(source)
    if not source.exists():
        raise typer.BadParameter(f"{source}: no such file or directory")
    from ..study_files import load_study

    described, folder = load_study(source), source.with_suffix("")
    if not folder.is_dir():
        raise typer.BadParameter(
            f"{folder}: no such directory; first: deco study run {source}, or give the directory"
        )
    return collect_study(described, folder)


def _print_cells(found: Collected, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(found.name))
    for title in ("problem", "policy", "seed", "value", "± s.e.", "regret", "bound"):
        left = title in {"problem", "policy"}
        table.add_column(title, justify="left" if left else "right", overflow="fold")
    for row in rows:
        shown = [_number(row[key]) for key in ("value", "value_se", "regret", "upper_bound")]
        table.add_row(row["problem"], row["policy"], str(row["seed"]), *shown)
    if rows:
        Console().print(table)
        print(
            "regret: what is missing to pulling the best arms throughout; same error as the value"
        )
        print("bound: no policy can earn more; none where beliefs are wrong")
    for name in found.missing:
        print(f"missing: {name}")
    print(f"{len(rows)} cells, {len(found.missing)} missing")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
