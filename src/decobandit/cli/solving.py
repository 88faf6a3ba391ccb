"""`deco solve`, `certify`, `optimum`, `bound`, `market`: prices, bounds, certificates, optimum."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .. import bounds, figures, joint, prices, support
from .. import problem as problems
from .options import AsJson, OutCertificate, OutDrawing, OutTable, Seed, Tolerance, shown
from .output import (
    draw,
    ending_in,
    fixed,
    print_result,
    print_stages,
    print_table,
    refuse_segments,
    say,
    write_json,
    write_out,
    written,
)
from .problem_options import context_of, solve_shown, takes_problem

MOST_STAGES = 12  # of a table of prices
Grid = Annotated[
    int | None, shown("N", "Grid points per stage (0 = exact).", show_default="if needed")
]


@takes_problem
def solve(
    problem: problems.Problem,
    out: Annotated[
        Path | None, shown("FILE", "Write the solution (.json).", callback=ending_in(".json"))
    ] = None,
    tol: Tolerance = 1e-4,
    grid: Grid = None,
    as_json: AsJson = False,
) -> None:
    """Solve the dual: certified upper bound and prices."""
    refuse_segments(problem, out=out)
    solution = solve_shown(problem, tol, grid)
    if solution.interrupted:
        say("interrupted: this is the best solution so far")
    if out is not None:
        prices.save_solution(solution, out)
        written("solution", out)
    print_result(solution, as_json, print_solution)


def print_solution(solution: prices.DualSolution) -> None:
    """Print the bounds as a table."""
    first, last = solution.multipliers[[0, -1]] / solution.problem.unit
    below = "not known" if solution.lower_bound is None else f"{solution.lower_bound:.6f}"
    rows = [
        ("no policy can earn more than", f"{solution.upper_bound:.6f}"),
        ("the minimum of the dual is at least", below),
    ]
    if solution.lower_bound is not None:
        rows.append(("relative gap between the two", f"{solution.relative_gap:.1e}"))
    rows.append(("price of a pull, first stage", f"{first:.6f}"))
    rows.append(("price of a pull, last stage", f"{last:.6f}"))
    if solution.deployment_price is not None:
        rows.append(("price of the deployment", f"{solution.deployment_price:.6f}"))
    if solution.budget_price is not None:
        rows.append(("price of money", f"{solution.budget_price:.6f}"))
    if solution.grid:
        rows.append(("states per row, a grid", str(solution.grid)))
    rows.append(("backward passes", str(solution.oracle_calls)))
    rows.append(("seconds, without compiling", f"{solution.seconds:.2f}"))
    print_table(solution.problem.described(), ["", "value"], rows, text=[""], min_width=50)
    if solution.resource_prices is not None:
        names = list(solution.problem.resources or ())
        last_stage = solution.problem.horizon - 1
        steps = min(last_stage, MOST_STAGES - 1)
        lines = []
        for stage in sorted({round(i * last_stage / max(steps, 1)) for i in range(steps + 1)}):
            pull = solution.multipliers[stage] / solution.problem.unit
            prices_of_stage = (pull, *solution.resource_prices[stage])
            lines.append([str(stage), *(f"{price:.6f}" for price in prices_of_stage)])
        print_table("prices", ["stage", "a pull", *names], lines)
    if solution.grid:
        if solution.search_gap is not None:
            print(f"on this grid the prices are the best to a gap of {solution.search_gap:.1e};")
        if solution.lower_bound is None:
            print("the bound holds for every state; below, only a finer grid (--grid) tells")
        else:
            print("both bounds hold for every state; a finer grid (--grid) narrows their gap")
    elif not solution.converged:
        print(
            f"stopped before the gap reached {solution.tol:g}; both bounds are valid nevertheless"
        )
    if solution.stopped:
        print(solution.stopped)


# -- `deco certify`: a bound that anybody can check ------------------------------------------------


@takes_problem
def certify(
    problem: problems.Problem, out: OutCertificate, tol: Tolerance = 1e-4, grid: Grid = None
) -> None:
    """Write a certificate of the upper bound, to be checked anywhere."""
    refuse_segments(problem, out=out)
    bounds.check_certifiable(problem)
    tree = bounds.certificate(solve_shown(problem, tol, grid))
    write_json("certificate", tree, out)
    print(f"no policy can earn more than {float.fromhex(tree['bound']):.6f}")
    print(f"to check it: python -m decobandit.bounds.certificate_checker {out}")


# -- `deco optimum`: the exact optimum, where the problem is small enough --------------------------


@takes_problem
def optimum(problem: problems.Problem, as_json: AsJson = False) -> None:
    """Compute the exact optimum by dynamic programming."""
    with support.show_progress() as report:
        result = joint.optimum(problem, progress=report)
    lines = "optimum: {0.value:.9f}\n{0.states:,} states, {0.seconds:.2f} s"
    print_result(result, as_json, lambda one: print(lines.format(one)))


# -- `deco bound`: upper bounds on the value of any policy -----------------------------------------


@takes_problem
def bound(
    problem: problems.Problem,
    draws: Annotated[int, typer.Option(help="Scenarios of the information bound.")] = 500,
    seed: Seed = 1,
    weight: Annotated[
        float | None,
        typer.Option(
            show_default="the best of six", help="Weight of the information penalty, 0 to 1."
        ),
    ] = None,
    tol: Tolerance = 1e-4,
    out: OutTable = None,
    as_json: AsJson = False,
) -> None:
    """Compute all upper bounds, best first."""
    refuse_segments(problem, out=out)
    with support.show_progress() as report:
        result = bounds.bound(
            problem, tol=tol, draws=draws, rng=seed, weight=weight, progress=report
        )
    print_result(result, as_json, _print_bounds)
    write_out(out, result.columns)


def _print_bounds(result: bounds.Bounds) -> None:
    tree = result.to_dict()
    notes = {
        "joint": f"all arms together for {tree['exact_stages']} stages, from prices after them",
        "lagrangian": "limit on pulls holds in expectation only",
        "information": f"outcomes known in advance, {tree.get('weight', 0.0):.0%} of the penalty",
        "optimum": "what the best policy earns",
        "trivial": "always pulling the best arms",
    }
    rows = [
        [
            value.kind + " (best)" * (value is result[0]),
            fixed(value.value if value.estimate is None else value.estimate, 4),
            "" if value.estimate_se is None else f"{value.estimate_se:.4f}",
            notes.get(value.kind, value.meaning),
        ]
        for value in result
    ]
    title = f"Upper bounds on the value of any policy: {result.problem.described()}"
    print_table(
        title, ["bound", "value", "± s.e.", "what it is"], rows, text=["bound", "what it is"]
    )
    if result.of("information") is not None:
        print(f"information: an estimate from {tree['draws']} scenarios, seed {tree['seed']}")
        if tree["stopped_early"] > 0.0:
            share = f"{tree['stopped_early']:.1%}"
            print(f"in {share} of them the search was stopped early; still a bound")


# -- `deco market`: the price of a pull over the stages, and who buys ------------------------------

ROWS = 20  # of a table for people, from either end


@takes_problem
def market(
    problem: problems.Problem,
    out: OutDrawing = None,
    tol: Tolerance = 1e-4,
    as_json: AsJson = False,
) -> None:
    """Show prices and expected demand by stage."""
    context = context_of(problem, tol)
    if problem.repeat and out is not None and out.suffix != ".html" and not as_json:
        draw(out, partial(figures.batch_figure, context.solution))
        return
    problems.refuse_features(
        problem, "the table of a market (--out FILE.png draws shares and prices)", "repeat"
    )
    demand = prices.demand(context.solution)
    draw(out, partial(figures.market_figure, demand), partial(figures.market_page, demand))
    print_result(demand, as_json, _print_market)


def _print_market(demand: prices.Demand) -> None:
    columns = {
        "price": demand.prices,
        "sold to fresh": demand.sold_fresh,
        "to pulled before": demand.sold_touched,
        "arms above price": demand.above,
        "arms at price": demand.at_price,
    }
    print_stages(
        f"{demand.problem.described()}: expected numbers of pulls and arms",
        ["stage", *columns],
        lambda t: [str(t), *(f"{values[t]:.4f}" for values in columns.values())],
        stages=demand.problem.stages,
        most=ROWS,
    )
    print("sold: with the pulls of every stage going to the arms of largest index")
