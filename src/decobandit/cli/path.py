"""`deco path`: one episode, stage by stage, with what every decision cost."""

from __future__ import annotations

from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    POLICY_NAMES,
    Arms,
    AsJson,
    Horizon,
    PriorBad,
    PriorGood,
    ProblemFile,
    Seed,
    Ties,
    Tolerance,
    check_figure,
    numbers,
    print_json,
    problem_from,
    show_played,
    solve_shown,
    title_of,
)

if TYPE_CHECKING:
    from ..gaps import Gap
    from ..paths import Path
    from ..registry import Workbench

ROWS = 20  # of a table for people, from either end
Out = Annotated[
    File | None,
    typer.Option(
        metavar="FILE", help="Draw it: .png, .svg, .pdf, or .html for a page to point at."
    ),
]


def path(
    problem: ProblemFile = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    policy: Annotated[str, typer.Option(metavar="NAME", help=f"One of {POLICY_NAMES}.")] = "deco",
    seed: Seed = 1,
    truth: Annotated[
        str | None,
        typer.Option(metavar="P,...", help="Success probability of every arm, not drawn."),
    ] = None,
    expected: Annotated[
        bool, typer.Option("--expected", help="Compare with the expected loss of the policy.")
    ] = False,
    ties: Ties = "least-pulled",
    tol: Tolerance = 1e-4,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Follow one episode: index of every arm, price, and the loss that can be read off."""
    described = problem_from(problem, arms, horizon, prior_good, prior_bad)
    given = None if truth is None else numbers(truth, "--truth")
    if out is not None:
        check_figure(out, pages=True)
    from ..evaluation import check_truth
    from ..paths import follow
    from ..registry import Workbench, tie_rule

    bench = Workbench(described, tol=tol, ties=tie_rule(ties))
    bench.check([policy])
    known = None if given is None else check_truth(given, described)
    bench.solution = solve_shown(described, tol)
    found = follow(bench.policy(policy), bench.solution, truth=known, seed=seed)
    mean = _gap(bench, policy, seed) if expected else None
    if out is not None:
        write_path(found, mean, out)
    if as_json:
        print_json(found.to_dict() | _expected(mean))
    else:
        print_path(found, mean)


def _gap(bench: Workbench, policy: str, seed: int) -> Gap:
    from ..gaps import gap

    with show_played() as report:
        return gap(bench.policy(policy), solution=bench.solution, seed=seed, progress=report)


def _expected(mean: Gap | None) -> dict[str, Any]:
    if mean is None:
        return {}
    return {"expected_running_loss": mean.running.tolist(), "expected_method": mean.method}


def write_path(found: Path, mean: Gap | None, out: File) -> None:
    """The figure, or the page where the file's name says so."""
    line = None if mean is None else mean.running
    if out.suffix == ".html":
        from ..path_pages import path_page, save_page

        save_page(path_page(found, line), out)
    else:
        from ..path_figures import path_figure
        from ..plots import save_figure

        save_figure(path_figure(found, line), out)


def shown_rows(count: int) -> tuple[range, range]:
    """Numbers of the rows that a table shows: all, or those at either end."""
    if count <= 2 * ROWS:
        return range(count), range(0)
    return range(ROWS), range(count - ROWS, count)


def print_path(found: Path, mean: Gap | None) -> None:
    """A table for people."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    seed = "" if found.seed is None else f", seed {found.seed}"
    # narrow: nine columns fit into a terminal of 80
    table = Table(
        title=f"{title_of(found.problem)}: {found.policy}{seed}", box=SIMPLE_HEAD, pad_edge=False,
        padding=(0, 1, 0, 0),
    )  # fmt: skip
    titles = ["stage", "pulled", "outcome", "index", "price", "short", "crowd", "loss"]
    for title in titles if mean is None else [*titles, "expected"]:
        left = title in ("pulled", "outcome")
        table.add_column(title, justify="left" if left else "right", no_wrap=title != "pulled")
    first, last = shown_rows(found.stages)
    for t in first:
        table.add_row(*_row(found, mean, t), end_section=bool(last) and t == first[-1])
    for t in last:
        table.add_row(*_row(found, mean, t))
    Console().print(table)
    if last:
        print(f"stages {first.stop} to {last.start - 1} are left out; --json has all of them")
    print("index and price: DeCo's, whatever the policy; short: shortfall, pulled below the price;")
    print("crowd: congestion, worth the price and not pulled")
    print("loss: both, so far; over the prior, it is expected to end at what")
    print(f"the policy earns less than {found.upper_bound:.6f}; no policy can earn more than that")


def _row(found: Path, mean: Gap | None, t: int) -> list[str]:
    from rich.markup import escape

    arms, outcomes = found.pulled[t], found.outcomes[t]
    row = [
        str(t),
        escape(", ".join(found.problem.arms[arm].name for arm in arms)),
        ", ".join("good" if good else "bad" for good in outcomes) if outcomes else "deployed",
        ", ".join(f"{found.index[t, arm]:.4f}" for arm in arms),
        f"{found.prices[t]:.4f}",
        f"{found.shortfall[t]:.4f}",
        f"{found.congestion[t]:.4f}",
        f"{found.running_loss[t]:.4f}",
    ]
    return row if mean is None else [*row, f"{mean.running[t]:.4f}"]
