"""Problems with other priors, to see how much a design depends on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt

from ..problem import Arm, Beta, Categorical, Gamma, Normal, Prior, Problem

SCALES = {"half the effective sample sizes": 0.5, "twice the effective sample sizes": 2.0}


def prior_variants(problem: Problem) -> dict[str, Problem]:
    """The same problem with uniform priors, and with weaker and stronger ones of the same means.

    Of measurements and counts there are only the latter two.

    Variants that are equal to the problem are left out.

    Parameters
    ----------
    problem : Problem
        As it is planned.

    Returns
    -------
    dict
        Problems by what is different in them.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.designs.prior_variants import prior_variants
    >>> list(prior_variants(Problem.uniform(arms=2, horizon=5)))
    ['half the effective sample sizes', 'twice the effective sample sizes']
    """

    def made(prior: Callable[[Arm], Prior]) -> Problem:
        fields = {name: getattr(problem, name) for name in Problem.model_fields}
        arms = tuple(arm.model_copy(update={"prior": prior(arm)}) for arm in problem.arms)
        return Problem(**fields | {"arms": arms})

    found = {"uniform priors": made(lambda arm: _uniform(arm.prior))}
    for said, by in SCALES.items():
        found[said] = made(partial(_scaled, by=by))
    return {said: each for said, each in found.items() if each != problem}


def _uniform(prior: Prior) -> Prior:
    """Of chances; means and rates have no uniform prior, and keep theirs."""
    match prior:
        case Beta():
            return Beta(1, 1)
        case Categorical():
            return Categorical([1.0] * len(prior.counts))
    return prior


def _scaled(arm: Arm, by: float) -> Prior:
    """The same mean, worth so many times the pulls."""
    match arm.prior:
        case Beta(good=good, bad=bad):
            return Beta(good * by, bad * by)
        case Categorical(counts=counts):
            return Categorical([by * each for each in counts])
        case Gamma(shape=shape, rate=rate):
            return Gamma(shape=shape * by, rate=rate * by)
        case Normal(mean=mean, sd=sd):
            return Normal(mean=mean, sd=sd / sqrt(by))
    return arm.prior
