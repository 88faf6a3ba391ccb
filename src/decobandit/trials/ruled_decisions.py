"""Rules in a trial: burn-in, floor, share of control, and what looks have come to.

Looks are made when the number of recorded outcomes reaches them; the ledger keeps the counts of
that moment, so that later outcomes and corrections do not change what a look came to. Rules decide
by the counts of a ledger and its looks alone, as replays need it. The sentences name no outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..policies import REASONS, Asked, RuledPolicy
from ..policies.chances import Allowed
from .decisions import Decision, decide
from .errors import Closed
from .ledger import Ledger
from .pending import Floats, PendingState


@dataclass(frozen=True)
class Looked:
    """What the looks of a trial have come to."""

    allowed: Allowed  # (1, arms) those that are not dropped
    stopped: str = ""  # the reason
    outcomes: int = 0  # recorded at the look that stopped it


def looked(ruled: RuledPolicy, ledger: Ledger) -> Looked:
    """All looks, in order."""
    allowed = np.ones((1, len(ledger.good)), np.bool_)
    for good, bad in ledger.looks:
        known = np.array([good]) + np.array([bad])
        verdict = ruled.look(known, np.array([good]), allowed)
        allowed = verdict.allowed
        if verdict.reason[0]:
            return Looked(allowed, REASONS[verdict.reason[0]], int(known.sum()))
    return Looked(allowed)


def decide_by_rules(
    ruled: RuledPolicy, ledger: Ledger, pending: PendingState, prices: Floats | None,
    rng: np.random.Generator,
) -> Decision:  # fmt: skip
    """The next arm; `Closed` where a look has stopped the trial."""
    found = looked(ruled, ledger)
    if found.stopped:
        raise Closed(
            f"the trial was stopped by its rules ({found.stopped}) at the look after "
            f"{found.outcomes} outcomes: no more arms are allocated"
        )
    known = np.array([pending.good]) + np.array([pending.bad])
    asked = Asked(known, np.array([pending.good]), np.array([pending.open]), found.allowed)
    burning = bool((found.allowed & (known + asked.pending < ruled.rules.burn_in)).any())
    decision = decide(ruled.inner, pending, prices, rng=rng)
    if not burning and not ruled.shared and found.allowed.all():
        return decision
    chances = ruled.chances_many(pending.stage, asked, rng)[0]
    edges = np.cumsum(chances)
    arm = int((rng.random() * edges[-1] >= edges[:-1]).sum())
    return replace(decision, arm=arm, reason=_reason(ruled, found, arm, burning, chances))


def _reason(ruled: RuledPolicy, found: Looked, arm: int, burning: bool, chances: Floats) -> str:
    names = [each.name for each in ruled.problem.arms]
    if burning:
        return f"{names[arm]}: burn-in, {ruled.rules.burn_in} pulls of every arm first"
    shown = ", ".join(f"{name} {p:.3f}" for name, p in zip(names, chances, strict=True))
    dropped = [name for name, left in zip(names, found.allowed[0], strict=True) if not left]
    more = f"; dropped: {', '.join(dropped)}" if dropped else ""
    return f"{names[arm]}: drawn by {ruled.name} and the rules ({shown}){more}"
