"""Table 1 with exact values: optimum, DeCo and its variants, FH-Gittins, and the certified bound.

The paper's numbers are simulated; here every one is computed without noise. `run` does the work,
row by row, and `section` only writes it down.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ..arm import PricePath
from ..evaluation import evaluate
from ..joint import count_states, optimum
from ..policies import Context, make_policies
from ..policies.calibrated import MOST_STATES
from ..problem import Problem
from ..support import Report, TooLarge
from .experiments import Part, PublishedRow, Runs, Section, Table, Task, computed, played, published

TOLERANCE = 1e-6  # of the dual
RUNS = Runs(1000, 10)  # of the simulated values
ROLLING_STATES = 6_000  # rolling DeCo solves a dual in every state it reaches
QUICK_ROLLING_STATES = 1_000
QUICK_PATH_STATES = 30_000  # of candidates for the price path; more are compared by simulation
BEST = ("arms", "T", "paper", "ours, exact", "difference", "upper bound")
DECO = (
    *("arms", "T", "paper", "ours, exact", "difference", "ours, simulated"),
    *("calibrated index", "rolling", "FH-Gittins"),
)
LOST = (
    *("arms", "T", "DeCo", "calibrated", "rolling", "FH-Gittins"),
    *("calibrated / FH-Gittins", "price path"),
)
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
    deco_simulated: float
    deco_error: float


def run(scale: str, folder: Path | None = None, progress: Report | None = None) -> list[Row]:
    """Compute the rows; read finished ones from `folder`. "quick" leaves out what takes minutes."""
    quick = scale == "quick"
    tasks = [
        Task(
            f"{row.arms}-arms-horizon-{row.horizon}",
            {**asdict(row), "quick": quick},
            partial(_rows, row, quick),
        )
        for row in published().table1
    ]
    return computed("table1", tasks, Row, folder, progress)


def _rows(published: PublishedRow, quick: bool) -> list[Row]:
    problem = Problem.uniform(arms=published.arms, horizon=published.horizon)
    states = QUICK_PATH_STATES if quick else MOST_STATES
    context = Context(problem, tol=TOLERANCE, path_states=states)
    policy, calibrated, gittins = make_policies(context, ["deco", "deco-calibrated", "fh-gittins"])
    deco = evaluate(problem, policy)
    rolling = None
    if deco.states <= (QUICK_ROLLING_STATES if quick else ROLLING_STATES):
        (again,) = make_policies(context, ["deco-rolling"])
        rolling = evaluate(problem, again).value
    (sampled,) = played(problem, policy, RUNS, solution=context.solution)
    best = None
    if not quick or count_states(problem)[0] <= QUICK_STATES:
        with suppress(TooLarge):
            best = optimum(problem).value
    row = Row(
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
    return [row]


def section(rows: Sequence[Row]) -> Section:
    """Return the section on the table: the best policy, DeCo, and what each policy loses."""
    best, deco, lost = [], [], []
    for row in rows:
        paper = row.paper_bf if row.paper_bf is not None else row.paper_fh
        ours = row.optimum if row.paper_bf is not None else row.fh_gittins
        assert paper is not None
        size = (str(row.arms), str(row.horizon))
        best.append(
            (
                *size,
                f"{paper:.3f} ({'optimum' if row.paper_bf is not None else 'FH-Gittins'})",
                _entry(ours),
                "-" if ours is None else f"{ours - paper:+.4f}",
                _entry(row.upper_bound),
            )
        )
        deco.append(
            (
                *size,
                f"{row.paper_deco:.3f}",
                _entry(row.deco),
                f"{row.deco - row.paper_deco:+.4f}",
                f"{row.deco_simulated:.4f} ± {row.deco_error:.4f}",
                _entry(row.deco_calibrated),
                _entry(row.rolling_deco),
                _entry(row.fh_gittins),
            )
        )
        lost.append((*size, *_losses(row)))
    return Section(
        "Table 1: expected total reward",
        (
            "The paper's figures are simulated, ours are exact up to rounding. Where they differ "
            "by a few thousandths, that is simulation noise: in the first row the paper's DeCo is "
            "above the optimum.",
            "Our DeCo differs from the paper's by up to 0.12; we have not found the cause. Several "
            "prices are nearly minimal, and a policy's value depends on them: ours are the "
            "canonical ones.",
        ),
        (
            Table(BEST, best, caption="The best policy known"),
            Table(DECO, deco, caption="DeCo, its variants and FH-Gittins"),
            Table(LOST, lost, words=("price path",), caption="What is lost to the best of the row"),
        ),
    )


def _losses(row: Row) -> tuple[str, ...]:
    """Return what policies lose to the optimum, or to the best of them where it is too large."""
    values = (row.deco, row.deco_calibrated, row.rolling_deco, row.fh_gittins)
    best = row.optimum if row.optimum is not None else max(v for v in values if v is not None)
    losses = (_entry(None if value is None else best - value) for value in values)
    calibrated, gittins = best - row.deco_calibrated, best - row.fh_gittins
    ratio = f"{calibrated / gittins:.0%}" if gittins > 1e-9 and row.optimum is not None else "-"
    return (*losses, ratio, row.path)


def _entry(value: float | None) -> str:
    return "-" if value is None else f"{value:.6f}"


def part(scale: str, folder: Path, progress: Report) -> Part:
    """Compute the rows and write them down."""
    rows = run(scale, folder, progress)
    return Part(rows, section(rows))
