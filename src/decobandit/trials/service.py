"""Trials: create one, ask for the next arm, tell what happened, see how it stands.

Every call is one transaction. It finds the trial as it is, decides, writes one event, and returns
when that event is on the disk. A request that comes twice, recognised by its key or because it
says what is on record already, is answered as the first time and writes nothing.

The horizon is a hard cap. Outcomes may come late and in any order; while some are open, the policy
decides on the average over what they may be (`decisions.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Row, select

from .. import paths
from ..dual import DualSolution
from ..policies.base import DEFAULT_TIES
from ..problem import Problem
from . import schema
from .books import Books, refuse_taken, stored_events, trial_id
from .decisions import Decision
from .desks import Desk, decision_record, desk_of, situation_of
from .errors import Conflict, Damaged, NoFreeSlot, NotFound, StoreError, TrialError
from .events import Event, chained
from .ledger import Allocation, Ledger, Request, moved
from .plans import make_plan
from .replay import Replay, replayed
from .reports import Status, Summary, exported, path_of, status_of, summary_of
from .requests import (
    actor_of,
    as_answered,
    check_key,
    contradiction,
    on_record,
    outcome_of,
    trial_name,
)
from .store import Database, Store, open_store
from .verification import Verification, verify_named

TRIES = 5  # of a slow policy, while others write


class _MovedOn(Exception):
    """Somebody wrote between a decision and its transaction."""


def create_trial(
    problem: Problem,
    *,
    policy: str = "deco",
    name: str | None = None,
    db: Database = None,
    seed: int | None = None,
    tol: float = 1e-4,
    ties: str = DEFAULT_TIES,
    by: str = "library",
    solution: DualSolution | None = None,
) -> Trial:
    """Plan a trial and enter it into the database.

    `seed` is for policies that draw; without one it is drawn, and kept. `solution`: where the dual
    has been solved already.
    """
    if seed is not None and seed < 0:
        raise TrialError(f"seed: {seed} is not allowed; must be zero or more")
    actor = actor_of(by)
    title = f"trial-{secrets.token_hex(3)}" if name is None else trial_name(name)
    chosen = secrets.randbits(32) if seed is None else seed
    with _closed_on_error(db) as store:
        if name is not None:
            with store.read() as connection:
                refuse_taken(connection, name)  # before the long work
        plan = make_plan(problem, policy=policy, ties=ties, seed=chosen, tol=tol, solution=solution)
        books = books_of(store)
        ledger = store.write(lambda connection: books.create(connection, title, plan, by=actor))
        return Trial(store, ledger)


def open_trial(trial: str, *, db: Database = None) -> Trial:
    """A trial that exists, by id or by name."""
    with _closed_on_error(db) as store, store.read() as connection:
        books = books_of(store)
        return Trial(store, books.current(connection, trial_id(connection, trial)))


def list_trials(*, db: Database = None) -> list[Summary]:
    """All trials of a database, the oldest first."""
    with _closed_on_error(db) as store:
        books = books_of(store)
        with store.read() as connection:
            columns = schema.trials.c
            order = select(schema.trials).order_by(columns.created_at, columns.id)
            rows = connection.execute(order).all()
            found = [_summary(books, connection, row) for row in rows]
        if store is not db:
            store.close()
        return found


def _summary(books: Books, connection: Connection, row: Row[Any]) -> Summary:
    """One that is damaged is listed as such, and does not hide the others."""
    try:
        return summary_of(books.current(connection, row.id))
    except Damaged:
        return Summary(
            str(row.id), str(row.name), "", 0, 0, 0, 0, 0, str(row.created_at), intact=False
        )


class Trial:
    """A handle on one trial: cheap, safe to share between threads, always up to date."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self.store = store
        self.id = ledger.trial
        self.name = ledger.name
        self.plan = ledger.plan
        self._books = books_of(store)

    @property
    def problem(self) -> Problem:
        return self.plan.problem

    @property
    def policy(self) -> str:
        return self.plan.policy

    @property
    def solution(self) -> DualSolution:
        """The prices, and the bound that they certify."""
        return self.plan.solution

    @cached_property
    def _desk(self) -> Desk:
        return desk_of(self.plan)

    # -- what changes the trial --------------------------------------------------------------

    def ask(self, *, key: str | None = None, by: str = "library") -> Allocation:
        """Allocate the next slot. `NoFreeSlot` when all are in use."""
        for _ in range(TRIES):
            found = None if self._desk.quick else self._decided()
            try:
                return self._change(Request("asked"), partial(self._ask, found), key, by)
            except _MovedOn:
                continue
        raise StoreError("others write faster than this policy decides; try again")

    def _decided(self) -> tuple[str, Decision] | None:
        """The decision as things stand, before the transaction, for which others wait."""
        ledger = self._ledger()
        if ledger.used >= ledger.slots:
            return None
        return ledger.head, self._desk.decide(ledger)

    def tell(
        self,
        allocation_id: str,
        outcome: int | bool,
        *,
        key: str | None = None,
        by: str = "library",
    ) -> Allocation:
        """Record an outcome: 1 is good, 0 is bad."""
        return self._change(
            Request("told", allocation_id, outcome_of(outcome)), self._move, key, by
        )

    def cancel(
        self, allocation_id: str, *, key: str | None = None, by: str = "library"
    ) -> Allocation:
        """Give up an allocation that has no outcome; its slot is free again."""
        return self._change(Request("cancelled", allocation_id), self._move, key, by)

    def correct(
        self,
        allocation_id: str,
        outcome: int | bool,
        *,
        key: str | None = None,
        by: str = "library",
    ) -> Allocation:
        """Replace a recorded outcome; the old one stays in the log."""
        wanted = Request("corrected", allocation_id, outcome_of(outcome))
        return self._change(wanted, self._move, key, by)

    def _change(
        self,
        request: Request,
        act: Callable[[Connection, Ledger, Request, str | None, str], Allocation | Conflict],
        key: str | None,
        by: str,
    ) -> Allocation:
        check_key(key)
        actor = actor_of(by)

        def work(connection: Connection) -> Allocation | Conflict:
            ledger = self._books.current(connection, self.id, lock=True)
            before = ledger.answered.get(key or "")
            if before is not None and (before.request, before.by) == (request, actor):
                if before.refusal:
                    return Conflict(before.refusal)
                return as_answered(ledger.allocations[before.allocation], request)
            if before is not None:
                why = "the key was used for another request"
                return self._refuse(connection, ledger, request, None, actor, why)
            return act(connection, ledger, request, key, actor)

        answer = self.store.write(work)
        if isinstance(answer, Conflict):
            raise answer
        return answer

    def _ask(
        self,
        found: tuple[str, Decision] | None,
        connection: Connection,
        ledger: Ledger,
        request: Request,
        key: str | None,
        by: str,
    ) -> Allocation:
        if ledger.used >= ledger.slots:
            raise NoFreeSlot("every slot of the trial is in use")
        if found is not None and found[0] == ledger.head:
            decision = found[1]
        elif self._desk.slow:
            raise _MovedOn
        else:  # tables are warm by now
            decision = self._desk.decide(ledger)
        made = secrets.token_hex(8)
        data = {
            "allocation": made,
            "arm": self.problem.arms[decision.arm].name,
            "number": ledger.asks,
            "reason": decision.reason,
            "decision": decision_record(decision, situation_of(ledger), self.plan),
        }
        later = self._books.append(connection, ledger, request.kind, data, by=by, key=key)
        return later.allocations[made]

    def _move(
        self, connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
    ) -> Allocation | Conflict:
        slot = ledger.allocations.get(request.allocation or "")
        if slot is None:
            raise NotFound("no such allocation in this trial")
        if on_record(slot, request):
            return slot
        try:
            moved(slot, request.kind, request.outcome)
        except ValueError:
            return self._refuse(connection, ledger, request, key, by, contradiction(slot, request))
        data: dict[str, Any] = {"allocation": slot.id}
        if request.outcome is not None:
            data["outcome"] = request.outcome
        later = self._books.append(connection, ledger, request.kind, data, by=by, key=key)
        return later.allocations[slot.id]

    def _refuse(
        self,
        connection: Connection,
        ledger: Ledger,
        request: Request,
        key: str | None,
        by: str,
        why: str,
    ) -> Conflict:
        """Log the refusal. Returned, not raised: an exception would undo the log."""
        data = {"request": dict(request.__dict__), "why": why}
        self._books.append(connection, ledger, "refused", data, by=by, key=key)
        return Conflict(why)

    # -- what only looks ---------------------------------------------------------------------

    def _ledger(self) -> Ledger:
        with self.store.read() as connection:
            return self._books.current(connection, self.id)

    def status(self) -> Status:
        """How the trial stands, what an ask would give now, and how far from optimal it can be."""
        return status_of(self._ledger(), self._desk)

    def allocations(self) -> list[Allocation]:
        """All of them, in the order of the asks."""
        return list(self._ledger().allocations.values())

    def path(self) -> paths.Path:
        """The told outcomes in the order of their asks, seen from the prices."""
        return path_of(self._ledger(), self._desk)

    def events(self) -> list[Event]:
        """The log, checked."""
        return self._log()[1]

    def _log(self) -> tuple[Ledger, list[Event]]:
        """The ledger and the events that it comes from, at one moment."""
        with self.store.read() as connection:
            ledger = self._books.current(connection, self.id)
            try:
                return ledger, list(chained(stored_events(connection, self.id), self.id))
            except Damaged:
                self._books.forget(self.id)
                raise

    def export(self) -> dict[str, Any]:
        """Everything there is to know, as plain values: `verify_export` can check it elsewhere."""
        ledger, events = self._log()
        return exported(status_of(ledger, self._desk), events, list(ledger.allocations.values()))

    def verify(self) -> Verification:
        """Check the chain, from the rows as they are."""
        return check_trial(self.id, db=self.store)

    def replay(self) -> Replay:
        """Make every decision again and compare."""
        return replayed(self.events())


def check_trial(trial: str, *, db: Database = None) -> Verification:
    """Check the chain of a trial by id or name, also of one that can no longer be opened.

    What was known of a damaged one is forgotten: nothing is decided from it any more.
    """
    with _closed_on_error(db) as store:
        with store.read() as connection:
            found = verify_named(connection, trial)
        if not found.ok:
            books_of(store).forget(found.trial)
        return found


@contextmanager
def _closed_on_error(db: Database) -> Iterator[Store]:
    """The database; when something goes wrong, one that was opened here is closed again."""
    store = open_store(db)
    try:
        yield store
    except BaseException:
        if store is not db:
            store.close()
        raise


def books_of(store: Store) -> Books:
    """The ledgers of a store: one set of them, however often it is asked for."""
    with _BOOKS_LOCK:
        return _BOOKS.setdefault(store, Books(store))


_BOOKS: WeakKeyDictionary[Store, Books] = WeakKeyDictionary()
_BOOKS_LOCK = Lock()
