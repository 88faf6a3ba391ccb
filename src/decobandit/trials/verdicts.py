"""What the rules of a trial have come to: stopped, arms dropped, arms declared at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..designs.endings import Endings
from ..designs.final_tests import final_test
from ..policies import RuledPolicy
from ..problem import States
from .decider import Decider
from .ledger import Ledger
from .ruled_decisions import Looked, dropped_arms


@dataclass(frozen=True)
class LookMade:
    """A look that was made, and what it came to.

    Attributes
    ----------
    outcomes : int
        Recorded outcomes at the look.
    probabilities : dict[str, float]
        P(better than control by the margin) of every arm but control and those that were dropped
        before; without a control arm P(best).
    dropped : tuple[str, ...]
        Arms that this look dropped.
    stopped : str | None
        Why this look stopped the trial.

    Examples
    --------
    >>> from decobandit.trials.verdicts import LookMade
    >>> LookMade(50, {"new": 0.93}, (), None).outcomes
    50
    """

    outcomes: int
    probabilities: dict[str, float]
    dropped: tuple[str, ...]
    stopped: str | None


@dataclass(frozen=True)
class Verdict:
    """What looks have come to."""

    stopped: str | None = None  # why
    dropped: tuple[str, ...] = ()


def verdict_of(ledger: Ledger, decider: Decider) -> Verdict:
    """What looks have come to so far."""
    if decider.ruled is None:
        return Verdict()
    found = decider.ruled.looked(ledger)
    return Verdict(found.stopped or None, dropped_arms(decider.ruled, found))


def looks_made(ledger: Ledger, decider: Decider) -> tuple[LookMade, ...]:
    """All looks in order, up to the one that stopped the trial; none without rules that stop."""
    ruled = decider.ruled
    if ruled is None or not ruled.rules.stop.any:
        return ()
    made, before = [], ruled.before_looks()
    names = [arm.name for arm in ledger.problem.arms]
    for known in ledger.looks:
        states = States.of(ledger.problem, [known])
        (found,) = ruled.statistic(replace(states, allowed=before.allowed))
        shown = before.allowed[0].copy()
        if ruled.control is not None:
            shown[ruled.control] = False
        after, gone = ruled.after(before, known), dropped_arms(ruled, before)
        compared = zip(names, found, shown, strict=True)
        made.append(
            LookMade(
                known.total,
                {name: float(p) for name, p, there in compared if there},
                tuple(name for name in dropped_arms(ruled, after) if name not in gone),
                after.stopped or None,
            )
        )
        if after.reason:
            break
        before = after
    return tuple(made)


def declared_arms(ledger: Ledger, decider: Decider) -> tuple[str, ...] | None:
    """Arms that the test at the end declares, as in `designs`; None before the end."""
    if decider.ruled is None:
        return None
    ruled: RuledPolicy = decider.ruled
    found = decider.ruled.looked(ledger)
    if sum(ledger.open) or not (ledger.finished or found.reason):
        return None
    if ruled.rules.final_test.kind == "conditional":  # follows all states: by tables of its own
        ruled = RuledPolicy(ledger.settings.make_policy(), ruled.rules)
    tested = final_test(ruled, ruled.rules.final_test, _ending(ledger, found))
    names = [arm.name for arm in ledger.problem.arms]
    return tuple(name for name, said in zip(names, tested.declared[0], strict=True) if said)


def _ending(ledger: Ledger, found: Looked) -> Endings:
    states = States.of(ledger.problem, [ledger.known])
    return Endings(
        pulls=states.pulls,
        stats=states.stats,
        allowed=found.allowed,
        declared=found.declared,
        reason=np.array([found.reason], np.int8),
        weight=np.ones(1),
    )
