"""Table 1 with exact values: optimum, DeCo and its variants, FH-Gittins, and the certified bound.

The paper's numbers are simulated; here every one is computed without noise. `run` does the work,
row by row, and `to_markdown` and `to_csv` only write it down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from .._version import __version__
from ..arm import PricePath
from ..evaluation import evaluate
from ..joint import count_states, optimum
from ..policies import Context, make_policies
from ..policies.path_search import MOST_STATES
from ..problem import Problem
from ..simulation import simulate
from ..studies import csv_text
from ..support import TooLarge
from .cells import kept
from .published import PublishedRow, table1

TOLERANCE = 1e-6  # of the dual
DRAWS, PER_DRAW = 1000, 10  # of the simulated values
ROLLING_STATES = 6_000  # rolling DeCo solves a dual in every state it reaches
QUICK_ROLLING_STATES = 1_000
QUICK_PATH_STATES = 30_000  # of candidates for the price path; more are compared by simulation
QUICK_STATES = 200_000_000  # of a joint optimum; more of them take minutes


@dataclass(frozen=True)
class Row:
    """One row: the paper's numbers, then ours. None: not in the paper, or too large."""

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


@dataclass(frozen=True)
class RowSettings(PublishedRow):
    """Settings of a row."""

    quick: bool = True


def run(
    published: Sequence[PublishedRow] | None = None,
    *,
    quick: bool = True,
    folder: Path | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """Compute the rows; `report` receives the progress. `quick` leaves out what takes minutes.

    Rows are kept in `folder`, where there is one, and read again from there.
    """
    rows = []
    for row in table1() if published is None else published:
        name = f"{row.arms}-arms-horizon-{row.horizon}"
        settings = RowSettings(**asdict(row), quick=quick)
        rows.append(kept(folder, name, settings, TypeAdapter(Row), partial(_row, row, quick)))
        report(f"({row.arms}, {row.horizon}) done")
    return rows


def _row(published: PublishedRow, quick: bool) -> Row:
    problem = Problem.uniform(arms=published.arms, horizon=published.horizon)
    states = QUICK_PATH_STATES if quick else MOST_STATES
    context = Context(problem, tol=TOLERANCE, path_states=states)
    policy, calibrated, gittins = make_policies(context, ["deco", "deco-calibrated", "fh-gittins"])
    deco = evaluate(problem, policy)
    rolling = None
    if deco.states <= (QUICK_ROLLING_STATES if quick else ROLLING_STATES):
        (again,) = make_policies(context, ["deco-rolling"])
        rolling = evaluate(problem, again).value
    sampled = simulate(
        problem, policy, draws=DRAWS, per_draw=PER_DRAW, solution=context.solution
    ).results[0]
    best = None
    if not quick or count_states(problem)[0] <= QUICK_STATES:
        with suppress(TooLarge):
            best = optimum(problem).value
    return Row(
        arms=published.arms,
        horizon=published.horizon,
        paper_bf=published.bf,
        paper_fh=published.fh,
        paper_deco=published.deco,
        optimum=best,
        deco=deco.value,
        deco_calibrated=evaluate(problem, calibrated).value,
        rolling_deco=rolling,
        fh_gittins=evaluate(problem, gittins).value,
        upper_bound=context.solution.upper_bound,
        path=str(PricePath(**(calibrated.record() or {}))),
        deco_simulated=sampled.value,
        deco_error=sampled.value_se,
    )


def to_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV."""
    return csv_text(Row, rows)


def to_markdown(rows: Sequence[Row], *, command: str = "deco reproduce table1") -> str:
    """Two tables for people: values beside the paper's, and what each policy loses."""
    lines = [
        "# Table 1 of the paper, exact values",
        "",
        f"Written by `{command}` (decobandit {__version__}); uniform priors, reward 1 "
        "for good and 0 for bad.",
        "The paper's figures (BF: brute force, FH: FH-Gittins) are simulated, ours are exact up to "
        "rounding. A dash: not in the paper, or too large here. The price path may differ at quick "
        "scale, where candidates that reach many states are compared by simulation.",
        "",
        "| arms | T | paper BF | paper FH | paper DeCo | optimum | DeCo | calibrated | rolling "
        "| FH-Gittins | upper bound |",
        "|" + "--:|" * 11,
    ]
    lines += [
        f"| {row.arms} | {row.horizon} | {_entry(row.paper_bf, 3)} | {_entry(row.paper_fh, 2)} "
        f"| {_entry(row.paper_deco, 3)} | {_entry(row.optimum)} | {_entry(row.deco)} "
        f"| {_entry(row.deco_calibrated)} | {_entry(row.rolling_deco)} | {_entry(row.fh_gittins)} "
        f"| {_entry(row.upper_bound)} |"
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
    losses = " | ".join(_entry(value) for value in lost)
    return f"| {row.arms} | {row.horizon} | {losses} | {ratio} | {row.path} |"


def _entry(value: float | None, digits: int = 6) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
