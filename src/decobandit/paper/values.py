"""Published values of policies: uniform priors, 5, 10 and 50 arms, 100 and 500 pulls."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from math import hypot
from pathlib import Path

from ..problem import Problem
from ..support import Report
from .experiments import (
    Part,
    PublishedValues,
    Runs,
    Section,
    Table,
    Task,
    computed,
    played,
    published,
)

LONGEST = {"quick": 100, "paper": 500}
DRAWS = {"quick": 500, "paper": 4000}
PER_DRAW, SEED = 5, 11
# ours, and what its counterpart is called where it was published
POLICIES = {
    "deco-calibrated": "",
    "fh-gittins": "gittins",
    "deco": "",
    "thompson": "thompson",
    "ucb1": "",
}
# the published policies, as they are called here
TITLES = {
    "gittins": "Gittins",
    "thompson": "Thompson",
    "optimistic-thompson": "optimistic Thompson",
    "ucb1": "UCB1",
    "rl2": "RL2",
    "snail": "SNAIL",
}


@dataclass(frozen=True)
class Row:
    """One of our policies in one cell."""

    horizon: int
    arms: int
    policy: str
    value: float
    value_se: float
    published: float | None  # of the policy of the same name
    published_error: float
    best_published: float  # of all policies of the cell
    best_published_policy: str

    @property
    def apart(self) -> float | None:
        """Ours minus the published value, in standard errors of both."""
        if self.published is None:
            return None
        return (self.value - self.published) / hypot(self.value_se, self.published_error)


def cells(scale: str) -> list[PublishedValues]:
    """Return the cells that are computed at this scale."""
    return [cell for cell in published().values if cell.horizon <= LONGEST[scale]]


def run(scale: str, folder: Path | None = None, progress: Report | None = None) -> list[Row]:
    """Compute all cells; read finished ones from `folder`."""
    tasks, runs = [], Runs(DRAWS[scale], PER_DRAW)
    for cell in cells(scale):
        settings = {"arms": cell.arms, "horizon": cell.horizon, **asdict(runs), "seed": SEED}
        name = f"{cell.arms}-arms-{cell.horizon}-pulls"
        tasks.append(Task(name, settings, partial(_rows, cell, runs)))
    return computed("published", tasks, Row, folder, progress)


def _rows(cell: PublishedValues, runs: Runs) -> list[Row]:
    problem = Problem.uniform(arms=cell.arms, horizon=cell.horizon)
    best = max(cell.policies, key=cell.policies.__getitem__)
    return [
        Row(
            cell.horizon,
            cell.arms,
            result.policy,
            result.value,
            result.value_se,
            cell.policies.get(POLICIES[result.policy]),
            cell.error,
            cell.policies[best],
            TITLES[best],
        )
        for result in played(problem, list(POLICIES), runs, seed=SEED)
    ]


# -- what is written ----------------------------------------------------------------------------

TEXT = (
    "Published by Duan et al. 2016 (RL2, and the classical rules) and Mishra et al. 2018 (SNAIL), "
    "over simulated problems with uniform priors; standard errors as published or derived from "
    "the number of problems. RL2 and SNAIL are recurrent networks, trained for each cell.",
    "The published Gittins rule is an approximation for a discounted problem; ours is the index "
    "of the finite horizon. The published UCB1 earns far more than the parameter-free textbook "
    "rule, which is ours: it has another width, so the two are not compared.",
    f"±: one standard error, {PER_DRAW} episodes per draw, seed {SEED}.",
)
HEADER = ("pulls", "arms", "policy", "ours", "published", "z-score", "best published")


def _line(row: Row) -> tuple[str, ...]:
    printed = "-" if row.published is None else f"{row.published:.1f} ± {row.published_error:g}"
    apart = "-" if row.apart is None else f"{row.apart:+.1f}"
    ours = f"{row.value:.2f} ± {row.value_se:.3f}"
    best = f"{row.best_published:.1f}, {row.best_published_policy}"
    return (str(row.horizon), str(row.arms), row.policy, ours, printed, apart, best)


def part(scale: str, folder: Path, progress: Report) -> Part:
    """Compare our values with published ones, and list all published ones."""
    rows = run(scale, folder, progress)
    printed = [
        (str(one.horizon), str(one.arms), *(f"{one.policies[name]:.1f}" for name in TITLES))
        for one in cells(scale)
    ]
    tables = (
        Table(HEADER, list(map(_line, rows)), words=("policy", "best published")),
        Table(("pulls", "arms", *TITLES.values()), printed, caption="All published values"),
    )
    return Part(rows, Section("Values of policies", TEXT, tables))
