"""Bodies of requests to the API. Field descriptions are the API's documentation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ...policies import COMPARED_POLICIES, DEFAULT_POLICY
from ...problem import MAX_NAME, ProblemTable
from ...trials.limits import MAX_LIMIT
from ...trials.requests import MAX_SUBJECT, MAX_TEXT
from ..tokens import DEFAULT_DAYS, MAX_DAYS, NAME_PATTERN, Role

KEY_PATTERN = r"^[ -~]{1,100}$"
Ties = Literal["least-pulled", "most-pulled", "first", "last", "random"]


class In(BaseModel):
    """Base of request bodies: no unknown keys, no conversions."""

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
Reason = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class ProblemIn(ProblemTable):
    """A problem, as problem files hold it."""


# -- requests -----------------------------------------------------------------------------------


class CreateIn(In):
    """A new trial."""

    problem: ProblemIn = Field(description="Arms, priors, rewards and horizon.")
    name: Name | None = Field(default=None, description="Unique; by default a random one.")
    policy: str = Field(default=DEFAULT_POLICY, max_length=40, description="Name of the policy.")
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1, description="Of the draws.")
    tol: float = Field(default=1e-4, ge=1e-6, le=0.1, description="Relative gap of the prices.")
    ties: Ties = Field(default="least-pulled", description="How ties are broken.")
    max_open: int | None = Field(
        default=None, ge=1, le=MAX_LIMIT, description="Allocations that may be pending."
    )
    max_cancelled: int | None = Field(
        default=None, ge=0, le=MAX_LIMIT, description="Allocations that may be cancelled in all."
    )


class Keyed(In):
    """A request that may have a key."""

    key: Key = None


class AskIn(Keyed):
    """Who or what an allocation is for."""

    subject: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_SUBJECT,
        description="The same subject gets the same allocation, until it is cancelled.",
    )
    note: str | None = Field(
        default=None, min_length=1, max_length=MAX_TEXT, description="Kept in the log."
    )


class OutcomeIn(Keyed):
    """The outcome of an allocation."""

    outcome: Outcome = Field(description="1 is good, 0 is bad.")


class MaybeReasonIn(Keyed):
    """Why, where there is something to say."""

    reason: Reason | None = Field(default=None, description="Kept in the log.")


class ReasonIn(Keyed):
    """Why."""

    reason: Reason = Field(description="Kept in the log.")


class CorrectIn(OutcomeIn):
    """Another outcome of an allocation, and why."""

    reason: Reason = Field(description="Kept in the log.")


class LimitsIn(ReasonIn):
    """Other limits of a trial; those that are not given stay."""

    max_open: int | None = Field(
        default=None, ge=1, le=MAX_LIMIT, description="Allocations that may be pending."
    )
    max_cancelled: int | None = Field(
        default=None, ge=0, le=MAX_LIMIT, description="Allocations that may be cancelled in all."
    )


class PlanIn(In):
    """A problem and policies for a forecast."""

    problem: ProblemIn = Field(description="Arms, priors, rewards and horizon.")
    policies: list[Annotated[str, Field(max_length=40)]] = Field(
        default=list(COMPARED_POLICIES),
        max_length=8,
        description="Policies to compare with equal allocation.",
    )


class TokenIn(In):
    """A new token."""

    name: str = Field(pattern=NAME_PATTERN, description="Unique, also among revoked tokens.")
    role: Role = Field(description="What the token permits.")
    days: int = Field(
        default=DEFAULT_DAYS, ge=1, le=MAX_DAYS, description="Until the token expires."
    )
    trials: list[Name] = Field(
        default=[], max_length=100, description="Trials that the token is for; none: all."
    )
