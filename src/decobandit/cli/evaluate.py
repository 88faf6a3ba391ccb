"""`deco evaluate`: what policies earn, exactly, beside an upper bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..policies.names import DEFAULT_POLICY
from .options import AsJson, Bound, BoundDraws, Truth
from .output import NO_BOUND, fixed, note, percent, print_result, said_of, say, title_of
from .policy_options import Chosen, takes_policies
from .tables import print_table

if TYPE_CHECKING:
    from ..bounds import ExactComparison
    from ..evaluation import Evaluation
    from ..problem import Problem

MANY_STATES = 50_000_000


@takes_policies(DEFAULT_POLICY)
def evaluate(
    chosen: Chosen,
    truth: Truth = None,
    bound: Bound = None,
    bound_draws: BoundDraws = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate policies exactly, over the prior or at given true success probabilities."""
    from ..bounds import compare_exactly
    from ..support import show_progress

    if all(group.model.finite for group in chosen.context.problem.groups):
        note(size_note(chosen.context.problem))
    with show_progress() as report:
        found = compare_exactly(
            chosen.context, chosen.policies, truth=truth, bound=bound, bound_draws=bound_draws,
            progress=report,
        )  # fmt: skip
    if found.interrupted:
        say("interrupted: these are the policies that were finished")
    print_result(found, as_json, print_evaluations)


def size_note(problem: Problem) -> str:
    """How many states an evaluation may come to."""
    from ..evaluation import states_ahead

    states = states_ahead(problem)
    slow = "; 'deco simulate' is quicker" if states > MANY_STATES else ""
    return f"exact evaluation: up to {states:.2g} states for each policy{slow}"


def print_evaluations(found: ExactComparison) -> None:
    """A table for people."""
    bound = found.bound
    known = found.results[0].truth is not None
    titles = ["policy", "value", "regret", "states", "seconds"]
    titles += ["to bound"] * (bound is not None)
    titles += ["std. deviation", "P(best arm found)"] * known

    def row(result: Evaluation) -> list[str]:
        cells = [
            result.policy,
            f"{result.value:.6f}",
            fixed(result.regret, 6),
            f"{result.states:,}",
            f"{result.seconds:.2f}",
        ]
        if bound is not None:
            cells.append(percent(bound.gap_percent(result.value)))
        if result.variance is not None:
            best = "-" if result.null else fixed(result.best_arm_probability, 4)
            cells += [f"{result.variance**0.5:.4f}", best]
        return cells

    print_table(title_of(found.problem), titles, map(row, found.results), text=["policy"])
    print("regret: reward of always pulling the best arms, minus that of the policy")
    if known and found.results[0].null:
        print("P(best arm found): all arms are equal, there is no best one")
    elif known:
        print("P(best arm found): a best arm has the largest posterior mean at the end")
    if bound is not None:
        print(said_of(bound))
    elif found.left_out:
        print(NO_BOUND)
