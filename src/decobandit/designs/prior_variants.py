"""Problems with other priors, to see how much a design depends on them."""

from __future__ import annotations

from ..problem import Arm, Beta, Problem

SCALES = {"half the effective sample sizes": 0.5, "twice the effective sample sizes": 2.0}


def prior_variants(problem: Problem) -> dict[str, Problem]:
    """The same problem with uniform priors, and with weaker and stronger ones of the same means.

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

    def scaled(arm: Arm, by: float) -> Arm:
        prior = Beta(arm.beta.good * by, arm.beta.bad * by)
        return arm.model_copy(update={"prior": prior})

    def made(arms: tuple[Arm, ...]) -> Problem:
        fields = {name: getattr(problem, name) for name in Problem.model_fields}
        return Problem(**fields | {"arms": arms})

    uniform = tuple(arm.model_copy(update={"prior": Beta(1, 1)}) for arm in problem.arms)
    found = {"uniform priors": made(uniform)}
    for said, by in SCALES.items():
        found[said] = made(tuple(scaled(arm, by) for arm in problem.arms))
    return {said: each for said, each in found.items() if each != problem}
