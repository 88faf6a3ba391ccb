"""Priors from historical outcomes, which count less than new ones."""

from __future__ import annotations

from math import sqrt
from numbers import Real

from ..support import Floats, shown
from .arm_model import Arm, Beta, Prior
from .model import Problem
from .models.of_arm import model_of
from .models.summed import Measured
from .priors import Categorical, Gamma, Normal
from .problem_argument import check_problem
from .state import State


def with_history(problem: Problem, history: State, *, discount: float = 1.0) -> Problem:
    """The same problem with priors that have learnt from earlier outcomes, each of them discounted.

    An outcome counts as `discount` of one of the problem's own: a power prior. Its effective sample
    size is that of the prior before, plus `discount` times the earlier pulls.

    Parameters
    ----------
    problem : Problem
        With the priors before.
    history : State
        Earlier outcomes of every arm, as `State.parse` or `read_outcomes` give them; any number.
    discount : float
        What an earlier outcome counts, from 0 (nothing) to 1 (as much as a new one).

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If the discount is not between 0 and 1, the outcomes are not those of the problem's arms, or
        an arm has states of its own, which have no prior to be weighed.

    Examples
    --------
    >>> from decobandit import Normal, Problem, State, with_history
    >>> vague = Problem.uniform(arms=2, horizon=40, prior=Normal(0, 10), noise_sd=2)
    >>> earlier = State.parse("150/50,0/0", vague)
    >>> prior = with_history(vague, earlier, discount=0.2).arms[0].prior
    >>> round(prior.mean, 3), round(prior.sd, 3)
    (2.988, 0.631)
    """
    check_problem(problem)
    if isinstance(discount, bool) or not isinstance(discount, Real) or not 0 <= discount <= 1:
        raise ValueError(f"discount: {shown(discount)} is not allowed; must be 0 to 1")
    history.check_outcomes(problem)
    known = history.stats(problem)
    arms = [
        arm.model_copy(update={"prior": _learnt(arm, float(discount) * stats)})
        for arm, stats in zip(problem.arms, known, strict=True)
    ]
    return problem.model_copy(update={"arms": arms})


def _learnt(arm: Arm, stats: Floats) -> Prior:
    """The prior after so many outcomes, parts of outcomes included."""
    prior = arm.prior
    first, second = float(stats[0]), float(stats[1])
    match prior:
        case Beta():
            return Beta(prior.good + first, prior.bad + second)
        case Categorical():
            return Categorical([a + float(n) for a, n in zip(prior.counts, stats, strict=True)])
        case Gamma():
            return Gamma(shape=prior.shape + second, rate=prior.rate + first)
        case Normal():
            kind = model_of(arm)
            assert isinstance(kind, Measured)
            sd = kind.noise_sd / sqrt(kind.pulls_of_prior + first)
            return Normal(mean=float(kind.mean(stats)), sd=sd)
    if not stats.any():
        return prior
    raise ValueError(f"{arm.name}: an arm of own states has no prior that outcomes could change")
