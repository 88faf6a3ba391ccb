"""Response models of the API: they document the answers, which are the records' `to_dict`.

Operators must not learn how a trial is going. A blinded model lists its fields by name; nothing is
ever removed from a full one.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...designs.forecasts import PolicyForecast
from ...designs.inference import Inference
from ...designs.results import Characteristics, InferenceCheck
from ...support.records import doc, record_class
from ...trials import (
    Allocation,
    ArmPulls,
    ArmStatus,
    CancellationCount,
    Event,
    Status,
    Summary,
    TrialLimits,
)
from ...trials.events import Change, Correction
from ...trials.report import (
    ArmResult,
    AuditState,
    LateOutcome,
    SegmentReport,
    ShareBlock,
    TrialReport,
)
from ...trials.status import SegmentStatus

_NO_PROBLEM = "Whether no problem was found."


class Out(BaseModel):
    """Base class of all responses."""

    model_config = ConfigDict(extra="forbid")


# -- errors and health --------------------------------------------------------------------------


class ErrorBody(Out):
    """Reason for a refusal."""

    code: str = Field(description="Stable identifier of the reason.")
    field: str = Field(default="", description="Key or parameter at fault, if there is one.")
    message: str = Field(description="Explanation for people.")


class ErrorOut(Out):
    """Form of every error."""

    error: ErrorBody = Field(description="Reason for the refusal.")


class HealthOut(Out):
    """The server is running."""

    status: Literal["ok"] = Field(description="Always ok.")
    version: str = Field(description="Version of decobandit.")


class ProbeOut(Out):
    """The server is alive, or ready."""

    status: Literal["live", "ready"] = Field(description="Which probe it was.")
    version: str = Field(description="Version of decobandit.")


# -- blinded ------------------------------------------------------------------------------------


class BlindTrial(Out):
    """Trial, as an operator sees it."""

    id: str = Field(description="Random identifier.")
    name: str = Field(description="Unique name.")


class Paged(Out):
    """Base of lists in pages."""

    next: str = Field(default="", description="`after` of the next page, if more entries follow.")


class BlindTrials(Paged):
    """Trials, as an operator sees them."""

    trials: list[BlindTrial] = Field(description="Oldest first.")


class BlindArmPulls(Out):
    """Pulls of an arm in an allocation, as an operator sees them."""

    arm: str = Field(description="Code of the arm.")
    pulls: int = Field(description="Pulls allocated to it.")
    pending: int = Field(description="Pulls without an outcome yet.")


class BlindAllocation(Out):
    """Allocation, as an operator sees it: arms by code."""

    id: str = Field(description="Random identifier.")
    arm: str | None = Field(description="Code of the arm of a single pull; null for several.")
    subject: str | None = Field(description="Subject that the ask named, if any.")
    segment: str = Field(default="", description="Segment that the ask named; only with segments.")
    pending: int = Field(
        default=0, description="Pulls without an outcome yet; only for several pulls."
    )
    arms: list[BlindArmPulls] = Field(
        default=[], description="Pulls by arm, in the order of codes; only for several pulls."
    )


class BlindStatus(BlindTrial):
    """State of a trial, as an operator sees it."""

    finished: bool = Field(description="Whether nothing is left to do.")
    state: str = Field(description="running, closed, archived or locked.")
    open: list[BlindAllocation] = Field(description="Allocations with a pending outcome.")


class UnmaskedOut(Out):
    """Allocation with the name of its arm."""

    id: str = Field(description="Random identifier.")
    arm: str = Field(description="Name of the arm.")
    code: str = Field(description="Code of the arm.")


# -- flags --------------------------------------------------------------------------------------


class FlagMetadata(Out):
    """Facts about the evaluation of a flag."""

    allocation: str = Field(description="Id of the allocation; outcomes are recorded by it.")
    probability: float = Field(default=0.0, description="Probability of the arm, if computed.")


class FlagOut(Out):
    """Evaluation of a flag, as OFREP defines it."""

    key: str = Field(description="Name or id of the trial, as in the request.")
    value: str = Field(description="Name of the arm.")
    variant: str = Field(description="Name of the arm.")
    reason: Literal["SPLIT"] = Field(description="The policy of the trial chose the arm.")
    metadata: FlagMetadata = Field(description="Allocation and probability.")


class FlagFailure(Out):
    """Failed evaluation, as OFREP defines it."""

    key: str = Field(default="", description="Name or id of the trial, as in the request.")
    errorCode: str = Field(description="Code of OpenFeature.")  # noqa: N815 - OFREP's name
    errorDetails: str = Field(description="Explanation for people.")  # noqa: N815


class FlagsOut(Out):
    """Evaluations of several flags."""

    flags: list[FlagOut | FlagFailure] = Field(description="In the order of the trials.")


# -- full ---------------------------------------------------------------------------------------


@record_class()
class StatusOut(Status):
    """State of a trial, in full."""

    stale: list[str] = doc(
        "Ids of pending allocations that are older than the server's limit, the oldest first.",
        default_factory=list,
    )


class WhyOut(Out):
    """Numbers behind the next decision; keys as in the status of the trial."""

    next_arm: str | None = Field(description="Arm of the next pull; null for several pulls.")
    next_pulls: dict[str, int] | None = Field(description="Pulls of the next stage by arm.")
    by_rules: bool = Field(description="Whether a rule of the design decided.")
    reason: str | None = Field(description="Explanation in words.")
    stage: int = Field(description="Current stage, from 0.")
    price: float | None = Field(description="Price of a pull at this stage.")
    arms: list[ArmStatus] = Field(description="One entry per arm.")
    open: list[Allocation] = Field(description="Allocations with a pending outcome.")


class VerifyOut(Out):
    """Result of the integrity check of a log."""

    events: int = Field(description="Number of events.")
    head: str = Field(description="Hash of the last event; worth keeping elsewhere.")
    problems: list[str] = Field(description="Problems, one sentence each.")
    ok: bool = Field(description=_NO_PROBLEM)
    remarks: list[str] = Field(default=[], description="Remarks, if there are any.")
    given_head_event: int = Field(default=0, description="Event that has the head in the request.")
    events_since_given_head: int = Field(default=0, description="Number of events after it.")


class ReplayOut(Out):
    """Comparison of recorded decisions with recomputed ones."""

    decisions: int = Field(description="Decisions that were recomputed.")
    differences: list[str] = Field(description="Differences, one sentence each.")
    made_by: list[str] = Field(
        description="Version, hash of the packages and processor of the decisions, and how many."
    )
    recomputed_by: str = Field(description="The same of this server.")
    ok: bool = Field(description="Whether no difference was found.")


class TokenOut(Out):
    """Token, without its secret."""

    id: str = Field(description="Random identifier; not the secret.")
    name: str = Field(description="Unique, also among revoked tokens; the log names it.")
    role: str = Field(description="admin, operator, viewer or app.")
    created_at: str = Field(description="ISO 8601, UTC.")
    revoked_at: str | None = Field(description="Time of revocation; null while it is valid.")
    expires_at: str = Field(description="End of validity: ISO 8601, UTC.")
    trials: list[str] | None = Field(description="Names of its trials; null for all.")


class TokenMade(TokenOut):
    """New token, shown once."""

    token: str = Field(description="The secret: shown this once.")


class TokensOut(Out):
    """List of all tokens."""

    tokens: list[TokenOut] = Field(description="Oldest first.")


class TrialsOut(Paged):
    """List of trials, oldest first."""

    trials: list[Summary] = Field(description="Oldest first.")


class AllocationsOut(Paged):
    """List of allocations, in order."""

    allocations: list[Allocation] = Field(description="In order of allocation.")


class EventsOut(Paged):
    """Log of a trial."""

    events: list[Event] = Field(description="In order.")


class PeopleOut(Out):
    """Log of access by people and tokens."""

    ok: bool = Field(description=_NO_PROBLEM)
    head: str = Field(description="Hash of the last event; worth keeping elsewhere.")
    problems: list[str] = Field(description="Problems, one sentence each.")
    events: list[Event] = Field(description="In order.")


class CheckpointOut(Out):
    """Signed note of the heads of all trials."""

    number: int = Field(description="From 1; the same again if nothing has changed.")
    made: str = Field(description="ISO 8601, UTC.")
    trials: int = Field(description="Number of trials in it.")
    note: str = Field(description="A C2SP signed note; keep it elsewhere, byte for byte.")


class PlanOut(Out):
    """Expected rewards of policies before a trial starts."""

    arms: int = Field(description="Number of arms.")
    horizon: int = Field(description="Number of stages.")
    upper_bound: float | None = Field(
        description="Upper bound on the expected total reward of any policy, from the prices, as "
        "the trial reports it; null if the dual is slow to solve and no policy needs it."
    )
    bound_kind: str | None = Field(description="Method of this bound.")
    best_bound: float | None = Field(
        description="Smallest available bound, perhaps an estimate; gaps refer to it."
    )
    best_bound_is: str | None = Field(description="Method of the smallest bound.")
    policies: list[PolicyForecast] = Field(description="Equal allocation is the last.")
    notes: list[str] = Field(description="Omitted parts, with the reason.")


class ScenarioOut(Out):
    """Operating characteristics of policies in one scenario."""

    name: str = Field(description="Name in the design.")
    truth: list[float | list[float]] = Field(
        description="True parameter of every arm: success probability, mean, rate or class "
        "probabilities."
    )
    null: bool = Field(description="Whether no arm is better than control; without one, all equal.")
    policies: list[Characteristics] = Field(description="In the order of the design.")


class CalibratedOut(Out):
    """Threshold calibrated to a type I error."""

    policy: str = Field(description="Name of the policy.")
    alpha: float = Field(description="Largest type I error allowed.")
    what: str = Field(description="test.threshold, test.alpha or stop.superiority.")
    threshold: float = Field(description="Smallest threshold that keeps the type I error.")
    type_one_error: float = Field(description="In this scenario; on fresh draws if simulated.")
    type_one_error_se: float = Field(description="Its standard error; 0 if exact.")
    scenario: str = Field(description="Null scenario with the largest error in the fit.")
    exact: bool = Field(description="Whether it was computed over all states.")
    confidence: float | None = Field(
        description="Confidence that the true error is at most alpha; null if exact."
    )


class DesignOut(BaseModel):
    """Operating characteristics of a design, as `deco design --json` prints them."""

    arms: list[str] = Field(description="Names of the arms; lists by arm have this order.")
    horizon: int = Field(description="Number of stages.")
    pulls_per_stage: int = Field(description="Pulls of one stage.")
    planned: str = Field(description="Arms, stages and pulls as planned, in words.")
    settings: dict[str, Any] = Field(description="The design, with its defaults filled in.")
    ties: str = Field(description="How ties are broken.")
    draws: int = Field(description="Simulated trials, unless exact.")
    seed: int = Field(description="Random seed of the simulation.")
    version: str = Field(description="Version of decobandit.")
    interrupted: bool = Field(description="Always false here.")
    notes: list[str] = Field(description="Omitted parts, with the reason.")
    calibration: list[CalibratedOut] = Field(description="Calibrated thresholds.")
    scenarios: list[ScenarioOut] = Field(description="In the order of the design.")


# -- records in the document --------------------------------------------------------------------

RECORDS = (
    *(Allocation, ArmPulls, ArmResult, ArmStatus, AuditState, CancellationCount, Change),
    *(Characteristics, Correction, Event, Inference, InferenceCheck, LateOutcome),
    *(PolicyForecast, SegmentReport),
    *(SegmentStatus, ShareBlock, StatusOut, Summary, TrialLimits, TrialReport),
)
_HIDDEN = {"Event": "body", "Characteristics": "errors"}  # fields that `to_dict` leaves out


def describe_records(schemas: dict[str, dict[str, Any]]) -> None:
    """Describe records in the OpenAPI document by their fields; answers have all keys."""
    for record in RECORDS:
        schema = schemas[record.__name__]
        texts = {one.name: one.metadata["doc"] for one in fields(record)}
        properties = schema["properties"]
        properties.pop(_HIDDEN.get(record.__name__), None)
        for name, value in properties.items():
            value.pop("default", None)
            value["description"] = texts[name]
        summary = (inspect.getdoc(record) or "").partition("\n")[0]
        schema |= {"description": summary, "required": list(properties)}
        schema["additionalProperties"] = record is Characteristics  # has x_se for simulated x
