"""Trials of a database: create, open and list them; one trial: its state, log and report."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from itertools import chain
from typing import Any

from ..bounds import Episode
from ..policies import DEFAULT_POLICY
from ..prices import DualSolution
from ..problem import DEFAULT_TIES, ArmModel, Problem, Rules, check_problem, is_name
from ..support import BLANK_LETTERS, Card, Tables, Tabular
from .allocations import Allocation, kinds_by_name
from .database import Store, StoreLike, closed_on_error
from .decisions import LookResult, declared_arms, look_results
from .errors import TrialError
from .event_log import event_log_of, refuse_taken, trial_id
from .events import CancellationCount, Event, actor_of
from .export import export_parts, export_text, exported_event, outcomes_text, trial_tables
from .ledger import Ledger
from .lists import STALE_AFTER, page_of_trials
from .recording import Recording, turns_of
from .report import TrialReport, report_of
from .settings import TrialLimits, TrialSettings, make_settings, origin_of
from .status import Status, Summary, episode_of, status_of
from .verification import Replay, Verification, check_trial, replayed


class Trial(Recording, Tabular):
    """A handle on one trial: light, safe to share between threads, always up to date.

    `id` and `name` open the trial; `settings` has problem, policy, prices, tie rule and seed;
    `store` is the database. Tables of `to_frame`: `allocations`, as the exported CSV file has them;
    `arms`; `events`; `obp`, a log for the Open Bandit Pipeline; `inference`, estimates by method
    and arm; `results`, as the report has them.

    Examples
    --------
    >>> slot = trial.tell(trial.ask().id, 1)
    >>> trial.status().told, trial.verify().ok, trial.replay().ok
    (1, True, True)
    """

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self.store = store
        self.id = ledger.trial
        self.name = ledger.name
        self._event_log = event_log_of(store)
        self._turns = turns_of(store, self.id)

    @property
    def problem(self) -> Problem:
        return self.settings.problem

    @property
    def codes(self) -> dict[str, str]:
        """Codes of the arms by name; blinded users see these."""
        return self._labels(by_code=True)

    @property
    def kinds(self) -> dict[str, ArmModel]:
        """Outcome models of the arms by name."""
        return kinds_by_name(self.problem)

    @property
    def money(self) -> tuple[float, float] | None:
        """Money spent and left; None without a budget."""
        ledger = self.latest
        return None if ledger.left is None else (ledger.spent, ledger.left)

    def named(self, slot: Allocation) -> str:
        """Return the name of the outcome of a single pull; empty if there is none."""
        if slot.outcome is None or slot.arm is None:
            return ""
        return self.kinds[slot.arm].format.named(slot.outcome)

    @property
    def policy(self) -> str:
        return self.settings.policy

    @property
    def solution(self) -> DualSolution | None:
        """Prices with the bound that they certify; None if the dual was not solved."""
        return self.settings.solution

    @property
    def certificate(self) -> dict[str, Any] | None:
        """Certificate of the bound at the start; None if the bound cannot be certified."""
        return self.read().certificate

    def status(self, *, segment: str | None = None) -> Status:
        """Return counts, posterior, the next decision, and the bounds; `segment`: of one alone."""
        ledger = self.read()
        return status_of(ledger if segment is None else ledger.of(segment))

    def allocations(self) -> list[Allocation]:
        """Return all allocations in order."""
        return list(self.read().allocations.values())

    def allocation(self, allocation_id: str) -> Allocation:
        """Return an allocation by its id; `NotFound` if there is none."""
        return self.read().allocation(allocation_id)

    def slot_of(self, name: str) -> str:
        """Return the id of an allocation from its id or its subject, the latest one.

        A name that is neither is returned as it is, to be refused by the request that uses it.
        """
        allocations = self.read().allocations
        if name in allocations:
            return name
        slots = reversed(allocations.values())
        return next((slot.id for slot in slots if slot.subject == name), name)

    def cancellations(self) -> tuple[CancellationCount, ...]:
        """Count cancelled allocations by person and arm, with reasons."""
        return tuple(self.read().cancellations.values())

    def episode(self, *, segment: str | None = None) -> Episode:
        """Compare the recorded outcomes, in the order of their allocations, with the prices."""
        return episode_of(self.read().of(segment))

    def events(self) -> list[Event]:
        """Return the log, checked."""
        return list(self.each_event(self.read()))

    def each_event(self, ledger: Ledger) -> Iterator[Event]:
        """Iterate over the checked log, up to the last event of a ledger."""
        return chain.from_iterable(self._event_log.pages(ledger))

    def export(self) -> dict[str, Any]:
        """Export the trial as JSON values; `verify_export` checks them without the database."""
        ledger = self.read()
        events = [exported_event(event) for event in self.each_event(ledger)]
        return export_parts(ledger) | {"events": events}

    def export_text(self) -> Iterator[str]:
        """Export the trial as JSON text, in pieces: events are checked first, then read again."""
        ledger = self.read()
        for _ in self._event_log.pages(ledger):
            pass
        return export_text(export_parts(ledger), self._event_log.pages(ledger))

    def outcomes_text(self, *, masked: bool = False) -> Iterator[str]:
        """Return the text of `outcomes_csv` in pieces."""
        return outcomes_text(self.each_event(self.read()), masked=masked)

    def __repr__(self) -> str:
        return f"Trial({self.name!r}, id={self.id!r})"

    def _card(self) -> Card:
        ledger = self.read()
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
            {"arm": names, "good": ledger.good, "pulls": ledger.recorded, "pending": ledger.open},
        )

    def tables(self) -> Tables:
        """Return columns by the name of the table."""
        return trial_tables(
            lambda: self.each_event(self.read()),
            lambda: self.status().to_dict(),
            lambda: self.report().to_dict(),
        )

    def verify(self, *, head: str | None = None) -> Verification:
        """Check the hash chain in the database. `head`: a hash that some event must have."""
        return check_trial(self.id, db=self.store, head=head)

    def report(self, *, control: str | None = None, late_after: float = STALE_AFTER) -> TrialReport:
        """Report results, shares over time, deviations, the check of the log, settings."""
        ledger = self.read()
        checked = self.verify()
        return report_of(ledger, checked, control=control, late_after=late_after)

    def looks(self, *, segment: str | None = None) -> tuple[LookResult, ...]:
        """Return the results of interim looks; none without rules that stop trials."""
        return look_results(self.read().of(segment))

    def declared(self, *, segment: str | None = None) -> tuple[str, ...] | None:
        """Return the arms that the final test declares; None before the end and without rules."""
        return declared_arms(self.read().of(segment))

    def replay(self) -> Replay:
        """Recompute every decision, and compare it with the log."""
        return replayed(self.events())


MAX_SHOWN = 60  # characters of a refused name


def trial_name(name: str) -> str:
    """Check the name of a trial: not like an id, an option or a path."""
    like_an_id = re.fullmatch("[0-9a-f]{16}", name) if isinstance(name, str) else None
    if (
        not is_name(name)
        or name.startswith("-")
        or name in (".", "..")
        or any(sign in name for sign in "/" + BLANK_LETTERS)
        or like_an_id
    ):
        shown = repr(name) if len(str(name)) <= MAX_SHOWN else "too long"
        raise TrialError(
            f"name: {shown}; must be 1 to 100 printable characters without a slash, "
            "must not begin with a dash, must not be '.' or '..', and must not look like an id",
            field="name",
        )
    return name


def create_trial(
    problem: Problem,
    *,
    policy: str = DEFAULT_POLICY,
    name: str | None = None,
    db: StoreLike = None,
    seed: int | None = None,
    tol: float = 1e-4,
    ties: str = DEFAULT_TIES,
    by: str = "library",
    solution: DualSolution | None = None,
    bound: bool | None = None,
    design: Rules | None = None,
    design_report: str | None = None,
    max_open: int | None = None,
    max_cancelled: int | None = None,
) -> Trial:
    """Create a trial of a `problem` in the database.

    `policy` (its name), `tol`, `ties` and `solution` are those of `make_policy`, `db` is that of
    `open_store`. The `name` is unique in the database; it is generated and the `seed` drawn by
    default. `by`: author of the trial, for the log. `bound`: whether to solve the dual for the
    bound alone, if the policy needs no prices; by default if that needs a few seconds at most.
    The rules of a `design` (burn-in, floor, share of control, looks and stopping) bind the trial;
    `design_report` is the SHA-256 of the report of its operating characteristics. `max_open`,
    `max_cancelled`: how many allocations may be pending at the same time, and cancelled in all; by
    default half the slots, but at least 50 and 20.

    Raises `TrialError` if a setting is not allowed, `Conflict` if the name is taken.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.trials import create_trial, open_store
    >>> with open_store("new.db") as store:
    ...     trial = create_trial(Problem.uniform(arms=2, horizon=5), name="pilot", db=store)
    ...     trial.ask().stage
    0
    """
    problem = check_problem(problem, segments=True)
    with closed_on_error(db) as store:
        new = NewTrial(
            problem,
            store,
            name=name,
            seed=seed,
            by=by,
            design=design,
            design_report=design_report,
            max_open=max_open,
            max_cancelled=max_cancelled,
        )
        settings = make_settings(
            problem,
            policy=policy,
            ties=ties,
            seed=new.seed,
            tol=tol,
            solution=solution,
            bound=bound,
            rules=None if design is None else design.rules,
        )
        return new.create(settings)


class NewTrial:
    """A trial to be created: all but its settings, which may be slow to make, is checked."""

    def __init__(
        self,
        problem: Problem,
        store: Store,
        *,
        name: str | None = None,
        seed: int | None = None,
        by: str,
        design: Rules | None = None,
        design_report: str | None = None,
        max_open: int | None = None,
        max_cancelled: int | None = None,
    ) -> None:
        if seed is not None and seed < 0:
            raise TrialError(f"seed: {seed} is not allowed; must be zero or more", field="seed")
        self.seed = secrets.randbits(32) if seed is None else seed
        self._store, self._by = store, actor_of(by)
        limits = TrialLimits.default(problem).changed(max_open, max_cancelled)
        origin = origin_of(design, design_report)
        if name is None:
            name = f"trial-{secrets.token_hex(3)}"
        else:
            with store.read() as connection:
                refuse_taken(connection, trial_name(name))
        self._about = {"name": name, "limits": limits.to_dict(), **origin}

    def create(self, settings: TrialSettings) -> Trial:
        """Write the first event; `settings` have the seed of the trial."""
        store, event_log = self._store, event_log_of(self._store)
        ledger = store.write(
            lambda connection: event_log.create(connection, settings, self._about, by=self._by)
        )
        return Trial(store, ledger)


def open_trial(trial: str, *, db: StoreLike = None) -> Trial:
    """Open an existing trial by name or id; `db` as in `open_store`.

    Raises `NotFound` if there is no such trial, `Damaged` if its log was changed.
    """
    with closed_on_error(db) as store:
        with store.read() as connection:
            id_ = trial_id(connection, trial)
        return Trial(store, event_log_of(store).read(id_))


def list_trials(
    *,
    db: StoreLike = None,
    archived: bool = False,
    limit: int | None = None,
    after: str | None = None,
    stale_after: float = STALE_AFTER,
) -> list[Summary]:
    """List the trials of a database, oldest first; `db` as in `open_store`.

    `archived`: archived trials, too. `limit`: maximum number, up to 1000; all by default. `after`:
    id or name of the trial before the first. `stale_after`: hours after which a pending allocation
    is stale. Damaged trials are marked. Only the last event is read: `Trial.verify` checks all.
    """
    with closed_on_error(db) as store:
        page = page_of_trials(
            store,
            limit=limit,
            after=after,
            archived=archived,
            stale_after=stale_after,
            every=limit is None,
        )
        if store is not db:
            store.close()
        return list(page.items)
