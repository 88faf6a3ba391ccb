"""Figure 3: Bayesian regret of DeCo and other policies over the horizon, for 2 to 20 arms.

The paper does not say whether its x axis is the horizon or the stage. Here it is the horizon, for
which policies that know it are solved anew; those that do not know it have one run, whose regret
after t stages is that of horizon t. The second column is regret over the stages of the longest one.
The paper's third panel is headed 10 arms and captioned 15: both are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..figures import Style, policy_style
from ..figures.charts import Chart, Panel, Series, matplotlib_charts
from ..joint import optimum
from ..problem import Problem, best_mean_reward
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
    regret_by_stage,
    share_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOW_THE_HORIZON = ("deco", "deco-calibrated", "fh-gittins")
IGNORE_THE_HORIZON = ("thompson", "kl-ucb", "ids")
WIDE_LINE = "fh-gittins"  # wide and pale: otherwise it and the calibrated index hide each other
OPTIMUM = Style("black", "dotted")


@dataclass(frozen=True)
class Sizes:
    """Sizes of one scale."""

    arms: tuple[int, ...]
    horizons: tuple[int, ...]
    runs: Runs
    ids: Runs


SCALES = {
    "quick": Sizes((2, 5, 10, 15, 20), (8, 16, 24), Runs(250, 8), Runs(100, 1)),
    "paper": Sizes(
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


def tasks(sizes: Sizes) -> list[Task]:
    """Return all that is computed. Same horizons in a row: their tables are the same."""
    longest = max(sizes.horizons)

    def task(arms: int, horizon: int, policy: str) -> Task:
        def score(result: PolicyResult) -> list[Point]:
            at, points = regret_by_stage(result), list[Point]()
            if policy in KNOW_THE_HORIZON:
                points.append(Point(arms, policy, "horizon", horizon, *final_regret(result)))
            else:
                points += [Point(arms, policy, "horizon", t, *at[t - 1]) for t in sizes.horizons]
            if horizon == longest:
                steps = np.unique(np.linspace(1, longest, min(longest, 100)).round().astype(int))
                points += [Point(arms, policy, "stage", int(t), *at[t - 1]) for t in steps]
            return points

        runs = sizes.ids if policy == "ids" else sizes.runs
        one = cell(arms, horizon, policy, runs, score)
        return one._replace(settings={**one.settings, "horizons": list(sizes.horizons)})

    def best(horizon: int) -> list[Point]:
        problem = Problem.uniform(arms=2, horizon=horizon)
        most = best_mean_reward(problem)
        assert most is not None
        return [Point(2, "optimum", "horizon", horizon, most - optimum(problem).value, 0.0)]

    cells = [(T, policy) for T in sizes.horizons for policy in KNOW_THE_HORIZON]
    cells += [(longest, policy) for policy in IGNORE_THE_HORIZON]
    optima = [
        Task(f"2-arms-horizon-{T}--optimum", {"horizon": T}, partial(best, T))
        for T in sizes.horizons
        if 2 in sizes.arms
    ]
    return [*(task(arms, T, policy) for T, policy in cells for arms in sizes.arms), *optima]


def run(sizes: Sizes, folder: Path, progress: Report | None = None) -> list[Point]:
    """Return regrets over horizons and stages; the exact optimum for two arms."""
    return computed("figure3", tasks(sizes), Point, folder, progress)


def part(scale: str, folder: Path, progress: Report) -> Part:
    """Compute the figure, its data, and the verdicts on what the paper says of it."""
    sizes = SCALES[scale]
    points = run(sizes, folder, progress)
    caption = (
        f"{sizes.runs.draws} draws of {sizes.runs.per_draw} episodes (IDS: "
        f"{sizes.ids.draws} of {sizes.ids.per_draw}). Left: over the horizon, policies that "
        "know it solved again for each. Right: over the stages of the longest. The paper's third "
        "panel is headed 10 arms and captioned 15; both are here."
    )
    section = Section("Figure 3: Bayesian regret", (caption,), figure=plot(sizes, points))
    return Part(points, section, verdicts(points))


def plot(sizes: Sizes, points: Sequence[Point]) -> Figure:
    """Draw regret over the horizon (left) and over the stages of the longest one (right)."""
    along = {"horizon": "horizon", "stage": f"stage of {max(sizes.horizons)}"}
    charts = [
        Chart("", along[axis], tuple(_panel(points, arms, axis) for arms in sizes.arms))
        for axis in along
    ]
    return matplotlib_charts(charts, "Expected regret, ± 2 s.e.")


def _panel(points: Sequence[Point], arms: int, axis: str) -> Panel:
    drawn = [point for point in points if point.arms == arms and point.axis == axis]
    curves = []
    for policy in dict.fromkeys(point.policy for point in drawn):
        curve = sorted((p for p in drawn if p.policy == policy), key=lambda p: p.stage)
        at, regret, errors = np.array([(p.stage, p.regret, p.error) for p in curve], float).T
        style = OPTIMUM if policy == "optimum" else policy_style(policy)
        width, opacity = (4.0, 0.5) if policy == WIDE_LINE else (1.3, 1.0)
        curves.append(Series(policy, style, at, regret, 2.0 * errors, "curve", width, opacity))
        if axis == "horizon":  # each is a simulation of its own
            curves.append(Series(policy, style, at, regret, kind="points", width=3.5))
    return Panel(f"{arms} arms", tuple(curves))


# -- the paper's statements about the figure ------------------------------------------------------

# what counts as the paper's words, printed with every verdict
COMPARABLE = 0.25  # a ratio this close to 1
VERY_CLOSE = 1.1  # times the optimum


def verdicts(points: Sequence[Point]) -> list[Verdict]:
    """Judge the statements at the longest horizon."""
    claims = published().claims
    longest = max(p.stage for p in points if p.axis == "horizon")
    at = {(p.arms, p.policy): p for p in points if p.axis == "horizon" and p.stage == longest}
    arms = sorted({k for k, _ in at})
    head, within = f"horizon {longest}", f"(yes: within {COMPARABLE:.0%} in all)"

    def ratios(*rivals: str) -> dict[int, float]:
        """Regret of DeCo over that of the best rival, by arms."""
        return {k: at[k, "deco"].regret / min(at[k, r].regret for r in rivals) for k in arms}

    def near(by_arms: dict[int, float]) -> str:
        return share_of([k for k in arms if abs(by_arms[k] - 1.0) < COMPARABLE], arms)

    rivals, ids = ratios("thompson", "kl-ucb"), ratios("ids")
    beaten = share_of([k for k in arms if rivals[k] < 1.0], arms)
    because = f"{head}, DeCo / better of the two (yes: below 1 in all): {_list(rivals)}"
    judged = [
        Verdict(claims["figure3-rivals"], beaten, because),
        Verdict(claims["figure3-ids"], near(ids), f"{head}, DeCo / IDS {within}: {_list(ids)}"),
    ]
    if (2, "optimum") in at:
        best, deco = at[2, "optimum"].regret, at[2, "deco"]
        close = "yes" if deco.regret < VERY_CLOSE * best else "no"
        because = (
            f"{head}: regret {deco.regret:.3f} ± {deco.error:.3f}, optimum {best:.3f} "
            f"(exact; yes: below {VERY_CLOSE:g} times it){_below(at, best)}"
        )
        judged.append(Verdict(claims["figure3-optimum"], close, because))
    if all((k, "fh-gittins") in at for k in arms):
        gittins = ratios("fh-gittins")
        because = f"{_list(gittins)}; the burden is not compared here"
        because = f"{head}, DeCo / FH-Gittins {within}: {because}"
        judged.append(Verdict(claims["figure3-gittins"], near(gittins), because))
    return judged


def _below(at: dict[tuple[int, str], Point], best: float) -> str:
    """Name policies with simulated regret below that of the optimum."""
    lucky = [
        f"{policy} {point.regret:.3f} ± {point.error:.3f}"
        for (arms, policy), point in at.items()
        if arms == 2 and policy != "optimum" and point.regret < best
    ]
    return f"; below it by chance, as simulated: {', '.join(lucky)}" if lucky else ""


def _list(by_arms: dict[int, float]) -> str:
    return "; ".join(f"{k} arms: {value:.2f}" for k, value in by_arms.items())
