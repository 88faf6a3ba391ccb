"""Whether a recorded history and the stored log can both be true.

The log is the order in which things happened; trials are checked one by one. A request belongs to
the event that has its key, a read to the event whose hash it shows. Kinds of violations:

    chain    the hashes of the log do not hold together
    log      an event cannot have happened where it stands
    cap      more slots are in use than the trial has
    lost     an acknowledged request has no event
    doubled  one request has two events
    unasked  an event belongs to no request
    order    an operation ended before another began, and comes after it in the log
    stale    a read does not show what was acknowledged before it began
    answer   an answer is not what the log says
    error    an answer is an error that nobody expected, whatever failed
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from helpers.faults.history import INTERNAL, OK, REFUSED, UNKNOWN, WRITES, Operation, Request
from helpers.faults.log_states import NEEDED, LogStates, Slot, broken_links, followed
from helpers.faults.rows import StoredTrial


@dataclass(frozen=True)
class Violation:
    """What cannot be true."""

    kind: str
    trial: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: trial {self.trial}: {self.text}"


class Placed(NamedTuple):
    """Something of the history at a known position of the log."""

    began: int
    ended: float
    position: int
    writes: bool
    what: str


def violations(history: Sequence[Operation], trials: Iterable[StoredTrial]) -> list[Violation]:
    """All that is wrong; nothing where history and log agree."""
    return [wrong for trial in trials for wrong in _Check(history, trial).run()]


@dataclass
class _Window:
    """Between which positions an operation must stand, by what is known of the others."""

    placed: list[Placed]
    last: int

    def __post_init__(self) -> None:
        ended = sorted(self.placed, key=lambda one: one.ended)
        self._ends = [one.ended for one in ended]
        self._floors = list(accumulate((one.position for one in ended), max, initial=0))
        begun = sorted((one for one in self.placed if one.writes), key=lambda one: -one.began)
        self._starts = [-one.began for one in begun]
        self._ceilings = list(accumulate((one.position for one in begun), min, initial=10**9))

    def floor(self, began: int) -> int:
        """The largest position of what had ended."""
        return self._floors[bisect_left(self._ends, began)]

    def within(self, operation: Operation) -> range:
        """Positions that fit: after all that had ended, before all events that began later."""
        assert operation.ended is not None
        ceiling = self._ceilings[bisect_left(self._starts, -operation.ended)]
        return range(self.floor(operation.began), min(ceiling - 1, self.last) + 1)


@dataclass
class _Check:
    history: Sequence[Operation]
    trial: StoredTrial
    found: list[Violation] = field(default_factory=list)

    def run(self) -> list[Violation]:
        self._say("chain", broken_links(self.trial))
        self.states, wrong = followed(self.trial.rows)
        self._say("log", wrong)
        if wrong:
            return self.found
        over = (p for p in range(self.states.last + 1) if self.states.used[p] > self.states.slots)
        self._say("cap", (f"event {p}: {self.states.used[p]} slots in use" for p in over))
        self._pair()
        placed = [*self._requests(), *self._exact_reads()]
        self._check_order(placed)
        window = _Window(placed, self.states.last)
        for operation in self._mine():
            if operation.answer.code == INTERNAL:
                self._say("error", [f"{operation.request}: {operation.answer.told}"])
            if operation.answer.outcome != UNKNOWN:
                self._check_answer(operation, window)
        return self.found

    def _say(self, kind: str, texts: Iterable[str]) -> None:
        self.found += [Violation(kind, self.trial.name, text) for text in texts]

    def _mine(self) -> Iterator[Operation]:
        return (one for one in self.history if one.request.trial in (self.trial.name, ""))

    # -- requests and their events ------------------------------------------------------------

    def _pair(self) -> None:
        """Attempts by key, positions by key."""
        self.attempts: dict[str, list[Operation]] = defaultdict(list)
        for operation in self._mine():
            if operation.request.key is not None:
                self.attempts[operation.request.key].append(operation)
        self.positions: dict[str, int] = {}
        for position, body in enumerate(self.states.bodies):
            key = body["key"]
            if key is not None and key in self.positions:
                self._say("doubled", [f"{key}: events {self.positions[key]} and {position}"])
            elif key is not None and key in self.attempts:
                self.positions[key] = position
            elif key is not None or body["kind"] not in ("created", "refused"):
                self._say("unasked", [f"event {position}, {body['kind']}, key {key}"])

    def _requests(self) -> Iterator[Placed]:
        """Requests that have an event: between their first attempt and the first answer."""
        for key, position in self.positions.items():
            attempts = self.attempts[key]
            settled = REFUSED if self.states.bodies[position]["kind"] == "refused" else OK
            ends = [
                one.ended
                for one in attempts
                if one.ended is not None and one.answer.outcome == settled
            ]
            began, ended = min(one.began for one in attempts), min(ends, default=float("inf"))
            yield Placed(began, ended, position, True, f"{attempts[0].request.kind} {key}")

    def _exact_reads(self) -> Iterator[Placed]:
        """Reads that show the hash of an event."""
        known = {digest: position for position, digest in enumerate(self.states.hashes)}
        for read in self._mine():
            if read.request.kind in ("status", "export") and read.answer.outcome == OK:
                position = known.get(read.answer.told["head"])
                what = f"{read.request.kind} by {read.client}"
                if position is None:
                    self._say("lost", [f"{what}: the head that it showed is not in the log"])
                else:
                    assert read.ended is not None
                    yield Placed(read.began, read.ended, position, False, what)
                    self._check_read(read, position, what)

    def _check_order(self, placed: list[Placed]) -> None:
        window = _Window(placed, self.states.last)
        for one in placed:
            floor = window.floor(one.began)
            if one.position < floor or (one.writes and one.position == floor and floor > 0):
                self._say(
                    "order" if one.writes else "stale",
                    [f"{one.what}: is at {one.position}, but {floor} was seen before it began"],
                )

    # -- answers ------------------------------------------------------------------------------

    def _check_read(self, read: Operation, position: int, what: str) -> None:
        told, states = read.answer.told, self.states
        shown: dict[str, Any] = {
            "told": told["told"],
            "allocated": told["allocated"],
            "arms": {name: tuple(counts) for name, *counts in told["arms"]},
            "open": set(told["open"]),
        }
        true: dict[str, Any] = {
            "told": states.told[position],
            "allocated": states.used[position],
            "arms": states.arm_counts(position),
            "open": states.open_at(position),
        }
        if read.request.kind == "export":
            shown |= {"hashes": told["hashes"], "slots": {tuple(slot) for slot in told["slots"]}}
            slots = {(name, self.states.slot(name, position)) for name in states.lives}
            true |= {
                "hashes": states.hashes[: position + 1],
                "slots": {(name, s.arm, s.state, s.outcome) for name, s in slots if s},
            }
        wrong = [name for name in shown if shown[name] != true[name]]
        self._say("answer", [f"{what}: {name} is not that of event {position}" for name in wrong])

    def _check_answer(self, operation: Operation, window: _Window) -> None:
        request, answer = operation.request, operation.answer
        position = self.positions.get(request.key or "")
        what = f"{request.kind} {request.key or ''} by {operation.client}"
        if request.kind == "list":
            self._check_list(operation, window, what)
        elif request.kind in WRITES and answer.outcome == REFUSED:
            self._check_refusal(operation, window, what)
        elif request.kind in WRITES and position is not None:
            self._check_event(operation, position, what)
        elif request.kind in WRITES:
            # told again what is on record: that needs no event, but the record
            on_record = request.kind != "ask" and self._holds(
                operation, window, lambda p: _is_on_record(self.states, request, p)
            )
            if not on_record:
                self._say("lost", [f"{what}: was acknowledged and is not in the log"])

    def _holds(self, operation: Operation, window: _Window, true: Callable[[int], bool]) -> bool:
        """Whether something was true at a moment at which the operation may have taken place."""
        return any(true(position) for position in window.within(operation))

    def _check_event(self, operation: Operation, position: int, what: str) -> None:
        request, told, body = operation.request, operation.answer.told, self.states.bodies[position]
        name = body["data"].get("allocation")
        slot = self.states.slot(name, position)
        wanted = (WRITES[request.kind], request.outcome, request.allocation or name)
        if (body["kind"], body["data"].get("outcome"), name) != wanted or slot is None:
            self._say("answer", [f"{what}: its event, {position}, is that of another request"])
        elif (told["id"], told["arm"], told["state"], told["outcome"]) != (
            name,
            slot.arm,
            slot.state,
            slot.outcome,
        ):
            self._say("answer", [f"{what}: {told} is not what event {position} says"])

    def _check_refusal(self, operation: Operation, window: _Window, what: str) -> None:
        request, code = operation.request, operation.answer.code
        position = self.positions.get(request.key or "")
        others = self.attempts[request.key or ""]
        done = position is not None and self.states.bodies[position]["kind"] != "refused"
        if done and all(one.answer.outcome == REFUSED for one in others):
            self._say("answer", [f"{what}: was refused and is in the log, event {position}"])
            return
        # a logged refusal is the answer to later attempts too, whatever has changed since
        if position is not None and not done:
            justified = self._refuses(request, code, position)
        else:
            justified = self._holds(operation, window, lambda p: self._refuses(request, code, p))
        if not justified:
            self._say("answer", [f"{what}: refused ({code}), but nothing was against it"])

    def _refuses(self, request: Request, code: str, position: int) -> bool:
        """Whether a request had to be refused; of other reasons the log knows nothing."""
        if code == "no_free_slot":
            return self.states.used[position] == self.states.slots
        if code == "conflict" and request.kind != "ask":
            return _contradicts(self.states, request, position)
        if code == "not_found":
            missing = self.states.slot(request.allocation, position) is None
            return missing and request.kind != "ask"
        return True

    def _check_list(self, operation: Operation, window: _Window, what: str) -> None:
        shown = {entry[0]: tuple(entry[1:]) for entry in operation.answer.told}
        if self.trial.name not in shown:
            self._say("stale", [f"{what}: the trial is not in the list"])
            return
        wanted = shown[self.trial.name]

        def same(position: int) -> bool:
            used, told = self.states.used[position], self.states.told[position]
            return wanted == (used, told, used - told)

        if not self._holds(operation, window, same):
            before = any(map(same, range(window.floor(operation.began))))
            self._say("stale" if before else "answer", [f"{what}: {wanted} was not true then"])


def _is_on_record(states: LogStates, request: Request, position: int) -> bool:
    slot = states.slot(request.allocation, position)
    if slot is None:
        return False
    if request.kind == "cancel":
        return slot.state == "cancelled"
    return slot.state == "told" and slot.outcome == request.outcome


def _contradicts(states: LogStates, request: Request, position: int) -> bool:
    slot: Slot | None = states.slot(request.allocation, position)
    if slot is None or _is_on_record(states, request, position):
        return False
    return slot.state != NEEDED[WRITES[request.kind]]


def happened(history: Sequence[Operation], trials: Iterable[StoredTrial]) -> Counter[str]:
    """What became of requests, for the report: acknowledged, unknown, and unknown but done."""
    keys = {row.key for trial in trials for row in trial.rows if row.kind != "refused"}
    by_key: dict[str, set[str]] = defaultdict(set)
    for operation in history:
        if operation.request.key is not None:
            by_key[operation.request.key].add(operation.answer.outcome)
    counts = Counter[str]()
    for key, outcomes in by_key.items():
        if OK in outcomes:
            counts["acknowledged"] += 1
        elif UNKNOWN in outcomes:
            counts["unknown"] += 1
            counts["unknown, done"] += key in keys
        else:
            counts["refused"] += 1
    return counts
