"""Figure 2: four paths of DeCo, 8 arms with uniform priors, and what can be read off them.

The paper does not print its horizon. Value of information (top), expected reward (middle) and
index (bottom) of every arm, with the price in green.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..dual import solve
from ..path_figures import paths_figure
from ..paths import Path, follow
from ..policies.deco import deco
from ..problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """Sizes of one scale."""

    arms: int
    horizon: int
    seeds: tuple[int, ...]


SCALES = {"quick": Settings(8, 50, (1, 2, 3, 4)), "paper": Settings(8, 100, (1, 2, 3, 4))}


@dataclass(frozen=True)
class Point:
    """One stage of one path."""

    seed: int
    stage: int
    price: float
    arm: str
    good: bool
    index: float
    shortfall: float
    congestion: float


def run(settings: Settings) -> list[Path]:
    """The paths."""
    problem = Problem.uniform(arms=settings.arms, horizon=settings.horizon)
    solution = solve(problem)
    policy = deco(solution)
    return [follow(policy, solution, seed=seed) for seed in settings.seeds]


def score(settings: Settings, paths: Sequence[Path]) -> list[Point]:
    """What was pulled, and what it cost, stage by stage."""
    points = []
    for seed, path in zip(settings.seeds, paths, strict=True):
        for t, (arms, outcomes) in enumerate(zip(path.pulled, path.outcomes, strict=True)):
            points.append(
                Point(
                    seed, t, float(path.prices[t]), path.problem.arms[arms[0]].name,
                    bool(outcomes[0]), float(path.index[t, arms[0]]), float(path.shortfall[t]),
                    float(path.congestion[t]),
                )
            )  # fmt: skip
    return points


def plot(paths: Sequence[Path]) -> Figure:
    """The paper's arrangement: four runs of three panels."""
    return paths_figure(paths)
