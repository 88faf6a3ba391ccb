"""Figure 3: Bayesian regret of DeCo and its rivals over the horizon, for 2 to 20 arms.

The paper does not say whether its x axis is the horizon or the stage. Here it is the horizon, for
which policies that know it are solved anew; those that do not know it have one run, whose regret
after t stages is that of horizon t. The second row is regret over the stages of the longest one.
The paper's third panel is headed 10 arms and captioned 15: both are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..best_arm import best_mean_reward
from ..cell_files import Tree
from ..joint_optimum import optimum
from ..plots import new_figure
from ..problem import Problem
from ..study_files import Cell
from .cells import Report, Runs, cell, compute

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KNOW_THE_HORIZON = ("deco", "deco-calibrated", "fh-gittins")
DO_NOT = ("thompson", "kl-ucb", "ids")
UNDER = "fh-gittins"  # drawn wide and pale: the calibrated index would hide it, or it that one
COLOURS = dict(zip((*KNOW_THE_HORIZON, *DO_NOT), ("C0", "C3", "C1", "C2", "C4", "C5"), strict=True))


@dataclass(frozen=True)
class Settings:
    """Sizes of one scale."""

    arms: tuple[int, ...]
    horizons: tuple[int, ...]
    runs: Runs
    ids: Runs


SCALES = {
    "quick": Settings((2, 5, 10, 15, 20), (8, 16, 24), Runs(250, 8), Runs(100, 1)),
    "paper": Settings(
        (2, 5, 10, 15, 20),
        (10, 25, 50, 100, 150, 200, 300, 400, 500),
        Runs(1000, 1000),
        Runs(1000, 8),
    ),
}


@dataclass(frozen=True)
class Point:
    """Regret of a policy; `stage` is the horizon, or a stage of the longest one."""

    arms: int
    policy: str
    axis: str  # horizon or stage
    stage: int
    regret: float
    error: float


def cells(settings: Settings) -> Iterator[Cell]:
    """All that has to be simulated. Same horizons in a row: their tables are the same."""
    longest = max(settings.horizons)
    for horizon in settings.horizons:
        for policy in KNOW_THE_HORIZON:
            for arms in settings.arms:
                yield cell(arms, horizon, policy, settings.runs)
    for policy in DO_NOT:
        for arms in settings.arms:
            runs = settings.ids if policy == "ids" else settings.runs
            yield cell(arms, longest, policy, runs)


def run(settings: Settings, folder: Path, report: Report | None = None) -> list[Point]:
    """Simulate what is not there yet, and score it."""
    return score(settings, compute("figure3", cells(settings), folder, report))


def score(settings: Settings, found: Sequence[Tree]) -> list[Point]:
    """Regrets over horizons and stages; the exact optimum for two arms."""
    points: list[Point] = []
    longest = max(settings.horizons)
    for each in found:
        policy, problem = each["settings"]["policy"], each["settings"]["problem"]
        horizon = problem["horizon"]
        arms = sum(arm.get("count", 1) for arm in problem["arms"])
        curve = each["figures"]["curve"]
        by_stage = list(zip(curve["regret"], curve["regret_se"], strict=True))
        if policy in KNOW_THE_HORIZON:
            value, error = each["figures"]["regret"], each["figures"]["regret_se"]
            points.append(Point(arms, policy, "horizon", horizon, value, error))
        else:
            points += [
                Point(arms, policy, "horizon", t, *by_stage[t - 1]) for t in settings.horizons
            ]
        if horizon == longest:
            steps = np.unique(np.linspace(1, longest, min(longest, 100)).round().astype(int))
            points += [Point(arms, policy, "stage", int(t), *by_stage[t - 1]) for t in steps]
    for horizon in settings.horizons if 2 in settings.arms else ():
        problem_2 = Problem.uniform(arms=2, horizon=horizon)
        best = best_mean_reward(problem_2)
        assert best is not None
        points.append(Point(2, "optimum", "horizon", horizon, best - optimum(problem_2).value, 0.0))
    return points


def plot(settings: Settings, points: Sequence[Point]) -> Figure:
    """Regret over the horizon (top) and over the stages of the longest one (bottom)."""
    figure = new_figure(figsize=(3.2 * len(settings.arms), 7.0))
    rows = figure.subplots(2, len(settings.arms), squeeze=False)
    for row, axis in zip(rows, ("horizon", "stage"), strict=True):
        for axes, arms in zip(row, settings.arms, strict=True):
            own = [point for point in points if point.arms == arms and point.axis == axis]
            _draw(axes, own, axis)
            axes.set_title(f"{arms} arms")
            axes.set_xlabel(axis if axis == "horizon" else f"stage of {max(settings.horizons)}")
        row[0].set_ylabel("expected regret, ± 2 s.e.")
    lines, names = rows[0][0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(names))
    return figure


def _draw(axes: Axes, points: Sequence[Point], axis: str) -> None:
    for policy in dict.fromkeys(point.policy for point in points):
        own = sorted((p for p in points if p.policy == policy), key=lambda p: p.stage)
        x, y = [p.stage for p in own], np.array([p.regret for p in own])
        error = 2.0 * np.array([p.error for p in own])
        colour = COLOURS.get(policy, "black")
        width, alpha, order = (4.0, 0.5, 1.5) if policy == UNDER else (1.3, 1.0, 2.0)
        if axis == "stage":
            axes.plot(x, y, color=colour, linewidth=width, alpha=alpha, zorder=order, label=policy)
            axes.fill_between(x, y - error, y + error, color=colour, alpha=0.2, linewidth=0)
        else:
            style = "--" if policy == "optimum" else "-"
            axes.errorbar(
                x, y, yerr=error, color=colour, linestyle=style, linewidth=width, marker="o",
                alpha=alpha, zorder=order, elinewidth=1.3, markersize=3, capsize=2, label=policy,
            )  # fmt: skip
    axes.set_xlim(0, None)
    axes.set_ylim(0, None)
    axes.grid(alpha=0.25)
