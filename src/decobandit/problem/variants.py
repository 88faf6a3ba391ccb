"""Problems made from a problem: learnt priors, a later stage, fewer stages, units as pulls."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real

import numpy as np

from ..support import Floats, Ints, InvalidArgument, shown
from .arms import Arm, Reward, model_of
from .model import Problem
from .problem_argument import check_problem
from .shrinkage import shrunk_stats
from .state import State
from .states import States

MIN_BUDGET = 1e-9  # of what is left of a problem


def with_history(
    problem: Problem, history: State | Mapping[str, State], *, discount: float = 1.0
) -> Problem:
    """Return the problem with priors updated by earlier, discounted outcomes.

    An outcome counts as `discount` of one of the problem's own: a power prior. Its effective sample
    size is that of the prior before, plus `discount` times the earlier pulls. In a problem with
    segments, outcomes of other segments count, too, by less the more the segments differ
    (`shrinkage.py` has the formula).

    Parameters
    ----------
    problem : Problem
        Problem whose priors are updated.
    history : State or mapping of str to State
        Earlier outcomes of every arm, as `State.parse` or `read_outcomes` give them; any number. Of
        a problem with segments, by segment; those left out have none.
    discount : float
        Weight of an earlier outcome, from 0 (ignored) to 1 (as much as a new one).

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If the discount is not between 0 and 1, the outcomes are not those of the problem's arms, or
        an arm is a Markov arm, which has no prior to update.

    Examples
    --------
    >>> from decobandit import NormalNormal, Problem, State, with_history
    >>> vague = Problem.uniform(arms=2, horizon=40, prior=NormalNormal(0, 10), noise_sd=2)
    >>> earlier = State.parse("150/50,0/0", vague)
    >>> prior = with_history(vague, earlier, discount=0.2).arms[0].prior
    >>> round(prior.mean, 3), round(prior.sd, 3)
    (2.988, 0.631)

    Two segments that differ somewhat:

    >>> from decobandit import Arm, Segment
    >>> segments = (Segment("EU", 0.6), Segment("US", 0.4))
    >>> vague = Problem(arms=[Arm(name="new")], horizon=40, segments=segments)
    >>> earlier = {"EU": State.parse("30/100"), "US": State.parse("45/100")}
    >>> prior = with_history(vague, earlier).arms[0].priors["EU"]
    >>> round(prior.good, 2), round(prior.bad, 2)
    (42.73, 85.33)
    """
    check_problem(problem, segments=True)
    if isinstance(discount, bool) or not isinstance(discount, Real) or not 0 <= discount <= 1:
        raise InvalidArgument(
            f"discount: {shown(discount)} is not allowed; must be 0 to 1", field="discount"
        )
    if bool(problem.segments) != isinstance(history, Mapping):
        form = "a state for each segment by name" if problem.segments else "one state"
        raise InvalidArgument(f"history: must be {form}", field="history")
    if isinstance(history, Mapping):
        for name in history:
            problem.segment(name)  # refuses unknown ones
        names = [segment.name for segment in problem.segments]
        parts = [problem.segment(name) for name in names]
        states = [history.get(name) or State.before(parts[0]) for name in names]
    else:
        names, parts, states = [], [problem], [history]
    for part, state in zip(parts, states, strict=True):
        state.check_outcomes(part)
    arms = []
    for k, arm in enumerate(problem.arms):
        stats = np.stack([state.stats(problem)[k] for state in states])
        if not stats.any():
            arms.append(arm)
            continue
        try:
            rows = shrunk_stats(arm, stats) if names else stats
            priors = [
                model_of(part.arms[k]).posterior(float(discount) * row)
                for part, row in zip(parts, rows, strict=True)
            ]
        except ValueError as error:
            raise InvalidArgument(f"{arm.name}: {error}") from None
        changes = (
            {"priors": dict(zip(names, priors, strict=True))} if names else {"prior": priors[0]}
        )
        arms.append(arm.model_copy(update=changes))
    return problem.model_copy(update={"arms": arms})


def remaining_problem(
    problem: Problem, stage: int, state: State, money: float | None = None
) -> Problem:
    """Return the problem that remains from this stage and state on.

    `money`: left of a budget; None where it follows from the pulls.
    """

    def reached(arm: Arm, stats: Floats) -> tuple[tuple[float, ...], ...] | None:
        if arm.terminal is None:
            return None
        good, pulls = int(stats[0]), int(stats.sum())
        left = problem.most_pulls * (problem.horizon - stage) // problem.horizon
        return tuple(arm.terminal[pulls + n][good : good + n + 1] for n in range(left + 1))

    arms = tuple(
        _with_rewards(arm, slice(stage, None), problem.horizon).model_copy(
            update={"prior": model_of(arm).posterior(stats), "terminal": reached(arm, stats)}
        )
        for arm, stats in zip(problem.arms, state.stats(problem), strict=True)
    )
    law = problem.random_horizon
    horizon = problem.horizon - stage if law is None else law.part(slice(stage, None))
    left: dict[str, object] = {"arms": arms, "horizon": horizon}
    if problem.resources is not None:
        left["resources"] = {
            name: amount[stage:] if isinstance(amount, tuple) else amount
            for name, amount in problem.resources.items()
        }
    if problem.budget is not None:
        if money is None:
            money = float(States.of(problem, [state]).left[0])
        left["budget"] = max(money, MIN_BUDGET)
    return problem.model_copy(update=left)


def _with_rewards(arm: Arm, stages: slice | Ints, horizon: int) -> Arm:
    """Return the arm with the rewards and windows of some stages."""
    reward = arm.reward
    fields = {name: getattr(reward, name) for name in reward.keys}
    for name in reward.per_stage:
        if isinstance(fields[name], tuple):
            fields[name] = tuple(np.array(fields[name])[stages].tolist())
    windows = arm.available
    if windows is not None:
        inside = arm.is_available(horizon)[stages].astype(int)
        edges = np.flatnonzero(np.diff(inside, prepend=0, append=0))
        windows = tuple((int(first), int(end)) for first, end in edges.reshape(-1, 2))
    cost = arm.cost
    if isinstance(cost, tuple):
        cost = tuple(np.array(cost)[stages].tolist())
    own = {"reward": Reward(**fields), "available": windows, "cost": cost}
    return arm.model_copy(update=own)


def stages_kept(horizon: int, number: int) -> Ints:
    """Return some stages of a horizon, evenly spaced."""
    return np.floor((np.arange(number) + 0.5) * horizon / number).astype(np.int64)


def thinned(problem: Problem, number: int) -> Problem:
    """Return a problem with fewer stages and the deployment, without tables of last rewards."""
    stages = stages_kept(problem.horizon, number)
    arms = [
        _with_rewards(arm, stages, problem.horizon).model_copy(update={"terminal": None})
        for arm in problem.arms
    ]
    law = problem.random_horizon
    horizon = number if law is None else law.part(stages)
    return problem.model_copy(update={"horizon": horizon, "arms": arms})
