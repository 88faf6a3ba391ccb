"""Figure 4: the regret that no policy avoids, and that of DeCo and its rivals, over the arms.

    K/(K+1) T - upper bound        for K arms with uniform priors

The bound from prices is useless for few arms (below zero at 2 and 5 in the paper); there the
information bound is drawn as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..cell_files import Tree
from ..dual import solve
from ..information_bounds import information_bound
from ..plots import new_figure
from ..problem import Problem
from ..study_files import Cell
from .cells import Report, Runs, cell, compute, kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES = ("deco", "thompson", "kl-ucb")
COLOURS = {"deco": "C0", "thompson": "C2", "kl-ucb": "C4"}
BOUNDS = {"price bound": ("black", "-"), "information bound": ("0.45", "--")}


@dataclass(frozen=True)
class Settings:
    """Sizes of one scale."""

    arms: tuple[int, ...]
    horizons: tuple[int, ...]
    runs: Runs
    few: int  # arms up to which the information bound is computed
    scenarios: int


SCALES = {
    "quick": Settings((2, 5, 10, 20, 40), (30, 60), Runs(250, 4), 5, 60),
    "paper": Settings((2, 3, 5, 7, 10, 15, 20, 30, 40, 50), (100, 500), Runs(1000, 100), 10, 200),
}


@dataclass(frozen=True)
class Point:
    """Regret of a policy, or the least that any can have."""

    horizon: int
    arms: int
    what: str
    regret: float
    error: float


def cells(settings: Settings) -> Iterator[Cell]:
    """All that has to be simulated."""
    for horizon in settings.horizons:
        for arms in settings.arms:
            for policy in POLICIES:
                yield cell(arms, horizon, policy, settings.runs)


def run(settings: Settings, folder: Path, report: Report | None = None) -> list[Point]:
    """Simulate what is not there yet, and score it."""
    found = compute("figure4", cells(settings), folder, report)
    return score(found) + bounds(settings, folder / "bounds")


def score(found: Sequence[Tree]) -> list[Point]:
    """Regrets of the policies."""
    points = []
    for each in found:
        settings, figures = each["settings"], each["figures"]
        problem = settings["problem"]
        arms = sum(arm.get("count", 1) for arm in problem["arms"])
        points.append(
            Point(
                problem["horizon"], arms, settings["policy"], figures["regret"],
                figures["regret_se"],
            )
        )  # fmt: skip
    return points


def bounds(settings: Settings, folder: Path | None = None) -> list[Point]:
    """What no policy can avoid."""
    points = []
    for horizon in settings.horizons:
        for arms in settings.arms:
            draws = settings.scenarios if arms <= settings.few else 0
            name = f"{arms}-arms-horizon-{horizon}--bounds"
            chosen = {"arms": arms, "horizon": horizon, "scenarios": draws}
            found = kept(folder, name, chosen, partial(_bounds, arms, horizon, draws))
            points += [Point(horizon, arms, what, *pair) for what, pair in found.items()]
    return points


def _bounds(arms: int, horizon: int, draws: int) -> dict[str, list[float]]:
    """Regret and its error, from prices and, where there are draws, from scenarios."""
    problem = Problem.uniform(arms=arms, horizon=horizon)
    best, solution = arms / (arms + 1) * horizon, solve(problem)
    found = {"price bound": [best - solution.upper_bound, 0.0]}
    if draws:
        bound = information_bound(problem, solution, draws=draws)
        found["information bound"] = [best - bound.information, bound.information_se]
    return found


def plot(settings: Settings, points: Sequence[Point]) -> Figure:
    """One panel for each horizon; bounds below zero are cut off."""
    figure = new_figure(figsize=(5.0 * len(settings.horizons), 4.5))
    for axes, horizon in zip(
        figure.subplots(1, len(settings.horizons), squeeze=False)[0], settings.horizons, strict=True
    ):
        for what in (*POLICIES, *BOUNDS):
            own = [p for p in points if p.horizon == horizon and p.what == what]
            colour, style = BOUNDS.get(what, (COLOURS.get(what, "C5"), "-"))
            axes.errorbar(
                [p.arms for p in own], [p.regret for p in own],
                yerr=2.0 * np.array([p.error for p in own]), color=colour, linestyle=style,
                linewidth=1.3, marker="o", markersize=3, capsize=2, label=what,
            )  # fmt: skip
        axes.set_title(f"horizon {horizon}")
        axes.set_xlabel("number of arms")
        axes.set_ylabel("expected regret, ± 2 s.e.")
        axes.set_xlim(0, None)
        axes.set_ylim(0, None)
        axes.grid(alpha=0.25)
    lines, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(names))
    return figure
