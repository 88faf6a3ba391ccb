"""`deco reproduce`: the paper's results, computed again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import make_folder

KNOWN = ("table1",)


def reproduce(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[table1]", help="What to compute.")
    ] = None,
    scale: Annotated[
        Literal["quick", "paper"],
        typer.Option(help="quick: without what takes minutes; paper: all of it."),
    ] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the files go.")] = Path(
        "reproduction"
    ),
) -> None:
    """Compute the paper's tables again, exactly, beside the figures that it printed."""
    for name in what or KNOWN:
        if name not in KNOWN:
            raise typer.BadParameter(f"{name!r} is not known; choose from {', '.join(KNOWN)}")
    from ..paper import table1

    make_folder(out)
    rows = table1.run(quick=scale == "quick", report=lambda line: print(line, file=sys.stderr))
    (out / "table1.csv").write_text(table1.to_csv(rows), encoding="utf-8")
    text = table1.to_markdown(rows, command=f"deco reproduce table1 --scale {scale}")
    (out / "table1.md").write_text(text, encoding="utf-8")
    print(text)
