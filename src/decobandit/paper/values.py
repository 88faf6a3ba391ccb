"""Values of policies published by others: uniform priors, 5, 10 and 50 arms, 100 and 500 pulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import hypot
from pathlib import Path

from ..problem import Problem
from ..simulation import simulate
from ..support import Report
from .cells import PublishedValues, Task, computed, published
from .report import Section, Table

LONGEST = {"quick": 100, "paper": 500}
DRAWS = {"quick": 500, "paper": 4000}
PER_DRAW, SEED = 5, 11
# ours, and what its counterpart is called where it was published
POLICIES = {
    "deco-calibrated": None,
    "fh-gittins": "gittins",
    "deco": None,
    "thompson": "thompson",
    "ucb1": None,
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
    tasks = []
    for cell in cells(scale):
        draws = DRAWS[scale]
        sizes = {"arms": cell.arms, "horizon": cell.horizon}
        settings = {**sizes, "draws": draws, "per_draw": PER_DRAW, "seed": SEED}
        name = f"{cell.arms}-arms-{cell.horizon}-pulls"
        tasks.append(Task(name, settings, partial(_rows, cell, draws)))
    records = computed("published", tasks, list[Row], folder, progress)
    return [row for rows in records for row in rows]


def _rows(cell: PublishedValues, draws: int, per_draw: int = PER_DRAW) -> list[Row]:
    problem = Problem.uniform(arms=cell.arms, horizon=cell.horizon)
    simulation = simulate(problem, list(POLICIES), draws=draws, per_draw=per_draw, rng=SEED)
    best = max(cell.policies, key=cell.policies.__getitem__)
    return [
        Row(
            cell.horizon,
            cell.arms,
            result.policy,
            result.value,
            result.value_se,
            cell.policies.get(POLICIES[result.policy] or ""),
            cell.error,
            cell.policies[best],
            TITLES[best],
        )
        for result in simulation.results
    ]


# -- what is written ----------------------------------------------------------------------------

SOURCE = (
    "Published by Duan et al. 2016 (RL2, and the classical rules) and Mishra et al. 2018 (SNAIL), "
    "over simulated problems with uniform priors; standard errors as published or derived from "
    "the number of problems. RL2 and SNAIL are recurrent networks, trained for each cell."
)
NOTES = (
    "The published Gittins rule is an approximation for a discounted problem; ours is the index "
    "of the finite horizon. The published UCB1 earns far more than the parameter-free textbook "
    "rule, which is ours: it has another width, so the two are not compared.",
    f"±: one standard error, {PER_DRAW} episodes per draw, seed {SEED}.",
)
HEADER = ("pulls", "arms", "policy", "ours", "published", "z-score", "best published")


def texts(row: Row) -> tuple[str, ...]:
    """Return a row as text, in the order of HEADER."""
    published = "-" if row.published is None else f"{row.published:.1f} ± {row.published_error:g}"
    apart = "-" if row.apart is None else f"{row.apart:+.1f}"
    ours = f"{row.value:.2f} ± {row.value_se:.3f}"
    best = f"{row.best_published:.1f}, {row.best_published_policy}"
    return (str(row.horizon), str(row.arms), row.policy, ours, published, apart, best)


def section(rows: Sequence[Row]) -> Section:
    """Return the section: our values beside published ones, and all published ones."""
    cells = dict.fromkeys((row.horizon, row.arms) for row in rows)
    printed = [
        (str(one.horizon), str(one.arms), *(f"{one.policies[name]:.1f}" for name in TITLES))
        for one in published().values
        if (one.horizon, one.arms) in cells
    ]
    return Section(
        "Values of policies",
        (SOURCE, *NOTES),
        (
            Table(HEADER, list(map(texts, rows)), words=("policy", "best published")),
            Table(("pulls", "arms", *TITLES.values()), printed, caption="All published values"),
        ),
    )
