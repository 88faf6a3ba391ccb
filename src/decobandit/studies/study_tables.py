"""The finished cells of a study as one table: rows, CSV, Parquet; policies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from ..simulation import policy_grid
from ..support import columns_of, csv_of, write_parquet, write_whole
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

    @property
    def line(self) -> str:
        """Where policies are compared: the problem."""
        return self.problem

    @property
    def measure(self) -> str:
        """What policies are compared by."""
        return "regret"

    @property
    def compared(self) -> tuple[float, float] | None:
        """The number that they are compared by, and its error."""
        if self.regret is None or self.regret_se is None:
            return None
        return self.regret, self.regret_se


@dataclass(frozen=True)
class DesignRow(Row):
    """One finished cell of a design: operating characteristics in a scenario.

    `value` are the good outcomes. Lists by arm are text, numbers with blanks between them.
    """

    scenario: str
    truth: str
    exact: bool
    good_sd: float
    pulls: str
    pulls_sd: str
    best_share: float | None
    best_share_se: float | None
    select_best: float | None
    select_best_se: float | None
    reject: float
    reject_se: float | None
    size: float
    size_se: float | None
    size_sd: float
    stopped: float
    stopped_se: float | None

    @property
    def line(self) -> str:
        return f"{self.problem}: {self.scenario}"

    @property
    def measure(self) -> str:
        return "good outcomes"

    @property
    def compared(self) -> tuple[float, float] | None:
        return self.value, self.value_se


_DESIGN_ROW = TypeAdapter(DesignRow)


def rows_of(finished: Sequence[FinishedCell]) -> list[Row]:
    """One row per finished cell."""
    return [_row(each) for each in finished]


def _row(finished: FinishedCell) -> Row:
    cell, result, prior = finished.cell, finished.result, finished.cell.truth_prior
    row = Row(
        problem=cell.problem_name,
        policy=cell.policy,
        seed=cell.seed,
        arms=cell.problem.n_arms,
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
    if cell.scenario is None or result.characteristics is None:
        return row
    own = {**result.characteristics, "scenario": cell.scenario.name, "truth": cell.scenario.truth}
    more = {each.name: _entry(own.get(each.name)) for each in fields(DesignRow)}
    return _DESIGN_ROW.validate_python({**more, **asdict(row)})


def _entry(value: object, between: str = " ") -> object:
    """A list as text; of classes, whose truth is a list each, 0.2+0.3+0.5."""
    if not isinstance(value, list | tuple):
        return value
    return between.join(str(_entry(each, "+")) for each in value)


# -- files --------------------------------------------------------------------------------------


def save_csv(rows: Sequence[Row], path: Path) -> None:
    """Write a table as CSV: numbers by repr, so that reading them back is exact."""
    write_whole(path, csv_text(_kind(rows), rows).encode())


def _kind(rows: Sequence[Row]) -> type[Row]:
    """The kind of the rows, which has the columns."""
    return max(map(type, rows), key=lambda kind: len(fields(kind)), default=Row)


def csv_text(kind: type[DataclassInstance], rows: Sequence[DataclassInstance]) -> str:
    """Records of one kind as CSV, a column for each field."""
    names = [field.name for field in fields(kind)]
    return csv_of(columns_of(map(asdict, rows), names))


def save_parquet(rows: Sequence[Row], path: Path) -> None:
    """Write a table as Parquet; its name need not say so."""
    write_parquet(columns_of(map(asdict, rows)), path)


def save_markdown(rows: Sequence[Row], path: Path) -> None:
    """Write what is compared with its error: a line for each problem, a column for each policy."""
    grid = policy_grid(rows)
    lines = [f"| {grid.measure} | " + " | ".join(f"`{name}`" for name in grid.policies) + " |"]
    lines.append("|---" * (len(grid.policies) + 1) + "|")
    for line in grid.lines:
        found = [grid.found.get((line, policy)) for policy in grid.policies]
        shown = [f"{each.value:.3f} ± {each.value_se:.3f}" if each else "" for each in found]
        name = line.replace("|", "\\|")  # scenarios have any name
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    write_whole(path, ("\n".join(lines) + "\n").encode())
