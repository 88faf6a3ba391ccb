"""The cells of a study as one table: rows of plain values, CSV, Parquet; policies side by side."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cell_files import Tree, write_whole

Row = dict[str, Any]
COLUMNS: dict[str, type] = {
    "problem": str,
    "policy": str,
    "seed": int,
    "arms": int,
    "horizon": int,
    "pulls_per_stage": int,
    "draws": int,
    "per_draw": int,
    "ties": str,
    "tol": float,
    "truth_prior_good": float,
    "truth_prior_bad": float,
    "true_horizon": int,
    "value": float,
    "value_se": float,
    "regret": float,
    "regret_se": float,
    "upper_bound": float,
    "method": str,
    "version": str,
}


def rows_of(cells: Sequence[Tree]) -> list[Row]:
    """One row per cell, with the keys of COLUMNS; None where there is nothing to say."""
    return [_row(cell) for cell in cells]


def _row(cell: Tree) -> Row:
    settings, problem = cell["settings"], cell["settings"]["problem"]
    truth = settings["truth_prior"] or {"good": None, "bad": None}
    own = {
        "problem": settings["name"],
        "arms": sum(arm.get("count", 1) for arm in problem["arms"]),
        "horizon": problem["horizon"],
        "pulls_per_stage": problem["pulls_per_stage"],
        "truth_prior_good": truth["good"],
        "truth_prior_bad": truth["bad"],
        "version": cell["version"],
    }
    every = {**settings, **cell["figures"], **own}
    return {key: every[key] for key in COLUMNS}


def save_csv(rows: Sequence[Row], path: Path) -> None:
    """Write a table as CSV: numbers by repr, so that reading them back is exact."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def check_parquet() -> None:
    """Refuse Parquet where the package that writes it is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise ImportError(
            'Parquet needs pyarrow; install it with: pip install "decobandit[tables]"'
        ) from None


def save_parquet(rows: Sequence[Row], path: Path) -> None:
    """Write a table as Parquet."""
    check_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), content)
    write_whole(path, content.getvalue())


@dataclass(frozen=True)
class Pooled:
    """Regret over all seeds of a cell."""

    regret: float
    error: float


def regret_grid(rows: Sequence[Row]) -> tuple[list[str], list[str], dict[tuple[str, str], Pooled]]:
    """Problems, policies, and the regret of each pair, averaged over seeds."""
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["regret"] is not None:
            found.setdefault((row["problem"], row["policy"]), []).append(row)
    return problems, policies, {pair: _pooled(cells) for pair, cells in found.items()}


def _pooled(cells: Sequence[Row]) -> Pooled:
    regret = sum(cell["regret"] for cell in cells) / len(cells)
    error = math.sqrt(sum(cell["regret_se"] ** 2 for cell in cells)) / len(cells)
    return Pooled(regret, error)


def save_markdown(rows: Sequence[Row], path: Path) -> None:
    """Write regret with its error, a line for each problem and a column for each policy."""
    problems, policies, cells = regret_grid(rows)
    lines = ["| regret | " + " | ".join(f"`{name}`" for name in policies) + " |"]
    lines.append("|---" * (len(policies) + 1) + "|")
    for problem in problems:
        found = [cells.get((problem, policy)) for policy in policies]
        shown = [f"{cell.regret:.3f} ± {cell.error:.3f}" if cell else "" for cell in found]
        lines.append(f"| {problem} | " + " | ".join(shown) + " |")
    write_whole(path, ("\n".join(lines) + "\n").encode())
