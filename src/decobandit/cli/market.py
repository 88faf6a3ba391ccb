"""`deco market`: the price of a pull over the stages, and who buys."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .files import draw
from .options import AsJson, OutDrawing, Tolerance
from .output import print_result, title_of
from .problem_options import context_of, takes_problem
from .tables import print_stages

if TYPE_CHECKING:
    from ..prices import Demand
    from ..problem import Problem

ROWS = 20  # of a table for people, from either end


@takes_problem
def market(
    problem: Problem, out: OutDrawing = None, tol: Tolerance = 1e-4, as_json: AsJson = False
) -> None:
    """Show the market of a problem: prices, who buys the pulls, arms worth the price."""
    from ..figures import batch_figure, market_figure, market_page
    from ..prices import demand
    from ..problem import refuse_batches

    context = context_of(problem, tol)
    if problem.repeat and out is not None and out.suffix != ".html" and not as_json:
        draw(out, partial(batch_figure, context.solution))
        return
    refuse_batches(problem, "the table of a market (--out FILE.png draws shares and prices)")
    found = demand(context.solution)
    draw(out, partial(market_figure, found), partial(market_page, found))
    print_result(found, as_json, print_market)


def print_market(found: Demand) -> None:
    """A table for people."""
    columns = {
        "price": found.prices,
        "sold to fresh": found.sold_fresh,
        "to pulled before": found.sold_touched,
        "arms above price": found.above,
        "arms at price": found.at_price,
    }
    print_stages(
        f"{title_of(found.problem)}: expected numbers of pulls and arms",
        ["stage", *columns],
        lambda t: [str(t), *(f"{values[t]:.4f}" for values in columns.values())],
        stages=found.problem.stages, most=ROWS,
    )  # fmt: skip
    print("sold: with the pulls of every stage going to the arms of largest index")
