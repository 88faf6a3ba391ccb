"""Several policies of one problem, each beside what no policy can earn.

Settings are refused before the long work begins; then the policies are made, all of them, since one
may refuse the problem. The dual is solved once, and where no policy needs it, only if that is quick
or asked for (`Context.solution_for`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from ..evaluation import Evaluation, evaluate
from ..policies import Context, make_policies
from ..prices import DualSolution, by_segment
from ..problem import Given, Problem, truth_of
from ..simulation import Sampling, Simulation, Sizes, check_sampling, simulate
from ..support import (
    Report,
    Rng,
    Tables,
    Tabular,
    columns_of,
    seed_of,
    tells_progress,
    until_interrupted,
)
from .episodes import Episode, follow
from .gaps import Gap, check_method, gap
from .upper_bounds import BoundValue, check_bound_draws
from .upper_bounds import bound as upper_bounds


@dataclass(frozen=True, repr=False)
class ExactComparison(Tabular):
    """Exact values of policies; a bound where they are over the prior, not at a given truth."""

    problem: Problem
    solution: DualSolution | None
    results: tuple[Evaluation, ...]
    bound: BoundValue | None
    interrupted: bool = False  # only the policies that were finished are there
    left_out: bool = False  # the bound: the dual is expensive and no policy needs it

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a certified gap only where there is a bound."""
        solution = self.solution
        return {
            "arms": self.problem.n_arms,
            "horizon": self.problem.horizon,
            "upper_bound": None if solution is None else solution.upper_bound,
            "interrupted": self.interrupted or (solution is not None and solution.interrupted),
            **({} if self.bound is None else self.bound.to_dict()),
            "policies": _with_gaps([result.to_dict() for result in self.results], self.bound),
        }

    def tables(self) -> Tables:
        """Return the tables `policies`, one row each, and `stages`, expected rewards."""
        return {
            "policies": lambda: columns_of(
                _with_gaps([result.row() for result in self.results], self.bound)
            ),
            "stages": lambda: columns_of(row for result in self.results for row in result.stages()),
        }


@dataclass(frozen=True, repr=False)
class SimulatedComparison(Tabular):
    """Simulated values of policies; a bound where their beliefs are right."""

    simulation: Simulation
    bound: BoundValue | None
    left_out: bool = False  # the bound: the dual is expensive and no policy needs it

    @property
    def interrupted(self) -> bool:
        """Whether policies are missing."""
        return self.simulation.interrupted

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a certified gap only where there is a bound."""
        tree = self.simulation.to_dict()
        if self.bound is not None:
            tree |= self.bound.to_dict()
        return tree | {"results": _with_gaps(tree["results"], self.bound)}

    def tables(self) -> Tables:
        """Return the simulation's tables; `policies` has certified gaps if there is a bound."""
        simulation = self.simulation
        return {
            **simulation.tables(),
            "policies": lambda: simulation.with_settings(self.to_dict()["results"]),
        }

    def absent_tables(self) -> dict[str, str]:
        """Return the tables that the simulation does not have."""
        return self.simulation.absent_tables()


@dataclass(frozen=True)
class ComparedEpisode:
    """Episode, and the expected gap of its policy if requested."""

    episode: Episode
    expected: Gap | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values of the episode, and the expected loss up to each stage."""
        tree, mean = self.episode.to_dict(), self.expected
        if mean is not None:
            tree["expected_running_loss"] = mean.running_loss.tolist()
            tree["expected_method"] = mean.method
        return tree


@by_segment
@tells_progress
def compare_exactly(
    context: Context,
    policies: Sequence[str],
    *,
    truth: Sequence[float] | None = None,
    bound: bool | None = None,
    bound_draws: int | None = None,
    progress: Report | None = None,
) -> ExactComparison:
    """Return the exact value of every policy, over the prior or at given success probabilities.

    bound: whether to solve the dual where no policy needs it; None: where that is quick, or
    `bound_draws` are given. bound_draws: scenarios of the information bound, as in `best_bound`.
    """
    problem = context.problem
    check_bound_draws(bound_draws)
    if truth is not None:
        truth_of(truth, problem)  # refuses what cannot be
    policy_list = make_policies(context, policies)
    results, interrupted = until_interrupted(
        lambda policy: evaluate(problem, policy, truth=truth, progress=progress), policy_list
    )
    best = None
    if not interrupted:  # after the policies: one may reach too many states
        try:
            solution = context.solution_for(_wanted(bound, bound_draws))
            if truth is None and solution is not None:
                best = upper_bounds(problem, solution=solution, draws=bound_draws)[0]
        except KeyboardInterrupt:
            interrupted = True
    solution = context.solution if context.solved else None
    left_out = truth is None and solution is None and bound is None
    return ExactComparison(problem, solution, tuple(results), best, interrupted, left_out)


@by_segment
@tells_progress
def compare_by_simulation(
    context: Context,
    policies: Sequence[str],
    *,
    bound: bool | None = None,
    bound_draws: int | None = None,
    progress: Report | None = None,
    **sampling: Unpack[Sampling],
) -> SimulatedComparison:
    """Return the value of every policy, simulated on the same draws and outcomes; see `simulate`.

    bound, bound_draws: as in `compare_exactly`.
    """
    check_bound_draws(bound_draws)
    sampling["rng"] = seed_of(sampling.get("rng", 1))
    problem = context.problem
    actual, _ = check_sampling(problem, **sampling)
    policy_list = make_policies(context, policies)
    believed = sampling.get("truth") is None and actual == problem
    solution = context.solution_for(_wanted(bound, bound_draws) if believed else False)
    simulation = simulate(
        problem,
        policy_list,
        ties=context.ties,
        solution=solution,
        bound=False,
        progress=progress,
        **sampling,
    )
    if not believed or solution is None:
        return SimulatedComparison(simulation, None, believed and bound is None)
    if simulation.interrupted:
        return SimulatedComparison(simulation, None)
    try:
        best = upper_bounds(problem, solution=solution, draws=bound_draws)[0]
    except KeyboardInterrupt:
        return SimulatedComparison(replace(simulation, interrupted=True), None)
    return SimulatedComparison(simulation, best)


@by_segment
@tells_progress
def compare_gaps(
    context: Context,
    policies: Sequence[str],
    *,
    method: str | None = None,
    progress: Report | None = None,
    **sizes: Unpack[Sizes],
) -> list[Gap]:
    """Return the gap of every policy to the bound of the same prices; see `gap`."""
    problem = context.problem
    check_method(method)
    sizes["rng"] = seed_of(sizes.get("rng", 1))
    check_sampling(problem, **sizes)
    policy_list = make_policies(context, policies)
    solution = context.solution
    return [
        gap(problem, policy, solution=solution, method=method, progress=progress, **sizes)
        for policy in policy_list
    ]


def follow_by_name(
    context: Context,
    policy: str,
    *,
    truth: Given | None = None,
    rng: Rng = 1,
    expected: bool = False,
    progress: Report | None = None,
) -> ComparedEpisode:
    """Play one episode of a policy, as `follow` does; `expected`: with the policy's gap."""
    seed = seed_of(rng)
    if truth is not None:
        truth_of(truth, context.problem)  # refuses what cannot be
    (player,) = make_policies(context, [policy])
    solution = context.solution
    episode = follow(context.problem, player, solution=solution, truth=truth, rng=seed)
    mean = None
    if expected:
        mean = gap(context.problem, player, solution=solution, rng=seed, progress=progress)
    return ComparedEpisode(episode, mean)


def _wanted(bound: bool | None, bound_draws: int | None) -> bool | None:
    """Return whether a bound is wanted: scenarios imply one."""
    return True if bound is None and bound_draws else bound


def _with_gaps(trees: list[dict[str, Any]], bound: BoundValue | None) -> list[dict[str, Any]]:
    if bound is None:
        return trees
    return [tree | {"certified_gap_percent": bound.gap_percent(tree["value"])} for tree in trees]
