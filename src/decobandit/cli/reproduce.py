"""`deco reproduce`: the paper's results, computed again."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .files import make_folder
from .options import AsJson, Workers
from .output import print_result, say

if TYPE_CHECKING:
    from ..paper.reproduction import Reproduction

# typer takes several values of an enumeration, not of a Literal
Part = StrEnum(
    "Part",
    ["table1", "figure2", "figure3", "figure4", "batches", "designs", "published", "all"],
)
PARTS = [part.value for part in Part if part != "all"]
INTERRUPTED = 130


def reproduce(
    what: Annotated[
        list[Part] | None,
        typer.Argument(
            metavar="PART",
            show_default="all",
            help="What to compute, one or several.",
        ),
    ] = None,
    scale: Annotated[
        Literal["quick", "paper"],
        typer.Option(help="quick: minutes; paper: the paper's sample sizes, an hour or two."),
    ] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the files go.")] = Path(
        "reproduction"
    ),
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Compute published tables and figures again, beside what was printed."""
    make_folder(out)
    chosen = [part.value for part in what or () if part != "all"]
    print_result(_reproduced(chosen or PARTS, scale, out), as_json, print_reproduction)


def _reproduced(parts: list[str], scale: str, out: Path) -> Reproduction:
    """Compute the parts, with a bar for each."""
    from ..paper.cells import Interrupted
    from ..paper.reproduction import reproduce as compute
    from ..support import show_progress

    try:
        with show_progress() as report:
            return compute(parts, scale, out, report)
    except Interrupted as stopped:
        say(f"interrupted: {stopped}; the same command goes on")
        raise typer.Exit(INTERRUPTED) from None


def print_reproduction(found: Reproduction) -> None:
    """Where the page is."""
    parts = ", ".join(found.parts)
    print(f"{found.page}: {parts}, scale {found.scale}; data and figures beside it")
