"""Batches on the benchmark of Che and Namkoong: simple regret beside the published figures.

A hundred pulls per stage, nothing is earned before the deployment of one arm. Policies that need
prices share a batch in units of 10 pulls, the others in single pulls, as published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ..policies import Context
from ..problem import Arm, BetaBernoulli, Problem, Reward, Terminal, best_mean_reward
from ..simulation import simulate
from ..support import Report
from .cells import Task, computed, published
from .report import Section, Table

PULLS, UNIT = 100, 10
DRAWS = {"quick": 100, "paper": 10_000}
QUICK_ARMS = 10  # the published cells with 100 arms take minutes
SEED = 1
ERROR = 0.0002  # of the published figures
IN_UNITS = ("deco", "deco-repriced")
# in single pulls: the policy, and what it is called where it was published
PUBLISHED = {
    "equal": "uniform",
    "thompson-shares": "thompson",
    "top-two": "top_two",
    "knowledge-gradient": "myopic",
    "rho": "rho",
}
PRIORS: dict[str, Callable[[int, int], BetaBernoulli]] = {
    "flat": lambda k, arms: BetaBernoulli(100.0, 100.0),
    "descending": lambda k, arms: BetaBernoulli(100.0 - 10.0 * k / arms, 100.0),
    "top half": lambda k, arms: BetaBernoulli(110.0 if 2 * k < arms else 100.0, 100.0),
}


@dataclass(frozen=True)
class BatchCell:
    """Settings of a cell."""

    prior: str
    arms: int
    horizon: int
    draws: int

    def problem(self, unit: int) -> Problem:
        """Return the problem of simple regret, where only the deployment pays."""
        prior = PRIORS[self.prior]
        return Problem(
            horizon=self.horizon,
            pulls_per_stage=PULLS,
            repeat=True,
            unit=unit,
            arms=tuple(
                Arm(name=f"arm-{k + 1}", prior=prior(k, self.arms), reward=Reward(good=0.0))
                for k in range(self.arms)
            ),
            terminal=Terminal(deploy=1.0),
        )


@dataclass(frozen=True)
class Row:
    """One policy in one cell."""

    prior: str
    arms: int
    horizon: int
    policy: str
    published: float | None
    regret: float
    regret_se: float
    seconds: float
    unavoidable: float  # the best success probability, less the bound: no policy has less


def cells(scale: str) -> list[BatchCell]:
    """Return the published cells, without 100 arms at quick scale, and two with other priors."""
    draws = DRAWS[scale]
    printed = [row for row in published().batches if scale == "paper" or row.arms <= QUICK_ARMS]
    flat = [BatchCell("flat", row.arms, row.horizon, draws) for row in printed]
    return [*flat, *(BatchCell(prior, 10, 10, draws) for prior in ("descending", "top half"))]


def run(scale: str, folder: Path | None = None, progress: Report | None = None) -> list[Row]:
    """Compute all cells; read finished ones from `folder`."""
    tasks = [
        Task(
            f"{cell.prior.replace(' ', '-')}-{cell.arms}-arms-{cell.horizon}-batches",
            asdict(cell),
            partial(_rows, cell),
        )
        for cell in cells(scale)
    ]
    records = computed("batches", tasks, list[Row], folder, progress)
    return [row for rows in records for row in rows]


def _rows(cell: BatchCell) -> list[Row]:
    coarse, fine = cell.problem(UNIT), cell.problem(1)
    solution = Context(coarse).solution
    best = best_mean_reward(coarse)
    assert best is not None
    sizes = {"draws": cell.draws, "per_draw": 1, "rng": SEED}
    results = [
        *simulate(coarse, list(IN_UNITS), solution=solution, **sizes).results,  # type: ignore[arg-type]
        *simulate(fine, list(PUBLISHED), **sizes).results,  # type: ignore[arg-type]
    ]
    printed = {row.arms: row for row in published().batches if row.horizon == cell.horizon}
    rows = []
    for result in results:
        assert result.regret is not None
        assert result.regret_se is not None
        best_value = None
        if cell.prior == "flat" and result.policy in PUBLISHED:
            best_value = float(getattr(printed[cell.arms], PUBLISHED[result.policy]))
        rows.append(
            Row(
                cell.prior,
                cell.arms,
                cell.horizon,
                result.policy,
                best_value,
                result.regret,
                result.regret_se,
                result.seconds + result.preparation_seconds,
                best - solution.upper_bound,
            )
        )
    return rows


TEXT = (
    f"{PULLS} pulls per stage, shared in any proportion. The only reward is the success "
    "probability of the deployed arm; simple regret is the largest success probability minus "
    "that. ±: one standard error.",
    "Published: Che and Namkoong, Adaptive experimentation at scale (arXiv 2303.11582), standard "
    f"errors about .0002. `deco` and `deco-repriced` share a batch in units of {UNIT} pulls, the "
    "others in single pulls. No policy has less: from the certified bound of the dual, in the same "
    "units. Priors: flat, all Beta(100, 100); descending, Beta(100 - 10 k / K, 100) for k = 0 .. "
    "K-1; top half, Beta(110, 100) for one half of the arms and Beta(100, 100) for the other.",
    "Differences from the published policies: our `rho` and `knowledge-gradient` optimise shares "
    "with exact derivatives, the published ones with stochastic gradients; our "
    "`knowledge-gradient` and `equal` round shares, the published ones draw pulls.",
)
HEADER = ("policy", "published", "here", "z-score", "vs. published RHO", "seconds")


def section(rows: Sequence[Row]) -> Section:
    """Return the section: a table per cell, published figures beside ours."""
    tables = []
    for cell in dict.fromkeys((row.prior, row.arms, row.horizon) for row in rows):
        cell_rows = [row for row in rows if (row.prior, row.arms, row.horizon) == cell]
        rho = next((row.published for row in cell_rows if row.policy == "rho"), None)
        lines = [_line(row, rho) for row in sorted(cell_rows, key=lambda row: row.regret)]
        least = cell_rows[0].unavoidable
        caption = f"{cell[1]} arms, {cell[2]} batches, prior {cell[0]}"
        tables.append(
            Table(HEADER, lines, ("policy",), f"{caption}: no policy has less than {least:.5f}")
        )
    return Section("Batches: simple regret", TEXT, tables)


def _line(row: Row, rho: float | None) -> tuple[str, ...]:
    apart = "-"
    if row.published is not None:
        apart = f"{(row.regret - row.published) / (ERROR**2 + row.regret_se**2) ** 0.5:+.1f}"
    to_best = "-" if rho is None else f"{row.regret / rho - 1.0:+.1%}"
    published = "-" if row.published is None else f"{row.published:.5f}"
    ours = f"{row.regret:.5f} ± {row.regret_se:.5f}"
    return row.policy, published, ours, apart, to_best, f"{row.seconds:.0f}"
