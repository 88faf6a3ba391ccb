"""`deco market`: the price of a pull over the stages, and who buys."""

from __future__ import annotations

from pathlib import Path as File
from typing import TYPE_CHECKING

from .options import (
    Arms,
    AsJson,
    Horizon,
    PriorBad,
    PriorGood,
    ProblemFile,
    Tolerance,
    check_figure,
    print_json,
    problem_from,
    solve_shown,
    title_of,
)
from .path import Out, shown_rows

if TYPE_CHECKING:
    from ..demand import Demand


def market(
    problem: ProblemFile = None,
    arms: Arms = None,
    horizon: Horizon = None,
    prior_good: PriorGood = None,
    prior_bad: PriorBad = None,
    tol: Tolerance = 1e-4,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Show the market of a problem: prices, who buys the pulls, arms worth the price."""
    described = problem_from(problem, arms, horizon, prior_good, prior_bad)
    if out is not None:
        check_figure(out, pages=True)
    from ..demand import demand

    found = demand(solve_shown(described, tol))
    if out is not None:
        write_market(found, out)
    if as_json:
        print_json(found.to_dict())
    else:
        print_market(found)


def write_market(found: Demand, out: File) -> None:
    """The figure, or the page where the file's name says so."""
    if out.suffix == ".html":
        from ..path_pages import market_page, save_page

        save_page(market_page(found), out)
    else:
        from ..market_figures import market_figure
        from ..plots import save_figure

        save_figure(market_figure(found), out)


def print_market(found: Demand) -> None:
    """A table for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{title_of(found.problem)}: expected numbers of pulls and arms")
    columns = {
        "price": found.prices,
        "sold to fresh": found.sold_fresh,
        "to pulled before": found.sold_touched,
        "arms above price": found.above,
        "arms at price": found.at_price,
    }
    for title in ("stage", *columns):
        table.add_column(title, justify="right")
    first, last = shown_rows(found.problem.stages)
    for t in (*first, *last):
        cells = (f"{values[t]:.4f}" for values in columns.values())
        table.add_row(str(t), *cells, end_section=bool(last) and t == first[-1])
    Console().print(table)
    if last:
        print(f"stages {first.stop} to {last.start - 1} are left out; --json has all of them")
    print("sold: with the pulls of every stage going to the arms of largest index")
