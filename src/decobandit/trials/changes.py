"""How changes of a trial are made: one transaction each, asks with their decision.

Every change reads the trial, writes one event, and returns when that event is on disk. A repeated
request, recognised by its key or because it agrees with the record, gets the answer of the first
one and writes nothing.

Most changes are short, and many of them can be tried in one transaction (`Change.attempt`, as the
work of `Store.submit`). One that turns out to take long, because a table has to be made, because
many events have to be read first, or because it is another one's turn, raises `NotAtOnce` there and
is made by itself (`Change.resume`), where nobody waits for it. A decision that takes long is made
before the transaction that records it, for the state of the trial at that moment; if the trial has
another state by then, it is made again. Asks of a trial are taken one after the other, and one that
was outrun holds the other changes of its trial back until it is recorded (`Turns`), within one
process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from sqlalchemy import Connection

from ..support import Once
from .database import Store
from .decider import Decider, pending_state
from .decisions import Decision
from .errors import Conflict, Damaged, StoreError
from .event_log import EventLog, NotAtOnce
from .ledger import Ledger
from .pending import PendingState
from .requests import Refusal, Request, actor_of, check_key
from .settings import TrialSettings
from .status import summary_of

Answer = TypeVar("Answer")

NEEDS_MORE = (NotAtOnce, Damaged)  # after which an attempt is resumed


@dataclass(frozen=True)
class Change(Generic[Answer]):
    """A request to a trial, checked and ready."""

    log: EventLog
    trial: str
    work: Callable[[Connection, Ledger], Answer | Conflict]  # in a transaction
    is_short: Callable[[], bool]  # whether others may wait for it
    alone: Callable[[], Answer]  # the way that may take long

    def made(self) -> Answer:
        """Make it, and wait until it is on disk."""
        if self.is_short():
            try:
                return answered(self.log.change(self.trial, self.work))
            except NotAtOnce:
                pass
        return self.alone()

    def attempt(self, connection: Connection) -> Answer | Conflict:
        """Make it in this transaction; `NotAtOnce` where others would have to wait."""
        if not self.is_short():
            raise NotAtOnce
        return self.work(connection, self.log.locked(connection, self.trial))

    def resume(self, error: NotAtOnce | Damaged) -> Answer:
        """Go on after an attempt that failed: by itself; damage is put on record and raised."""
        with self.log.damage.remembering(self.trial):
            if isinstance(error, Damaged):
                raise error
        return self.alone()


def answered(answer: Answer | Conflict) -> Answer:
    """The answer of a work; a refusal, returned so that the log of it is kept, is raised."""
    if isinstance(answer, Conflict):
        raise answer
    return answer


# -- whose turn it is, where the next decision of a trial takes long -------------------------------


TURN_SECONDS = 60.0  # that a change waits for the asks before it


class Turns:
    """The turns at one trial."""

    def __init__(self) -> None:
        self._asks, self._changes = FairLock(), FairLock()

    @property
    def taken(self) -> bool:
        """Whether an ask holds changes back, or a change waits for one."""
        return self._changes.locked()

    @contextmanager
    def ask(self) -> Iterator[None]:
        """One ask at a time; other changes go on."""
        with _held(self._asks):
            yield

    @contextmanager
    def change(self) -> Iterator[None]:
        """A change of the trial, or an ask that was outrun: one at a time."""
        with _held(self._changes):
            yield


class FairLock:
    """A lock that threads get in the order in which they came."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._held = False
        self._waiting: deque[Lock] = deque()  # each is released when its thread has its turn

    def locked(self) -> bool:
        return self._held

    def acquire(self, timeout: float) -> bool:
        """Whether the turn came within so many seconds."""
        with self._guard:
            if not self._held:
                self._held = True
                return True
            turn = Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=timeout):
            return True
        with self._guard:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return False
        return True  # the turn came in the last moment

    def release(self) -> None:
        """The turn of the thread that has waited longest."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False


@contextmanager
def _held(lock: FairLock) -> Iterator[None]:
    if not lock.acquire(timeout=TURN_SECONDS):
        raise StoreError("too many requests wait for the decisions of this trial; try again")
    try:
        yield
    finally:
        lock.release()


_turns: WeakKeyDictionary[Store, WeakValueDictionary[str, Turns]] = WeakKeyDictionary()
_lock = Lock()


def turns_of(store: Store, trial: str) -> Turns:
    """The turns of a trial, shared by all handles on it."""
    with _lock:
        of_store = _turns.setdefault(store, WeakValueDictionary())
        found = of_store.get(trial)
        if found is None:
            found = of_store[trial] = Turns()
        return found


# -- how changes of a trial are made: one transaction each, asks with their decision ---------------


MAX_ATTEMPTS = 20  # to record a decision that was made ahead, while others write
Act = Callable[[Connection, Ledger, Request, str | None, str], Answer | Conflict]


class Outdated(NotAtOnce):
    """The trial changed between a decision and the transaction that was to record it."""


@dataclass(frozen=True)
class Decided:
    """Gives the decision for a ledger, inside the transaction that will record it.

    One that was made `ahead` holds as long as the trial is in the state that it was made for.
    """

    decider: Once[Decider]
    ahead: tuple[PendingState, Decision] | None = None

    def at(self, ledger: Ledger, pending: PendingState) -> Decision:
        """The decision; `Outdated` if there is none yet and it takes long."""
        if self.ahead is not None and self.ahead[0] == pending:
            return self.ahead[1]
        decider = self.decider()
        with decider.at_once(ledger.stage) as short:
            if not short:
                raise Outdated
            return decider.decide(ledger)

    def made_ahead(self, ledger: Ledger) -> Decided:
        """The same, decided for a state, outside the transaction that will record it.

        Nobody waits for it, and tables that it needs are made. Where the decision is short, or the
        ask will be refused, there is no need.
        """
        decider = self.decider()
        refused = ledger.used >= ledger.slots or ledger.state != "running"
        if refused or decider.is_short(ledger.stage):
            return self
        return replace(self, ahead=(pending_state(ledger), decider.decide(ledger)))


class Asking:
    """The part of `Trial` that makes changes, and asks with their decisions."""

    id: str
    settings: TrialSettings
    _event_log: EventLog
    _decider: Once[Decider]
    _turns: Turns

    def _ledger(self) -> Ledger:
        return self._event_log.read(self.id)

    def _asking(
        self,
        request: Request,
        write: Callable[..., Answer | Conflict],
        key: str | None,
        by: str,
    ) -> Change[Answer]:
        """An ask that is not made yet: `write(decided, connection, ...)` records the decision."""
        decided = Decided(self._decider)
        return Change(
            self._event_log,
            self.id,
            self._work(request, partial(write, decided), key, by),
            is_short=lambda: self._decider.made and self._decider().prepared,
            alone=partial(self._ask_ahead, request, write, decided, key, by),
        )

    def _ask_ahead(
        self,
        request: Request,
        write: Callable[..., Answer | Conflict],
        decided: Decided,
        key: str | None,
        by: str,
    ) -> Answer:
        """An ask whose decision takes long, made ahead until nobody outruns it."""
        with self._turns.ask():
            for attempt in range(MAX_ATTEMPTS):
                # the first attempt holds nobody up; later ones hold other changes back
                with nullcontext() if attempt == 0 else self._turns.change():
                    try:
                        ahead = partial(write, decided.made_ahead(self._ledger()))
                        return self._change(request, ahead, key, by)
                    except Outdated:
                        continue
            raise StoreError("other processes change the trial faster than its policy decides")

    def _moving(
        self, request: Request, move: Act[Answer], key: str | None, by: str
    ) -> Change[Answer]:
        """A change that an ask may hold back; where decisions are short, none does."""
        return Change(
            self._event_log,
            self.id,
            self._work(request, move, key, by),
            is_short=lambda: not self._turns.taken,
            alone=partial(self._move_in_turn, request, move, key, by),
        )

    def _move_in_turn(
        self, request: Request, move: Act[Answer], key: str | None, by: str
    ) -> Answer:
        with self._turns.change() if self._turns.taken else nullcontext():
            return self._change(request, move, key, by)

    def _change(self, request: Request, act: Act[Answer], key: str | None, by: str) -> Answer:
        return answered(self._event_log.change(self.id, self._work(request, act, key, by)))

    def _work(
        self, request: Request, act: Act[Answer], key: str | None, by: str
    ) -> Callable[[Connection, Ledger], Answer | Conflict]:
        """`act` in a transaction; a request that was answered before gets the same answer."""
        check_key(key)
        actor = actor_of(by)

        def work(connection: Connection, ledger: Ledger) -> Any:
            before = ledger.answered.get((actor, key or ""))
            if before is not None and before.request == request:
                if before.refusal:
                    return Conflict(before.refusal)
                return summary_of(ledger) if before.allocation is None else before.allocation
            if before is not None:
                why = "the key was used for another request"
                return self._refuse(connection, ledger, request, None, actor, why)
            return act(connection, ledger, request, key, actor)

        return work

    def _refuse(
        self,
        connection: Connection,
        ledger: Ledger,
        request: Request,
        key: str | None,
        by: str,
        why: str,
    ) -> Conflict:
        """Log the refusal, or count one that is logged already.

        Returned, not raised: an exception would roll back the log.
        """
        times = self._event_log.count_refusal(ledger, Refusal(request, by, why))
        if times is not None:
            data = {"request": request.refused(), "why": why, "times": times}
            self._event_log.append(connection, ledger, "refused", data, by=by, key=key)
        return Conflict(why)
