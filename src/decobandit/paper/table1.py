"""Table 1 with exact values: optimum, DeCo and its variants, FH-Gittins, and the certified bound.

The paper's figures are simulated; here every one is computed without noise. `run` does the work,
row by row, and `to_markdown` and `to_csv` only write it down.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from .._version import __version__
from ..evaluation import evaluate
from ..joint_optimum import TooLarge, count_states, optimum
from ..path_search import MOST_STATES
from ..problem import Problem
from ..registry import Workbench
from ..simulation import simulate
from .cells import kept
from .published import PublishedRow, table1

TOLERANCE = 1e-6  # of the dual
DRAWS, PER_DRAW = 1000, 10  # of the simulated values
ROLLING_STATES = 6_000  # rolling DeCo solves a dual in every state it reaches
QUICK_PATH_STATES = 30_000  # of candidates for the price path; more are compared by simulation
QUICK_STATES = 200_000_000  # of a joint optimum; more of them take minutes


@dataclass(frozen=True)
class Row:
    """One row: the paper's figures, then ours. None: not in the paper, or too large."""

    arms: int
    horizon: int
    paper_bf: float | None
    paper_fh: float | None
    paper_deco: float
    optimum: float | None
    deco: float
    deco_calibrated: float
    rolling_deco: float | None
    fh_gittins: float
    upper_bound: float
    path: str  # the price path of the calibrated index
    deco_simulated: float  # DRAWS draws of PER_DRAW episodes
    deco_error: float


def run(
    published: Sequence[PublishedRow] | None = None,
    *,
    quick: bool = True,
    folder: Path | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """Compute the rows; `report` is told what is done. `quick` leaves out what takes minutes.

    Rows are kept in `folder`, where there is one, and read again from there.
    """
    rows = []
    for given in table1() if published is None else published:
        name = f"{given.arms}-arms-horizon-{given.horizon}"
        settings = {**asdict(given), "quick": quick}
        rows.append(Row(**kept(folder, name, settings, partial(_row, given, quick))))
        report(f"({given.arms}, {given.horizon}) done")
    return rows


def _row(given: PublishedRow, quick: bool) -> dict[str, Any]:
    problem = Problem.uniform(arms=given.arms, horizon=given.horizon)
    states = QUICK_PATH_STATES if quick else MOST_STATES
    bench = Workbench(problem, tol=TOLERANCE, path_states=states)
    deco = evaluate(bench.policy("deco"))
    rolling = None
    if deco.states <= ROLLING_STATES:
        rolling = evaluate(bench.policy("rolling-deco")).value
    sampled = simulate(
        problem, [bench.policy("deco")], draws=DRAWS, per_draw=PER_DRAW, solution=bench.solution
    ).results[0]
    best = None
    if not quick or count_states(problem)[0] <= QUICK_STATES:
        with suppress(TooLarge):
            best = optimum(problem).value
    row = Row(
        arms=given.arms,
        horizon=given.horizon,
        paper_bf=given.bf,
        paper_fh=given.fh,
        paper_deco=given.deco,
        optimum=best,
        deco=deco.value,
        deco_calibrated=evaluate(bench.policy("deco-calibrated")).value,
        rolling_deco=rolling,
        fh_gittins=evaluate(bench.policy("fh-gittins")).value,
        upper_bound=bench.solution.upper_bound,
        path=str(bench.path.path),
        deco_simulated=sampled.value,
        deco_error=sampled.value_se,
    )
    return asdict(row)


def to_csv(rows: Sequence[Row]) -> str:
    """The rows with all their digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def to_markdown(rows: Sequence[Row], *, command: str = "deco reproduce table1") -> str:
    """Two tables for people: values beside the paper's, and what each policy loses."""
    lines = [
        "# Table 1 of the paper, exactly",
        "",
        f"Written by `{command}` (decobandit {__version__}); uniform priors, reward 1 "
        "for good and 0 for bad.",
        "The paper's figures (BF: brute force, FH: FH-Gittins) are simulated, ours are exact up to "
        "rounding. A dash: not in the paper, or too large here.",
        "",
        "| arms | T | paper BF | paper FH | paper DeCo | optimum | DeCo | calibrated | rolling "
        "| FH-Gittins | upper bound |",
        "|" + "--:|" * 11,
    ]
    lines += [
        f"| {row.arms} | {row.horizon} | {_cell(row.paper_bf, 3)} | {_cell(row.paper_fh, 2)} "
        f"| {_cell(row.paper_deco, 3)} | {_cell(row.optimum)} | {_cell(row.deco)} "
        f"| {_cell(row.deco_calibrated)} | {_cell(row.rolling_deco)} | {_cell(row.fh_gittins)} "
        f"| {_cell(row.upper_bound)} |"
        for row in rows
    ]
    lines += [
        "",
        "What is lost to the optimum (to the best policy of the row where the optimum is too "
        "large), and the calibrated index's loss as a part of FH-Gittins':",
        "",
        "| arms | T | DeCo | calibrated | rolling | FH-Gittins | calibrated / FH-Gittins "
        "| price path |",
        "|" + "--:|" * 7 + ":--|",
    ]
    lines += [_losses(row) for row in rows]
    return "\n".join(lines) + "\n"


def _losses(row: Row) -> str:
    values = (row.deco, row.deco_calibrated, row.rolling_deco, row.fh_gittins)
    best = row.optimum if row.optimum is not None else max(v for v in values if v is not None)
    lost = [None if value is None else best - value for value in values]
    calibrated, gittins = best - row.deco_calibrated, best - row.fh_gittins
    ratio = f"{calibrated / gittins:.0%}" if gittins > 1e-9 and row.optimum is not None else "-"
    cells = " | ".join(_cell(value) for value in lost)
    return f"| {row.arms} | {row.horizon} | {cells} | {ratio} | {row.path} |"


def _cell(value: float | None, digits: int = 6) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
