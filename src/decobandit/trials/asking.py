"""How changes of a trial are made: one transaction each, asks with their decision.

Every change reads the trial, writes one event, and returns when that event is on disk. A repeated
request, recognised by its key or because it agrees with the record, gets the answer of the first
one and writes nothing. A short decision, which only looks into tables, is made in the transaction
that records it. One that takes long is made before it, for the state of the trial at that moment,
so that other writers never wait; if the trial has another state by then, it is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection

from ..support import Once
from .changes import Answer, Change, answered
from .decider import Decider, pending_state
from .decisions import Decision
from .errors import Conflict, StoreError
from .event_log import NotAtOnce
from .ledger import Ledger
from .lifecycle import Lifecycle
from .pending import PendingState
from .requests import Refusal, Request, actor_of, check_key
from .settings import TrialSettings
from .status import summary_of
from .turns import Turns

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


class Asking(Lifecycle):
    """The part of `Trial` that makes changes, and asks with their decisions."""

    id: str
    settings: TrialSettings
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
