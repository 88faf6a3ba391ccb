"""What the API answers. Field descriptions are the API's documentation.

Two sets of answers: full ones, and blinded ones for operators, who must not know how a trial goes.
A blinded model has its fields listed by name; nothing is ever removed from a full one.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Out(BaseModel):
    """Base of answers: built from our own values."""

    model_config = ConfigDict(from_attributes=True, extra="forbid")


class ErrorBody(Out):
    """What went wrong."""

    code: str = Field(description="For programs.")
    message: str = Field(description="For people.")


class ErrorOut(Out):
    """The form of every error."""

    error: ErrorBody = Field(description="What went wrong.")


class HealthOut(Out):
    """The server is there."""

    status: Literal["ok"] = Field(description="Always ok.")
    version: str = Field(description="Of decobandit.")


class BlindTrial(Out):
    """A trial, to an operator."""

    id: str = Field(description="Random.")
    name: str = Field(description="Unique.")


class SummaryOut(BlindTrial):
    """A trial in a list."""

    policy: str = Field(description="Name of the policy.")
    arms: int = Field(description="Number of arms.")
    horizon: int = Field(description="Number of stages.")
    allocated: int = Field(description="Slots in use.")
    told: int = Field(description="Slots with an outcome.")
    open: int = Field(description="Slots that wait for their outcome.")
    created_at: str = Field(description="ISO 8601, UTC.")
    intact: bool = Field(description="False: the record was changed; nothing else is known.")


class TrialsOut(Out):
    """All trials."""

    trials: list[SummaryOut] = Field(description="The oldest first.")


class BlindTrials(Out):
    """All trials, to an operator."""

    trials: list[BlindTrial] = Field(description="The oldest first.")


class BlindAllocation(Out):
    """An allocation, to an operator: which arm to give."""

    id: str = Field(description="Random.")
    arm: str = Field(description="Name of the arm.")


class AllocationOut(BlindAllocation):
    """An allocation."""

    stage: int = Field(description="From 0.")
    reason: str = Field(description="Why this arm.")
    state: Literal["open", "told", "cancelled"] = Field(description="Where it stands.")
    outcome: Literal[0, 1] | None = Field(description="1 is good, 0 is bad.")


class BlindStatus(BlindTrial):
    """A trial, to an operator."""

    finished: bool = Field(description="Nothing is left to do.")
    open: list[BlindAllocation] = Field(description="Allocations that wait for their outcome.")


class ArmOut(Out):
    """What is known of an arm."""

    name: str = Field(description="Its name.")
    good: int = Field(description="Good outcomes told.")
    bad: int = Field(description="Bad outcomes told.")
    open: int = Field(description="Allocations that wait.")
    posterior_good: float = Field(description="Pseudo-count of good outcomes.")
    posterior_bad: float = Field(description="Pseudo-count of bad outcomes.")
    expected_reward: float | None = Field(description="Of the next pull, if there is one.")
    value_of_information: float | None = Field(description="What a pull would teach.")
    index: float | None = Field(description="The sum of the two.")


class StatusOut(Out):
    """A trial, in full."""

    trial: str = Field(description="Its id.")
    name: str = Field(description="Its name.")
    policy: str = Field(description="Name of the policy.")
    horizon: int = Field(description="Number of stages.")
    pulls_per_stage: int = Field(description="Pulls of one stage.")
    slots: int = Field(description="Pulls in all.")
    allocated: int = Field(description="Slots in use.")
    told: int = Field(description="Slots with an outcome.")
    open: list[AllocationOut] = Field(description="Allocations that wait for their outcome.")
    remaining: int = Field(description="Free slots.")
    stage: int = Field(description="Stages completed by the slots in use.")
    finished: bool = Field(description="Every slot has its outcome.")
    price: float | None = Field(description="Of a pull at this stage.")
    next_arm: str | None = Field(description="What an ask would give now.")
    reason: str | None = Field(description="Why.")
    arms: list[ArmOut] = Field(description="What is known of every arm.")
    deployment: str | None = Field(description="The arm to keep, at the end.")
    earned: float = Field(description="By the outcomes told.")
    upper_bound: float = Field(description="No policy expects more, at the start.")
    bound_from_here: float | None = Field(description="No policy expects more, from here.")
    loss_so_far: float | None = Field(description="What can be read off the outcomes.")
    created_at: str = Field(description="ISO 8601, UTC.")
    version: str = Field(description="Of decobandit.")
    seed: int = Field(description="Of the draws.")
    head: str = Field(description="Hash of the last event.")


class WhyOut(Out):
    """What speaks for the next arm."""

    next_arm: str | None = Field(description="What an ask would give now.")
    reason: str | None = Field(description="Why.")
    stage: int = Field(description="Stages completed by the slots in use.")
    price: float | None = Field(description="Of a pull at this stage.")
    arms: list[ArmOut] = Field(description="What is known of every arm.")
    open: list[AllocationOut] = Field(description="Allocations that wait, with their reasons.")


class EventOut(Out):
    """One line of the log."""

    trial: str = Field(description="Id of the trial.")
    seq: int = Field(description="From 0.")
    kind: str = Field(description="created, asked, told, cancelled, corrected or refused.")
    at: str = Field(description="ISO 8601, UTC.")
    by: str = Field(description="Name of the token.")
    key: str | None = Field(description="The key of the request.")
    previous: str = Field(description="Hash of the event before.")
    data: dict[str, Any] = Field(description="What happened, and what it was decided from.")
    version: str = Field(description="Of decobandit.")
    hash: str = Field(description="SHA-256 of the event.")


class EventsOut(Out):
    """The log of a trial."""

    events: list[EventOut] = Field(description="In order.")


class VerifyOut(Out):
    """Whether the log is as it was written."""

    ok: bool = Field(description="No problem was found.")
    events: int = Field(description="Events that were checked.")
    head: str = Field(description="Hash of the last one.")
    problems: list[str] = Field(description="What was found.")


class ReplayOut(Out):
    """Whether every decision comes out the same again."""

    ok: bool = Field(description="No difference was found.")
    decisions: int = Field(description="Decisions that were made again.")
    differences: list[str] = Field(description="What was found.")


class PolicyPlan(Out):
    """What a policy is expected to earn."""

    policy: str = Field(description="Its name.")
    value: float = Field(description="Expected total reward.")
    value_se: float = Field(description="Its standard error; 0 where it is exact.")
    over_equal: float = Field(description="More than equal allocation.")
    over_equal_se: float = Field(description="Its standard error; 0 where it is exact.")
    gap_percent: float | None = Field(description="To the bound: no policy is better by more.")
    method: str = Field(description="exact or simulated.")


class PlanOut(Out):
    """What a trial is expected to earn, before it begins."""

    arms: int = Field(description="Number of arms.")
    horizon: int = Field(description="Number of stages.")
    upper_bound: float = Field(description="No policy expects more.")
    bound_kind: str = Field(description="Where the bound comes from.")
    policies: list[PolicyPlan] = Field(description="Equal allocation is the last.")
    notes: list[str] = Field(description="What was left out, and why.")


class TokenOut(Out):
    """A token, without what opens the server."""

    id: str = Field(description="Random.")
    name: str = Field(description="Unique.")
    role: str = Field(description="admin, operator or viewer.")
    created_at: str = Field(description="ISO 8601, UTC.")
    revoked_at: str | None = Field(description="From when on it opens nothing.")
    intact: bool = Field(description="Whether its row is as it was written; if not, it is refused.")


class TokenMade(TokenOut):
    """A new token."""

    token: str = Field(description="The token itself: shown this once.")


class TokensOut(Out):
    """All tokens."""

    tokens: list[TokenOut] = Field(description="The oldest first.")
