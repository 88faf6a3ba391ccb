"""`deco reproduce`: the paper's results, computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import make_folder, say, show_levels

PARTS = ("table1", "figure2", "figure3", "figure4")
INTERRUPTED = 130


def reproduce(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[table1 figure2 figure3 figure4 | all]", help="What to compute."),
    ] = None,
    scale: Annotated[
        Literal["quick", "paper"],
        typer.Option(help="quick: minutes; paper: the paper's sample sizes, an hour or two."),
    ] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the files go.")] = Path(
        "reproduction"
    ),
) -> None:
    """Compute the paper's tables and figures again, beside the numbers that it printed."""
    chosen = [name for name in what or ["all"] if name != "all"] or list(PARTS)
    for name in chosen:
        if name not in PARTS:
            raise typer.BadParameter(f"{name!r} is not known; choose from {', '.join(PARTS)}, all")
    make_folder(out)
    reproduced(chosen, scale, out)


def reproduced(parts: list[str], scale: str, out: Path) -> None:
    """Compute the parts, with a bar for each, and say where the page is."""
    from ..paper.cells import Interrupted
    from ..paper.reproduction import reproduce as compute

    try:
        with show_levels("") as levels:
            page = compute(
                parts, scale, out,
                lambda part, done, total: levels(done, total, part) if levels else None,
            )  # fmt: skip
    except Interrupted as stopped:
        say(f"interrupted: {stopped}; the same command goes on")
        raise typer.Exit(INTERRUPTED) from None
    print(f"{page}: {', '.join(parts)}, scale {scale}; data and figures beside it")
