"""`deco simulate`: what policies earn, on common draws, with error bars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    POLICY_NAMES,
    Arms,
    AsJson,
    BoundDraws,
    Draws,
    Horizon,
    PerDraw,
    PriorBad,
    PriorGood,
    ProblemFile,
    Seed,
    Ties,
    Tolerance,
    check_figure,
    numbers,
    percent,
    print_json,
    problem_from,
    said_of,
    say,
    show_played,
    solve_shown,
    title_of,
)

if TYPE_CHECKING:
    from ..best_bounds import BestBound
    from ..problem import Beta
    from ..simulation import Simulation


def simulate(
    problem: ProblemFile = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    policies: Annotated[
        str,
        typer.Option(
            metavar="NAME[,NAME...]", help=f"Policies, separated by commas: {POLICY_NAMES}."
        ),
    ] = "deco,fh-gittins,thompson",
    draws: Draws = 1000,
    per_draw: PerDraw = 10,
    seed: Seed = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; as many as cores by default.")
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(metavar="P,...", help="Fixed success probability of every arm, not drawn."),
    ] = None,
    truth_prior: Annotated[
        str | None,
        typer.Option(
            metavar="GOOD,BAD",
            help="Draw the parameters from this Beta, whatever the policies believe.",
        ),
    ] = None,
    true_horizon: Annotated[
        int | None,
        typer.Option(min=1, help="Stages that are really played; policies plan for the horizon."),
    ] = None,
    ties: Ties = "least-pulled",
    tol: Tolerance = 1e-4,
    bound_draws: BoundDraws = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw regret over the stages (.png, .svg, .pdf)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate policies on common draws and outcomes, with small error bars."""
    from ..best_bounds import best_bound
    from ..evaluation import check_truth
    from ..plots import regret_figure, save_figure
    from ..registry import Workbench, tie_rule
    from ..simulation import check_sizes
    from ..simulation import simulate as play
    from ..worlds import true_problem

    described = problem_from(problem, arms, horizon, prior_good, prior_bad)
    bench = Workbench(described, tol=tol, ties=tie_rule(ties))
    names = list(dict.fromkeys(name.strip() for name in policies.split(",")))
    bench.check(names)
    check_sizes(draws, per_draw, seed)
    known = None if truth is None else check_truth(numbers(truth, "--truth"), described)
    believed = None if truth_prior is None else _beta(truth_prior)
    true_problem(described, believed, true_horizon)  # refuse before the work begins
    if plot is not None:
        check_figure(plot)
    bench.solution = solve_shown(described, tol)
    made = [bench.policy(name) for name in names]
    longer = true_horizon is not None and true_horizon > described.horizon
    with show_played() as report:
        result = play(
            described,
            made,
            draws=draws,
            per_draw=per_draw,
            seed=seed,
            threads=threads,
            solution=bench.solution,
            truth=known,
            truth_prior=believed,
            true_horizon=true_horizon,
            afterwards=[bench.afterwards(n, true_horizon or 0) for n in names] if longer else None,
            progress=report,
        )
    if result.interrupted:
        say("interrupted: these are the policies that were finished")
    if plot is not None:
        save_figure(regret_figure(result), plot)
    bound = None
    if result.upper_bound is not None:  # beliefs are right
        bound = best_bound(bench.solution, draws=bound_draws)
    if as_json:
        print_json(to_dict(result, bound))
    else:
        print_simulation(result, bound)


def _beta(text: str) -> Beta:
    from ..problem import Beta

    pair = numbers(text, "--truth-prior")
    if len(pair) != 2 or not min(pair) > 0.0:
        raise typer.BadParameter(f"--truth-prior: {text!r}; must be two positive numbers, GOOD,BAD")
    return Beta(good=pair[0], bad=pair[1])


def to_dict(result: Simulation, bound: BestBound | None) -> dict[str, Any]:
    """The JSON of `deco simulate`; a certified gap only where beliefs are right."""
    tree = result.to_dict()
    if bound is not None:
        tree |= bound.to_dict()
        for each in tree["results"]:
            each["certified_gap_percent"] = bound.gap_percent(each["value"])
    return tree


def print_simulation(result: Simulation, bound: BestBound | None) -> None:
    """A table for people."""
    from rich.console import Console
    from rich.table import Table

    settings = result.settings
    table = Table(title=f"{title_of(result.problem)}: {_settings(settings)}")
    first = result.results[0].policy
    for title in ["policy", "value", "regret", "gain"] + ["to bound"] * (bound is not None):
        table.add_column(title, justify="left" if title == "policy" else "right", no_wrap=True)
    for each in result.results:
        gain = result.difference(each.policy, first)
        table.add_row(
            each.policy,
            f"{each.value:.4f} ± {each.value_se:.4f}",
            "" if each.regret is None else f"{each.regret:.4f}",
            "" if each.policy == first else f"{gain.value:+.4f} ± {gain.standard_error:.4f}",
            *([] if bound is None else [percent(bound.gap_percent(each.value))]),
        )
    Console().print(table)
    print("±: one standard error; that of the regret is the value's")
    print("regret: what is missing to pulling the best arms throughout, as if they were known")
    print(f"gain: on {first}, on the same draws and outcomes, which makes its error small")
    if bound is not None:
        print(said_of(bound))


def _settings(settings: dict[str, Any]) -> str:
    parts = [f"{settings['draws']} draws of {settings['per_draw']} episodes"]
    if settings["truth"] is not None:
        parts.append("at fixed probabilities")
    prior = settings["truth_prior"]
    if prior is not None:
        parts.append(f"truth from Beta(good={prior['good']:g}, bad={prior['bad']:g})")
    return ", ".join([*parts, f"{settings['true_horizon']} stages", f"seed {settings['seed']}"])
