"""What the API answers: full responses from the records of trials, blinded ones by hand.

Operators must not learn how a trial is going. A blinded model has its fields listed by name;
nothing is ever removed from a full one.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ...designs.forecasts import PolicyForecast
from ...designs.results import Characteristics
from ...trials import (
    Allocation,
    ArmPulls,
    ArmStatus,
    CancellationCount,
    Event,
    Replay,
    Status,
    Summary,
    TrialLimits,
    Verification,
)
from ...trials.arm_results import ArmResult
from ...trials.report import AuditState, Change, Correction, LateOutcome, ShareBlock, TrialReport
from ..tokens import Token
from .record_models import OpenOut, Out, attribute_texts, model_of

# -- errors and health --------------------------------------------------------------------------


class ErrorBody(Out):
    """What was wrong."""

    code: str = Field(description="For programs.")
    message: str = Field(description="For people.")


class ErrorOut(Out):
    """The form of every error."""

    error: ErrorBody = Field(description="What was wrong.")


class HealthOut(Out):
    """The server is running."""

    status: Literal["ok"] = Field(description="Always ok.")
    version: str = Field(description="Of decobandit.")


class ProbeOut(Out):
    """The server is alive, or ready."""

    status: Literal["live", "ready"] = Field(description="What was asked for.")
    version: str = Field(description="Of decobandit.")


# -- blinded ------------------------------------------------------------------------------------


class BlindTrial(Out):
    """A trial, to an operator."""

    id: str = Field(description="Random.")
    name: str = Field(description="Unique.")


class Paged(Out):
    """Base of lists that come in pages."""

    next: str = Field(
        default="", description="Where the next page begins: its `after`. Only where more follow."
    )


class BlindTrials(Paged):
    """Trials, to an operator."""

    trials: list[BlindTrial] = Field(description="The oldest first.")


class BlindArmPulls(Out):
    """What an arm has of an allocation, to an operator."""

    arm: str = Field(description="Code of the arm.")
    pulls: int = Field(description="Pulls allocated to it.")
    pending: int = Field(description="Pulls without an outcome yet.")


class BlindAllocation(Out):
    """An allocation, to an operator: which arm to give, or how many pulls of each, by code."""

    id: str = Field(description="Random.")
    arm: str | None = Field(description="Code of the arm of a single pull; null of several.")
    subject: str | None = Field(description="Who or what it is for, where the ask named one.")
    pending: int = Field(
        default=0, description="Pulls without an outcome yet. Only where there are several pulls."
    )
    arms: list[BlindArmPulls] = Field(
        default=[], description="What every arm has, in the order of codes. Only likewise."
    )


class BlindStatus(BlindTrial):
    """A trial, to an operator."""

    finished: bool = Field(description="Nothing is left to do.")
    state: str = Field(description="running, closed or archived.")
    open: list[BlindAllocation] = Field(description="Allocations with a pending outcome.")


class UnmaskedOut(Out):
    """An allocation that was unmasked."""

    id: str = Field(description="Random.")
    arm: str = Field(description="Name of the arm.")
    code: str = Field(description="Code of the arm.")


# -- full ---------------------------------------------------------------------------------------

SummaryOut = model_of(Summary, "SummaryOut", base=BlindTrial)
ArmPullsOut = model_of(ArmPulls, "ArmPullsOut")
AllocationOut = model_of(Allocation, "AllocationOut", types={"arms": list[ArmPullsOut]})  # type: ignore[valid-type]
ArmOut = model_of(ArmStatus, "ArmOut")
LimitsOut = model_of(TrialLimits, "LimitsOut")
CancellationOut = model_of(CancellationCount, "CancellationOut", types={"reasons": list[str]})
_STALE = "Ids of pending allocations that are older than the server's limit, the oldest first."
_PARTS = {"open": list[AllocationOut], "arms": list[ArmOut]}  # type: ignore[valid-type]
_REPORT = {"limits": LimitsOut, "cancellations": list[CancellationOut]}  # type: ignore[valid-type]
StatusOut = model_of(
    Status,
    "StatusOut",
    doc="A trial, in full.",
    types=_PARTS | _REPORT,
    more={"stale": (list[str], _STALE)},
)
_REPORT_PARTS = {
    "arms": list[model_of(ArmResult, "ArmResultOut")],  # type: ignore[misc]
    "shares": list[model_of(ShareBlock, "ShareBlockOut")],  # type: ignore[misc]
    "cancellations": list[CancellationOut],  # type: ignore[valid-type]
    "corrections": list[model_of(Correction, "CorrectionOut")],  # type: ignore[misc]
    "late": list[model_of(LateOutcome, "LateOutcomeOut")],  # type: ignore[misc]
    "changes": list[model_of(Change, "ChangeOut")],  # type: ignore[misc]
    "audit": model_of(AuditState, "AuditStateOut"),
}
ReportOut = model_of(
    TrialReport,
    "ReportOut",
    types=_REPORT_PARTS,
)
WhyOut = model_of(
    Status,
    "WhyOut",
    doc="The numbers that the next decision comes from.",
    only=("next_arm", "next_pulls", "by_rules", "reason", "stage", "price", "arms", "open"),
    types=_PARTS,
)
EventOut = model_of(Event, "EventOut", without=("body",))
_NO_PROBLEM, _NO_DIFFERENCE = "No problem was found.", "No difference was found."
_Verified = model_of(
    Verification,
    "VerifiedOut",
    only=("events", "head", "problems"),
    more={"ok": (bool, _NO_PROBLEM)},
)
_SAID = attribute_texts(Verification)
ReplayOut = model_of(Replay, "ReplayOut", without=("trial",), more={"ok": (bool, _NO_DIFFERENCE)})
PolicyPlan = model_of(PolicyForecast, "PolicyPlan")
TokenOut = model_of(
    Token,
    "TokenOut",
    doc="A token, without its secret.",
    without=("digest",),
    types={"trials": list[str] | None},
)
TokenMade = model_of(
    Token,
    "TokenMade",
    base=TokenOut,
    doc="A new token.",
    only=(),
    more={"token": (str, "The secret: shown this once.")},
)


class VerifyOut(_Verified):  # type: ignore[misc, valid-type]
    """Whether the log is as it was written; what there is nothing to say about is left out."""

    remarks: list[str] | None = Field(None, description=_SAID["remarks"])
    given_head_event: int | None = Field(None, description=_SAID["given_head_event"])
    events_since_given_head: int | None = Field(None, description=_SAID["events_since_given_head"])


class TrialsOut(Paged):
    """Trials."""

    trials: list[SummaryOut] = Field(description="The oldest first.")  # type: ignore[valid-type]


class AllocationsOut(Paged):
    """Allocations."""

    allocations: list[AllocationOut] = Field(  # type: ignore[valid-type]
        description="In the order in which they were made."
    )


class EventsOut(Paged):
    """The log of a trial."""

    events: list[EventOut] = Field(description="In order.")  # type: ignore[valid-type]


class CheckpointOut(Out):
    """A signed note of the heads of all trials."""

    number: int = Field(description="From 1; the same again if nothing has changed.")
    made: str = Field(description="ISO 8601, UTC.")
    trials: int = Field(description="Trials that it names.")
    note: str = Field(description="A C2SP signed note; keep it elsewhere, byte for byte.")


class PlanOut(Out):
    """What policies are expected to earn, before a trial starts."""

    arms: int = Field(description="Number of arms.")
    horizon: int = Field(description="Number of stages.")
    upper_bound: float | None = Field(
        description="On the expected total reward of any policy, from the prices; the trial "
        "reports the same. Null where the dual takes long and no policy needs it."
    )
    bound_kind: str | None = Field(description="How the bound was computed.")
    best_bound: float | None = Field(
        description="The smallest bound that is known, perhaps estimated; gaps are to it."
    )
    best_bound_is: str | None = Field(description="How that one was computed.")
    policies: list[PolicyPlan] = Field(  # type: ignore[valid-type]
        description="Equal allocation is the last."
    )
    notes: list[str] = Field(description="What was left out, and why.")


_Characteristics = model_of(
    Characteristics,
    "CharacteristicsOut",
    base=OpenOut,
    doc="Operating characteristics of a policy; where simulated, `x_se` is the error of `x`.",
    without=("errors",),
)


class ScenarioOut(Out):
    """A scenario, and what policies do there."""

    name: str = Field(description="What the design calls it.")
    truth: list[float | list[float]] = Field(
        description="Success probability of every arm; mean, rate, chances of classes."
    )
    null: bool = Field(description="No arm is better than control; without one: all are equal.")
    policies: list[_Characteristics] = Field(  # type: ignore[valid-type]
        description="In the order of the design."
    )


class CalibratedOut(Out):
    """A threshold that was calibrated."""

    policy: str = Field(description="Name of the policy.")
    alpha: float = Field(description="Largest type I error that was allowed.")
    what: str = Field(description="test.threshold, test.alpha or stop.superiority.")
    threshold: float = Field(description="The smallest that keeps the type I error.")
    type_one_error: float = Field(description="In this scenario; on fresh draws where simulated.")
    type_one_error_se: float = Field(description="Its standard error; 0 where exact.")
    scenario: str = Field(description="Null scenario of the largest error in the fit.")
    exact: bool = Field(description="Whether all states were followed.")
    confidence: float | None = Field(
        description="That the true error is at most alpha; null where exact."
    )


class DesignOut(OpenOut):
    """What policies do in the scenarios of a design, as `deco design --json` prints it."""

    arms: list[str] = Field(description="Their names; lists by arm have this order.")
    horizon: int = Field(description="Number of stages.")
    pulls_per_stage: int = Field(description="Pulls of one stage.")
    settings: dict[str, Any] = Field(description="The design, with what was left out filled in.")
    ties: str = Field(description="How ties are broken.")
    draws: int = Field(description="Trials that are simulated, where it is not exact.")
    seed: int = Field(description="Of what is simulated.")
    version: str = Field(description="Of decobandit.")
    interrupted: bool = Field(description="Always false here.")
    notes: list[str] = Field(description="What was left out, and why.")
    calibration: list[CalibratedOut] = Field(description="Thresholds, where calibrated.")
    scenarios: list[ScenarioOut] = Field(description="In the order of the design.")


class TokensOut(Out):
    """All tokens."""

    tokens: list[TokenOut] = Field(description="The oldest first.")  # type: ignore[valid-type]


class PeopleOut(Out):
    """The log of people."""

    ok: bool = Field(description=_NO_PROBLEM)
    head: str = Field(description="Hash of the last event; worth keeping elsewhere.")
    problems: list[str] = Field(description="What was found.")
    events: list[EventOut] = Field(description="In order.")  # type: ignore[valid-type]
