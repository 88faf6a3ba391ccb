"""Policies simulated on common draws and common outcomes, for comparisons with small errors.

Per policy, stages are played in blocks: for an index policy a block is a table, laid out once and
used by all episodes; for any policy the gap terms of a block are read from such a table of DeCo's
indices. Chunks of draws run in threads; sums are taken in the order of chunks, so that results do
not depend on the number of threads.

A policy is played by the first of these that it has
    play          a compiled loop of its own
    stage_index   the largest index of a table
    select        one call per episode and stage: slow
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np

from ..arm import BatchRelaxation, Relaxation, exact_bytes
from ..policies import DEFAULT_POLICY, Context, Policy, make_policies, make_successor
from ..prices import DualSolution, is_quick, whole_solution
from ..problem import (
    DEFAULT_TIES,
    Beta,
    Problem,
    TieRule,
    check_kind_truth,
    check_problem,
    plain_truth,
    tie_rule,
)
from ..support import (
    Floats,
    Report,
    Rng,
    obeys_workers,
    seed_of,
    tells_progress,
    until_interrupted,
)
from .batch_playing import play_batches
from .draws import World
from .estimators import CONSTANT_WITHIN, MIN_DRAWS, estimate
from .kind_playing import KindWorld, play_kinds
from .played import Dual, Played
from .playing import Player, play
from .results import Curve, PolicyResult, Simulation
from .sampling import check_sampling

GAP_TOLERANCE = 1e-3  # of the dual that gives the gap terms: any prices are valid
MOST_GAP_BYTES = 256 * 2**20  # of tables for the gap terms of batches; beyond, they are not used


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
    truth_prior: Beta | Sequence[Beta] | None = None,
    true_horizon: int | None = None,
    afterwards: Sequence[Policy] | None = None,
    keep_episodes: bool = False,
    bound: bool | None = None,
    progress: Report | None = None,
) -> Simulation:
    """Simulate policies on the same draws and outcomes.

    Ctrl-C keeps the policies that are finished.

    Parameters
    ----------
    problem : Problem
        What is played, and what policies believe.
    policies : str, Policy, or a sequence of them
        Names (`make_policy`), or policies made for this problem.
    draws, per_draw : int
        The parameters are drawn `draws` times from the prior, and each time `per_draw` episodes are
        played.
    rng : int or numpy.random.Generator, optional
        A seed, or a generator that gives one; `settings["seed"]` of the result has it. The same
        seed gives the same numbers, whatever `workers` is; None stands for a new seed each time.
    workers : int, optional
        Threads that play and make tables; all processors by default.
    tol, ties
        As in `make_policy`, for policies that are given by name.
    solution : DualSolution, optional
        Whose prices the gap terms are taken from, and policies made from.
    truth : sequence, optional
        Fixed success probabilities instead of draws; of arms of other kinds chances of classes,
        means, rates, "-" for own states.
    truth_prior : Beta or sequence of Beta, optional
        Where the parameters really come from.
    true_horizon : int, optional
        Stages that are really played. Where they are more than planned, each policy hands over to
        its successor (`Policy.successor`) after the planned ones.
    afterwards : sequence of Policy, optional
        Other successors, one per policy, made for the problem with the true horizon.
    keep_episodes : bool
        Keep every pull of every episode: `to_frame("episodes")` of the result.
    bound : bool, optional
        Whether to solve the dual where no policy needs it and none is given, for the upper bound
        and estimators of smaller error. By default where that is quick.
    progress : callable, optional
        Told how far the simulation is.

    Returns
    -------
    Simulation

    Raises
    ------
    ValueError
        If a setting is not allowed, or a policy does not serve the problem.
    TypeError
        If the problem is not a `Problem`, or a policy neither a name nor a `Policy`.

    Examples
    --------
    >>> from decobandit import Problem, simulate
    >>> found = simulate(Problem.uniform(arms=2, horizon=5), ["greedy", "equal"], draws=50)
    >>> [result.policy for result in found.results]
    ['greedy', 'equal']
    """
    check_problem(problem)
    seed = seed_of(rng)
    context = Context(problem, tol=tol, ties=tie_rule(ties), given=solution)
    wanted = list(policies) if _several(policies) else cast("list[Policy | str]", [policies])
    if not problem.is_binary:
        check_sampling(
            problem, draws=draws, per_draw=per_draw, truth=truth, truth_prior=truth_prior,
            true_horizon=true_horizon,
        )  # fmt: skip
        true = None if truth is None else check_kind_truth(truth, problem)
        kinds = KindWorld(problem, draws=draws, per_draw=per_draw, seed=seed, truth=true)
        if bound and true is None:
            context.solution  # noqa: B018  # solves the dual
        return _simulated_kinds(context, wanted, kinds, seed, workers, progress, keep_episodes)
    actual, known = check_sampling(
        problem, draws=draws, per_draw=per_draw, rng=seed, truth=truth, truth_prior=truth_prior,
        true_horizon=true_horizon,
    )  # fmt: skip
    made = _made(context, wanted)
    successors = _successors(context, made, actual.horizon, afterwards)
    world = World(actual, draws=draws, per_draw=per_draw, seed=seed, truth=known)
    believed = known is None and actual == problem
    prices = _prices(context, bound) if believed else None
    game = _game(problem, world, prices, workers, progress, keep_episodes)
    turns = list(zip(made, successors, strict=True))
    results, interrupted = until_interrupted(
        lambda turn: _result(game, turn[0], turn[1], world, problem.horizon), turns
    )
    settings = {
        "draws": draws, "per_draw": per_draw, "seed": seed, "truth": known,
        "truth_prior": _plain(truth_prior), "true_horizon": actual.horizon,
    }  # fmt: skip
    most = None if game.dual is None else game.dual.value()
    if most is None and believed and context.solved:
        most = context.solution.upper_bound
    return Simulation(problem, tuple(results), settings, most, interrupted)


def _simulated_kinds(
    context: Context,
    policies: Sequence[Policy | str],
    world: KindWorld,
    seed: int,
    workers: int | None,
    progress: Report | None,
    keep: bool,
) -> Simulation:
    """The same for arms of any kind."""
    made = _made(context, policies)
    results, interrupted = until_interrupted(
        lambda policy: play_kinds(policy, world, workers, progress, pulls=keep), made
    )
    settings = {
        "draws": world.draws, "per_draw": world.per_draw, "seed": seed,
        "truth": None if world.truth is None else plain_truth(world.truth),
        "truth_prior": None, "true_horizon": context.problem.horizon,
    }  # fmt: skip
    believed = world.truth is None
    bound = context.solution.upper_bound if context.solved and believed else None
    return Simulation(context.problem, tuple(results), settings, bound, interrupted)


class _Game(NamedTuple):
    """How the episodes of a world are played, and the dual that gap terms are taken from."""

    dual: Dual | None
    play: Callable[[Sequence[tuple[Policy, int]]], Played]  # policies, each up to a stage


def _game(
    problem: Problem, world: World, prices: Floats | None, workers: int | None,
    progress: Report | None, keep: bool,
) -> _Game:  # fmt: skip
    """`prices`: those of the gap terms, if there are any. `keep`: every pull."""
    if problem.repeat:
        terms = None
        if prices is not None and _has_gap_terms(problem):
            terms = BatchRelaxation(problem, prices, grid=0)
        return _Game(
            terms,
            lambda turns: play_batches(turns, world, terms, workers, progress, pulls=keep),
        )
    tables = None if prices is None else Relaxation(problem, prices)
    return _Game(
        tables,
        lambda turns: play(
            [Player(*each) for each in turns], world, tables, workers, progress, pulls=keep
        ),
    )


def _prices(context: Context, bound: bool | None) -> Floats | None:
    """Rough ones where policies have not asked for any; None where that takes long."""
    if context.solved or bound:
        return context.solution.prices
    wanted = bound is None and _has_gap_terms(context.problem) and is_quick(context.problem)
    return whole_solution(context.problem, tol=GAP_TOLERANCE).prices if wanted else None


def _has_gap_terms(problem: Problem) -> bool:
    """On a grid of states they would not add up to the gap."""
    return not problem.repeat or exact_bytes(problem) <= MOST_GAP_BYTES


def _result(
    game: _Game, policy: Policy, later: Policy | None, world: World, planned: int
) -> PolicyResult:
    turns = [(policy, planned)]
    if later is not None:
        turns.append((later, world.problem.horizon))
    played = game.play(turns)
    found = estimate(played.sample(world, game.dual))
    best = world.expected_best
    return PolicyResult(
        policy=policy.name,
        estimates=found,
        regret=None if best is None else best - found.best.value,
        curve=None if best is None else _curve(played, world),
        steps=world.draws * world.per_draw * world.problem.stages,
        seconds=played.seconds,
        preparation_seconds=played.preparation_seconds,
        episodes=None if played.record is None else played.record.columns(played.weights),
    )


def _curve(played: Played, world: World) -> Curve:
    """Regret by stage. Only moments of the draws are known; a certain regret does not vary."""
    found = played.regrets()
    certain = world.truth is not None or world.problem.n_arms == 1
    errors = []
    whole = played.missed(world)
    for each, apart in zip(found, np.cumsum(world.ranges).tolist(), strict=True):
        varied = certain or each.value_se > CONSTANT_WITHIN * whole.size
        missed = replace(whole, range=apart, span=world.largest_weight * apart)
        bound = missed.bound(world.draws) * (2.0 if world.weighted else 1.0)  # not around 0
        if certain:
            missed = replace(missed, range=0.0)
        error = math.hypot(each.value_se, missed.error(world.draws, varied=varied))
        errors.append(bound if world.draws < MIN_DRAWS else min(error, bound))
    return Curve(np.array([each.value for each in found]), np.array(errors))


def _several(policies: object) -> TypeGuard[Iterable[Policy | str]]:
    return isinstance(policies, Iterable) and not isinstance(policies, str | Policy)


def _made(context: Context, policies: Sequence[Policy | str]) -> list[Policy]:
    """The policies; refuses what cannot be compared: none at all, or two of one name."""
    made = make_policies(context, policies)
    names = [policy.name for policy in made]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"policies: two are called {name!r}; rename one")
    if not made:
        raise ValueError("policies: none given; must be one or more names or decobandit.Policy")
    return made


def _successors(
    context: Context, policies: Sequence[Policy], horizon: int, given: Sequence[Policy] | None
) -> list[Policy | None]:
    """The players after the planned horizon, if more stages are played than planned."""
    if horizon <= context.problem.horizon:
        return [None] * len(policies)
    if given is None:
        return [make_successor(context, policy, horizon) for policy in policies]
    if len(given) != len(policies):
        raise ValueError("afterwards: a policy for each of the policies, beyond the horizon")
    for successor in given:
        if successor.problem.horizon != horizon:
            raise ValueError(f"afterwards: {successor.name!r} is not made for the true horizon")
    return list(given)


def _plain(prior: Beta | Sequence[Beta] | None) -> Any:
    if prior is None or isinstance(prior, Beta):
        return None if prior is None else prior.model_dump()
    return [each.model_dump() for each in prior]
