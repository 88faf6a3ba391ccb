"""Subjects, reasons, limits, closing and codes; old logs have none of them and stay valid."""

import csv
import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from decobandit.problem import Problem
from decobandit.trials import (
    Closed,
    Conflict,
    LimitReached,
    Trial,
    TrialError,
    create_trial,
    list_trials,
    open_store,
    open_trial,
    outcomes_csv,
    verify_export,
)
from decobandit.trials.events import GENESIS, Event, StoredEvent, new_event
from decobandit.trials.settings import letters
from decobandit.trials.verification import LogCheck, Verification
from helpers.refusals import refused

pytest_plugins = ["helpers.databases"]

PROBLEM = Problem.uniform(arms=3, horizon=12)


def checked(rows: list[StoredEvent], trial: str) -> Verification:
    """The check of a log whose head is its last event."""
    check = LogCheck(trial)
    for row in rows:
        check.add(row)
    check.check_head((rows[-1].seq, rows[-1].hash))
    return check.result()


@pytest.fixture
def trial(db: str) -> Iterator[Trial]:
    with open_store(db) as store:
        yield create_trial(PROBLEM, name="wheat", db=store, seed=7)


def kinds(trial: Trial) -> list[str]:
    return [event.kind for event in trial.events()]


# -- subjects -----------------------------------------------------------------------------------


ALIKE = [
    ("S2", "s2"),
    ("S2", "\uff33\uff12"),  # full width
    ("S2", "S 2"),
    ("S2", "\u04052"),  # Cyrillic
    ("site 1 12", "Site  1 12"),
    ("AHHA", "\u0410\u041d\u041d\u0410"),
    ("\u0412\u0430\u043d\u044f", "\u0412\u0410\u041d\u042f"),  # one alphabet, other case
    ("p\u20101", "p-1"),
    ("stra\u00dfe", "STRASSE"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_a_subject_that_looks_like_another_is_refused(sqlite: str, one: str, other: str) -> None:
    with open_store(sqlite) as store:
        trial = create_trial(PROBLEM, name="wheat", db=store)
        first = trial.ask(subject=one)
        with refused("conflict", "subject"):
            trial.ask(subject=other)
        assert trial.ask(subject=one) == first
        assert kinds(trial) == ["created", "asked", "refused"]
        trial.cancel(first.id, reason="misspelt")
        assert trial.ask(subject=other).subject == other
        with refused("conflict", "subject"):
            trial.ask(subject=one)
        assert trial.verify().ok


def test_subjects_that_can_be_told_apart_are_two(sqlite: str) -> None:
    with open_store(sqlite) as store:
        trial = create_trial(PROBLEM, db=store)
        apart = ("1 12", "11 2", "S2", "S-2", "S20", "\u00b5g", "mg")
        assert len({trial.ask(subject=subject).id for subject in apart}) == len(apart)


def test_of_look_alikes_asked_for_at_once_one_is_allocated(sqlite: str) -> None:
    spellings = ["S2", "s2", "S 2", "\uff33\uff12"] * 3

    def ask(subject: str) -> str | None:
        with open_store(sqlite) as own:  # as another process has it
            try:
                return open_trial("race", db=own).ask(subject=subject).id
            except Conflict:
                return None

    with open_store(sqlite) as store:
        trial = create_trial(PROBLEM, name="race", db=store)
        with ThreadPoolExecutor(6) as pool:
            found = set(pool.map(ask, spellings))
        assert len(found - {None}) == 1
        assert len(trial.allocations()) == 1


def test_a_subject_of_batches_that_looks_like_another_is_refused(sqlite: str) -> None:
    problem = Problem.uniform(arms=2, horizon=3, pulls_per_stage=4, repeat=True)
    with open_store(sqlite) as store:
        trial = create_trial(problem, db=store)
        first = trial.ask(subject="hour 1")
        with refused("conflict", "subject"):
            trial.ask(subject="Hour1")
        assert trial.ask(subject="hour 1") == first


def test_a_subject_has_one_allocation_until_it_is_cancelled(trial: Trial) -> None:
    first = trial.ask(subject="S1", note="arrived late", by="ann")
    assert (first.subject, first.note) == ("S1", "arrived late")
    assert trial.ask(subject="S1", by="bob") == first  # whoever asks
    assert trial.ask(subject="S2").id != first.id
    trial.tell(first.id, 1)
    again = trial.ask(subject="S1")
    assert (again.id, again.arm, again.state) == (first.id, first.arm, "told")
    second = trial.ask(subject="S3")
    trial.cancel(second.id, reason="went home")
    third = trial.ask(subject="S3")
    assert third.id != second.id
    assert kinds(trial) == ["created", "asked", "asked", "told", "asked", "cancelled", "asked"]
    with open_store(str(trial.store.url.render_as_string(hide_password=False))) as other:
        assert open_trial("wheat", db=other).ask(subject="S3") == third
    assert trial.verify().ok
    assert trial.replay().ok


def test_a_key_and_a_subject_agree_or_are_refused(trial: Trial) -> None:
    first = trial.ask(subject="S1", key="k")
    assert trial.ask(subject="S1", key="k") == first
    with refused("conflict", "key"):
        trial.ask(subject="S2", key="k")
    assert kinds(trial) == ["created", "asked", "refused"]


@pytest.mark.parametrize("text", ["", " ", " x", "x\n", "a\nb", "\x07", "x" * 501, 5])
def test_reasons_and_notes_are_one_line_of_text(sqlite: str, text: Any) -> None:
    with open_store(sqlite) as store:
        trial = create_trial(PROBLEM, db=store)
        slot = trial.ask()
        for request in (
            lambda: trial.cancel(slot.id, reason=text),
            lambda: trial.correct(slot.id, 1, reason=text),
            lambda: trial.reopen(reason=text),
            lambda: trial.unmask(slot.id, category="emergency", reason=text),
            lambda: trial.ask(note=text),
            lambda: trial.ask(subject=text),
        ):
            with pytest.raises(TrialError, match="one line"):
                request()
        assert kinds(trial) == ["created", "asked"]


# -- reasons ------------------------------------------------------------------------------------


def test_cancellations_are_counted_by_person_and_arm_with_their_reasons(trial: Trial) -> None:
    counted: dict[tuple[str, str], list[str]] = {}
    for number in range(9):
        slot, by = trial.ask(), ("ann", "bob")[number % 2]
        if number % 3 == 2:
            trial.tell(slot.id, 1)
            continue
        reason = ("went home", "no consent")[number % 4 == 0]
        trial.cancel(slot.id, reason=reason, by=by)
        counted.setdefault((by, slot.arm), []).append(reason)
    status = trial.status()
    assert status.cancelled == sum(map(len, counted.values())) == 6
    assert {(c.by, c.arm): (c.count, set(c.reasons)) for c in status.cancellations} == {
        pair: (len(said), set(said)) for pair, said in counted.items()
    }
    assert trial.cancellations() == status.cancellations
    tree = json.loads(json.dumps(trial.export()))
    assert [(c["by"], c["count"]) for c in tree["status"]["cancellations"]] == [
        (c.by, c.count) for c in status.cancellations
    ]
    assert verify_export(tree).ok


def test_the_csv_has_subject_note_code_people_and_reasons(trial: Trial) -> None:
    one = trial.ask(subject="S1", note="a note", by="ann")
    trial.tell(one.id, 1, by="bob")
    trial.correct(one.id, 0, reason="misread", by="eve")
    two = trial.ask(by="ann")
    trial.cancel(two.id, reason="went home", by="bob")
    first, second = csv.DictReader(io.StringIO(outcomes_csv(trial.events())))
    wanted = {
        "arm": one.arm,
        "code": trial.codes[one.arm],
        "subject": "S1",
        "note": "a note",
        "asked_by": "ann",
        "changed_by": "eve",
        "change_reason": "misread",
        "outcome": "0",
    }
    assert wanted.items() <= first.items()
    assert (second["state"], second["changed_by"], second["change_reason"]) == (
        "cancelled",
        "bob",
        "went home",
    )
    masked = outcomes_csv(trial.events(), masked=True)
    assert "arm-" not in masked
    assert "outcome" not in masked
    assert [row["code"] for row in csv.DictReader(io.StringIO(masked))] == [
        trial.codes[one.arm],
        trial.codes[two.arm],
    ]


# -- limits -------------------------------------------------------------------------------------


def test_limits_hold_and_can_be_changed_with_a_reason(db: str) -> None:
    with open_store(db) as store:
        trial = create_trial(PROBLEM, db=store, max_open=2, max_cancelled=1)
        one, two = trial.ask(), trial.ask()
        with refused("limit_reached", kind=LimitReached):
            trial.ask()
        trial.cancel(one.id, reason="went home")
        trial.ask()
        with refused("limit_reached", kind=LimitReached):
            trial.cancel(two.id, reason="went home")
        trial.tell(two.id, 1)  # an outcome is always taken
        assert kinds(trial).count("cancelled") == 1
        trial.set_limits(max_cancelled=2, reason="a flood", by="boss")
        assert trial.set_limits(max_cancelled=2, reason="again").state == "running"
        last = trial.events()[-1]
        assert (last.kind, last.data["reason"], last.by) == ("limited", "a flood", "boss")
        slot = trial.ask()
        trial.cancel(slot.id, reason="went home")
        assert (trial.status().limits.open, trial.status().limits.cancelled) == (2, 2)
        assert trial.verify().ok
        assert trial.replay().ok


@pytest.mark.parametrize("limits", [{"max_open": 0}, {"max_open": -1}, {"max_cancelled": -1}])
def test_limits_that_make_no_sense_are_refused(sqlite: str, limits: dict[str, int]) -> None:
    with open_store(sqlite) as store:
        with pytest.raises(TrialError, match="max_"):
            create_trial(PROBLEM, db=store, **limits)
        trial = create_trial(PROBLEM, db=store)
        with pytest.raises(TrialError, match="max_"):
            trial.set_limits(reason="x", **limits)
        assert kinds(trial) == ["created"]


def test_limits_have_defaults_that_are_on_record(trial: Trial) -> None:
    assert trial.events()[0].data["limits"] == {
        "open": 50,
        "cancelled": 20,
        "unmasked": 5,
        "unmask_role": None,
    }
    long = create_trial(Problem.uniform(arms=2, horizon=300), db=trial.store, policy="equal")
    assert long.events()[0].data["limits"] == {
        "open": 150,
        "cancelled": 150,
        "unmasked": 5,
        "unmask_role": None,
    }


# -- closing ------------------------------------------------------------------------------------


def test_a_closed_trial_takes_outcomes_but_allocates_nothing(trial: Trial) -> None:
    one, two, three = trial.ask(), trial.ask(subject="S"), trial.ask()
    assert trial.close(reason="enough", by="boss").state == "closed"
    assert trial.close().state == "closed"  # again: nothing new
    with pytest.raises(Closed):
        trial.ask()
    assert trial.ask(subject="S") == two
    trial.tell(one.id, 1)
    trial.correct(one.id, 0, reason="misread")
    trial.cancel(three.id, reason="went home")
    status = trial.status()
    assert (status.state, status.next_arm, status.told) == ("closed", None, 1)
    with pytest.raises(TypeError):
        trial.reopen()  # type: ignore[call-arg]
    assert trial.reopen(reason="more came", by="boss").state == "running"
    trial.ask()
    changes = [(e.kind, e.by, e.data) for e in trial.events() if e.kind in ("closed", "reopened")]
    assert changes == [
        ("closed", "boss", {"reason": "enough"}),
        ("reopened", "boss", {"reason": "more came"}),
    ]
    assert trial.verify().ok
    assert trial.replay().ok


def test_an_archived_trial_is_hidden_until_it_is_reopened(trial: Trial) -> None:
    slot = trial.ask()
    create_trial(PROBLEM, name="rye", db=trial.store)
    assert trial.archive().state == "archived"
    assert [one.name for one in list_trials(db=trial.store)] == ["rye"]
    shown = {one.name: one.state for one in list_trials(db=trial.store, archived=True)}
    assert shown == {"wheat": "archived", "rye": "running"}
    with pytest.raises(Closed):
        trial.ask()
    with refused("conflict"):
        trial.close()
    trial.tell(slot.id, 1)
    assert open_trial("wheat", db=trial.store).status().told == 1
    trial.reopen(reason="a mistake")
    assert len(list_trials(db=trial.store)) == 2
    assert trial.verify().ok


def test_changes_of_a_trial_can_be_repeated_by_their_key(trial: Trial) -> None:
    for _ in range(2):
        assert trial.close(key="c").state == "closed"
    trial.reopen(reason="more", key="r")
    assert trial.close(key="c").state == "running"  # the answer to the first: nothing new
    with refused("conflict", "key"):
        trial.archive(key="c")
    assert kinds(trial) == ["created", "closed", "reopened", "refused"]


# -- codes --------------------------------------------------------------------------------------


def test_codes_are_letters_in_an_order_that_is_drawn(sqlite: str) -> None:
    assert [letters(k) for k in (0, 1, 25, 26, 27, 701, 702)] == [
        "A",
        "B",
        "Z",
        "AA",
        "AB",
        "ZZ",
        "AAA",
    ]
    problem = Problem.uniform(arms=3, horizon=4)
    with open_store(sqlite) as store:
        orders = set()
        for _ in range(200):  # one of six orders is missing with probability 1e-15
            made = create_trial(problem, policy="equal", db=store, seed=1)
            assert sorted(made.codes.values()) == ["A", "B", "C"]
            assert made.codes == open_trial(made.id, db=store).codes
            orders.add(tuple(made.codes.values()))
            if len(orders) == 6:
                break
        assert len(orders) == 6


# -- logs that break limits -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["asked", "cancelled", "asked again"])
def test_a_log_that_breaks_its_own_limits_is_found(sqlite: str, kind: str) -> None:
    """Events that this program would have refused, chained by hand."""
    with open_store(sqlite) as store:
        trial = create_trial(PROBLEM, db=store, max_open=1, max_cancelled=0)
        if kind == "asked":
            trial.close()
            trial.reopen(reason="x")
            slot = trial.ask()
            events = [e for e in trial.events() if e.kind != "reopened"]
        else:
            slot = trial.ask()
            events = trial.events()
            extra = {"allocation": slot.id, "reason": "x"}
            if kind == "asked again":
                asked = events[-1].data
                stage = asked["decision"] | {"stage": 1}
                extra = asked | {"allocation": "ffff", "number": 1, "decision": stage}
            events.append(
                new_event(
                    trial.id,
                    2,
                    kind.split(maxsplit=1)[0],
                    extra,
                    previous="",
                    at=events[-1].at,
                    by="eve",
                )
            )
        made: list[Event] = []
        for number, event in enumerate(events):
            previous = made[-1].hash if made else GENESIS
            made.append(
                new_event(
                    trial.id,
                    number,
                    event.kind,
                    event.data,
                    previous=previous,
                    at=event.at,
                    by=event.by,
                )
            )
        rows = [StoredEvent(e.seq, e.kind, e.key, e.body, e.hash) for e in made]
        found = checked(rows, trial.id)
        assert not found.ok
        assert "cannot have happened" in found.problems[0]
