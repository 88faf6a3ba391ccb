"""The checker of histories finds each kind of violation, in histories made by hand."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from helpers.faults.checker import happened, violations
from helpers.faults.history import (
    INTERNAL,
    OK,
    REFUSED,
    UNKNOWN,
    Answer,
    Operation,
    Recorder,
    Request,
    read_history,
)
from helpers.faults.rows import Row, StoredTrial

ARMS = [{"name": "a"}, {"name": "b"}]


@dataclass
class Case:
    """A log and a history beside it; times are small numbers."""

    horizon: int = 2
    rows: list[Row] = field(default_factory=list)
    history: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.event("created", None, {"plan": {"problem": {"arms": ARMS, "horizon": self.horizon}}})

    def event(self, kind: str, key: str | None, data: dict[str, Any]) -> None:
        previous = self.rows[-1].hash if self.rows else "0" * 64
        seq = len(self.rows)
        tree = {
            "trial": "id",
            "seq": seq,
            "kind": kind,
            "key": key,
            "previous": previous,
            "data": data,
        }
        body = json.dumps(tree)
        self.rows.append(Row(seq, kind, key, body, hashlib.sha256(body.encode()).hexdigest()))

    def asked(self, key: str, slot: str, arm: str = "a") -> None:
        self.event("asked", key, {"allocation": slot, "arm": arm})

    def moved(self, kind: str, key: str, slot: str, outcome: int | None = None) -> None:
        more = {} if outcome is None else {"outcome": outcome}
        self.event(kind, key, {"allocation": slot} | more)

    def add(self, request: Request, began: int, ended: int | None, answer: Answer) -> None:
        self.history.append(Operation("someone", request, began, ended, answer))

    def ask(self, key: str, slot: str, began: int, ended: int, arm: str = "a") -> None:
        told = {"id": slot, "arm": arm, "state": "open", "outcome": None}
        self.add(Request("ask", "wheat", key), began, ended, Answer(OK, told))

    def tell(self, key: str, slot: str, outcome: int, began: int, ended: int) -> None:
        told = {"id": slot, "arm": "a", "state": "told", "outcome": outcome}
        request = Request("tell", "wheat", key, slot, outcome)
        self.add(request, began, ended, Answer(OK, told))

    def refused(self, request: Request, code: str, began: int, ended: int) -> None:
        self.add(request, began, ended, Answer(REFUSED, "", code))

    def status(self, seq: int, began: int, ended: int, **shown: Any) -> None:
        """A status that shows the hash of event `seq`, and that."""
        answer = Answer(OK, {"head": self.rows[seq].hash, **shown})
        self.add(Request("status", "wheat"), began, ended, answer)

    def found(self) -> set[str]:
        last = self.rows[-1]
        trial = StoredTrial("id", "wheat", last.seq, last.hash, tuple(self.rows))
        return {one.kind for one in violations(self.history, [trial])}


AFTER_ASK = {"told": 0, "allocated": 1, "arms": [["a", 0, 0, 1], ["b", 0, 0, 0]], "open": ["s"]}
AFTER_TELL = {"told": 1, "allocated": 1, "arms": [["a", 1, 0, 0], ["b", 0, 0, 0]], "open": []}


def good_case() -> Case:
    """An ask (repeated, as its first answer was lost), a tell, reads, a refusal."""
    case = Case()
    case.asked("k1", "s")
    case.moved("told", "k2", "s", 1)
    case.event("refused", "k3", {"request": {}, "why": ""})
    case.add(Request("ask", "wheat", "k1"), 1, 2, Answer(UNKNOWN))
    case.ask("k1", "s", 3, 4)
    case.status(1, 5, 6, **AFTER_ASK)
    case.tell("k2", "s", 1, 5, 8)
    case.status(2, 9, 10, **AFTER_TELL)
    case.refused(Request("tell", "wheat", "k3", "s", 0), "conflict", 11, 12)
    case.add(Request("list", ""), 13, 14, Answer(OK, [["wheat", 1, 1, 0]]))
    case.add(Request("ask", "wheat", "k4"), 15, None, Answer())
    return case


def test_what_agrees_with_the_log_is_not_objected_to() -> None:
    case = good_case()
    assert case.found() == set()
    trial = StoredTrial("id", "wheat", 0, "", tuple(case.rows))
    assert happened(case.history, [trial]) == {
        "acknowledged": 2,
        "refused": 1,
        "unknown": 1,
        "unknown, done": 0,
    }


def test_a_request_of_unknown_fate_may_have_happened() -> None:
    case = good_case()
    case.asked("k4", "t", "b")
    assert case.found() == set()


def test_a_logged_refusal_is_given_again_after_a_correction() -> None:
    case = good_case()
    case.moved("corrected", "k5", "s", 0)
    case.add(
        Request("correct", "wheat", "k5", "s", 0),
        20,
        21,
        Answer(OK, {"id": "s", "arm": "a", "state": "told", "outcome": 0}),
    )
    case.refused(Request("tell", "wheat", "k3", "s", 0), "conflict", 22, 23)
    assert case.found() == set()


def edited(case: Case) -> None:
    case.rows[1] = case.rows[1]._replace(body=case.rows[1].body + " ")


def lost_at_the_end(case: Case) -> None:
    case.ask("k5", "t", 20, 21)


def lost_from_the_middle(case: Case) -> None:
    case.history.append(replace(case.history[1], request=Request("ask", "wheat", "k9")))


def head_not_in_the_log(case: Case) -> None:
    told = {**case.history[2].answer.told, "head": "f" * 64}
    case.history[2] = replace(case.history[2], answer=Answer(OK, told))


def told_but_not_recorded(case: Case) -> None:
    case.asked("k4", "t")
    case.tell("k5", "t", 1, 20, 21)


def doubled(case: Case) -> None:
    case.asked("k1", "t", "b")


def unknown_done_twice(case: Case) -> None:
    case.asked("k4", "t", "b")
    case.moved("cancelled", "k5", "t")
    case.add(Request("cancel", "wheat", "k5", "t"), 30, None, Answer())
    case.asked("k4", "u", "b")


def unasked(case: Case) -> None:
    case.asked("nobody", "t", "b")


def unasked_without_key(case: Case) -> None:
    case.event("asked", None, {"allocation": "t", "arm": "b"})


def out_of_order(case: Case) -> None:
    # k5 ended before k4 began, and comes after it
    case.asked("k4", "t", "b")
    case.moved("cancelled", "k6", "t")
    case.asked("k5", "u", "b")
    case.add(Request("cancel", "wheat", "k6", "t"), 14, None, Answer())
    case.ask("k5", "u", 13, 14, "b")


def read_then_written_before(case: Case) -> None:
    # a read showed event 2 before the request of event 2 was sent
    case.history[3] = replace(case.history[3], began=11, ended=12)


def stale_status(case: Case) -> None:
    case.status(1, 20, 21, **AFTER_ASK)


def status_goes_back(case: Case) -> None:
    case.asked("k4", "t", "b")  # unknown, but seen
    arms = [["a", 1, 0, 0], ["b", 0, 0, 1]]
    case.status(4, 20, 21, told=1, allocated=2, arms=arms, open=["t"])
    case.status(3, 22, 23, **AFTER_TELL)


def stale_list(case: Case) -> None:
    case.add(Request("list", ""), 20, 21, Answer(OK, [["wheat", 1, 0, 1]]))


def list_without_it(case: Case) -> None:
    case.add(Request("list", ""), 20, 21, Answer(OK, []))


def over_the_cap(case: Case) -> None:
    for number in (5, 6):
        case.asked(f"k{number}", f"t{number}")
        case.ask(f"k{number}", f"t{number}", 10 + 2 * number, 11 + 2 * number)


def other_allocation(case: Case) -> None:
    case.history[1] = replace(
        case.history[1],
        answer=Answer(OK, {"id": "other", "arm": "a", "state": "open", "outcome": None}),
    )


def other_request(case: Case) -> None:
    case.tell("k6", "s", 0, 20, 21)
    case.event("corrected", "k6", {"allocation": "s", "outcome": 0})


def false_counts(case: Case) -> None:
    case.status(3, 20, 21, **AFTER_TELL | {"told": 2})


def false_list(case: Case) -> None:
    case.add(Request("list", ""), 20, 21, Answer(OK, [["wheat", 9, 9, 0]]))


def false_export(case: Case) -> None:
    shown = {"hashes": [row.hash for row in case.rows[:3]], "slots": [["s", "a", "told", 1]]}
    told = {"head": case.rows[3].hash, **AFTER_TELL, **shown}
    case.add(Request("export", "wheat"), 20, 21, Answer(OK, told))


def refused_for_nothing(case: Case) -> None:
    case.refused(Request("ask", "wheat", "k6"), "no_free_slot", 20, 21)


def contradiction_of_nothing(case: Case) -> None:
    case.asked("k4", "t", "b")
    case.refused(Request("tell", "wheat", "k6", "t", 0), "conflict", 20, 21)


def refused_and_done(case: Case) -> None:
    case.asked("k6", "t", "b")
    case.refused(Request("ask", "wheat", "k6"), "no_free_slot", 20, 21)


def not_found_though_there(case: Case) -> None:
    case.refused(Request("cancel", "wheat", "k6", "s"), "not_found", 20, 21)


def unexpected_error(case: Case) -> None:
    case.add(Request("ask", "wheat", "k6"), 20, 21, Answer(UNKNOWN, "Traceback", INTERNAL))


def told_twice(case: Case) -> None:
    case.moved("told", "k6", "s", 0)
    case.add(Request("tell", "wheat", "k6", "s", 0), 20, None, Answer())


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("chain", edited),
        ("lost", lost_at_the_end),
        ("lost", lost_from_the_middle),
        ("lost", head_not_in_the_log),
        ("lost", told_but_not_recorded),
        ("doubled", doubled),
        ("doubled", unknown_done_twice),
        ("unasked", unasked),
        ("unasked", unasked_without_key),
        ("order", out_of_order),
        ("order", read_then_written_before),
        ("stale", stale_status),
        ("stale", status_goes_back),
        ("stale", stale_list),
        ("stale", list_without_it),
        ("cap", over_the_cap),
        ("answer", other_allocation),
        ("answer", other_request),
        ("answer", false_counts),
        ("answer", false_list),
        ("answer", false_export),
        ("answer", refused_for_nothing),
        ("answer", contradiction_of_nothing),
        ("answer", refused_and_done),
        ("answer", not_found_though_there),
        ("error", unexpected_error),
        ("log", told_twice),
    ],
)
def test_a_violation_is_found(kind: str, spoil: Callable[[Case], None]) -> None:
    case = good_case()
    spoil(case)
    assert case.found() == {kind}


def test_a_lost_row_and_a_moved_head_are_found() -> None:
    case = good_case()
    rows = tuple(case.rows)
    for trial in (
        StoredTrial("id", "wheat", 3, rows[3].hash, rows[:3]),
        StoredTrial("id", "wheat", 2, rows[2].hash, rows),
        StoredTrial("id", "wheat", 3, rows[3].hash, (rows[0], *rows[2:])),
    ):
        assert "chain" in {one.kind for one in violations([], [trial])}


def test_a_history_keeps_what_was_begun_and_never_ended(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history")
    first, second = Request("ask", "wheat", "k1"), Request("status", "wheat")
    recorder.begin("one", first)
    recorder.end(recorder.begin("two", second), Answer(OK, {"head": "f"}))
    recorder.close()
    begun, ended = read_history(tmp_path / "history")
    assert (begun.client, begun.request, begun.ended) == ("one", first, None)
    assert begun.answer.outcome == UNKNOWN
    assert ended.answer == Answer(OK, {"head": "f"})
    assert ended.ended is not None
    assert begun.began <= ended.began <= ended.ended
