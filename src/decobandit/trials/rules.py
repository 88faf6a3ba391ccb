"""Rules in a trial: burn-in, floor, share of control, and what looks have come to.

Looks are made when the number of recorded outcomes reaches them; the ledger keeps what was known at
that moment, so that later outcomes and corrections do not change what a look came to. Rules decide
by the counts of a ledger and its looks alone, as replays need it. The sentences name no outcome.

Batches: where the rules leave no choice, or only a part of it, the shares of the arms are averaged
over the pending outcomes as in `decisions`, and given in whole units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..designs.endings import Endings
from ..designs.final_tests import final_test
from ..policies import REASONS, Policy, RuledPolicy
from ..policies.allocation import Allowed, drawn_arms
from ..problem import Rules, State, States
from ..support import Cache, Floats
from . import explanation
from .decisions import Decision, allot, decide, one_by_one, one_pull, shared_decision, states_to_ask
from .errors import Conflict, Stopped
from .ledger import Ledger
from .pending import PendingState

Draws = Callable[[], np.random.Generator]
MOST_LOOKED = 100  # states of trials whose looks are remembered


@dataclass(frozen=True)
class Looked:
    """What the looks of a trial have come to."""

    allowed: Allowed  # (1, arms) those that are not dropped
    declared: Allowed  # (1, arms) better than control, or best
    reason: int = 0  # to stop: code of REASONS; 0: it goes on
    outcomes: int = 0  # recorded at the look that stopped it

    @property
    def stopped(self) -> str:
        """Why; nothing where it goes on."""
        return REASONS[self.reason]


class LiveRules(RuledPolicy):
    """The rules of trials with the same settings; remembers what looks came to."""

    def __init__(self, policy: Policy, rules: Rules) -> None:
        super().__init__(policy, rules)
        self._looked = Cache[tuple[State, ...], Looked](MOST_LOOKED)

    def before_looks(self) -> Looked:
        """Where every trial begins: no arm is dropped or declared."""
        every = np.ones((1, self.problem.n_arms), np.bool_)
        return Looked(every, np.zeros_like(every))

    def looked(self, ledger: Ledger) -> Looked:
        """What all looks have come to, in order."""
        looks = ledger.looks
        begin = next((n for n in (len(looks), len(looks) - 1) if looks[:n] in self._looked), 0)
        found = self._looked.get(looks[:begin]) or self.before_looks()
        for known in looks[begin:]:
            found = self.after(found, known)
        self._looked.put(looks, found)
        return found

    def after(self, before: Looked, known: State) -> Looked:
        """After one look more; a trial that has stopped is not looked at again."""
        if before.reason:
            return before
        states = States.of(self.problem, [known])
        verdict = self.look(replace(states, allowed=before.allowed))
        reason = int(verdict.reason[0])
        return Looked(verdict.allowed, verdict.declared, reason, known.total if reason else 0)


def decide_by_rules(
    ruled: LiveRules, ledger: Ledger, pending: PendingState, prices: Floats | None, draws: Draws
) -> Decision:
    """The next stage; `Stopped` where a look has stopped the trial. `draws` as in `allot`."""
    found, problem = _going_on(ruled, ledger), ruled.problem
    pending.check(problem)
    if not problem.repeat:
        return one_by_one(
            lambda state: _decided(ruled, found, state, prices, draws()), problem, pending
        )
    if ruled.unruled(_states(ruled, found, pending))[0]:
        return allot(ruled.inner, pending, prices, draws=draws)
    rng = draws()
    states, weights, drawn = states_to_ask(ruled.inner, pending, rng)
    allowed = np.repeat(found.allowed, len(weights), axis=0)
    each = ruled.probabilities(pending.stage, replace(states, allowed=allowed), rng)
    chances = (weights @ each)[None]
    counts = tuple(ruled.in_units(chances, rng)[0].tolist())
    names = [arm.name for arm in problem.arms]
    said = explanation.sentence(
        explanation.shared(dict(zip(names, counts, strict=True)), ruled.name),
        _why(ruled, found, pending, chances[0]),
        explanation.averaged(sum(pending.open), drawn),
    )
    return shared_decision(problem, pending, prices, counts, said)


def _going_on(ruled: LiveRules, ledger: Ledger) -> Looked:
    found = ruled.looked(ledger)
    if found.stopped:
        raise Stopped(
            f"the trial was stopped by its rules ({found.stopped}) at the look after "
            f"{found.outcomes} outcomes: no more arms are allocated"
        )
    return found


def _states(ruled: LiveRules, found: Looked, pending: PendingState) -> States:
    known = States.of(ruled.problem, [pending.known])
    return replace(known, pending=np.array([pending.open]), allowed=found.allowed)


def _decided(
    ruled: LiveRules,
    found: Looked,
    pending: PendingState,
    prices: Floats | None,
    rng: np.random.Generator,
) -> Decision:
    states = _states(ruled, found, pending)
    decision = decide(ruled.inner, pending, prices, rng=rng)
    if ruled.unruled(states)[0]:
        return decision
    try:
        chances = ruled.probabilities(pending.stage, states, rng)
    except ValueError:  # its text has the number
        raise Conflict(
            "no arm can be allocated now: too many outcomes of one are pending; record some first"
        ) from None
    chances[:, list(pending.taken)] = 0.0
    arm = int(drawn_arms(chances, 1, rng).argmax())
    name = ruled.problem.arms[arm].name
    reason = f"{name}: {_why(ruled, found, pending, chances[0])}"
    return replace(decision, pulls=one_pull(ruled.problem, arm), reason=reason, by_rules=True)


def _why(ruled: LiveRules, found: Looked, pending: PendingState, chances: Floats) -> str:
    """What the rules did: the burn-in, or shares that they have changed."""
    if ruled.settled(_states(ruled, found, pending)).any():
        return f"burn-in, {ruled.rules.burn_in} pulls of every arm first"
    names = [each.name for each in ruled.problem.arms]
    shown = ", ".join(f"{name} {p:.3f}" for name, p in zip(names, chances, strict=True))
    dropped = dropped_arms(ruled, found)
    more = f"; dropped: {', '.join(dropped)}" if dropped else ""
    return f"drawn by {ruled.name} and the rules ({shown}){more}"


def dropped_arms(ruled: LiveRules, found: Looked) -> tuple[str, ...]:
    """Names of the arms that looks have dropped."""
    arms = zip(ruled.problem.arms, found.allowed[0], strict=True)
    return tuple(arm.name for arm, left in arms if not left)


# -- what the rules of a trial have come to: stopped, arms dropped, arms declared at the e----------


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
    >>> from decobandit.trials.rules import LookMade
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


def verdict_of(ledger: Ledger, live: LiveRules | None) -> Verdict:
    """What looks have come to so far."""
    if live is None:
        return Verdict()
    found = live.looked(ledger)
    return Verdict(found.stopped or None, dropped_arms(live, found))


def looks_made(ledger: Ledger, live: LiveRules | None) -> tuple[LookMade, ...]:
    """All looks in order, up to the one that stopped the trial; none without rules that stop."""
    ruled = live
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


def declared_arms(ledger: Ledger, live: LiveRules | None) -> tuple[str, ...] | None:
    """Arms that the test at the end declares, as in `designs`; None before the end."""
    if live is None:
        return None
    ruled: RuledPolicy = live
    found = live.looked(ledger)
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
