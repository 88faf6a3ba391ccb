"""The kind of an arm, from its prior."""

from __future__ import annotations

from ..arm_model import Arm, Beta, Payoff
from ..priors import Categorical, Gamma, Normal
from .base import ArmModel
from .counted import Binary, Classes
from .own import Own
from .summed import Counted, Measured


def model_of(arm: Arm) -> ArmModel:
    """What can be observed of an arm, and what follows from it."""
    prior = arm.prior
    match prior:
        case Beta():
            return Binary(prior.good, prior.bad)
        case Categorical():
            assert isinstance(arm.reward, Payoff)
            assert arm.reward.values is not None
            return Classes(prior.counts, arm.reward.values)
        case Normal():
            assert arm.noise_sd is not None
            return Measured(prior.mean, prior.sd, arm.noise_sd)
        case Gamma():
            return Counted(prior.shape, prior.rate)
    return Own(prior)
