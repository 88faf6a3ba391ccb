"""A random horizon: how many stages are played is not known in advance.

If the number of stages N does not depend on outcomes, E sum_{t<N} r_t = sum_t P(N > t) E r_t: the
same problem with the rewards of stage t weighted by P(N > t), the probability that it is played.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from ..support import InvalidArgument, refuse, shown
from .fields import (
    MAX_HORIZON,
    FirstError,
    Frozen,
    InvalidProblem,
    Number,
    PositiveNumber,
    StageCount,
    at_most,
)

NEGLIGIBLE = 1e-9  # probability of stages that laws without a largest number leave out
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
        if self.law is None:
            self._check_survival(np.array(self.survival))
        if self.stages > MAX_HORIZON:
            refuse(f"must give at most {MAX_HORIZON} stages", found=self.mean, at=("mean",))
        return self

    def _check_survival(self, survival: NDArray[np.float64]) -> None:
        if not survival.size:
            refuse("must have one probability per stage", found=[], at=("survival",))
        wrong = (survival <= 0.0) | (survival > 1.0)
        wrong[1:] |= np.diff(survival) > 0.0
        if wrong.any():
            at = int(np.argmax(wrong))
            rule = "must be a positive probability, at most that of the stage before"
            refuse(rule, found=float(survival[at]), at=("survival", at))

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
        return tuple(self._with_tail().tolist())

    def _with_tail(self) -> NDArray[np.float64]:
        from scipy.stats import geom, poisson  # late: scipy takes half a second to load

        assert self.mean is not None
        law = geom(1.0 / self.mean) if self.law == "geometric" else poisson(self.mean)
        last = int(law.isf(NEGLIGIBLE)) + 1
        number = min(last if self.most is None else self.most, MAX_HORIZON + 1)
        survival = np.asarray(law.sf(np.arange(number)))
        return survival[survival > 0.0]

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


class _HorizonOrLaw:
    """Annotation of a type: a number of stages, or a table of a random number."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        number, law = handler.generate_schema(StageCount), handler.generate_schema(RandomHorizon)

        def check(value: object, stages: Any) -> object:
            if isinstance(value, RandomHorizon):
                return value
            return (
                RandomHorizon.model_validate(value) if isinstance(value, Mapping) else stages(value)
            )

        union = core_schema.union_schema([number, law])
        return core_schema.no_info_wrap_validator_function(check, number, metadata={"union": union})

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(core["metadata"]["union"])


HorizonOrLaw = Annotated[
    int | RandomHorizon,
    _HorizonOrLaw(),
    Field(description="Number of stages, or the law of a random number of them."),
]
