"""The finished cells of a study as one table: rows, CSV, Parquet; policies side by side."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints

from ..support import write_whole
from .records import FinishedCell

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Row:
    """One finished cell; fields are the columns, None where there is nothing to say."""

    problem: str
    policy: str
    seed: int
    arms: int
    horizon: int
    pulls_per_stage: int
    draws: int
    per_draw: int
    ties: str
    tol: float
    truth_prior_good: float | None
    truth_prior_bad: float | None
    true_horizon: int | None
    value: float
    value_se: float
    regret: float | None
    regret_se: float | None
    upper_bound: float | None
    method: str
    version: str


def rows_of(finished: Sequence[FinishedCell]) -> list[Row]:
    """One row per finished cell."""
    return [_row(each) for each in finished]


def _row(finished: FinishedCell) -> Row:
    cell, result, prior = finished.cell, finished.result, finished.cell.truth_prior
    return Row(
        problem=cell.problem_name,
        policy=cell.policy,
        seed=cell.seed,
        arms=cell.problem.number_of_arms,
        horizon=cell.problem.horizon,
        pulls_per_stage=cell.problem.pulls_per_stage,
        draws=cell.draws,
        per_draw=cell.per_draw,
        ties=cell.ties,
        tol=cell.tol,
        truth_prior_good=None if prior is None else prior.good,
        truth_prior_bad=None if prior is None else prior.bad,
        true_horizon=cell.true_horizon,
        value=result.value,
        value_se=result.value_se,
        regret=result.regret,
        regret_se=result.regret_se,
        upper_bound=result.upper_bound,
        method=result.method,
        version=finished.version,
    )


def save_csv(rows: Sequence[Row], path: Path) -> None:
    """Write a table as CSV: numbers by repr, so that reading them back is exact."""
    write_whole(path, csv_text(Row, rows).encode())


def csv_text(kind: type[DataclassInstance], rows: Sequence[DataclassInstance]) -> str:
    """Records of one kind as CSV, a column for each field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


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

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    columns = {
        name: next(kinds[kind] for kind in kinds if kind in (hint, *get_args(hint)))
        for name, hint in get_type_hints(Row).items()
    }
    content = io.BytesIO()
    table = pa.Table.from_pylist([asdict(row) for row in rows], schema=pa.schema(columns))
    pq.write_table(table, content)
    write_whole(path, content.getvalue())


@dataclass(frozen=True)
class Regret:
    """Regret of a policy on a problem, averaged over all seeds, and its standard error."""

    value: float
    error: float


@dataclass(frozen=True)
class RegretGrid:
    """Regrets side by side; a pair that has none is left out."""

    problems: tuple[str, ...]
    policies: tuple[str, ...]
    regrets: dict[tuple[str, str], Regret]  # by problem and policy


def regret_grid(rows: Sequence[Row]) -> RegretGrid:
    """Problems, policies, and the regret of each pair, averaged over seeds."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if row.regret is not None and row.regret_se is not None:
            pairs = found.setdefault((row.problem, row.policy), [])
            pairs.append((row.regret, row.regret_se))
    return RegretGrid(
        tuple(dict.fromkeys(row.problem for row in rows)),
        tuple(dict.fromkeys(row.policy for row in rows)),
        {pair: _mean(regrets) for pair, regrets in found.items()},
    )


def _mean(regrets: Sequence[tuple[float, float]]) -> Regret:
    value = sum(regret for regret, _ in regrets) / len(regrets)
    error = math.sqrt(sum(error**2 for _, error in regrets)) / len(regrets)
    return Regret(value, error)


def save_markdown(rows: Sequence[Row], path: Path) -> None:
    """Write regret with its error, a line for each problem and a column for each policy."""
    grid = regret_grid(rows)
    lines = ["| regret | " + " | ".join(f"`{name}`" for name in grid.policies) + " |"]
    lines.append("|---" * (len(grid.policies) + 1) + "|")
    for problem in grid.problems:
        found = [grid.regrets.get((problem, policy)) for policy in grid.policies]
        shown = [f"{each.value:.3f} ± {each.error:.3f}" if each else "" for each in found]
        lines.append(f"| {problem} | " + " | ".join(shown) + " |")
    write_whole(path, ("\n".join(lines) + "\n").encode())
