"""Trials: create one, ask for the next arm, tell what happened, see how it stands.

Every call is one transaction. It finds the trial as it is, decides, writes one event, and returns
when that event is on the disk. A request that comes twice, recognised by its key or because it
says what is on record already, is answered as the first time and writes nothing.

The horizon is a hard cap. Outcomes may come late and in any order; while some are open, the policy
decides on the average over what they may be (`decisions.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sqlalchemy import Connection, select

from .. import paths
from ..dual import DualSolution
from ..policies.base import DEFAULT_TIES
from ..problem import Problem, is_name
from . import schema
from .books import Books, stored_events
from .desks import Desk, decision_record, desk_of, situation_of
from .errors import Conflict, NoFreeSlot, NotFound, TrialError
from .events import Event, chained
from .ledger import Allocation, Ledger, Request, moved
from .plans import make_plan
from .replay import Replay, replayed
from .reports import Status, Summary, exported, path_of, status_of, summary_of
from .store import Database, Store, open_store
from .verification import Verification, verify_trial

MOST_KEY = 100  # characters


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
    if name is not None and not is_name(name):
        raise TrialError(f"name: {name!r}; must be a name as arms have them, without a comma")
    if seed is not None and seed < 0:
        raise TrialError(f"seed: {seed} is not allowed; must be zero or more")
    store = open_store(db)
    chosen = secrets.randbits(32) if seed is None else seed
    plan = make_plan(problem, policy=policy, ties=ties, seed=chosen, tol=tol, solution=solution)
    books = books_of(store)
    title = name or f"trial-{secrets.token_hex(3)}"
    ledger = store.write(lambda connection: books.create(connection, title, plan, by=_actor(by)))
    return Trial(store, ledger)


def open_trial(trial: str, *, db: Database = None) -> Trial:
    """A trial that exists, by id or by name."""
    store = open_store(db)
    books = books_of(store)
    with store.read() as connection:
        return Trial(store, books.current(connection, books.trial_id(connection, trial)))


def list_trials(*, db: Database = None) -> list[Summary]:
    """All trials of a database, the oldest first."""
    store = open_store(db)
    books = books_of(store)
    with store.read() as connection:
        order = select(schema.trials.c.id).order_by(schema.trials.c.created_at, schema.trials.c.id)
        ids = connection.execute(order).scalars().all()
        return [summary_of(books.current(connection, trial)) for trial in ids]


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
        self._desk  # noqa: B018  # tables are made before the transaction, which others wait for
        return self._change(Request("asked"), self._ask, key, by)

    def tell(
        self,
        allocation_id: str,
        outcome: int | bool,
        *,
        key: str | None = None,
        by: str = "library",
    ) -> Allocation:
        """Record an outcome: 1 is good, 0 is bad."""
        return self._change(Request("told", allocation_id, _outcome(outcome)), self._move, key, by)

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
        wanted = Request("corrected", allocation_id, _outcome(outcome))
        return self._change(wanted, self._move, key, by)

    def _change(
        self,
        request: Request,
        act: Callable[[Connection, Ledger, Request, str | None, str], Allocation | Conflict],
        key: str | None,
        by: str,
    ) -> Allocation:
        _check_key(key)
        actor = _actor(by)

        def work(connection: Connection) -> Allocation | Conflict:
            ledger = self._books.current(connection, self.id, lock=True)
            if key is not None and key in ledger.requests:
                before, made = ledger.requests[key]
                if before == request:
                    return _as_answered(ledger.allocations[made], request)
                why = "the key was used for another request"
                return self._refuse(connection, ledger, request, key, actor, why)
            return act(connection, ledger, request, key, actor)

        answer = self.store.write(work)
        if isinstance(answer, Conflict):
            raise answer
        return answer

    def _ask(
        self, connection: Connection, ledger: Ledger, request: Request, key: str | None, by: str
    ) -> Allocation:
        if ledger.used >= ledger.slots:
            raise NoFreeSlot("every slot of the trial is in use")
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
        if _on_record(slot, request):
            return slot
        try:
            moved(slot, request.kind, request.outcome)
        except ValueError:
            return self._refuse(connection, ledger, request, key, by, _contradiction(slot, request))
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
        data = {"request": dict(request.__dict__), "key": key, "why": why}
        self._books.append(connection, ledger, "refused", data, by=by)
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
        with self.store.read() as connection:
            self._books.current(connection, self.id)
            return list(chained(stored_events(connection, self.id), self.id))

    def export(self) -> dict[str, Any]:
        """Everything there is to know, as plain values: `verify_export` can check it elsewhere."""
        return exported(self.status(), self.events(), self.allocations())

    def verify(self) -> Verification:
        """Check the chain, from the rows as they are."""
        with self.store.read() as connection:
            return verify_trial(connection, self.id)

    def replay(self) -> Replay:
        """Make every decision again and compare."""
        return replayed(self.events())


def books_of(store: Store) -> Books:
    """The ledgers of a store: one set of them, however often it is asked for."""
    with _BOOKS_LOCK:
        return _BOOKS.setdefault(store, Books(store))


_BOOKS: WeakKeyDictionary[Store, Books] = WeakKeyDictionary()
_BOOKS_LOCK = Lock()


def _outcome(value: object) -> int:
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, int | np.integer) and value in (0, 1):
        return int(value)
    raise TrialError(f"outcome: {value!r}; must be 1 (good) or 0 (bad)")


def _check_key(key: str | None) -> None:
    if key is None:
        return
    if not (isinstance(key, str) and 1 <= len(key) <= MOST_KEY and key.isprintable()):
        raise TrialError(f"key: must be 1 to {MOST_KEY} printable characters")


def _actor(by: str) -> str:
    if not is_name(by):
        raise TrialError("by: must be a name of 1 to 100 printable characters, without a comma")
    return by


def _on_record(slot: Allocation, request: Request) -> bool:
    """Whether the request asks for what is so already."""
    if request.kind == "cancelled":
        return slot.state == "cancelled"
    return slot.state == "told" and slot.outcome == request.outcome


def _as_answered(slot: Allocation, request: Request) -> Allocation:
    """The allocation as it was when the request was answered first."""
    if request.kind == "asked":
        return replace(slot, state="open", outcome=None)
    if request.kind == "cancelled":
        return slot
    return replace(slot, state="told", outcome=request.outcome)


def _contradiction(slot: Allocation, request: Request) -> str:
    if slot.state == "cancelled":
        return "the allocation was cancelled"
    if request.kind == "corrected":
        return "the allocation has no outcome to correct; tell it"
    if request.kind == "cancelled":
        return "the allocation has an outcome and cannot be cancelled"
    return "another outcome is on record; an administrator can correct it"
