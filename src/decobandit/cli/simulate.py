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
    from ..estimators import Estimate
    from ..problem import Beta, Problem
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
    from ..best_bounds import best_bound, check_bound_draws
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
    check_bound_draws(bound_draws)
    _check_together(described, known, believed, plot)
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
    bound = None
    if result.upper_bound is not None:  # beliefs are right
        bound = best_bound(bench.solution, draws=bound_draws)
    if as_json:
        print_json(to_dict(result, bound))
    else:
        print_simulation(result, bound)
    if plot is not None:
        save_figure(regret_figure(result), plot)


def _check_together(problem: Problem, truth: object, prior: object, plot: Path | None) -> None:
    """Refuse, before the work begins, what does not go together."""
    if truth is not None and prior is not None:
        raise typer.BadParameter("--truth and --truth-prior: give one of the two")
    if plot is not None:
        check_figure(plot)
        if any(arm.terminal is not None for arm in problem.arms):
            raise typer.BadParameter(
                "--plot: regret is not defined where arms have tables of last rewards"
            )


def _beta(text: str) -> Beta:
    from ..problem import MAX_SIZE, Beta

    pair = numbers(text, "--truth-prior")
    if len(pair) != 2 or not all(0.0 < number <= MAX_SIZE for number in pair):
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

    table = Table(title=title_of(result.problem))
    first = result.results[0].policy
    several = len(result.results) > 1
    titles = ["policy", "value", "regret"] + ["gain"] * several
    for title in titles + ["to bound"] * (bound is not None):
        table.add_column(title, justify="left" if title == "policy" else "right", no_wrap=True)
    for each in result.results:
        gain = result.difference(each.policy, first)
        table.add_row(
            each.policy,
            f"{each.value:.4f} ± {each.value_se:.4f}",
            "" if each.regret is None else f"{each.regret:.4f}",
            *([_gain(gain, each.policy == first)] if several else []),
            *([] if bound is None else [percent(bound.gap_percent(each.value))]),
        )
    Console().print(table)
    print(result.described())
    print("±: one standard error; that of the regret is the value's")
    print("regret: what is missing to pulling the best arms throughout, as if they were known")
    if several:
        print(f"gain: on {first}, on the same draws and outcomes, which makes its error small")
    if bound is not None:
        print(said_of(bound))


def _gain(gain: Estimate, first: bool) -> str:
    return "" if first else f"{gain.value:+.4f} ± {gain.standard_error:.4f}"
