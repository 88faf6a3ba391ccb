"""Figure 2: four episodes of DeCo, 8 arms with uniform priors, and what can be read off them.

The paper does not print its horizon. Value of information (top), expected reward (middle) and
index (bottom) of every arm, with the price in green.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..bounds import Episode, follow
from ..figures import episodes_figure
from ..policies import make_policy
from ..prices import whole_solution
from ..problem import Problem
from ..support import Progress, Report
from .report import Part, Section


@dataclass(frozen=True)
class Sizes:
    """Sizes of one scale."""

    arms: int
    horizon: int
    seeds: tuple[int, ...]


SCALES = {"quick": Sizes(8, 50, (1, 2, 3, 4)), "paper": Sizes(8, 100, (1, 2, 3, 4))}


@dataclass(frozen=True)
class Point:
    """One stage of one episode."""

    seed: int
    stage: int
    price: float
    arm: str
    good: bool
    index: float
    shortfall: float
    congestion: float


def run(sizes: Sizes) -> list[Episode]:
    """Play the episodes of the figure."""
    problem = Problem.uniform(arms=sizes.arms, horizon=sizes.horizon)
    solution = whole_solution(problem)
    policy = make_policy(problem, "deco", solution=solution)
    return [follow(solution.problem, policy, solution=solution, rng=seed) for seed in sizes.seeds]


def score(sizes: Sizes, episodes: Sequence[Episode]) -> list[Point]:
    """Return pulls and losses by stage."""
    points = []
    for seed, episode in zip(sizes.seeds, episodes, strict=True):
        for t, (arms, outcomes) in enumerate(zip(episode.pulled, episode.outcomes, strict=True)):
            points.append(
                Point(
                    seed,
                    t,
                    float(episode.prices[t]),
                    episode.problem.arms[arms[0]].name,
                    bool(outcomes[0]),
                    float(episode.index[t, arms[0]]),
                    float(episode.shortfall[t]),
                    float(episode.congestion[t]),
                )
            )
    return points


def part(scale: str, folder: Path, progress: Report) -> Part:
    """Compute the figure and its data."""
    sizes = SCALES[scale]
    episodes = run(sizes)
    progress(Progress("figure2", 1, 1))
    losses = (f"run {i}: {one.running_loss[-1]:.3f}" for i, one in enumerate(episodes, 1))
    text = (
        f"{sizes.arms} arms, horizon {sizes.horizon}, which the paper does not print; seeds "
        f"{', '.join(map(str, sizes.seeds))}. Losses that can be read off: {'; '.join(losses)}"
    )
    section = Section("Figure 2: four paths", (text,), figure=episodes_figure(episodes))
    return Part(score(sizes, episodes), section)
