"""`deco path`: one episode, stage by stage, with what every decision cost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ..policies.names import PAPER_POLICY
from .files import draw
from .options import AsJson, OutDrawing, Seed, Truth
from .output import print_result, title_of
from .policy_options import Chosen, takes_policies
from .tables import print_stages

if TYPE_CHECKING:
    from ..bounds import ComparedEpisode
    from ..problem.models.base import Outcome

ROWS = 20  # of a table for people, from either end


@takes_policies(PAPER_POLICY, several=False)
def path(
    chosen: Chosen,
    seed: Seed = 1,
    truth: Truth = None,
    expected: Annotated[
        bool, typer.Option("--expected", help="Compare with the expected loss of the policy.")
    ] = False,
    out: OutDrawing = None,
    as_json: AsJson = False,
) -> None:
    """Play one episode: indices, prices and the loss, stage by stage."""
    from ..bounds import follow_by_name
    from ..figures import episode_figure, episode_page
    from ..support import show_progress

    with show_progress() as report:
        found = follow_by_name(
            chosen.context, chosen.policy, truth=truth, rng=seed, expected=expected,
            progress=report,
        )  # fmt: skip
    line = None if found.expected is None else found.expected.running_loss
    drawn = (found.episode, line)
    draw(out, partial(episode_figure, *drawn), partial(episode_page, *drawn))
    print_result(found, as_json, print_path)


def print_path(found: ComparedEpisode) -> None:
    """A table for people."""
    episode = found.episode
    seed = "" if episode.seed is None else f", seed {episode.seed}"
    titles = ["stage", "pulled", "outcome", "index", "price", "short", "crowd", "loss"]
    print_stages(
        f"{title_of(episode.problem)}: {episode.policy}{seed}",
        titles if found.expected is None else [*titles, "expected"],
        partial(_row, found), stages=episode.stages, most=ROWS, text=["pulled", "outcome"],
        narrow=True,  # nine columns fit into a terminal of 80
    )  # fmt: skip
    print("index and price: DeCo's, for any policy")
    print("short: shortfall, pulled below the price")
    print("crowd: congestion, worth the price and not pulled")
    print("loss: both, up to this stage; at the end, its expectation over the prior is")
    print(f"the upper bound {episode.upper_bound:.6f} minus the value of the policy (Theorem 1)")


def _row(found: ComparedEpisode, t: int) -> list[str]:
    episode = found.episode
    arms, outcomes = episode.pulled[t], episode.outcomes[t]
    costs = [episode.prices, episode.shortfall, episode.congestion, episode.running_loss]
    if found.expected is not None:
        costs.append(found.expected.running_loss)
    return [
        str(t),
        ", ".join(episode.problem.arms[arm].name for arm in arms),
        ", ".join(map(_named, outcomes)) if outcomes else "deployed",
        ", ".join(f"{episode.index[t, arm]:.4f}" for arm in arms),
        *(f"{values[t]:.4f}" for values in costs),
    ]


def _named(outcome: Outcome) -> str:
    if isinstance(outcome, bool):
        return "good" if outcome else "bad"
    return f"{outcome:.4g}" if isinstance(outcome, float) else str(outcome)
