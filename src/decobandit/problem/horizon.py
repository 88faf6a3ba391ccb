"""A random horizon; segments of visitors, each with a random horizon of its own.

If the number of stages N does not depend on outcomes, E sum_{t<N} r_t = sum_t P(N > t) E r_t: the
same problem with the rewards of stage t weighted by P(N > t), the probability that it is played.

Each of T visitors belongs to segment g with probability share_g, independently of all else. Arms of
different segments are independent, so the problem separates. On its own clock, which counts its
visitors only, a segment is a problem with a random horizon: visitor n comes with probability
P(N_g > n), N_g binomial (T, share_g).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from ..support import Floats, InvalidArgument, look_alike_keys, refuse, shown
from .arms import Arm
from .fields import (
    MAX_HORIZON,
    STAGE_COUNT,
    CheckedAs,
    FirstError,
    Frozen,
    InvalidProblem,
    Name,
    Number,
    PositiveNumber,
    StageCount,
    at_most,
    fraction,
    plain_init,
)

NEGLIGIBLE = 1e-9  # probability of stages that laws without a largest number leave out
MAX_SEGMENTS = 100
NEGLIGIBLE_VISIT = 1e-15  # probability of visitors that a segment's own clock leaves out
SHARE_ERROR = 1e-9  # that the sum of the shares may differ from 1 by
_KEYS = {  # of each law: needed, may be left out
    None: (("survival",), ()),
    "geometric": (("mean",), ("most",)),
    "poisson": (("mean",), ("most",)),
    "uniform": (("least", "most"), ()),
}


class RandomHorizon(Frozen):
    """Distribution of a random number of stages, independent of all outcomes.

    Examples
    --------
    >>> from decobandit import Problem, RandomHorizon, solve
    >>> law = RandomHorizon(law="geometric", mean=50, most=400)
    >>> round(law.probabilities[1], 6), law.stages
    (0.98, 400)
    >>> Problem.uniform(arms=3, horizon=law).horizon
    400
    """

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    survival: Annotated[tuple[Number, ...], FirstError(), at_most(MAX_HORIZON)] | None = Field(
        default=None,
        description="Probability that each stage is played: positive, not increasing.",
    )
    law: Literal["geometric", "poisson", "uniform"] | None = Field(
        default=None,
        description="In place of survival. geometric: after every stage the trial ends with the "
        "same probability. uniform: every number from least to most is equally likely.",
    )
    mean: PositiveNumber | None = Field(
        default=None, description="Expected number of stages, before any cut at most."
    )
    least: StageCount | None = Field(default=None, description="Smallest number of stages.")
    most: StageCount | None = Field(
        default=None,
        description="Largest number of stages; by default stages that are played with a "
        "probability below 1e-9 are left out.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        needed, optional = _KEYS[self.law]
        for name in ("survival", "mean", "least", "most"):
            value = getattr(self, name)
            if value is None and name in needed:
                what = f"of the {self.law} law" if self.law else "or a law"
                refuse(f"must be there, {what}", found=None, at=(name,))
            if value is not None and name not in (*needed, *optional):
                rule = f"must be left out: the keys are {', '.join((*needed, *optional))}"
                refuse(rule, found=value, at=(name,))
        if self.law == "geometric" and self.mean is not None and self.mean < 1.0:
            refuse("must be at least 1: the first stage is played", found=self.mean, at=("mean",))
        if self.law == "uniform" and self.least > self.most:  # type: ignore[operator]
            refuse(f"must be at most {self.most}, which is `most`", found=self.least, at=("least",))
        before = 1.0
        for at, probability in enumerate(self.survival or ()):
            if not 0.0 < probability <= before:
                rule = "must be a positive probability, at most that of the stage before"
                refuse(rule, found=probability, at=("survival", at))
            before = probability
        if self.survival == ():
            refuse("must have one probability per stage", found=[], at=("survival",))
        if self.stages > MAX_HORIZON:
            refuse(f"must give at most {MAX_HORIZON} stages", found=self.mean, at=("mean",))
        return self

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a distribution from text, such as geometric:mean=50,most=400 or 1,0.9,0.8."""
        name, colon, rest = text.strip().partition(":")
        try:
            if text.strip().startswith("{"):
                return cls(**tomllib.loads(f"law = {text}")["law"])
            if not colon:
                return cls(survival=tuple(float(part) for part in text.split(",")))
            pairs = dict(part.split("=") for part in rest.split(","))
            numbers = {key.strip(): float(value) for key, value in pairs.items()}
        except InvalidProblem:
            raise
        except ValueError:
            raise InvalidArgument(
                f"horizon: {shown(text)} is not understood; give geometric:mean=50,most=400, "
                "poisson:mean=400, uniform:least=100,most=300, or the probability that each stage "
                "is played, 1,0.9,0.8",
                field="horizon",
            ) from None
        tree: dict[str, Any] = {key: int(x) if x.is_integer() else x for key, x in numbers.items()}
        return cls(**tree | {"law": name.strip()})

    def __str__(self) -> str:
        if self.survival is not None:
            return ",".join(f"{x:.15g}" for x in self.survival)
        numbers = self.model_dump(exclude={"law"})
        return f"{self.law}:" + ",".join(f"{key}={x:.15g}" for key, x in numbers.items())

    @cached_property
    def probabilities(self) -> tuple[float, ...]:
        """P(stage t is played), for every stage that may be."""
        if self.survival is not None:
            return self.survival
        if self.law == "uniform":
            assert self.least is not None
            assert self.most is not None
            left = self.most - np.arange(self.most)
            return tuple(np.minimum(left / (self.most - self.least + 1.0), 1.0).tolist())
        from scipy.stats import geom, poisson  # late: scipy takes half a second to load

        assert self.mean is not None
        law = geom(1.0 / self.mean) if self.law == "geometric" else poisson(self.mean)
        last = int(law.isf(NEGLIGIBLE)) + 1
        number = min(last if self.most is None else self.most, MAX_HORIZON + 1)
        survival = np.asarray(law.sf(np.arange(number)))
        return tuple(survival[survival > 0.0].tolist())

    @property
    def stages(self) -> int:
        """Largest number of stages."""
        return len(self.probabilities)

    def part(self, stages: slice | NDArray[np.int64]) -> RandomHorizon:
        """Return the distribution over some of the stages, given that the first is played."""
        survival = np.array(self.probabilities)[stages]
        return RandomHorizon(survival=tuple((survival / survival[0]).tolist()))

    def described(self) -> str:
        """Return the distribution in a few words."""
        if self.law is None:
            return f"random horizon up to {self.stages}"
        numbers = f"{self.least} to {self.most}" if self.law == "uniform" else f"mean {self.mean:g}"
        return f"random horizon ({self.law}, {numbers})"


def _horizon_of(value: object) -> object:
    if isinstance(value, RandomHorizon):
        return value
    is_table = isinstance(value, Mapping)
    return RandomHorizon.model_validate(value) if is_table else STAGE_COUNT.check(value)


HorizonOrLaw = Annotated[
    int | RandomHorizon,
    CheckedAs(_horizon_of, StageCount | RandomHorizon),
    Field(description="Number of stages, or the law of a random number of them."),
]


# -- segments ------------------------------------------------------------------------------------


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
            rule = "must not move at rest: a segment counts its own visitors, not stages"
            refuse(rule, found=arm.prior.kind, at=("arms", position, "prior"))


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
