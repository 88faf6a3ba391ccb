"""`deco recommend`: the next arm to pull, and why; `deco index`: the index of one arm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import policies
from .. import problem as problems
from ..policies.names import DEFAULT_POLICY, PAPER_POLICY
from .options import ArmColumn, AsJson, GoodColumn, OutcomeColumn, PullsColumn, shown
from .output import MOST_ROWS, digits, print_results, print_table
from .problem_options import Chosen, takes_policies

if TYPE_CHECKING:
    from ..policies.recommendation import ArmReport

# of the reason: columns of the table, where the policy has them
PARTS = ("expected_reward", "value_of_information", "index", "probability", "pulls", "share")


@takes_policies(DEFAULT_POLICY, saved="policy")
def recommend(
    chosen: Chosen,
    state: Annotated[str | None, shown("G/N,...", "Good/pulls of every arm: 3/5,2/2,0/0.")] = None,
    data: Annotated[
        Path | None, shown("FILE", "Outcomes by row or by arm (.csv, .parquet).")
    ] = None,
    arm_column: ArmColumn = "arm",
    outcome_column: OutcomeColumn = "outcome",
    good_column: GoodColumn = "good",
    pulls_column: PullsColumn = "pulls",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the policy.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Recommend the next arm, or at the end the arm to deploy.

    With a saved solution, DeCo decides. With several policies, --json has a list under "results".
    """
    if (state is None) == (data is None):
        raise typer.BadParameter("give the observations by --state or by --data, one of them")
    observed: problems.State | str = state or ""
    if data is not None:
        observed = problems.read_outcomes(
            chosen.context.problem,
            data,
            arm_column=arm_column,
            outcome_column=outcome_column,
            good_column=good_column,
            pulls_column=pulls_column,
        )
    recommendations = policies.recommend_each(chosen.context, chosen.policies, observed, rng=seed)
    print_results(
        recommendations, as_json, print_recommendation, interrupted=chosen.context.interrupted
    )


def print_recommendation(result: policies.Recommendation) -> None:
    """Print the recommendation and a table of arms, best index first."""
    from ..problem.models.base import rounded

    what = "the deployment" if result.deploy else "a pull"
    price = "" if result.price is None else f", price of {what} {digits(result.price)}"
    parts = [name for name in PARTS if any(getattr(arm, name) is not None for arm in result.arms)]
    ranked = sorted(result.arms, key=lambda arm: (arm.name not in result.chosen, -_rank(arm)))

    def row(arm: ArmReport) -> list[str]:
        if arm.good is None or arm.bad is None:
            belief = [rounded(str(arm.seen)), str(arm.posterior)]
        else:
            counts = f"{arm.good}/{arm.good + arm.bad}"
            belief = [counts, f"Beta({arm.posterior_good:g}, {arm.posterior_bad:g})"]
        mark = ">" if arm.name in result.chosen else ""
        return [mark, arm.name, *belief, *(digits(getattr(arm, name)) for name in parts)]

    binary = all(arm.posterior is None for arm in result.arms)
    heading = "good/pulls" if binary else "observed"
    columns = ["", "arm", heading, "posterior", *(name.replace("_", " ") for name in parts)]
    title = f"{result.policy}, stage {result.stage}{price}"
    print_table(title, columns, map(row, ranked[:MOST_ROWS]), text=["", "arm"])
    if len(ranked) > MOST_ROWS:
        print(f"({len(ranked) - MOST_ROWS} more arms, none of a higher rank)")
    pulled = list(result.chosen)
    if result.pulls is not None and not result.deploy:
        pulls = {arm.name: arm.pulls for arm in result.arms}
        pulled = [f"{name} {pulls[name]}" for name in pulled]
    text = ", ".join(pulled) or "nothing that can be paid for is worth a pull"
    print(("deploy: " if result.deploy else "pull: ") + text)


def _rank(arm: ArmReport) -> float:
    """Return the sort key: pulls, index, probability or expected reward."""
    if arm.pulls is not None:
        return arm.pulls + arm.expected_reward / (1.0 + abs(arm.expected_reward))
    if arm.index is not None:
        return arm.index
    return arm.expected_reward if arm.probability is None else arm.probability


# -- `deco index`: the index of one arm in one state -----------------------------------------------


@takes_policies(PAPER_POLICY)
def index(
    chosen: Chosen,
    stage: Annotated[int, typer.Option(help="Stage, from 0.")] = 0,
    good: Annotated[int, typer.Option(help="Good outcomes so far.")] = 0,
    bad: Annotated[int, typer.Option(help="Bad outcomes so far.")] = 0,
    state: Annotated[
        str | None, shown("STATE", "State: 3/5, sum/pulls, 2+0+1 or state/pulls.")
    ] = None,
    arm: Annotated[str | None, shown("NAME", "Arm.", show_default="the first")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the index of an arm from its outcomes so far.

    With several policies, --json has a list under "results".
    """
    result = policies.indices_of_arm(
        chosen.context, chosen.policies, arm, stage=stage, good=good, bad=bad, state=state
    )
    print_results(result, as_json, _print_index)


def _print_index(result: policies.ArmIndex) -> None:
    counts = f"{result.good} good, {result.bad} bad" if result.good is not None else result.state
    print(
        f"{result.policy} index of {result.arm} at stage {result.stage} with {counts}: "
        f"{result.index:.10g}"
    )
    tree = result.to_dict()
    for key in ("expected_reward", "value_of_information", "price", "path"):
        if key in tree:
            print(f"{key.replace('_', ' ')}: {tree[key]}")
    if result.indexable is False:
        print("not indexable: a pull is worth its price at some smaller surcharges only")
