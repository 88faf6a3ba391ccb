"""The optimality gap of a policy, stage by stage: Theorems 1 and 2.

For any admissible policy and any prices mu, with index I_t^a of each arm alone at these prices,

    upper bound - value = E sum_t [ sum over pulled arms of (mu_t - I_t^a)^+     shortfall
                                  + sum over the others of (I_t^a - mu_t)^+ ]    congestion

which is Theorem 1 with its terms sorted by sign: a pulled arm is not worth the price, or an arm
that is worth it is not pulled. For DeCo, which pulls the largest index, the first happens only
where no arm is worth the price, the second where several are: Theorem 2.

Exact where the states that the policy reaches can be enumerated: the terms only need the
distribution of each arm's own state, and of the states in which it is pulled. Simulated otherwise.
"""

from __future__ import annotations

import numpy as np

from ..evaluation import Occupied, evaluate
from ..policies import DEFAULT_POLICY, Context, Policy, check_subject, make_policies
from ..prices import DualSolution
from ..problem import DEFAULT_TIES, Problem, TieRule, tie_rule
from ..simulation import (
    Estimate,
    GapTerms,
    World,
    check_draws,
    check_sizes,
    estimate,
    play,
    term_errors,
)
from ..support import Floats, Report, Rng, TooLarge, obeys_workers, seed_of, tells_progress
from .gap_record import Gap, StageGap, gap_of

EXACT_STATES = 2_000_000
ASKED_STATES = 4_000  # if the policy has to be called in each, a millisecond or more


@obeys_workers
@tells_progress
def gap(
    problem: Problem,
    policy: Policy | str = DEFAULT_POLICY,
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    method: str | None = None,
    draws: int = 1000,
    per_draw: int = 10,
    rng: Rng = 1,
    workers: int | None = None,
    progress: Report | None = None,
) -> Gap:
    """The gap between a policy and the bound of a solution, stage by stage.

    Parameters
    ----------
    problem, policy, tol, ties
        As in `evaluate`.
    solution : DualSolution, optional
        Any prices are valid; the dual is solved here by default, to `tol`.
    method : {"exact", "simulated"}, optional
        By default exact where that is possible.
    draws, per_draw, rng, workers
        As in `simulate`, where the gap is simulated.
    progress : callable, optional
        Told how far a simulation is.

    Returns
    -------
    Gap

    Raises
    ------
    TooLarge
        If `method="exact"` and the policy reaches too many states.
    ValueError, TypeError
        As `evaluate`.

    Examples
    --------
    >>> from decobandit import Problem, gap
    >>> found = gap(Problem.uniform(arms=2, horizon=4), "greedy")
    >>> abs(found.gap - found.shortfall - found.congestion) < 1e-9
    True
    """
    problem = check_subject(problem, policy)
    check_method(method)
    seed = seed_of(rng)
    check_sizes(draws, per_draw)
    context = Context(problem, tol=tol, ties=tie_rule(ties), given=solution)
    (policy,) = make_policies(context, [policy])
    solution = context.solution
    losses = GapTerms(problem, solution.prices)
    if method != "simulated":
        try:
            return _exact(policy, losses, progress)
        except TooLarge:
            if method == "exact":
                raise
        except ValueError:  # infinitely many states, or arms drawn with unknown probabilities
            if method == "exact" or not (policy.draws_arms or not losses.exact):
                raise
    world = World(problem, draws=draws, per_draw=per_draw, seed=seed)
    return _simulated(policy, losses, world, workers, progress)


def check_method(method: str | None) -> None:
    """Refuse a method that there is not."""
    if method not in (None, "exact", "simulated"):
        raise ValueError(f"method: {method!r} is not allowed; must be exact or simulated")


def _exact(policy: Policy, losses: GapTerms, progress: Report | None) -> Gap:
    problem = policy.problem
    arms, stages = np.zeros((problem.n_arms, 2)), dict[int, StageGap]()

    def watch(t: int, occupied: list[Occupied]) -> None:
        if t == 0:  # started again, because merged arms had to be separated
            arms[:] = 0.0
        now = np.zeros(2)
        for own in occupied:
            terms = _terms(losses.net(t, own.group, own.stats), own.masses)
            arms[own.members] += terms / len(own.members)
            now += terms
        stages[t] = StageGap(t, *now.tolist())

    single = problem.is_binary and not problem.repeat
    limit = ASKED_STATES if single and not policy.has_table else EXACT_STATES
    found = evaluate(problem, policy, limit_states=limit, progress=progress, watch=watch)
    ordered = tuple(stages[t] for t in range(problem.stages))
    exact = Estimate(found.value, 0.0)
    return gap_of(found.policy, losses.value(), exact, ordered, by_arm=arms)


def _terms(net: Floats, masses: Floats) -> Floats:
    """Shortfall, what too many units cost, and congestion, what too few cost; (2,).

    net (states, units + 1): worth of units less their price; masses: arms that are given them.
    """
    units = masses.shape[1]
    lost = masses * (net.max(axis=1, keepdims=True) - net[:, :units])
    too_many = np.arange(units) > net.argmax(axis=1)[:, None]
    return np.array([lost[too_many].sum(), lost[~too_many].sum()])


def _simulated(
    policy: Policy, gap: GapTerms, world: World, workers: int | None, progress: Report | None
) -> Gap:
    """On a grid the terms add up to the gap but for what the grid adds to the bound."""
    check_draws(world.draws)
    turns = [(policy, world.problem.horizon)]
    played = play(turns, world, gap, workers, progress, by_stage=True)
    assert played.gap_terms is not None
    sums = played.gap_terms.sum(axis=0)  # (stages, 2, 2)
    errors = term_errors(sums[..., 0], sums[..., 1], world.draws)
    estimates = estimate(played.sample(world, gap))
    # the estimate that the terms add up to; `simulate` has more accurate ones
    value = estimates.by_method["gap"] if gap.exact else estimates.best
    stages = [
        StageGap(t, *(sums[t, :, 0] / world.draws).tolist(), *errors[t].tolist())
        for t in range(len(sums))
    ]
    settings = {"draws": world.draws, "per_draw": world.per_draw, "seed": world.seed}
    return gap_of(policy.name, gap.value(), value, stages, settings=settings)
