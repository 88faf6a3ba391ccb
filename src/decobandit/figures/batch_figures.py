"""Batches drawn: how the shares of arms move from batch to batch, and the price of a pull."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..policies import PAPER_POLICY, Policy, make_policy
from ..prices import DualSolution
from ..problem import Problem, States
from ..support import Floats, Rng, generator_of
from .colours import FRESH_COLOUR, PRICE_COLOUR, SAFE_COLOURS
from .plots import WIDTH, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANKS = 5  # arms that are drawn one by one, the best first; the others together
EPISODES = 400


def expected_shares(
    policy: Policy,
    *,
    truth: Sequence[float] | None = None,
    episodes: int = EPISODES,
    rng: Rng = 1,
) -> Floats:
    """Average share of the arms in every batch, (horizon, arms), the best arm first.

    Over the prior, or at given success probabilities.
    """
    problem, draw = policy.problem, generator_of(rng)
    p = _drawn(problem, truth, episodes, draw)
    order = np.argsort(-p, axis=1, kind="stable")
    pulls, good = np.zeros((2, *p.shape), dtype=np.int64)
    shares = np.empty((problem.horizon, problem.n_arms))
    for stage in range(problem.horizon):
        given = policy.allocate_many(stage, States.of_counts(problem, pulls, good), draw)
        shares[stage] = np.take_along_axis(given, order, axis=1).mean(axis=0)
        good += draw.binomial(given, p)
        pulls += given
    return shares / problem.pulls_per_stage


def _drawn(
    problem: Problem, truth: Sequence[float] | None, episodes: int, rng: np.random.Generator
) -> Floats:
    if truth is not None:
        return np.tile(np.asarray(truth, dtype=np.float64), (episodes, 1))
    groups = [problem.groups[k] for k in problem.group_of_arm]
    alpha, beta = (np.array([getattr(each, name) for each in groups]) for name in ("alpha", "beta"))
    return rng.beta(alpha, beta, size=(episodes, len(groups)))


def batch_figure(
    solution: DualSolution,
    policy: str | Policy = PAPER_POLICY,
    *,
    truth: Sequence[float] | None = None,
    rng: Rng = 1,
) -> Figure:
    """How a policy shares batches, and what a pull costs in each; the bound is in the title."""
    problem = solution.problem
    made = make_policy(problem, policy, solution=solution)
    shares = expected_shares(made, truth=truth, rng=rng)
    batches = np.arange(1, problem.horizon + 1)
    figure = new_figure(figsize=(WIDTH, 6.8))
    top, low = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    floor = np.zeros(problem.horizon)
    for rank in range(min(RANKS, problem.n_arms)):
        name = "best arm" if rank == 0 else f"arm ranked {rank + 1}"
        top.bar(
            batches, shares[:, rank], bottom=floor, label=name, color=SAFE_COLOURS[rank], width=0.85
        )
        floor = floor + shares[:, rank]
    if problem.n_arms > RANKS:
        others = f"{problem.n_arms - RANKS} others"
        top.bar(
            batches, 1.0 - floor, bottom=floor, label=others, color=FRESH_COLOUR, alpha=0.35,
            width=0.85,
        )  # fmt: skip
    top.set_ylabel("share of the batch")
    top.set_ylim(0.0, 1.0)
    low.plot(batches, solution.multipliers / problem.unit, "o-", color=PRICE_COLOUR)
    low.set_ylabel("price of a pull")
    low.set_xlabel("batch")
    low.grid(alpha=0.25)
    where = "arms by true rank, over the prior" if truth is None else "at the given truth"
    top.set_title(
        f"{made.name}: {problem.n_arms} arms, {problem.horizon} batches of "
        f"{problem.pulls_per_stage} ({where})\n"
        f"no policy earns more than {solution.upper_bound:.4f}",
        fontsize="medium",
    )
    legend_below(figure, *top.get_legend_handles_labels())
    return figure
