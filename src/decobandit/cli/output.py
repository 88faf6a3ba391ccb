"""Output of commands: one JSON object for programs, tables for people, and files.

Files are refused before the long work, and acknowledged when they are there. No number of a table
is ever cut, however narrow the terminal is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import typer

from .. import bounds, figures, support
from .. import problem as problems

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


class Result(Protocol):
    """Result of a command."""

    def to_dict(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Result)
FOUND_SOMETHING = 1


def print_result(result: R, as_json: bool, show: Callable[[R], None]) -> None:
    """Print a result as JSON, or by `show`."""
    if as_json:
        print_json(result.to_dict())
    elif isinstance(result, problems.BySegment):
        _print_segments(result)
    else:
        show(result)


def print_results(
    results: Sequence[R], as_json: bool, show: Callable[[R], None], **more: object
) -> None:
    """Print results in turn; as JSON one object or {"results": [...]}, with `more` in each."""
    if isinstance(results, problems.BySegment):
        print_result(results, as_json, show)
    elif as_json:
        trees = [result.to_dict() | more for result in results]
        print_json(trees[0] if len(trees) == 1 else {"results": trees})
    else:
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


def said_of(bound: bounds.BoundValue) -> str:
    """Return a sentence about an upper bound."""
    return f"no policy can earn more than {bound.value:.6f} ({bound.meaning})"


# -- Tables ----------------------------------------------------------------------------------------

MOST_ROWS = 30  # arms shown to a person
NARROW: dict[str, Any] = {"pad_edge": False, "padding": (0, 1, 0, 0)}
LONGEST_WORDS = 24  # cells of a column of words that are not folded
Rows = Sequence[Sequence[str] | None]


def print_table(
    title: str,
    titles: Sequence[str],
    rows: Iterable[Sequence[str] | None],
    *,
    text: Collection[str] = (),
    narrow: bool = False,
    **settings: Any,
) -> None:
    """Print rows under titles; None draws a line, columns of `text` are words. Nothing is cut."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement

    cells, console, wide = list(rows), Console(), Console(width=1000)
    plain = {"box": SIMPLE_HEAD, **NARROW, **settings}
    layouts = [(settings, False)] * (not narrow) + [(plain, False), (plain, True)]
    for layout, folded in layouts:
        table = _table(title, titles, cells, text, folded, layout)
        width = Measurement.get(wide, wide.options, table).minimum
        if width <= console.width:
            break
    else:
        console = Console(width=width)
    console.print(table)


def _table(
    title: str,
    titles: Sequence[str],
    rows: Rows,
    text: Collection[str],
    folded: bool,
    layout: dict[str, Any],
) -> Table:
    """Build the table. Rich cuts what is wider than its least width: only long text may wrap."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title) if title else None, **layout)
    for number, name in enumerate(titles):
        column = [row[number] for row in rows if row is not None]
        widest = max(map(len, column), default=0)
        longest = max(map(len, name.split()), default=1)
        above = "\n".join(wrap(name, max(widest, longest))) if folded else name
        long = name in text and widest > LONGEST_WORDS
        least = max((len(word) for cell in column for word in cell.split()), default=0)
        table.add_column(
            Text(above),
            justify="left" if name in text else "right",
            min_width=max(least if long else widest, *map(len, above.split("\n"))),
            no_wrap=not long,
            overflow="fold",
        )
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*map(Text, row))
    return table


def print_stages(
    title: str,
    titles: Sequence[str],
    row: Callable[[int], list[str]],
    *,
    stages: int,
    most: int,
    dots: bool = False,
    **settings: Any,
) -> None:
    """Print one row per stage: `most` from either end, a line or dots between."""
    skipped = range(most, stages - most)
    rows: list[list[str] | None] = [row(t) for t in range(stages) if t not in skipped]
    if skipped:
        rows.insert(most, ["..."] * len(titles) if dots else None)
    print_table(title, titles, rows, **settings)
    if skipped:
        print(f"stages {skipped.start} to {skipped.stop - 1} are left out; --json has all of them")


COLUMNS = {  # of segments
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
DIGITS = {"share": ".4g", "budget": ".3g"}
WORDS = ("segment", "scenario", "policy")


def _print_segments(result: problems.BySegment) -> None:
    """Print a row per segment, or per segment and policy, and the rows in all."""
    rows = result.rows()
    keys = [key for key in COLUMNS if any(row.get(key) not in (None, 0.0) for row in rows)]

    def cell(row: dict[str, Any], key: str) -> str:
        value, most = row.get(key), row.get("reject_at_most")
        if key == "reject" and most is not None:
            return f"<= {most:.4f}"
        if isinstance(value, float):
            return f"{value:{DIGITS.get(key, '.4f')}}"
        return "" if value is None else str(value)

    lines: list[list[str] | None] = []
    for number, row in enumerate(rows):
        if number and row["segment"] != rows[number - 1]["segment"]:
            lines.append(None)
        lines.append([cell(row, key) for key in keys])
    print_table(result.problem.described(), [COLUMNS[key] for key in keys], lines, text=WORDS)
    total = rows[-1]
    if total.get("upper_bound") is not None:
        print(f"no policy can earn more than {total['upper_bound']:.6f} in all;")
        print(f"policies that decide by their own segment only: {total['own_clock_bound']:.6f}")
    elif "own_clock_value" in total:
        print("value: of the best policy, which also looks at the calendar")
    if "value_se" in keys:
        print("±: one standard error; segments are simulated independently")
    if "reject" in keys:
        print("P(declared): some arm is declared; in all, in some segment: at most the sum")
    if "budget" in keys:
        print("money: of each segment, split at one price of money; a segment never spends more")


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
    """Refuse a file of another kind, one that nothing here can make, or that cannot be written."""

    def check(path: Path | None) -> Path | None:
        check_writable(path)
        ending = "" if path is None else path.suffix.lower()
        if path is not None and ending not in endings:
            allowed = (" or " if len(endings) == 2 else ", ").join(endings)
            raise typer.BadParameter(f"{path}: must end in {allowed}")
        if ending == ".parquet":
            support.check_parquet()
        if ending == ".pdf" and set(endings) == set(REPORTS):
            from ..figures.report_page import check_pdf

            check_pdf()
        return path

    return check


REPORTS = (".html", ".pdf")
check_report = ending_in(*REPORTS)
check_table = ending_in(*TABLES)


def written(what: str, path: Path) -> None:
    """Tell people at a terminal that a file is there."""
    note(f"{what} written to {path}")


def write_json(what: str, tree: dict[str, Any], path: Path) -> None:
    """Write a file for programs."""
    support.write_whole(path, json.dumps(tree, indent=1, allow_nan=False) + "\n")
    written(what, path)


def write_report(path: Path, page: str) -> None:
    """Write a report, a self-contained page, as HTML or PDF."""
    if path.suffix.lower() == ".pdf":
        from ..figures.report_page import write_pdf

        write_pdf(page, path)
    else:
        support.write_whole(path, page)
    written("report", path)


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
    """Write a figure, for dark pages if its name ends in -dark, or a page, if there is a file."""
    if out is None:
        return
    from ..figures.charts import DARK_ENDING

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
    """Write a result as LaTeX table of the columns `names`, as interactive page or as figure."""
    if out is None:
        return
    if out.suffix.lower() in LATEX:
        every = columns()
        shown = {name: every[name] for name in names or every if name in every}
        filled = {
            name: column
            for name, column in shown.items()
            if any(value is not None for value in column)
        }
        save_table(out, lambda: filled)
    elif figure is not None:
        draw(out, figure, lambda: figures.figure_page(figure(interactive=True), title))
