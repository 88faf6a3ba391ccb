"""One episode with indices and prices: the index of every arm at each stage, and the loss.

    shortfall_t  = sum over pulled arms of (mu_t - I_t^a)^+
    congestion_t = sum over the others  of (I_t^a - mu_t)^+

The expectation of their sum over the stages is the upper bound minus the value of the policy that
pulled: Theorem 1, for any policy and any prices. For DeCo, which pulls the largest index, the
first is positive only where no arm is worth the price, the second only where several are:
Theorem 2. Figure 2 of the paper draws four such episodes; `figures/episodes.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..arm import OneArmValues
from ..policies import DEFAULT_POLICY, Context, Policy, check_subject, make_policies
from ..prices import DualSolution, check_solution, whole_solution
from ..problem import (
    DEFAULT_TIES,
    Given,
    Problem,
    State,
    TieRule,
    arm_position,
    check_problem,
    refuse_batches,
    tie_rule,
    truth_of,
)
from ..problem.models.base import Outcome
from ..support import (
    Rng,
    obeys_workers,
    refuse_over,
    seed_of,
)
from .episode_record import Arms, Episode, Outcomes
from .episode_sources import (
    TermsOf,
    drawn_outcomes,
    is_favourable,
    kind_of,
    observed,
    terms_at,
)

Pair = tuple[int | str, Outcome | None]  # arm (position or name), outcome (None: deployed)


@obeys_workers
def follow(
    problem: Problem,
    policy: Policy | str = DEFAULT_POLICY,
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    truth: Given | None = None,
    rng: Rng = 1,
    workers: int | None = None,
) -> Episode:
    """Play one episode, and see it from the prices.

    The episode is the first one of `simulate` with the same seed and 128 draws or more: pulls have
    the same outcomes there. Where outcomes are not all good or bad, it is the first of two draws.

    Parameters
    ----------
    problem, policy, tol, ties
        As in `evaluate`.
    solution : DualSolution, optional
        At whose prices arms are valued; the dual is solved here by default, to `tol`.
    truth : sequence, optional
        Success probabilities, as in `simulate`; drawn from the prior by default.
    rng : int or numpy.random.Generator, optional
        A seed, or a generator that gives one; `Episode.seed` has it.
    workers : int, optional
        Threads that make prices and tables; all processors by default.

    Returns
    -------
    Episode
        All stages, the deployment included.

    Raises
    ------
    ValueError, TypeError
        As `evaluate`.

    Examples
    --------
    >>> from decobandit import Problem, follow
    >>> follow(Problem.uniform(arms=2, horizon=4), "greedy", truth=[1.0, 0.0]).pulled
    ((0,), (0,), (0,), (0,))
    """
    problem = check_subject(problem, policy)
    refuse_batches(check_problem(problem), "episodes")
    if isinstance(policy, Policy) and policy.problem != problem:
        raise ValueError(f"policy {policy.name!r}: not one of the problem that is given with it")
    context = Context(problem, tol=tol, ties=tie_rule(ties), given=solution)
    (policy,) = make_policies(context, [policy])
    solution, seed = context.solution, seed_of(rng)
    drawn = drawn_outcomes(problem, seed, None if truth is None else truth_of(truth, problem))

    def decide(stage: int, state: State) -> tuple[Arms, Outcomes]:
        arms = tuple(int(arm) for arm in policy.select(stage, state, drawn.rng))
        _check_arms(arms, problem, stage)
        if stage == problem.horizon:
            return arms, ()
        return arms, tuple(drawn.outcome(arm, state) for arm in arms)

    relaxation = policy.tables_at(solution.prices)  # the same tables are not held twice
    return _walk(solution, problem.stages, decide, relaxation, policy.name, drawn.truth, seed)


def retrace(
    problem: Problem,
    history: Sequence[Pair],
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    policy: str = "observed",
    relaxation: TermsOf | None = None,
) -> Episode:
    """The episode of given pulls, seen from the prices.

    Parameters
    ----------
    problem : Problem
        What was played.
    history : sequence of pairs
        Pulls in their order: the arm, by position or name, and its outcome, 1 or 0, or as its kind
        has it; a deployment comes last and has the outcome None. Histories may end early, as those
        of trials under way do; pulls of a stage that is not complete are left out.
    solution : DualSolution, optional
        At whose prices arms are valued; the dual is solved here by default, to `tol`.
    tol : float
        Relative gap of the prices, where the dual is solved here.
    policy : str
        What figures call whoever pulled.
    relaxation : OneArmValues or Cones, optional
        Tables at the solution's prices, where there are some already.

    Returns
    -------
    Episode

    Raises
    ------
    ValueError
        If the pulls cannot be those of the problem.

    Examples
    --------
    >>> from decobandit import Problem, retrace
    >>> episode = retrace(Problem.uniform(arms=2, horizon=4), [("arm-1", 1), ("arm-2", 0)])
    >>> episode.good[1].tolist()
    [1, 0]
    """
    refuse_batches(check_problem(problem), "episodes")
    if solution is None:
        solution = whole_solution(problem, tol=tol)
    check_solution(solution, problem)
    m, T = problem.pulls_per_stage, problem.horizon
    most = T * m + problem.stages - T
    if len(history) > most:
        raise ValueError(f"{len(history)} pulls in all; must be at most {most}")
    positions = [_position(problem, arm) for arm, _ in history]
    for number, (_, outcome) in enumerate(history):
        deployment = number >= T * m
        binary = not 0 <= positions[number] < problem.n_arms or (
            kind_of(problem, positions[number]).counts_good
        )
        if (outcome is None) != deployment or (binary and outcome not in (None, 0, 1)):
            rule = "must be None: a deployment" if deployment else "must be good or bad: 1 or 0"
            raise ValueError(f"pull {number + 1}: outcome {outcome!r}; {rule}")

    def decide(stage: int, state: State) -> tuple[Arms, Outcomes]:
        now = slice(stage * m, stage * m + round(problem.pulls[stage]))
        arms = tuple(positions[now])
        _check_arms(arms, problem, stage)
        known = [(arm, outcome) for arm, outcome in history[now] if outcome is not None]
        return arms, tuple(_recorded(problem, arm, outcome) for arm, outcome in known)

    complete = T + (len(history) - T * m) if len(history) > T * m else len(history) // m
    return _walk(solution, complete, decide, relaxation, policy, None, None)


def _recorded(problem: Problem, arm: int | str, outcome: Outcome) -> Outcome:
    kind = kind_of(problem, _position(problem, arm))
    return bool(outcome) if kind.counts_good else kind.format.plain(outcome)


def _position(problem: Problem, arm: int | str) -> int:
    return arm_position(problem, arm) if isinstance(arm, str) else int(arm)


def _check_arms(arms: Arms, problem: Problem, stage: int) -> None:
    wanted = round(problem.pulls[stage])
    known = all(0 <= arm < problem.n_arms for arm in arms)
    if not known or len(arms) != wanted or len(set(arms)) != wanted:
        raise ValueError(f"stage {stage}: pulls {arms}; must be {wanted} different arms")


def _walk(
    solution: DualSolution,
    stages: int,
    decide: Callable[[int, State], tuple[Arms, Outcomes]],
    relaxation: TermsOf | None,
    policy: str,
    truth: tuple[float, ...] | None,
    seed: int | None,
) -> Episode:
    """Go through the stages in order; decide(stage, state) says what is pulled and what came."""
    problem = solution.problem
    K = problem.n_arms
    refuse_over(
        7.0 * 8.0 * stages * K, f"an episode of {K} arms", "use fewer arms or a shorter horizon"
    )
    tables = relaxation or OneArmValues(problem, solution.prices)
    state = State.before(problem)
    pulled, outcomes, favourable, seen = [], [], [], []
    good, bad, pulls = np.zeros((3, stages, K), dtype=np.int64)
    ell, delta = np.zeros((2, stages, K))
    for t in range(stages):
        good[t], bad[t], pulls[t] = state.good, state.bad, state.pulls
        ell[t], delta[t] = terms_at(tables, t, state)
        if not problem.is_binary:
            seen.append(tuple(str(state).split(",")))
        arms, came = decide(t, state)
        pairs = list(zip(arms, came, strict=bool(came)))
        favourable.append(tuple(is_favourable(problem, state, *pair) for pair in pairs))
        for arm, outcome in pairs:
            state = observed(problem, state, arm, outcome)
        pulled.append(arms)
        outcomes.append(came)
    prices = np.array(solution.prices[:stages])
    for array in (prices, good, bad, pulls, ell, delta):
        array.flags.writeable = False
    return Episode(
        problem,
        policy,
        solution.upper_bound,
        prices,
        tuple(pulled),
        tuple(outcomes),
        good,
        bad,
        ell,
        delta,
        truth,
        seed,
        pulls,
        tuple(favourable),
        tuple(seen),
    )
