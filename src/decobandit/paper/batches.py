"""Batches on the benchmark of Che and Namkoong: simple regret and the published numbers.

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
from ..support import Report
from .experiments import Part, Runs, Section, Table, Task, computed, played, published

PULLS, UNIT = 100, 10
DRAWS = {"quick": 100, "paper": 10_000}
QUICK_ARMS = 10  # the published cells with 100 arms take minutes
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
        priors = (PRIORS[self.prior](k, self.arms) for k in range(self.arms))
        return Problem(
            horizon=self.horizon,
            pulls_per_stage=PULLS,
            repeat=True,
            unit=unit,
            arms=tuple(
                Arm(name=f"arm-{k}", prior=prior, reward=Reward(good=0.0))
                for k, prior in enumerate(priors, start=1)
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
    printed = [one for one in published().batches if scale == "paper" or one.arms <= QUICK_ARMS]
    flat = [BatchCell("flat", one.arms, one.horizon, draws) for one in printed]
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
    return computed("batches", tasks, Row, folder, progress)


def _rows(cell: BatchCell) -> list[Row]:
    coarse, fine, runs = cell.problem(UNIT), cell.problem(1), Runs(cell.draws)
    solution = Context(coarse).solution
    best = best_mean_reward(coarse)
    assert best is not None
    results = played(coarse, IN_UNITS, runs, solution=solution)
    results += played(fine, list(PUBLISHED), runs)
    size, printed = (cell.arms, cell.horizon), dict[str, float]()
    if cell.prior == "flat":
        (printed,) = (
            one.policies for one in published().batches if (one.arms, one.horizon) == size
        )
    rows = []
    for result in results:
        assert result.regret is not None
        rows.append(
            Row(
                cell.prior,
                *size,
                result.policy,
                printed.get(PUBLISHED.get(result.policy, "")),
                result.regret,
                result.value_se,
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
    """Return the section: a table per cell, published numbers beside ours."""
    tables = []
    for prior, arms, horizon in dict.fromkeys((row.prior, row.arms, row.horizon) for row in rows):
        size = (prior, arms, horizon)
        cell_rows = [row for row in rows if (row.prior, row.arms, row.horizon) == size]
        rho = next((row.published for row in cell_rows if row.policy == "rho"), None)
        lines = [_line(row, rho) for row in sorted(cell_rows, key=lambda row: row.regret)]
        least = f"no policy has less than {cell_rows[0].unavoidable:.5f}"
        caption = f"{arms} arms, {horizon} batches, prior {prior}: {least}"
        tables.append(Table(HEADER, lines, ("policy",), caption))
    return Section("Batches: simple regret", TEXT, tables)


def _line(row: Row, rho: float | None) -> tuple[str, ...]:
    apart = printed = "-"
    if row.published is not None:
        error = published().batches[0].error
        apart = f"{(row.regret - row.published) / (error**2 + row.regret_se**2) ** 0.5:+.1f}"
        printed = f"{row.published:.5f}"
    to_best = "-" if rho is None else f"{row.regret / rho - 1.0:+.1%}"
    ours = f"{row.regret:.5f} ± {row.regret_se:.5f}"
    return row.policy, printed, ours, apart, to_best, f"{row.seconds:.0f}"


def part(scale: str, folder: Path, progress: Report) -> Part:
    """Compute the cells and write them down."""
    rows = run(scale, folder, progress)
    return Part(rows, section(rows))
