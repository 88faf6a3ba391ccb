"""`deco index`: the index of one arm in one state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..policies.names import PAPER_POLICY
from .options import AsJson
from .output import print_results
from .policy_options import Chosen, takes_policies

if TYPE_CHECKING:
    from ..policies import NamedIndex


@takes_policies(PAPER_POLICY)
def index(
    chosen: Chosen,
    stage: Annotated[int, typer.Option(help="Stage, from 0.")] = 0,
    good: Annotated[int, typer.Option(help="Good outcomes of the arm so far.")] = 0,
    bad: Annotated[int, typer.Option(help="Bad outcomes of the arm so far.")] = 0,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="What is known of the arm, as its kind writes it: good/pulls, sum/pulls, counts "
            "of classes as 2+0+1, state/pulls. In place of --good and --bad.",
        ),
    ] = None,
    arm: Annotated[
        str | None, typer.Option(metavar="NAME", show_default="the first", help="Which arm.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the index of an arm from its outcomes so far.

    Of several policies, --json has one entry each, under "results".
    """
    from ..policies import indices_of_arm

    found = indices_of_arm(
        chosen.context, chosen.policies, arm, stage=stage, good=good, bad=bad, state=state
    )
    print_results(found, as_json, print_index)


def print_index(result: NamedIndex) -> None:
    """A line, and one for each part that the index has."""
    known = f"{result.good} good, {result.bad} bad" if result.good is not None else result.state
    print(
        f"{result.policy} index of {result.arm} at stage {result.stage} with {known}: "
        f"{result.found.index:.10g}"
    )
    tree = result.found.to_dict()
    for key in ("expected_reward", "value_of_information", "price", "path"):
        if key in tree:
            print(f"{key.replace('_', ' ')}: {tree[key]}")
    if result.found.indexable is False:
        print("not indexable: a pull is worth its price at some smaller surcharges only")
