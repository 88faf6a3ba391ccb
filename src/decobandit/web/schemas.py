"""What is sent to the API. Field descriptions are the API's documentation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ..planning import DEFAULT_POLICIES
from ..problem import MAX_ARMS, MAX_HORIZON, MAX_NAME
from .tokens import NAME_PATTERN, Role

KEY_PATTERN = r"^[ -~]{1,100}$"
Ties = Literal["least-pulled", "most-pulled", "first", "last", "random"]


class In(BaseModel):
    """Base of what is sent: no unknown keys, no conversions."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _whole(value: object) -> object:
    # True == 1 and 1.0 == 1 in Python, but neither is what a form sends
    if type(value) is not int:
        raise PydanticCustomError("outcome", "must be 0 or 1")
    return value


Outcome = Annotated[Literal[0, 1], BeforeValidator(_whole)]
Key = Annotated[
    str | None,
    Field(
        pattern=KEY_PATTERN,
        description="Makes the request safe to repeat: the same key gives the same answer.",
    ),
]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


# -- problems -----------------------------------------------------------------------------------


class PriorIn(In):
    """Beta prior of an arm's success probability."""

    good: float = Field(gt=0, le=1e12, description="Pseudo-count of good outcomes.")
    bad: float = Field(gt=0, le=1e12, description="Pseudo-count of bad outcomes.")


class RewardIn(In):
    """What an outcome earns: a number, or a list with one per stage."""

    good: float | list[float] = Field(default=1.0, description="Of a good outcome.")
    bad: float | list[float] = Field(default=0.0, description="Of a bad outcome.")


class ArmIn(In):
    """One arm, or `count` equal ones."""

    name: Name = Field(description="Printable, no comma, no blank at either end; unique.")
    prior: PriorIn | None = Field(default=None, description="Uniform where it is left out.")
    reward: RewardIn | None = Field(default=None, description="1 and 0 where it is left out.")
    terminal: list[list[float]] | None = Field(default=None, description="Table of last rewards.")
    count: int = Field(default=1, ge=1, le=MAX_ARMS, description="Arms name-1 to name-count.")


class DeployIn(In):
    """After the last stage one arm is kept."""

    deploy: float = Field(ge=0, le=1e12, description="How many pulls that is worth.")


class ProblemIn(In):
    """A problem, as problem files hold it."""

    horizon: int = Field(ge=1, le=MAX_HORIZON, description="Number of stages.")
    pulls_per_stage: int = Field(default=1, ge=1, le=MAX_ARMS, description="Pulls of one stage.")
    arms: list[ArmIn] = Field(min_length=1, max_length=MAX_ARMS, description="The arms.")
    terminal: DeployIn | None = Field(default=None, description="A deployment at the end.")

    def tree(self) -> dict[str, Any]:
        """What `problem_from_dict` reads; what was left out stays out."""
        return self.model_dump(exclude_none=True)


# -- requests -----------------------------------------------------------------------------------


class CreateIn(In):
    """A new trial."""

    problem: ProblemIn = Field(description="Arms, priors, rewards and horizon.")
    name: Name | None = Field(default=None, description="Unique; made up where it is left out.")
    policy: str = Field(default="deco", max_length=40, description="Name of the policy.")
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1, description="Of the draws.")
    tol: float = Field(default=1e-4, ge=1e-6, le=0.1, description="Relative gap of the prices.")
    ties: Ties = Field(default="least-pulled", description="How ties are broken.")


class KeyIn(In):
    """A request that says nothing but its key."""

    key: Key = None


class OutcomeIn(In):
    """The outcome of an allocation."""

    outcome: Outcome = Field(description="1 is good, 0 is bad.")
    key: Key = None


class PlanIn(In):
    """A trial that may be."""

    problem: ProblemIn = Field(description="Arms, priors, rewards and horizon.")
    policies: list[Annotated[str, Field(max_length=40)]] = Field(
        default=list(DEFAULT_POLICIES),
        max_length=8,
        description="Policies to compare with equal allocation.",
    )


class TokenIn(In):
    """A new token."""

    name: str = Field(pattern=NAME_PATTERN, description="Unique; revoked ones keep theirs.")
    role: Role = Field(description="What it may be used for.")
