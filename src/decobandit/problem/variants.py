"""Problems made from a problem: learnt priors, a later stage, fewer stages; true parameters.

Earlier outcomes by segment are shrunk towards all of them: empirical Bayes for one arm.
The means of an arm in the segments are taken to be draws from one common prior, worth kappa
outcomes; kappa maximises the marginal likelihood of the outcomes of all segments. With n_r outcomes
in segment r,

    e_r  = kappa n_r / (kappa + n_r)                         their worth for the common mean
    E_s  = sum of e_r over the segments r other than s
    w_sr = kappa / (kappa + E_s) * kappa / (kappa + n_r)     weight of an outcome of r for s

and the prior of segment s is its prior before, updated by its own outcomes and by those of each
other segment r with weight w_sr: by kappa E_s / (kappa + E_s) outcomes of the others in all. Where
segments do not differ, kappa is infinite and all outcomes count in full; where they differ by much,
kappa is small and only its own count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from ..support import Floats, Ints, InvalidArgument, shown
from .arms import Arm, Prior, Reward, model_of
from .fields import MAX_HORIZON
from .model import Problem, check_problem
from .models.base import Stats
from .models.categorical import DirichletCategorical
from .models.markov import MarkovArm
from .states import State, States

MIN_STRENGTH = 1e-3  # outcomes
MAX_STRENGTH = 100.0  # times all outcomes: beyond, segments do not differ
BASE_PULLS = 0.01  # outcomes that the arm's prior is worth in the common mean


def shrunk_stats(arm: Arm, stats: Floats) -> Floats:
    """Return the outcomes that count for each segment, (segments, width), as `stats`."""
    pulls = np.asarray(model_of(arm).pulls(stats), dtype=float)
    kappa = common_strength(arm, stats)
    if math.isinf(kappa):
        return np.broadcast_to(stats.sum(axis=0), stats.shape)
    worth = kappa * pulls / (kappa + pulls)
    weights = kappa / (kappa + worth.sum() - worth)[:, None] * (kappa / (kappa + pulls))
    np.fill_diagonal(weights, 1.0)
    return np.asarray(weights @ stats)


def common_strength(arm: Arm, stats: Floats) -> float:
    """Return kappa, the outcomes that the common prior is worth; infinite if nothing differs.

    `stats`: statistics of the arm by segment, (segments, width). It cannot be told from fewer than
    two segments with outcomes, and is infinite there.
    """
    from scipy.optimize import minimize_scalar  # late: scipy takes half a second to load

    pulls = np.asarray(model_of(arm).pulls(stats), dtype=float)
    stats, pulls = stats[pulls > 0.0], pulls[pulls > 0.0]
    if len(pulls) < 2:
        return math.inf
    points = np.linspace(math.log(MIN_STRENGTH), math.log(MAX_STRENGTH * pulls.sum()), 100)

    def loss(log_kappa: float) -> float:
        return -log_likelihood(arm, stats, pulls, math.exp(log_kappa))

    best = int(np.argmin([loss(point) for point in points]))
    if best == len(points) - 1:
        return math.inf
    around = (points[max(best - 1, 0)], points[best + 1])
    return math.exp(minimize_scalar(loss, bounds=around, method="bounded").x)


def log_likelihood(arm: Arm, stats: Floats, pulls: Floats, kappa: float) -> float:
    """Return the log marginal likelihood of the segments' outcomes, up to a constant.

    The common prior is worth `kappa` outcomes; its mean is that of all outcomes, those of segment r
    weighted by e_r / n_r.
    """
    base = arm.prior.weighted(BASE_PULLS / (model_of(arm).prior_pulls or 1.0))
    common = arm.model_copy(update={"prior": base})
    prior = model_of(common).posterior(kappa / (kappa + pulls) @ stats)
    common = arm.model_copy(update={"prior": prior})
    strength = kappa / (model_of(common).prior_pulls or 1.0)
    common = arm.model_copy(update={"prior": prior.weighted(strength)})
    return float(np.sum(model_of(common).log_evidence(stats)))


MIN_BUDGET = 1e-9  # of what is left of a problem


def with_history(
    problem: Problem, history: State | Mapping[str, State], *, discount: float = 1.0
) -> Problem:
    """Return the problem with priors updated by earlier, discounted outcomes.

    An outcome counts as `discount` of one of the problem's own: a power prior. Its effective sample
    size is that of the prior before, plus `discount` times the earlier pulls. In a problem with
    segments, outcomes of other segments count, too, less so the more the segments differ
    (the formula is at the top of `problem/variants.py`).

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
        stats = np.stack([state.stats[k] for state in states])
        if not stats.any():
            arms.append(arm)
            continue
        try:
            rows = shrunk_stats(arm, stats) if names else stats
            pairs = zip(parts, float(discount) * rows, strict=True)
            priors = [model_of(part.arms[k]).posterior(row) for part, row in pairs]
        except ValueError as error:
            raise InvalidArgument(f"{arm.name}: {error}") from None
        changes: dict[str, Any] = {"prior": priors[0]}
        if names:
            changes = {"priors": dict(zip(names, priors, strict=True))}
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
        for arm, stats in zip(problem.arms, state.stats, strict=True)
    )
    law = problem.random_horizon
    horizon = problem.horizon - stage if law is None else law.part(slice(stage, None))
    left: dict[str, object] = {"arms": arms, "horizon": horizon}
    if problem.resources is not None:
        later = slice(stage, None)
        left["resources"] = {name: _at(x, later) for name, x in problem.resources.items()}
    if problem.budget is not None:
        if money is None:
            money = float(States.of(problem, [state]).left[0])
        left["budget"] = max(money, MIN_BUDGET)
    return problem.model_copy(update=left)


def _with_rewards(arm: Arm, stages: slice | Ints, horizon: int) -> Arm:
    """Return the arm with the rewards and windows of some stages."""
    reward, windows = arm.reward, arm.available
    fields = {name: getattr(reward, name) for name in reward.keys}
    fields |= {name: _at(fields[name], stages) for name in reward.per_stage}
    if windows is not None:
        inside = arm.is_available(horizon)[stages].astype(int)
        edges = np.flatnonzero(np.diff(inside, prepend=0, append=0))
        windows = tuple((int(first), int(end)) for first, end in edges.reshape(-1, 2))
    own = {"reward": Reward(**fields), "available": windows, "cost": _at(arm.cost, stages)}
    return arm.model_copy(update=own)


def _at(value: Any, stages: slice | Ints) -> Any:
    """Return the numbers of some stages, or the one number of all."""
    return tuple(np.array(value)[stages].tolist()) if isinstance(value, tuple) else value


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


# -- the truth of a simulation or scenario -------------------------------------------------------

Truth = tuple[float, ...]  # (arms,)
KindTruth = tuple[Stats, ...]  # (arms,) parameters, as the model of each arm has them
Given = Sequence[float | Sequence[float] | str]  # as user input has the truth of all arms


def check_kind_truth(truth: Given, problem: Problem) -> KindTruth:
    """Return the checked true parameters of all arms, as the model of each has them."""
    if isinstance(truth, str) or not isinstance(truth, Iterable):
        raise InvalidArgument(
            f"truth: {shown(truth)} is not allowed; must be a list, one per arm", field="truth"
        )
    values = list(truth)
    if len(values) != problem.n_arms:
        raise InvalidArgument(
            f"truth: {len(values)} given; must be {problem.n_arms}, one per arm", field="truth"
        )
    parameters = []
    for arm, group, value in zip(problem.arms, problem.arm_groups, values, strict=True):
        try:
            parameters.append(group.model.format.read_truth(value))
        except ValueError as error:
            raise InvalidArgument(f"truth of {arm.name}: {error}", field="truth") from None
    return tuple(parameters)


def truth_of(truth: Given, problem: Problem) -> Any:
    """Return success probabilities (arms,) of a binary problem, or the parameters of all arms."""
    parameters = check_kind_truth(truth, problem)
    return tuple(p for (p,) in parameters) if problem.is_binary else parameters


def plain_truth(truth: KindTruth) -> list[float | list[float] | None]:
    """Return the truth as files have it: numbers, probabilities of classes, None of Markov arms."""
    return [one[0] if len(one) == 1 else list(one) or None for one in truth]


def truth_text(parameters: float | Sequence[float] | str | None) -> str:
    """Return the truth of one arm as `--truth` reads it."""
    if parameters is None or isinstance(parameters, str):
        return "-"
    numbers = parameters if isinstance(parameters, Sequence) else [parameters]
    return "+".join(f"{p:g}" for p in numbers)


def described_truth(problem: Problem, truth: Given) -> list[str]:
    """Describe the truth of every arm: several parameters with their mean."""
    parameters = check_kind_truth(truth, problem)
    texts = [truth_text(one) for one in plain_truth(parameters)]
    means = true_means(problem, parameters)
    if means is None:
        return texts
    arms = zip(texts, means, parameters, strict=True)
    return [f"{text}, mean {mean:.4g}" if len(p) > 1 else text for text, mean, p in arms]


def true_means(problem: Problem, truth: KindTruth) -> list[float] | None:
    """Return the expected outcome of every arm; None for Markov arms."""
    if not all(truth):
        return None
    pairs = zip(problem.arm_groups, truth, strict=True)
    return [float(group.model.mean_at(np.array(parameters))) for group, parameters in pairs]


def true_problem(
    problem: Problem, truth_prior: Prior | Sequence[Prior] | None, true_horizon: int | None
) -> Problem:
    """Return the true problem, whose priors or horizon differ from what policies believe."""
    horizon = problem.horizon if true_horizon is None else true_horizon
    if not 1 <= horizon <= MAX_HORIZON:
        raise InvalidArgument(
            f"true_horizon: {horizon} is not allowed; must be 1 to {MAX_HORIZON}",
            field="true_horizon",
        )
    if horizon != problem.horizon:
        _refuse_other_horizon(problem)
    stages = {} if true_horizon is None else {"horizon": horizon}
    if truth_prior is None:
        return problem.model_copy(update=stages)
    one = not isinstance(truth_prior, Sequence)
    priors: list[Any] = [truth_prior] * problem.n_arms if one else list(truth_prior)
    if len(priors) != problem.n_arms:
        raise InvalidArgument(
            f"truth_prior: {len(priors)} given; must be one, or one per arm", field="truth_prior"
        )
    arms = []
    for arm, prior in zip(problem.arms, priors, strict=True):
        if not _same_outcomes(arm.prior, prior):
            raise InvalidArgument(
                f"truth_prior: {prior} is not allowed; must be a prior as arm {arm.name!r} has, "
                f"{arm.prior}, with other numbers",
                field="truth_prior",
            )
        arms.append(arm.model_copy(update={"prior": prior}))
    return problem.model_copy(update={"arms": tuple(arms)} | stages)


def _same_outcomes(prior: Prior, other: Prior) -> bool:
    """Whether two priors are of the same outcomes, and of parameters that can differ."""
    if isinstance(prior, DirichletCategorical) and isinstance(other, DirichletCategorical):
        return len(prior.counts) == len(other.counts)
    return type(prior) is type(other) and not isinstance(prior, MarkovArm)


def _refuse_other_horizon(problem: Problem) -> None:
    listed = any(
        isinstance(reward, tuple)
        for arm in problem.arms
        for reward in (getattr(arm.reward, name) for name in arm.reward.per_stage)
    )
    last = problem.terminal is not None or any(arm.terminal is not None for arm in problem.arms)
    if listed or last:
        what = "rewards listed stage by stage" if listed else "a last reward after the horizon"
        raise InvalidArgument(
            f"true_horizon: the problem has {what}; what happens at another horizon is known only "
            "for constant rewards without a last one",
            field="true_horizon",
        )
