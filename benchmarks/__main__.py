"""Run the benchmarks, print one table, keep it as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .machine import facts, versions
from .rows import Row

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "latest.json"


def main() -> None:
    """The program."""
    known = sorted(file.stem.removeprefix("bench_") for file in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(known)}")
    names = parser.parse_args().names or known
    if unknown := [name for name in names if name not in known]:
        parser.error(f"{', '.join(unknown)}: no such benchmark; there are {', '.join(known)}")
    began = time.perf_counter()
    rows = [row for name in names for row in measured(name)]
    keep(rows, time.perf_counter() - began)
    Console(width=None if sys.stdout.isatty() else 140).print(table(rows))
    print(f"kept in {RESULTS.relative_to(HERE.parent)}")


def measured(name: str) -> list[Row]:
    """The rows of one benchmark."""
    print(f"measuring: {name}", file=sys.stderr)
    rows: list[Row] = importlib.import_module(f"{__package__}.bench_{name}").run()
    return rows


def keep(rows: list[Row], seconds: float) -> None:
    """Write the rows with all that is needed to judge them."""
    tree = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "machine": facts(),
        "versions": versions(),
        "rows": [asdict(row) for row in rows],
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")


def table(rows: list[Row]) -> Table:
    """The rows for people."""
    machine = facts()
    shown = Table(title=f"{machine['processor']}, {machine['cores']} cores")
    for column in ("what", "ours", "beside it", "", "ratio", "target", "met"):
        shown.add_column(column, justify="right" if column in {"ours", "", "ratio"} else "left")
    for row in rows:
        shown.add_row(
            row.what,
            f"{figure(row.ours)} {row.unit}",
            row.beside,
            "-" if row.beside_value is None else f"{figure(row.beside_value)} {row.unit}",
            "-" if row.ratio is None else figure(row.ratio),
            row.target,
            {None: "", True: "yes", False: "NO"}[row.met],
        )
    return shown


def figure(value: float) -> str:
    """Three digits, without exponents where people can do without."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
