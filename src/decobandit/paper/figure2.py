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
from .experiments import Part, Section

ARMS, SEEDS = 8, (1, 2, 3, 4)
HORIZONS = {"quick": 50, "paper": 100}


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


def run(arms: int, horizon: int) -> list[Episode]:
    """Play the episodes of the figure."""
    problem = Problem.uniform(arms=arms, horizon=horizon)
    solution = whole_solution(problem)
    policy = make_policy(problem, "deco", solution=solution)
    return [follow(problem, policy, solution=solution, rng=seed) for seed in SEEDS]


def score(episodes: Sequence[Episode]) -> list[Point]:
    """Return pulls and losses by stage."""
    return [
        Point(
            seed,
            t,
            float(one.prices[t]),
            one.problem.arms[arm].name,
            bool(outcome),
            float(one.index[t, arm]),
            float(one.shortfall[t]),
            float(one.congestion[t]),
        )
        for seed, one in zip(SEEDS, episodes, strict=True)
        for t, ((arm,), (outcome,)) in enumerate(zip(one.pulled, one.outcomes, strict=True))
    ]


def part(scale: str, folder: Path, progress: Report) -> Part:
    """Compute the figure and its data."""
    horizon = HORIZONS[scale]
    episodes = run(ARMS, horizon)
    progress(Progress("figure2", 1, 1))
    losses = (f"run {i}: {one.running_loss[-1]:.3f}" for i, one in enumerate(episodes, 1))
    text = (
        f"{ARMS} arms, horizon {horizon}, which the paper does not print; seeds "
        f"{', '.join(map(str, SEEDS))}. Losses that can be read off: {'; '.join(losses)}"
    )
    section = Section("Figure 2: four paths", (text,), figure=episodes_figure(episodes))
    return Part(score(episodes), section)
