"""How far a trial has come: what its status and its report both say."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..bounds import BoundKind
from .requests import CancellationCount


@dataclass(frozen=True)
class Standing:
    """How far a trial has come. Slots are pulls; a stage has `pulls_per_stage` of them.

    Attributes
    ----------
    id : str
        Random.
    name : str
        Its name.
    state : str
        running, closed (no more allocations are made) or archived (closed, and hidden from lists).
    finished : bool
        Whether every slot has its outcome.
    created_at : str
        ISO 8601, UTC.
    policy : str
        Name of the policy.
    seed : int
        Of the draws.
    version : str
        Of decobandit.
    horizon : int
        Number of stages.
    pulls_per_stage : int
        Pulls of one stage.
    slots : int
        Pulls in all.
    allocated : int
        Slots in use.
    told : int
        Slots with an outcome.
    cancelled : int
        Allocations that were cancelled.
    cancellations : tuple[CancellationCount, ...]
        How many of them by each person and of each arm, and why.
    deployment : str | None
        The arm to deploy, at the end of a problem that deploys one.
    earned : float
        Total reward of the recorded outcomes.
    upper_bound : float | None
        On the expected total reward of any policy, at the start; null: the dual was not solved.
    best_bound : float | None
        The smallest upper bound that was known when the trial was made; null where none was
        computed.
    best_bound_is : str | None
        How that one was computed: optimum, joint, lagrangian, trivial or information.
    bound_from_here : float | None
        On the expected reward of any policy from the stages that are left; null likewise.
    loss_so_far : float | None
        Shortfall and congestion of the recorded outcomes; null where they cannot be
        compared with prices.
    rules : dict[str, Any] | None
        Rules of the design that the trial obeys, as the table `design` of a file has them.
    stopped : str | None
        Why a look has stopped the trial: superiority, inferiority, futility or equivalence.
    dropped : tuple[str, ...]
        Arms that looks have dropped.
    """

    id: str
    name: str
    state: str
    finished: bool
    created_at: str
    policy: str
    seed: int
    version: str
    horizon: int
    pulls_per_stage: int
    slots: int
    allocated: int
    told: int
    cancelled: int
    cancellations: tuple[CancellationCount, ...]
    deployment: str | None
    earned: float
    upper_bound: float | None
    best_bound: float | None
    best_bound_is: BoundKind | None
    bound_from_here: float | None
    loss_so_far: float | None
    rules: dict[str, Any] | None
    stopped: str | None
    dropped: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)
