"""`deco study`: many simulations in files; `deco reproduce`: the paper's tables and figures."""

from __future__ import annotations

import os
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .. import figures, studies, support
from . import INTERRUPTED, options, output
from .output import print_table

BAD_INPUT = 2
# sums that linear algebra takes on several threads differ in their last digits
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

study = options.Commands(
    name="study", help="Run grids of simulations or designs, one file per cell."
)


def _file(what: str) -> Any:
    return options.shown("FILE", f"Write {what}.", callback=output.check_writable)


def _one_thread(names: list[str] | None) -> list[str] | None:
    """Limit linear algebra to one thread, which numpy reads when it is imported, then allow."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    return options.allow_policies(names)


@study.command()
def run(
    file: Annotated[Path, options.argument("STUDY", "Study file, .toml or .json.")],
    out: Annotated[
        Path | None,
        options.shown("DIR", "Directory of cells.", show_default="beside the study file"),
    ] = None,
    scheduler: Annotated[
        str | None, options.shown("tcp://HOST:PORT", "Dask scheduler to compute on.")
    ] = None,
    allow_policy: Annotated[list[str] | None, options.allowing(_one_thread)] = None,
    workers: options.Workers = None,
    as_json: options.AsJson = False,
) -> None:
    """Compute the missing cells; Ctrl-C keeps finished ones.

    --workers counts threads per cell; on a cluster, 1 by default.
    """
    described = studies.load_study(file)
    folder = file.with_suffix("") if out is None else out
    studies.finished_cells(described, folder)  # refuse other settings before anything is made
    if scheduler is None:
        runner = studies.here(workers)
    else:
        studies.check_cluster(scheduler)
        runner = studies.on_cluster(scheduler, workers)
    output.make_folder(folder)
    with support.show_progress() as report:
        summary = studies.run_study(described, folder, runner=runner, progress=report)
    _tell(summary, described.name, folder, as_json)
    if summary.interrupted:
        raise typer.Exit(INTERRUPTED)
    if summary.failed:
        raise typer.Exit(BAD_INPUT)


def _tell(summary: studies.RunSummary, name: str, folder: Path, as_json: bool) -> None:
    for cell, reason in summary.failed.items():
        output.say(f"{cell}: {reason}")
    if summary.interrupted:
        output.say(
            f"interrupted: {summary.finished} of {summary.cells} cells are finished and kept in "
            f"{folder}; the same command goes on from there"
        )
    if as_json:
        output.print_json(
            {
                "study": name,
                "folder": str(folder),
                "cells": summary.cells,
                "skipped": summary.skipped,
                "made": summary.computed,
                "failed": summary.failed,
                "interrupted": summary.interrupted,
            }
        )
    elif not summary.interrupted:
        failed = f", {len(summary.failed)} failed" if summary.failed else ""
        before = f"{summary.skipped} there before{failed}"
        print(f"{summary.computed} cells computed, {before}: {folder}")
        print(f"next: deco study show {folder}")


@study.command()
def show(
    source: Annotated[Path, options.argument("DIR|STUDY", "Directory of cells, or study file.")],
    csv: Annotated[Path | None, _file("a CSV file")] = None,
    parquet: Annotated[Path | None, _file("a Parquet file")] = None,
    markdown: Annotated[Path | None, _file("policies side by side as a Markdown table")] = None,
    out: options.OutFigure = None,
    allow_policy: options.AllowPolicy = None,
    as_json: options.AsJson = False,
) -> None:
    """Show finished cells and name missing ones."""
    if parquet is not None:
        support.check_parquet()
    collected = _collected(source)
    rows = studies.rows_of(collected.finished)
    savers = (studies.save_csv, studies.save_parquet, studies.save_markdown)
    for path, save in zip((csv, parquet, markdown), savers, strict=True):
        if path is not None:
            save(rows, path)
            output.written("table", path)
    figure = partial(figures.study_figure, rows, collected.name)
    output.write_out(out, collected.columns, figure, collected.name)
    if as_json:
        output.print_json(
            {
                "study": collected.name,
                "cells": [asdict(row) for row in rows],
                "missing": list(collected.missing),
            }
        )
    else:
        _print_cells(collected, rows)


def _collected(source: Path) -> studies.Collected:
    if source.is_dir():
        return studies.collect_folder(source)
    if not source.exists():
        raise typer.BadParameter(f"{source}: no such file or directory")
    described, folder = studies.load_study(source), source.with_suffix("")
    if not folder.is_dir():
        raise typer.BadParameter(
            f"{folder}: no such directory; first: deco study run {source}, or give the directory"
        )
    return studies.collect_study(described, folder)


def _print_cells(collected: studies.Collected, rows: list[studies.Row]) -> None:
    simulated = [row for row in rows if not isinstance(row, studies.DesignRow)]
    designed = [row for row in rows if isinstance(row, studies.DesignRow)]
    if simulated:
        _print_simulated(collected.name, simulated)
    if designed:
        _print_designed(designed)
    for name in collected.missing:
        print(f"missing: {name}")
    print(f"{len(rows)} cells, {len(collected.missing)} missing")


def _print_simulated(name: str, rows: list[studies.Row]) -> None:
    columns = {"value": "value", "value_se": "± s.e.", "regret": "regret", "upper_bound": "bound"}
    cells = [
        [row.problem, row.policy, str(row.seed), *(_fixed(row, key) for key in columns)]
        for row in rows
    ]
    titles = ["problem", "policy", "seed", *columns.values()]
    print_table(name, titles, cells, text=["problem", "policy"])
    print("regret: reward of always pulling the best arms, minus that of the policy;")
    print("its standard error is the value's")
    print("bound: no policy can earn more; none where the truth differs from the prior")


def _print_designed(rows: list[studies.DesignRow]) -> None:
    """Print a table per problem and scenario."""
    titles = ["policy", "seed", "good", "± s.e.", "best share", "select best", "reject", "size"]
    keys = ("value", "value_se", "best_share", "select_best", "reject")
    for line in dict.fromkeys(row.line for row in rows):
        of_line = [row for row in rows if row.line == line]
        cells = [
            [row.policy, str(row.seed), *(_fixed(row, key) for key in keys), f"{row.size:.2f}"]
            for row in of_line
        ]
        title = f"{line}: {of_line[0].truth.replace(' ', ', ')}"
        print_table(title, titles, cells, text=["policy"])
    print("reject: some arm is declared better than control; without a control arm, best")
    print("select best: a best arm has the largest posterior mean at the end")
    print("where the error is 0, numbers are exact; --csv and --json have all of them")


def _fixed(row: studies.Row, key: str) -> str:
    return output.fixed(getattr(row, key), 4)


# -- `deco reproduce`: the paper's results, computed again -----------------------------------------

# typer takes several values of an enumeration, not of a Literal
Part = StrEnum("Part", "table1 figure2 figure3 figure4 batches designs published restless all")
PARTS = [part.value for part in Part if part != "all"]


def reproduce(
    what: Annotated[
        list[Part] | None,
        options.argument(
            "PART",
            "table1 figure2-4 batches designs published restless",
            show_default="all",
            show_choices=False,
        ),
    ] = None,
    scale: Annotated[
        Literal["quick", "paper"], typer.Option(help="quick: a minute; paper: an hour or two.")
    ] = "quick",
    out: Annotated[Path, options.shown("DIR", "Output directory.")] = Path("reproduction"),
    workers: options.Workers = None,
    as_json: options.AsJson = False,
) -> None:
    """Reproduce published tables and figures."""
    from ..paper.experiments import Interrupted
    from ..paper.reproduction import reproduce as compute

    output.make_folder(out)
    chosen = [part.value for part in what or () if part != "all"]
    try:
        with support.show_progress() as report:
            reproduction = compute(chosen or PARTS, scale, out, report)
    except Interrupted as stopped:
        output.say(f"interrupted: {stopped}; the same command goes on")
        raise typer.Exit(INTERRUPTED) from None
    done = f"{', '.join(reproduction.parts)}, scale {scale}; data and figures beside it"
    output.print_result(reproduction, as_json, lambda one: print(f"{one.page}: {done}"))
