"""Figure 4: the least regret of any policy, and the regret of DeCo and others, over the arms.

    K/(K+1) T - upper bound        for K arms with uniform priors

The dual upper bound gives no information for few arms (below zero at 2 and 5 in the paper); there
the information-relaxation bound is drawn as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..bounds import bound
from ..figures import NEUTRAL_COLOUR, PRICE_COLOUR, Style, policy_style
from ..figures.charts import Chart, Panel, Series, matplotlib_charts
from ..prices import whole_solution
from ..problem import Problem
from ..simulation import PolicyResult
from ..support import Report
from .experiments import (
    Part,
    Runs,
    Section,
    Task,
    Verdict,
    cell,
    computed,
    final_regret,
    published,
    share_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES = ("deco", "thompson", "kl-ucb")
BOUND_LINES = {
    "price bound": Style(PRICE_COLOUR, "solid"),
    "information bound": Style(NEUTRAL_COLOUR, "dotted"),
}
QUITE_CLOSE = 1.5  # times the bound, in the paper's words


@dataclass(frozen=True)
class Sizes:
    """Sizes of one scale."""

    arms: tuple[int, ...]
    horizons: tuple[int, ...]
    runs: Runs
    few: int  # arms up to which the information bound is computed
    scenarios: int


SCALES = {
    "quick": Sizes((2, 5, 10, 20, 40), (30, 60), Runs(250, 4), 5, 60),
    "paper": Sizes((2, 3, 5, 7, 10, 15, 20, 30, 40, 50), (100, 500), Runs(1000, 100), 10, 200),
}


@dataclass(frozen=True)
class Point:
    """Regret of a policy, or the least that any can have."""

    horizon: int
    arms: int
    what: str
    regret: float
    error: float


def run(sizes: Sizes, folder: Path, progress: Report | None = None) -> list[Point]:
    """Return regrets of the policies, and lower bounds on that of every policy."""

    def score(result: PolicyResult, horizon: int, arms: int) -> list[Point]:
        return [Point(horizon, arms, result.policy, *final_regret(result))]

    problems, tasks = list(product(sizes.horizons, sizes.arms)), list[Task]()
    for (horizon, arms), policy in product(problems, POLICIES):
        points = partial(score, horizon=horizon, arms=arms)
        tasks.append(cell(arms, horizon, policy, sizes.runs, points))
    for horizon, arms in problems:
        settings = {"horizon": horizon, "arms": arms}
        settings["scenarios"] = sizes.scenarios if arms <= sizes.few else 0
        name = f"{arms}-arms-horizon-{horizon}--bounds"
        tasks.append(Task(name, settings, partial(_bounds, **settings)))
    return computed("figure4", tasks, Point, folder, progress)


def _bounds(horizon: int, arms: int, scenarios: int) -> list[Point]:
    """Return the least regret by prices and, where there are scenarios, from them."""
    problem = Problem.uniform(arms=arms, horizon=horizon)
    best, solution = arms / (arms + 1) * horizon, whole_solution(problem)
    points = [Point(horizon, arms, "price bound", best - solution.upper_bound, 0.0)]
    if scenarios:
        found = bound(problem, solution=solution, draws=scenarios, kinds=("information",))
        regret = (best - found.information, found.information_se)
        points.append(Point(horizon, arms, "information bound", *regret))
    return points


def part(scale: str, folder: Path, progress: Report) -> Part:
    """Compute the figure, its data, and the verdicts on what the paper says of it."""
    sizes = SCALES[scale]
    points = run(sizes, folder, progress)
    caption = (
        f"{sizes.runs.draws} draws of {sizes.runs.per_draw} episodes. Bounds: regret that no "
        f"policy avoids, from prices, and from {sizes.scenarios} scenarios up to "
        f"{sizes.few} arms; where they are below zero they say nothing."
    )
    section = Section(
        "Figure 4: regret and its lower bounds", (caption,), figure=plot(sizes, points)
    )
    return Part(points, section, verdicts(points))


def plot(sizes: Sizes, points: Sequence[Point]) -> Figure:
    """Draw one panel for each horizon; bounds below zero are cut off."""
    panels = []
    for horizon in sizes.horizons:
        curves = []
        for what in (*POLICIES, *BOUND_LINES):
            curve = [p for p in points if p.horizon == horizon and p.what == what]
            style = BOUND_LINES.get(what) or policy_style(what)
            numbers = np.array([(p.arms, p.regret, p.error) for p in curve], float)
            at, regret, errors = numbers.reshape(-1, 3).T
            curves.append(Series(what, style, at, regret, 2.0 * errors))
            curves.append(Series(what, style, at, regret, kind="points", width=3.5))
        panels.append(Panel(f"horizon {horizon}", tuple(curves)))
    return matplotlib_charts([Chart("Expected regret, ± 2 s.e.", "number of arms", tuple(panels))])


def verdicts(points: Sequence[Point]) -> list[Verdict]:
    """Judge the paper's statements about the figure."""
    claims = published().claims
    bound = {(p.horizon, p.arms): p.regret for p in points if p.what == "price bound"}
    deco = {(p.horizon, p.arms): p.regret for p in points if p.what == "deco"}
    few = [key for key in bound if key[1] in (2, 5)]
    useless = [key for key in few if bound[key] <= 0.0]
    many = max(arms for _, arms in bound)
    ratios = {h: deco[h, many] / bound[h, many] for h, k in bound if k == many}
    return [
        Verdict(
            claims["figure4-few"],
            share_of(useless, few),
            "; ".join(f"horizon {h}, {k} arms: {bound[h, k]:.2f}" for h, k in few),
        ),
        Verdict(
            claims["figure4-many"],
            "yes" if max(ratios.values()) < QUITE_CLOSE else "no",
            f"{many} arms, regret of DeCo / bound (yes: below {QUITE_CLOSE:g}): "
            + "; ".join(f"horizon {h}: {ratio:.2f}" for h, ratio in ratios.items()),
        ),
    ]
