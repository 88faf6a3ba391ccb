"""Run the benchmarks, print one table, keep it as JSON; a run of all also writes the page."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .machine import facts, versions
from .page import figure, measure, page
from .rows import Row

HERE = Path(__file__).parent
ALL, SOME = HERE / "results" / "latest.json", HERE / "results" / "partial.json"
PAGE = HERE.parent / "docs" / "performance.md"


def main() -> None:
    """The program."""
    known = sorted(file.stem.removeprefix("bench_") for file in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(known)}")
    names = parser.parse_args().names or known
    if unknown := [name for name in names if name not in known]:
        parser.error(f"{', '.join(unknown)}: no such benchmark; there are {', '.join(known)}")
    began = time.perf_counter()
    rows: dict[str, list[Row]] = {}
    for name in names:
        rows[name] = measured(name)
        kept = tree(rows, time.perf_counter() - began)
        keep(kept, SOME)  # the next one may fail
    files = [ALL, PAGE] if set(names) == set(known) else [SOME]
    keep(kept, *files)
    every = [row for found in rows.values() for row in found]
    Console(width=None if sys.stdout.isatty() else 140).print(table(every))
    print(f"kept in {', '.join(str(file.relative_to(HERE.parent)) for file in files)}")


def measured(name: str) -> list[Row]:
    """The rows of one benchmark."""
    print(f"measuring: {name}", file=sys.stderr)
    rows: list[Row] = importlib.import_module(f"{__package__}.bench_{name}").run()
    return rows


def tree(rows: dict[str, list[Row]], seconds: float) -> dict[str, Any]:
    """The rows with all that is needed to judge them."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "machine": facts(),
        "versions": versions(),
        "rows": [
            {"benchmark": name, **asdict(row)} for name, found in rows.items() for row in found
        ],
    }


def keep(kept: dict[str, Any], results: Path, written: Path | None = None) -> None:
    """Write the figures as JSON, and the page where one is wanted."""
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if written is not None:
        written.write_text(page(kept), encoding="utf-8")


def table(rows: list[Row]) -> Table:
    """The rows for people."""
    machine = facts()
    shown = Table(title=f"{machine['processor']}, {machine['cores']} cores")
    for column in ("benchmark", "ours", "compared with", "", "ratio", "target", "met"):
        shown.add_column(column, justify="right" if column in {"ours", "", "ratio"} else "left")
    for row in rows:
        shown.add_row(
            row.what,
            measure(row.ours, row.unit),
            row.beside,
            "-" if row.beside_value is None else measure(row.beside_value, row.unit),
            "-" if row.ratio is None else figure(row.ratio),
            row.target,
            {None: "", True: "yes", False: "NO"}[row.met],
        )
    return shown


if __name__ == "__main__":
    main()
