"""Segments: every visitor belongs to one of a few groups, whose arms have priors of their own.

Each of T visitors belongs to segment g with probability share_g, independently of all else. Arms of
different segments are independent, so the problem separates. On its own clock, which counts its
visitors only, a segment is a problem with a random horizon: visitor n comes with probability
P(N_g > n), N_g binomial (T, share_g).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from ..support import Floats, InvalidArgument, look_alike_keys, refuse, shown
from .arms import Arm
from .fields import FirstError, Frozen, Name, at_most, fraction, plain_init
from .horizon import RandomHorizon

MAX_SEGMENTS = 100
NEGLIGIBLE_VISIT = 1e-15  # probability of visitors that a segment's own clock leaves out
SHARE_ERROR = 1e-9  # that the sum of the shares may differ from 1 by


class Segment(Frozen):
    """A part of the visitors, known when an arm is chosen: a country, a device, a stratum.

    Examples
    --------
    >>> from decobandit import Arm, BetaBernoulli, Problem, Segment
    >>> new = Arm(name="new", priors={"US": BetaBernoulli(2, 5)})
    >>> segments = (Segment("EU", 0.6), Segment("US", 0.4))
    >>> problem = Problem(arms=[Arm(name="old"), new], horizon=50, segments=segments)
    >>> problem.segment("US").arms[1].prior
    BetaBernoulli(good=2.0, bad=5.0)
    """

    name: Name = Field(description="Printable, no blank at either end; unique.")
    share: Annotated[float, fraction("must be above 0 and at most 1", 5e-324, 1.0)] = Field(
        description="Probability that a visitor belongs to it."
    )

    @plain_init
    def __init__(self, name: str, share: float) -> None:
        super().__init__(name=name, share=share)


Segments = Annotated[
    tuple[Segment, ...],
    FirstError(),
    at_most(MAX_SEGMENTS),
    Field(description="Parts of the visitors, with priors of their own; none by default."),
]


def check_segments(segments: Sequence[Segment], arms: Sequence[Arm]) -> None:
    """Refuse segments that are no partition, and arms that need another clock than their own."""
    names: dict[str, str] = {}
    for position, segment in enumerate(segments):
        keys = look_alike_keys(segment.name)
        if any(key in names for key in keys):
            rule = "must differ from the names of all other segments in more than case or blanks"
            refuse(rule, found=segment.name, at=("segments", position, "name"))
        names.update(dict.fromkeys(keys, segment.name))
    total = sum(segment.share for segment in segments)
    if segments and abs(total - 1.0) > SHARE_ERROR:
        refuse("must be 1: the sum of the shares", found=total, at=("segments",))
    for position, arm in enumerate(arms):
        for name in arm.priors or ():
            if name not in names.values():
                rule = f"must be for segments of the problem: {', '.join(names.values()) or 'none'}"
                refuse(rule, found=name, at=("arms", position, "priors"))
        if segments and arm.restless:
            kind = getattr(arm.prior, "kind", None)
            rule = "must not move at rest: a segment counts its own visitors, not stages"
            refuse(rule, found=kind, at=("arms", position, "prior"))


def visit_probabilities(horizon: int | RandomHorizon, share: float) -> Floats:
    """Return the law of the number of visitors of a segment, (T + 1,)."""
    if isinstance(horizon, int):
        from scipy.stats import binom  # late: scipy takes half a second to load

        return np.asarray(binom.pmf(np.arange(horizon + 1), horizon, share))
    ends = -np.diff(np.concatenate([[1.0], horizon.probabilities, [0.0]]))  # P(t visitors in all)
    law, binomial = np.zeros(ends.size), np.zeros(ends.size)
    binomial[0] = 1.0
    for probability in ends:
        law += probability * binomial
        binomial[1:] = (1.0 - share) * binomial[1:] + share * binomial[:-1]
        binomial[0] *= 1.0 - share
    return law


def clock_of(horizon: int | RandomHorizon, share: float) -> int | RandomHorizon:
    """Return the horizon of a segment on its own clock."""
    if share == 1.0:
        return horizon
    law = visit_probabilities(horizon, share)
    survival = np.minimum(np.cumsum(law[::-1])[::-1][1:], 1.0)  # P(N > n)
    number = max(int(np.sum(survival > NEGLIGIBLE_VISIT)), 1)
    return RandomHorizon(survival=tuple(survival[:number].tolist()))


def arms_in_segment(arms: Sequence[Arm], name: str) -> tuple[Arm, ...]:
    """Return the arms with their priors in a segment."""
    priors = [arm.prior if arm.priors is None else arm.priors.get(name, arm.prior) for arm in arms]
    return tuple(
        arm.model_copy(update={"prior": prior, "priors": None})
        for arm, prior in zip(arms, priors, strict=True)
    )


def segment_named(segments: Sequence[Segment], name: str) -> Segment:
    """Return the segment of this name."""
    for segment in segments:
        if segment.name == name:
            return segment
    names = ", ".join(segment.name for segment in segments)
    reason = f"must be one of {names}" if names else "the problem has no segments"
    raise InvalidArgument(f"segment: {shown(name)} is not allowed; {reason}", field="segment")
