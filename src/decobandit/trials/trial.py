"""One trial: ask for the next arm, record outcomes, look at the state.

The horizon is a hard limit. Outcomes may be recorded late and in any order; while some are pending,
the policy averages over them (`decisions.py`). Asks and outcomes: `recording.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ..bounds import Episode
from ..prices import DualSolution
from ..problem import ArmModel, Problem
from ..support import Card, Once, Tables, Tabular
from .allocations import Allocation, kinds_by_name
from .changes import turns_of
from .database import Store
from .decider import decider_of
from .event_log import event_log_of
from .events import Event
from .export import export_parts, export_text, exported_event, outcomes_text, trial_tables
from .ledger import Ledger
from .lists import STALE_AFTER
from .recording import Recording
from .report import TrialReport, report_of
from .requests import CancellationCount, counted
from .rules import LookMade, declared_arms, looks_made
from .status import Status, episode_of, status_of
from .verification import Replay, Verification, check_trial, replayed


class Trial(Recording, Tabular):
    """A handle on one trial: cheap, safe to share between threads, always up to date.

    Tables of `to_frame`: `allocations`, as the exported CSV file has them; `arms`; `events`.

    Attributes
    ----------
    id, name : str
        By which it is opened.
    settings, store : TrialSettings, Store
        Problem, policy, prices, tie rule and seed; where it is kept.

    Examples
    --------
    >>> told = trial.tell(trial.ask().id, 1)
    >>> trial.status().told, trial.verify().ok, trial.replay().ok
    (1, True, True)
    """

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self.store = store
        self.id = ledger.trial
        self.name = ledger.name
        self.settings = ledger.settings
        self._codes = {
            arm.name: code for arm, code in zip(self.problem.arms, ledger.codes, strict=True)
        }
        self._event_log = event_log_of(store)
        self._decider = Once(lambda: decider_of(ledger.settings))
        self._turns = turns_of(store, self.id)

    @property
    def problem(self) -> Problem:
        return self.settings.problem

    @property
    def codes(self) -> dict[str, str]:
        """The code of every arm by its name: what blinded people see."""
        return dict(self._codes)

    @property
    def kinds(self) -> dict[str, ArmModel]:
        """What outcomes every arm has, by its name."""
        return kinds_by_name(self.problem)

    def named(self, slot: Allocation) -> str:
        """The outcome of a single pull, for people; nothing where there is none."""
        if slot.outcome is None or slot.arm is None:
            return ""
        return self.kinds[slot.arm].format.named(slot.outcome)

    @property
    def policy(self) -> str:
        return self.settings.policy

    @property
    def solution(self) -> DualSolution | None:
        """The prices, and the bound that they certify; None where the dual was not solved."""
        return self.settings.solution

    # -- reading -----------------------------------------------------------------------------

    def status(self) -> Status:
        """Counts, posterior, the next decision, and the bounds."""
        return status_of(self._ledger(), self._decider())

    def status_at(self, ledger: Ledger) -> Status:
        """The same, at a state that was read before."""
        return status_of(ledger, self._decider())

    def allocations(self) -> list[Allocation]:
        """All of them, in the order in which they were made."""
        return list(self._ledger().allocations.values())

    def allocation(self, allocation_id: str) -> Allocation:
        """One of them; `NotFound` if the trial has none of that id."""
        return self._ledger().allocation(allocation_id)

    def slot_of(self, given: str) -> str:
        """The id of an allocation from itself, or from the subject that it is for.

        Of a subject whose allocation was cancelled and made anew, the last one. What is none of
        them stays as it is, to be refused by whoever needs it.
        """
        allocations = self._ledger().allocations
        if given in allocations:
            return given
        slots = reversed(allocations.values())
        return next((slot.id for slot in slots if slot.subject == given), given)

    def cancellations(self) -> tuple[CancellationCount, ...]:
        """Cancelled allocations by person and arm, and why."""
        return counted(self._ledger().cancellations)

    def episode(self) -> Episode:
        """The recorded outcomes in the order of their allocations, compared with the prices."""
        return episode_of(self._ledger(), self._decider())

    def events(self) -> list[Event]:
        """The log, checked."""
        return list(self.each_event(self._ledger()))

    def each_event(self, ledger: Ledger) -> Iterator[Event]:
        """The log up to a state that was read before, checked, not all of it in memory."""
        return chain.from_iterable(self._event_log.pages(ledger))

    def export(self) -> dict[str, Any]:
        """The whole trial as plain values; `verify_export` checks it without the database."""
        ledger = self._ledger()
        events = [exported_event(event) for event in self.each_event(ledger)]
        return export_parts(ledger, self._decider()) | {"events": events}

    def export_text(self) -> Iterator[str]:
        """The same as JSON, in pieces: all events are checked first, then read again."""
        ledger = self._ledger()
        for _ in self._event_log.pages(ledger):
            pass
        return export_text(export_parts(ledger, self._decider()), self._event_log.pages(ledger))

    def outcomes_text(self, *, masked: bool = False) -> Iterator[str]:
        """One row of CSV per allocation, in pieces, as `outcomes_csv` writes them."""
        return outcomes_text(self.each_event(self._ledger()), masked=masked)

    def _card(self) -> Card:
        ledger = self._ledger()
        pulls = list(map(sum, zip(ledger.good, ledger.bad, ledger.other, strict=True)))
        names = [arm.name for arm in self.problem.arms]
        best, upper = self.settings.best_bound, self.settings.upper_bound
        return Card(
            f"Trial {self.name}: {self.problem.described()}",
            {
                "": ledger.state,
                "policy": self.policy,
                "allocated": f"{ledger.used} of {ledger.slots}",
                "recorded": ledger.told,
                "no policy earns more than": upper if best is None else best.value,
            },
            {"arm": names, "good": ledger.good, "pulls": pulls, "pending": ledger.open},
        )

    def tables(self) -> Tables:
        """Columns by the name of the table."""
        return trial_tables(
            lambda: self.each_event(self._ledger()), lambda: map(vars, self.status().arms)
        )

    def verify(self, *, head: str | None = None) -> Verification:
        """Check the chain, from the rows as they are. `head`: one that some event must have."""
        return check_trial(self.id, db=self.store, head=head)

    def report(self, *, control: str | None = None, late_after: float = STALE_AFTER) -> TrialReport:
        """Results, shares over time, deviations, the check of the log, settings.

        `control`: the arm that others are compared with, the first by default. `late_after`: hours.
        """
        ledger = self._ledger()
        return report_of(
            ledger,
            self._decider(),
            self.each_event(ledger),
            self.verify(),
            control=control,
            late_after=late_after,
        )

    def looks(self) -> tuple[LookMade, ...]:
        """Looks that were made, and what each came to; none without rules that stop trials."""
        return looks_made(self._ledger(), self._decider().ruled)

    def declared(self) -> tuple[str, ...] | None:
        """At the end, arms that the test of the rules declares; None before, and without rules."""
        return declared_arms(self._ledger(), self._decider().ruled)

    def replay(self) -> Replay:
        """Compute every decision again and compare."""
        return replayed(self.events())
