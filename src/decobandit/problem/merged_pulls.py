"""Units of sums as single pulls.

The sum of a unit of measurements is a measurement, and of counts a count. Where all arms have such
outcomes nothing is lost if only the sum of every unit is seen, for the sum of all outcomes is all
that is known of an arm; and an arm has far fewer states.
"""

from __future__ import annotations

import math

from .arm_model import Arm
from .model import Problem
from .priors import Gamma, Normal


def unit_pulls(problem: Problem) -> Problem:
    """The problem whose pulls are the units of another, with the same prices; or that one itself.

    Arms have the same sums in both, and pulls divided by the unit.
    """
    unit = problem.unit
    if unit == 1 or not all(isinstance(arm.prior, Normal | Gamma) for arm in problem.arms):
        return problem
    kept = problem.terminal
    if kept is not None:  # means are those of a unit
        kept = kept.model_copy(update={"deploy": kept.deploy / unit})
    arms = tuple(_of_units(arm, unit) for arm in problem.arms)
    own = {"arms": arms, "pulls_per_stage": problem.units, "unit": 1, "terminal": kept}
    return problem.model_copy(update=own)


def _of_units(arm: Arm, unit: int) -> Arm:
    prior = arm.prior
    if isinstance(prior, Gamma):
        return arm.model_copy(update={"prior": Gamma(prior.shape, prior.rate / unit)})
    assert isinstance(prior, Normal)
    assert arm.noise_sd is not None
    own = Normal(unit * prior.mean, unit * prior.sd)
    return arm.model_copy(update={"prior": own, "noise_sd": math.sqrt(unit) * arm.noise_sd})
