"""`deco simulate`: what policies earn, on common draws, with error bars."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..policies.names import SIMULATED_POLICIES
from .files import check_table, draw_either, save_table
from .options import (
    AsJson,
    Bound,
    BoundDraws,
    Draws,
    OutFigure,
    PerDraw,
    Seed,
    Truth,
    TruthPrior,
    shown,
)
from .output import NO_BOUND, fixed, percent, print_result, said_of, say, title_of
from .policy_options import Chosen, takes_policies
from .tables import print_table

if TYPE_CHECKING:
    from ..bounds import SimulatedComparison
    from ..problem import Problem
    from ..simulation import PolicyResult


@takes_policies(*SIMULATED_POLICIES)
def simulate(
    chosen: Chosen,
    draws: Draws = 1000,
    per_draw: PerDraw = 10,
    seed: Seed = 1,
    truth: Truth = None,
    truth_prior: TruthPrior = None,
    true_horizon: Annotated[
        int | None,
        typer.Option(min=1, help="Stages actually played; policies plan for the horizon."),
    ] = None,
    bound: Bound = None,
    bound_draws: BoundDraws = None,
    episodes: Annotated[
        Path | None,
        shown("FILE", "Write every pull of every episode: .csv, .parquet.", callback=check_table),
    ] = None,
    out: OutFigure = None,
    as_json: AsJson = False,
) -> None:
    """Simulate policies on common draws and outcomes, with small standard errors."""
    from ..bounds import compare_by_simulation
    from ..figures import regret_figure
    from ..support import show_progress

    if out is not None:
        _check_regret(chosen.context.problem)
    with show_progress() as report:
        found = compare_by_simulation(
            chosen.context, chosen.policies, draws=draws, per_draw=per_draw, rng=seed, truth=truth,
            truth_prior=truth_prior, true_horizon=true_horizon, bound=bound,
            bound_draws=bound_draws, keep_episodes=episodes is not None, progress=report,
        )  # fmt: skip
    if found.simulation.interrupted:
        say("interrupted: these are the policies that were finished")
    print_result(found, as_json, print_simulation)
    save_table(episodes, partial(found.simulation.columns, "episodes"))
    title = f"Expected regret: {title_of(found.simulation.problem)}"
    draw_either(out, partial(regret_figure, found.simulation), title)


def _check_regret(problem: Problem) -> None:
    """Refuse, before the work begins, a figure that could not be drawn."""
    if not problem.is_binary:
        raise typer.BadParameter("--out: regret is drawn of good and bad outcomes only")
    if any(arm.terminal is not None for arm in problem.arms):
        raise typer.BadParameter(
            "--out: regret is not defined where arms have tables of last rewards"
        )


def print_simulation(found: SimulatedComparison) -> None:
    """A table for people."""
    result, bound = found.simulation, found.bound
    first = result.results[0].policy
    several = len(result.results) > 1
    same = {each.policy for each in result.results[1:] if result.alike(each.policy, first)}
    titles = ["policy", "value", "regret"] + ["gain"] * several + ["to bound"] * (bound is not None)

    def row(each: PolicyResult) -> list[str]:
        cells = [each.policy, f"{each.value:.4f} ± {each.value_se:.4f}", fixed(each.regret, 4)]
        if several:
            gain = result.difference(each.policy, first)
            text = f"{gain.value:+.4f} ± {gain.value_se:.4f}"
            text = "same" if each.policy in same else text
            cells.append("" if each.policy == first else text)
        if bound is not None:
            cells.append(percent(bound.gap_percent(each.value)))
        return cells

    print_table(title_of(result.problem), titles, map(row, result.results), text=["policy"])
    print(result.described())
    print("±: one standard error, the same for value and regret")
    bounded = [x.policy for x in result.results if x.estimates.best.value_se_kind == "range"]
    if bounded:
        print(
            f"   {', '.join(bounded)}: too few draws to tell; a bound by the range of the rewards"
        )
    print("regret: reward of always pulling the best arms, minus that of the policy")
    if several:
        print(f"gain: over {first}, estimated on common draws and outcomes")
    if same:
        episodes = result.settings["draws"] * result.settings["per_draw"]
        print(f"same: earned the same as {first} in all {episodes:,} episodes")
    if bound is not None:
        print(said_of(bound))
    elif found.left_out:
        print(NO_BOUND)
