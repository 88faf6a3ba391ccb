"""Bodies of requests to the API. Field descriptions are the API's documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import core_schema

from ...policies import COMPARED_POLICIES, DEFAULT_POLICY
from ...problem import MAX_NAME, DesignedTable, ProblemTable
from ...problem.fields import FirstError, at_most, line_pattern
from ...problem.model import ArmList
from ...problem.problem_files import ArmEntry
from ...support import refuse_many_keys, without_defaults
from ...trials.events import MAX_SUBJECT, MAX_TEXT
from ...trials.recording import MAX_COUNT
from ...trials.settings import MAX_ARMS, MAX_LIMIT
from ..errors import ApiError
from ..limits import MAX_SENT_ARMS
from ..tokens import DEFAULT_DAYS, MAX_DAYS, NAME_PATTERN, Role

MAX_ROWS = 100_000  # of one request
MAX_NUMBER = 2**53  # of a count that is an outcome
MAX_TALLY = 10_000  # characters
MAX_SEED = 2**63 - 1024  # a double, as the numbers of the document are
KEY_PATTERN = r"^[ -~]{1,100}$"
Ties = Annotated[
    Literal["least-pulled", "most-pulled", "first", "last", "random"],
    Field(description="How ties are broken."),
]


class In(BaseModel):
    """Base of request bodies: no unknown keys, no conversions."""

    model_config = ConfigDict(strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_many_keys(cls, tree: Any) -> Any:
        refuse_many_keys(tree, cls)
        return tree

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core)
        without_defaults(handler.resolve_ref_schema(schema).get("properties", {}))
        return schema


@dataclass(frozen=True)
class OneOf:
    """Error of a union: the one rule to report if none of its types fits."""

    rule: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return {**handler(source), "custom_error_type": "one_of", "custom_error_message": self.rule}


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
# what it may be depends on the arm: the trial checks it
Outcome = Annotated[
    bool
    | Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    | Annotated[float, Field(allow_inf_nan=False)]
    | Name,
    OneOf(f"must be a number, true, false, or text of 1 to {MAX_NAME} characters"),
]
Key = Annotated[
    str | None,
    Field(
        pattern=KEY_PATTERN,
        description="Makes the request safe to repeat: the same key gives the same answer.",
    ),
]
# the trial checks these, and says what is wrong in its own words
_LINE = {"pattern": line_pattern()}
_TRIAL_NAME = {"pattern": line_pattern("/", before=r"(?!-|\.{1,2}$|[0-9a-f]{16}$)")}
Reason = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, json_schema_extra=_LINE)]
Subject = Annotated[str, Field(min_length=1, max_length=MAX_SUBJECT, json_schema_extra=_LINE)]
TrialName = Annotated[str, Field(min_length=1, max_length=MAX_NAME, json_schema_extra=_TRIAL_NAME)]


MaxOpen = Annotated[
    int | None, Field(ge=1, le=MAX_LIMIT, description="Allocations that may be pending.")
]
MaxCancelled = Annotated[
    int | None, Field(ge=0, le=MAX_LIMIT, description="Allocations that may be cancelled in all.")
]
Tolerance = Annotated[float, Field(ge=1e-6, le=0.1, description="Relative gap of the prices.")]
SentArms = Annotated[
    ArmList[ArmEntry],
    at_most(MAX_SENT_ARMS),
    Field(json_schema_extra={"minItems": 1, "maxItems": MAX_SENT_ARMS}),
]


class ProblemIn(ProblemTable):
    """A problem, as problem files hold it."""

    arms: SentArms


class DesignedIn(DesignedTable):
    """A problem and the design of its trial, as problem files hold them."""

    arms: SentArms


# -- requests -----------------------------------------------------------------------------------


class CreateIn(In):
    """Request for a new trial."""

    problem: DesignedIn = Field(
        description="Arms, priors, rewards and horizon; rules that the trial obeys: design."
    )
    name: TrialName | None = Field(default=None, description="Unique; by default a random one.")
    policy: str = Field(default=DEFAULT_POLICY, max_length=40, description="Name of the policy.")
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED, description="Of the draws.")
    tol: Tolerance = 1e-4
    ties: Ties = "least-pulled"
    bound: bool | None = Field(
        default=None,
        description="Whether to solve the dual for the bound alone, for a policy that is made "
        "without prices; by default where that is quick.",
    )
    max_open: MaxOpen = None
    max_cancelled: MaxCancelled = None
    design_report: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the report of the design, kept in the log.",
    )


class Keyed(In):
    """A request that may have a key."""

    key: Key = None


class AskIn(Keyed):
    """The subject of an allocation."""

    subject: Subject | None = Field(
        default=None,
        description="The same subject gets the same allocation, until it is cancelled.",
    )
    segment: Subject | None = Field(
        default=None, description="Segment of the visitor; needed where the trial has segments."
    )
    note: Reason | None = Field(default=None, description="Kept in the log.")


class FlagIn(In):
    """Context of an evaluation; other keys of the request are ignored."""

    model_config = ConfigDict(extra="ignore")

    context: dict[str, Any] = Field(
        default={},
        description="targetingKey: the subject; segment: that of the visitor, needed where the "
        "trial has segments. Other attributes are ignored.",
    )


class MaybeReasonIn(Keyed):
    """Why, where there is something to say."""

    reason: Reason | None = Field(default=None, description="Kept in the log.")


class ReasonIn(Keyed):
    """Reason for a change."""

    reason: Reason = Field(description="Kept in the log.")


class UnmaskIn(ReasonIn):
    """Why an allocation is unmasked."""

    category: Literal["planned", "emergency", "inadvertent"] = Field(
        description="Kind of unmasking, which reports count."
    )


class ReviewIn(Keyed):
    """A review of the audit trail."""

    up_to: int = Field(ge=0, description="Number of the last event that was reviewed.")
    note: Reason | None = Field(default=None, description="Kept in the log.")


class CountIn(In):
    """Outcomes of one arm."""

    good: int = Field(ge=0, le=MAX_COUNT, description="Good outcomes.")
    pulls: int = Field(ge=0, le=MAX_COUNT, description="Outcomes in all, good and bad.")


class RowIn(In):
    """The outcome of one pull."""

    arm: Name = Field(description="Name of the arm; to an operator, its code.")
    outcome: Outcome = Field(description="As of a single pull.")


Parts = Annotated[list[Outcome], FirstError(), Field(max_length=MAX_ROWS)]  # of a tally
Counts = Annotated[
    dict[
        Name,
        Annotated[
            CountIn | Annotated[str, Field(max_length=MAX_TALLY)] | Parts,
            OneOf(
                f"must be a table of good and pulls, whole numbers from 0 to {MAX_COUNT}; the text "
                "good/pulls such as 3/5, of measurements sum/pulls; or a list of these parts"
            ),
        ],
    ],
    Field(
        description="Outcomes by name of the arm (to an operator, its code): good and pulls, or "
        "the text good/pulls; of classes a count of each, 2+0+1; of measurements and counts "
        "sum/pulls; of own states the outcomes in the order of the pulls, fine+worn; of arms that "
        "move at rest the state of every arm after the stage; or these parts as a list.",
        min_length=1,
        json_schema_extra={"maxProperties": MAX_ARMS},
    ),
    at_most(MAX_ARMS),
]


Rows = Annotated[list[RowIn], FirstError(), Field(min_length=1, max_length=MAX_ROWS)]


class OutcomesIn(Keyed):
    """Outcomes of an allocation: of a single pull, or by arm as counts, or one row for each."""

    outcome: Outcome = Field(  # explicit null is refused, as every other value of no meaning
        default=cast("Any", None),
        description="Of a single pull: 1, true or good; 0, false or bad; of arms with other "
        "outcomes the number of a class, a number, a count, or a name.",
    )
    counts: Counts | None = None
    rows: Rows | None = Field(default=None, description="Instead of counts.")
    confirm_range: bool = Field(
        default=False, description="Whether an outcome outside the plausible range is meant."
    )

    def given(self) -> Any:
        """Return the outcomes as `Trial.tell` takes them."""
        forms = (self.outcome, self.counts, self.rows)
        if sum(form is not None for form in forms) != 1:
            text = "body: outcome is missing, or there are two forms of outcomes"
            raise ApiError(422, "invalid", text, field="body.outcome")
        if self.rows is not None:
            return [(row.arm, row.outcome) for row in self.rows]
        if self.counts is None:
            return self.outcome
        return {
            arm: (counts.good, counts.pulls) if isinstance(counts, CountIn) else counts
            for arm, counts in self.counts.items()
        }


class CorrectIn(OutcomesIn, ReasonIn):
    """Other outcomes of an allocation, and why."""


class CloseArmIn(ReasonIn):
    """Why an arm is closed, and the policy from then on."""

    policy: str | None = Field(default=None, max_length=40, description="Policy to continue with.")


class AddArmIn(CloseArmIn):
    """An arm that joins a running trial, and why."""

    arm: ArmEntry = Field(description="As in a problem, without count.")


class LimitsIn(ReasonIn):
    """Other limits of a trial; those that are not given stay."""

    max_open: MaxOpen = None
    max_cancelled: MaxCancelled = None
    max_unmasked: int | None = Field(
        default=None,
        ge=0,
        le=MAX_LIMIT,
        description="Allocations that one person may unmask within 24 hours.",
    )
    unmask_role: Literal["admin", "operator", "any"] | None = Field(
        default=None, description="The only role that may unmask; any: every role."
    )


class PlanIn(In):
    """A problem and policies for a forecast."""

    problem: ProblemIn = Field(description="Arms, priors, rewards and horizon.")
    policies: list[Annotated[str, Field(max_length=40)]] = Field(
        default=list(COMPARED_POLICIES),
        max_length=8,
        description="Policies to compare with equal allocation.",
    )


class DesignIn(In):
    """A problem with a design."""

    problem: DesignedIn = Field(
        description="Arms, priors, rewards and horizon; rules, policies and scenarios: design."
    )
    calibrate: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Find the smallest threshold whose type I error is at most this, and use it.",
    )
    ties: Ties = "least-pulled"
    tol: Tolerance = 1e-4

    def settings(self) -> dict[str, Any]:
        """As `operating_characteristics` takes them."""
        return {"calibrate_to": self.calibrate, "ties": self.ties, "tol": self.tol}


class TokenIn(In):
    """Request for a new token."""

    name: str = Field(pattern=NAME_PATTERN, description="Unique, also among revoked tokens.")
    role: Role = Field(description="What the token permits.")
    days: int = Field(
        default=DEFAULT_DAYS, ge=1, le=MAX_DAYS, description="Until the token expires."
    )
    trials: list[Name] = Field(
        default=[], max_length=100, description="Trials that the token is for; none: all."
    )
