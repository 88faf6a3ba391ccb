"""Policies simulated on common draws and common outcomes, for comparisons with small errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, TypedDict, Unpack

import numpy as np

from ..policies import DEFAULT_POLICY, Context, Policy, make_policies, make_successor
from ..prices import DualSolution, by_segment, is_quick, whole_solution
from ..problem import (
    DEFAULT_TIES,
    KindTruth,
    Prior,
    Problem,
    TieRule,
    check_kind_truth,
    check_problem,
    plain_truth,
    tie_rule,
    true_problem,
)
from ..support import (
    InvalidArgument,
    Report,
    Rng,
    obeys_workers,
    seed_of,
    shown,
    tells_progress,
    until_interrupted,
)
from .accounts import GapTerms, Played
from .estimators import CONSTANT_WITHIN, MIN_DRAWS, Missed, estimate
from .playing import play
from .results import Curve, PolicyResult, Simulation
from .worlds import World

GAP_TOLERANCE = 1e-3  # of the dual that gives the gap terms: any prices are valid
MOST_EPISODES = 10_000_000


@by_segment
@obeys_workers
@tells_progress
def simulate(
    problem: Problem,
    policies: Policy | str | Sequence[Policy | str] = DEFAULT_POLICY,
    *,
    draws: int = 1000,
    per_draw: int = 10,
    rng: Rng = 1,
    workers: int | None = None,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    solution: DualSolution | None = None,
    truth: Sequence[Any] | None = None,
    truth_prior: Prior | Sequence[Prior] | None = None,
    true_horizon: int | None = None,
    keep_episodes: bool = False,
    bound: bool | None = None,
    progress: Report | None = None,
) -> Simulation:
    """Simulate policies on the same draws and outcomes.

    Ctrl-C keeps the policies that are finished.

    Parameters
    ----------
    problem : Problem
        Problem to play; its priors are those of the policies.
    policies : str, Policy, or a sequence of them
        Names (`make_policy`), or policies made for this problem.
    draws, per_draw : int
        The parameters are drawn `draws` times from the prior, and each time `per_draw` episodes are
        played.
    rng : int or numpy.random.Generator, optional
        A seed, or a generator that gives one; `settings["seed"]` of the result has it. The same
        seed gives the same numbers for any `workers`; None stands for a new seed each time.
    workers : int, optional
        Threads that play and make tables; all processors by default.
    tol, ties
        As in `make_policy`, for policies that are given by name.
    solution : DualSolution, optional
        Solution whose prices are used for policies and gap terms.
    truth : sequence, optional
        Fixed success probabilities instead of draws; for non-binary arms class probabilities,
        means or rates, and "-" for a Markov arm.
    truth_prior : prior or sequence of priors, optional
        True distribution of the parameters, of the same model as the priors of the arms.
    true_horizon : int, optional
        Number of stages actually played. If it exceeds the horizon, each policy hands over to
        its successor (`Policy.successor`) after the horizon.
    keep_episodes : bool
        Keep every pull of every episode: `to_frame("episodes")` of the result.
    bound : bool, optional
        Whether to solve the dual where no policy needs it and none is given, for the upper bound
        and estimators of smaller error. By default where that is quick.
    progress : callable, optional
        Called with the progress of the simulation.

    Returns
    -------
    Simulation

    Raises
    ------
    DecoError
        If a setting is not allowed, or a policy does not serve the problem.
    TypeError
        If the problem is not a `Problem`, or a policy neither a name nor a `Policy`.

    Examples
    --------
    >>> from decobandit import Problem, simulate
    >>> result = simulate(Problem.uniform(arms=2, horizon=5), ["greedy", "equal"], draws=50)
    >>> [result.policy for result in result.results]
    ['greedy', 'equal']
    """
    check_problem(problem)
    seed = seed_of(rng)
    actual, true_values = check_sampling(
        problem,
        draws=draws,
        per_draw=per_draw,
        rng=seed,
        truth=truth,
        truth_prior=truth_prior,
        true_horizon=true_horizon,
    )
    context = Context(problem, tol=tol, ties=tie_rule(ties), fixed_solution=solution)
    wanted: Any = policies
    if isinstance(policies, str | Policy) or not isinstance(policies, Iterable):
        wanted = [policies]
    players = _players(context, list(wanted))
    world = World(actual, draws=draws, per_draw=per_draw, seed=seed, truth=true_values)
    believed = true_values is None and actual == problem
    gap = _gap_terms(context, bound) if believed else None

    every: list[list[tuple[Policy, int]]] = [[(policy, problem.horizon)] for policy in players]
    if actual.horizon > problem.horizon:  # successors play after the planned horizon
        for policy, turns in zip(players, every, strict=True):
            turns.append((make_successor(context, policy, actual.horizon), actual.horizon))

    def result(turns: list[tuple[Policy, int]]) -> PolicyResult:
        played = play(turns, world, gap, workers, progress, pulls=keep_episodes)
        sample = played.sample()
        estimates, best = estimate(sample), world.expected_best
        return PolicyResult(
            policy=turns[0][0].name,
            estimates=estimates,
            regret=None if best is None else best - estimates.best.value,
            curve=None if best is None else _curve(played, sample.missed),
            steps=draws * per_draw * actual.stages,
            seconds=played.seconds,
            preparation_seconds=played.preparation_seconds,
            episodes=None if played.record is None else played.record.columns(played.weights),
        )

    results, interrupted = until_interrupted(result, every)
    true_priors = truth_prior if isinstance(truth_prior, Sequence) else [truth_prior]
    trees = [prior.model_dump() for prior in true_priors if prior is not None]
    settings = {
        "draws": draws,
        "per_draw": per_draw,
        "seed": seed,
        "truth": None if true_values is None else plain_truth(true_values),
        "truth_prior": trees if isinstance(truth_prior, Sequence) else next(iter(trees), None),
        "true_horizon": actual.horizon,
    }
    most = None if gap is None else gap.value()
    if most is None and believed and context.solved:
        most = context.solution.upper_bound
    return Simulation(problem, tuple(results), settings, most, interrupted)


def _gap_terms(context: Context, bound: bool | None) -> GapTerms | None:
    """Return gap terms at the prices of policies; at rough ones if no policy has any.

    None if they are slow, or do not add up to the gap.
    """
    problem = context.problem
    if bound:
        context.solution  # noqa: B018  # solves the dual
    if not GapTerms.fits(problem):
        return None
    if context.solved:
        return GapTerms(context.solution)
    if bound is None and is_quick(problem):
        return GapTerms(whole_solution(problem, tol=GAP_TOLERANCE))
    return None


def _curve(played: Played, missed_in_all: Missed) -> Curve:
    """Regret by stage. Only moments of the draws are known; a certain regret does not vary."""
    world = played.world
    certain = world.truth is not None or world.problem.n_arms == 1
    errors, regrets = [], played.regrets()
    for regret, apart in zip(regrets, np.cumsum(world.extremes.ranges).tolist(), strict=True):
        varied = certain or regret.value_se > CONSTANT_WITHIN * missed_in_all.size
        missed = replace(missed_in_all, range=apart, span=world.largest_weight * apart)
        bound = missed.bound(world.draws) * (2.0 if world.weighted else 1.0)  # not around 0
        if certain:
            missed = replace(missed, range=0.0)
        error = math.hypot(regret.value_se, missed.error(world.draws, varied=varied))
        errors.append(bound if world.draws < MIN_DRAWS else min(error, bound))
    return Curve(np.array([regret.value for regret in regrets]), np.array(errors))


def _players(context: Context, policies: Sequence[Policy | str]) -> list[Policy]:
    players = make_policies(context, policies)
    names = [policy.name for policy in players]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(
                f"policies: two are called {name!r}; rename one", field="policies"
            )
    if not players:
        raise InvalidArgument(
            "policies: none given; must be one or more names or decobandit.Policy", field="policies"
        )
    return players


# -- what is drawn, and how often -------------------------------------------------------------


class Sizes(TypedDict, total=False):
    """Numbers of draws: keywords of `simulate` and `gap`."""

    draws: int
    per_draw: int
    rng: Rng


class Sampling(Sizes, total=False):
    """Sizes and truth of a simulation: keywords of `simulate`."""

    truth: Sequence[Any] | None
    truth_prior: Prior | Sequence[Prior] | None
    true_horizon: int | None
    keep_episodes: bool


def check_sizes(draws: int, per_draw: int) -> None:
    """Refuse invalid numbers of draws and episodes."""
    for name, value in (("draws", draws), ("per_draw", per_draw)):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise InvalidArgument(
                f"{name}: {shown(value)} is not allowed; must be a whole number", field=name
            )
    if draws < 2:
        raise InvalidArgument(
            f"draws: {draws} is not allowed; must be 2 or more, for an error bar", field="draws"
        )
    if per_draw < 1:
        raise InvalidArgument(
            f"per_draw: {per_draw} is not allowed; must be 1 or more", field="per_draw"
        )
    if draws * per_draw > MOST_EPISODES:
        raise InvalidArgument(
            f"draws x per_draw: {draws * per_draw} episodes; must be at most {MOST_EPISODES}",
            field="draws",
        )


def check_sampling(
    problem: Problem, **sampling: Unpack[Sampling]
) -> tuple[Problem, KindTruth | None]:
    """Return the problem as it is played, and its truth; refuse settings that do not fit."""
    check_sizes(sampling.get("draws", 2), sampling.get("per_draw", 1))
    seed_of(sampling.get("rng", 0))
    truth, prior = sampling.get("truth"), sampling.get("truth_prior")
    actual = true_problem(problem, prior, sampling.get("true_horizon"))
    if truth is None:
        return actual, None
    if prior is not None:
        raise InvalidArgument("truth and truth_prior: give one of the two", field="truth_prior")
    return actual, check_kind_truth(truth, problem)
