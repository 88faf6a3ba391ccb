"""Output of commands: JSON, text and files.

One JSON object for programs, or lines for people. Files are refused before the long work, and
acknowledged when they are there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import typer

from .. import bounds, figures, support
from .. import problem as problems
from .tables import print_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result(Protocol):
    """Result of a command."""

    def to_dict(self) -> dict[str, Any]: ...


FOUND_SOMETHING = 1
Found = TypeVar("Found", bound=Result)


def print_result(result: Found, as_json: bool, show: Callable[[Found], None]) -> None:
    """Print a result as JSON, or by `show`."""
    if as_json:
        print_json(result.to_dict())
    elif isinstance(result, problems.BySegment):
        print_segments(result)
    else:
        show(result)


def print_results(
    results: Sequence[Found], as_json: bool, show: Callable[[Found], None], **more: object
) -> None:
    """Print results in turn; as JSON one object or {"results": [...]}, with `more` in each."""
    if isinstance(results, problems.BySegment):
        print_result(results, as_json, show)
        return
    if as_json:
        trees = [result.to_dict() | more for result in results]
        print_json(trees[0] if len(trees) == 1 else {"results": trees})
        return
    for number, result in enumerate(results):
        if number:
            print()
        show(result)


def print_json(tree: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    print(json.dumps(tree, allow_nan=False))


def end_with(ok: bool) -> None:
    """End with exit code 1 where a check found something."""
    if not ok:
        raise typer.Exit(FOUND_SOMETHING)


def say(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr)


def say_unruled(rules: problems.Rules | None, as_json: bool) -> None:
    """Say first that the rules of a design are not played: looks and stops change what is earned.

    On standard output, or beside JSON on standard error.
    """
    if rules is not None and rules != problems.Rules():
        line = "policies play without the rules of the design here; deco design plays under them"
        print(line, file=sys.stderr if as_json else sys.stdout)


def note(line: str) -> None:
    """Print a line on standard error if that is a terminal."""
    if sys.stderr.isatty():
        say(line)


def percent(value: float | None) -> str:
    """Format a percentage; empty for None."""
    return "" if value is None else f"{value:.2f}%"


def digits(value: float | None, most: int = 6) -> str:
    """Format a number with its first digits, without -0; empty for None."""
    return "" if value is None else f"{round(value, 12) + 0.0:.{most}g}"


def fixed(value: float | None, digits: int) -> str:
    """Format a number with fixed digits; empty for None."""
    return "" if value is None else f"{value:.{digits}f}"


NO_BOUND = "bound: not computed, as it is slow here and no policy needs it; --bound computes it"


def said_of(bound: bounds.BoundValue) -> str:
    """Return a sentence about an upper bound."""
    return f"no policy can earn more than {bound.value:.6f} ({bound.meaning})"


# -- Files that commands write: refused before the long work, acknowledged when they are there -----

FIGURES = (".png", ".svg", ".pdf")
PAGES = (".html",)
TABLES = (".csv", ".parquet")
LATEX = (".tex",)


def check_writable(path: Path | None) -> Path | None:
    """Refuse a file that cannot be written."""
    if path is None:
        return None
    folder = path.absolute().parent
    if path.is_dir():
        raise typer.BadParameter(f"{path}: is a directory; give a file")
    if not folder.is_dir():
        raise typer.BadParameter(f"{path}: no such directory as {folder}")
    # a file is replaced by a new one of its name: its folder must be writable too
    needed = [path] if path.exists() and not path.is_file() else [path, folder]
    if not all(os.access(place, os.W_OK) for place in needed if place.exists()):
        raise typer.BadParameter(f"{path}: cannot be written")
    return path


def ending_in(*endings: str) -> Callable[[Path | None], Path | None]:
    """Refuse a file of another kind, or one that cannot be written."""

    def check(path: Path | None) -> Path | None:
        check_writable(path)
        if path is not None and path.suffix.lower() not in endings:
            listed = ", ".join(endings[:-1])
            allowed = f"{listed} or {endings[-1]}" if len(endings) == 2 else ", ".join(endings)
            raise typer.BadParameter(f"{path}: must end in {allowed}")
        return path

    return check


def check_report(path: Path | None) -> Path | None:
    """Refuse a report of another kind, or PDF where nothing can print it."""
    ending_in(".html", ".pdf")(path)
    if path is not None and path.suffix.lower() == ".pdf":
        from ..figures.report_page import check_pdf

        check_pdf()
    return path


def write_report(path: Path, page: str) -> None:
    """Write a report, a self-contained page, as HTML or PDF."""
    if path.suffix.lower() == ".pdf":
        from ..figures.report_page import write_pdf

        write_pdf(page, path)
    else:
        support.write_whole(path, page)
    written("report", path)


check_drawing = ending_in(*FIGURES, *PAGES)
check_drawing_or_table = ending_in(*FIGURES, *PAGES, *LATEX)
check_latex = ending_in(*LATEX)


def check_table(path: Path | None) -> Path | None:
    """Refuse a file that no table can be written to."""
    ending_in(*TABLES)(path)
    if path is not None and path.suffix.lower() == ".parquet":
        support.check_parquet()
    return path


def save_table(path: Path | None, columns: Callable[[], support.Columns]) -> None:
    """Write a table, if there is a file to write."""
    if path is not None:
        support.write_table(columns(), path)
        written("table", path)


def refuse_segments(problem: problems.Problem, **files: Path | None) -> None:
    """Refuse files that hold the results of one problem, where it has segments."""
    for name, file in files.items():
        if file is not None and problem.segments:
            raise typer.BadParameter(f"--{name}: is for one segment; add --segment NAME")


def make_folder(path: Path) -> None:
    """Make a folder for output, or refuse it before the long work begins."""
    if path.exists() and not path.is_dir():
        raise typer.BadParameter(f"{path}: is a file; give a directory")
    path.mkdir(parents=True, exist_ok=True)


def draw(
    out: Path | None, figure: Callable[[], Figure], page: Callable[[], str] | None = None
) -> None:
    """Write a figure, or a page where the file's name says so, if there is a file to write.

    A figure whose name ends in `-dark` is for dark pages.
    """
    if out is None:
        return
    from ..figures.plots import DARK_ENDING

    if page is not None and out.suffix.lower() in PAGES:
        support.write_whole(out, page())
        written("page", out)
    else:
        figures.save_figure(figure(), out, dark=out.stem.endswith(DARK_ENDING))
        written("figure", out)


def write_out(
    out: Path | None,
    columns: Callable[[], support.Columns],
    figure: Callable[..., Any] | None = None,
    title: str = "",
    *,
    names: Sequence[str] = (),
) -> None:
    """Write a result as the name of the file says: as LaTeX table, figure or page.

    `figure`: a function with the keyword `interactive`. `names`: columns that papers have, by
    default all; those without a number are left out.
    """
    if out is None:
        return
    if out.suffix.lower() in LATEX:
        every = columns()
        shown = [name for name in names or every if name in every]
        save_table(out, lambda: {name: every[name] for name in shown if _has_values(every[name])})
    elif figure is not None:
        draw(out, figure, lambda: figures.figure_page(figure(interactive=True), title))


def _has_values(column: support.Column) -> bool:
    return any(value is not None for value in column)


def written(what: str, path: Path) -> None:
    """Tell people at a terminal that a file is there."""
    note(f"{what} written to {path}")


COLUMNS = {
    "segment": "segment",
    "share": "share",
    "budget": "money",
    "scenario": "scenario",
    "policy": "policy",
    "good": "good",
    "size": "pulls",
    "reject": "P(declared)",
    "value": "value",
    "value_se": "± s.e.",
    "own_clock_value": "on own clock",
    "regret": "regret",
    "gap": "gap",
    "upper_bound": "upper bound",
    "own_clock_bound": "own-clock bound",
    "trivial": "best arms known",
}
DIGITS = {"share": 4, "budget": 3}
WORDS = ("segment", "scenario", "policy")


def print_segments(result: problems.BySegment) -> None:
    """Print a row per segment, or per segment and policy, and the rows in all."""
    rows = result.rows()
    shown = [key for key in COLUMNS if any(row.get(key) not in (None, 0.0) for row in rows)]
    lines: list[list[str] | None] = []
    for number, row in enumerate(rows):
        if number and row["segment"] != rows[number - 1]["segment"]:
            lines.append(None)
        cells = [_cell(key, row.get(key)) for key in shown]
        if row.get("reject_at_most") is not None:
            cells[shown.index("reject")] = f"<= {_text(row['reject_at_most'])}"
        lines.append(cells)
    print_table(result.problem.described(), [COLUMNS[key] for key in shown], lines, text=WORDS)
    total = rows[-1]
    if total.get("upper_bound") is not None:
        print(f"no policy can earn more than {total['upper_bound']:.6f} in all;")
        print(f"policies that decide by their own segment only: {total['own_clock_bound']:.6f}")
    elif "own_clock_value" in total:
        print("value: of the best policy, which also looks at the calendar")
    if "value_se" in shown:
        print("±: one standard error; segments are simulated independently")
    if "reject" in shown:
        print("P(declared): some arm is declared; in all, in some segment: at most the sum")
    if "budget" in shown:
        print("money: of each segment, split at one price of money; a segment never spends more")


def _cell(key: str, value: object) -> str:
    return f"{value:.{DIGITS.get(key, 6)}g}" if key in DIGITS else _text(value)


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
