"""`deco gap`: the gap between a policy and the bound, stage by stage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..policies.names import DEFAULT_POLICY
from .files import draw_either
from .options import AsJson, Draws, Method, OutDrawing, PerDraw, Seed
from .output import print_results, title_of
from .policy_options import Chosen, takes_policies
from .tables import print_stages

if TYPE_CHECKING:
    from ..bounds import Gap
    from ..problem import Problem

ROWS = 12  # of a table for people, from either end


@takes_policies(DEFAULT_POLICY)
def gap(
    chosen: Chosen,
    method: Method = None,
    draws: Draws = 1000,
    per_draw: PerDraw = 10,
    seed: Seed = 1,
    out: OutDrawing = None,
    as_json: AsJson = False,
) -> None:
    """Split the gap between a policy and the bound into shortfall and congestion, by stage.

    Of several policies, --json has one entry each, under "results".
    """
    from ..bounds import compare_gaps
    from ..figures import gap_figure
    from ..support import show_progress

    with show_progress() as report:
        found = compare_gaps(
            chosen.context, chosen.policies, method=method, draws=draws, per_draw=per_draw,
            rng=seed, progress=report,
        )  # fmt: skip
    problem = chosen.context.problem
    print_results(found, as_json, partial(print_gap, problem=problem))
    draw_either(out, partial(gap_figure, found), f"Gap by stage: {title_of(problem)}")


def print_gap(found: Gap, problem: Problem) -> None:
    """A table for people: the sums, and the stages where there are not too many."""
    exact = found.method == "exact"
    error = "" if exact else f" ± {found.value_se:.6f}"
    part = f" ({100 * found.gap / abs(found.upper_bound):.2f}%)" if found.upper_bound else ""
    print(f"no policy can earn more than {found.upper_bound:.6f} (from the prices)")
    print(f"{found.policy} earns {found.value:.6f}{error}, which is {found.gap:.6f} less{part}:")
    print(f"  shortfall  {found.shortfall:.6f}   pulled arms that were not worth the price")
    print(f"  congestion {found.congestion:.6f}   arms worth the price that were not pulled")
    titles = ["stage", "shortfall", "congestion", "so far"]
    running = found.running_loss

    def row(t: int) -> list[str]:
        each = found.stages[t]
        numbers = [each.shortfall, each.congestion, running[t]]
        errors = [] if exact else [each.shortfall_se, each.congestion_se]
        return [str(each.stage), *(f"{number:.6f}" for number in numbers + errors)]

    print_stages(
        f"{title_of(problem)}: {found.policy}, {found.method}",
        titles if exact else [*titles, "± shortfall", "± congestion"],
        row, stages=len(found.stages), most=ROWS, dots=True,
    )  # fmt: skip
