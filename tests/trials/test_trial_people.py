"""The access log: chained, checked, written with what it is about; on every kind of database."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import pytest

from decobandit.problem import Problem
from decobandit.server.tokens import list_tokens, new_token, revoke_token
from decobandit.trials import Conflict, Store, create_trial, open_store, people_log
from decobandit.trials.errors import LimitReached
from decobandit.trials.event_log import record_all
from decobandit.trials.report_text import trial_page
from helpers.refusals import refused

pytest_plugins = ["helpers.databases"]


@pytest.fixture
def store(db: str) -> Iterator[Store]:
    with open_store(db) as opened:
        yield opened


def kinds(store: Store) -> list[str]:
    return [event.kind for event in people_log(store).events]


def test_tokens_made_and_revoked_are_on_record_with_role_and_person(store: Store) -> None:
    new_token(store, "ann", "admin", by="root")
    new_token(store, "bob", "viewer", by="ann", days=5)
    revoke_token(store, "bob", by="ann")
    revoke_token(store, "bob", by="ann")  # again: nothing new
    found = people_log(store)
    assert found.ok
    assert [(e.kind, e.by, e.data["token"], e.data["role"]) for e in found.events] == [
        ("token_made", "root", "ann", "admin"),
        ("token_made", "ann", "bob", "viewer"),
        ("token_revoked", "ann", "bob", "viewer"),
    ]


def test_the_chain_is_that_of_sha256_over_the_stored_lines(store: Store, sql: Any) -> None:
    record_all(store, [("login", "ann", {"n": n}) for n in range(4)])
    previous = "0" * 64
    for seq, body, stored in sql("SELECT seq, body, hash FROM people ORDER BY seq"):
        assert json.loads(body)["previous"] == previous
        assert json.loads(body)["seq"] == seq
        previous = sha256(body.encode()).hexdigest()
        assert stored == previous
    assert sql("SELECT seq, hash FROM people_head") == [(3, previous)]
    assert people_log(store).head == previous


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE people SET body = replace(body, 'ann', 'eve') WHERE seq = 1",
        "DELETE FROM people WHERE seq = 1",
        "DELETE FROM people WHERE seq = 3",
        "UPDATE people SET kind = 'login' WHERE seq = 1",
        "DELETE FROM people_head",
        "UPDATE people_head SET seq = 2",
    ],
)
def test_every_change_of_the_log_is_found(store: Store, sql: Any, damage: str) -> None:
    record_all(store, [("looked", "ann", {"n": n}) for n in range(4)])
    assert people_log(store).ok
    sql(damage)
    found = people_log(store)
    assert not found.ok
    assert "the access log" in found.problems[0]


def test_writers_at_once_make_one_chain(store: Store) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: record_all(store, [("login", f"p{n}", {})]), range(24)))
    found = people_log(store)
    assert (found.ok, len(found.events)) == (True, 24)
    assert {event.by for event in found.events} == {f"p{n}" for n in range(24)}


def test_two_administrators_cannot_revoke_each_other_at_once(store: Store) -> None:
    for round_ in range(4):
        names = [f"a{round_}", f"b{round_}"]
        for name in names:
            new_token(store, name, "admin")
        others = [t.name for t in list_tokens(store) if t.valid and t.name not in names]
        for name in others:
            revoke_token(store, name)

        def revoke(name: str) -> bool:
            try:
                revoke_token(store, name)
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(revoke, names))
        assert sorted(done) == [False, True]
        assert sum(token.valid for token in list_tokens(store)) == 1


def test_unmasking_needs_a_real_reason_and_is_limited_by_person_and_day(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = create_trial(Problem.uniform(arms=2, horizon=20), name="pilot", db=store)
    slots = [trial.ask() for _ in range(8)]
    for reason in (".", "emergency", "x" * 9):
        with refused("bad_request", "reason"):
            trial.unmask(slots[0].id, category="emergency", reason=reason, by="nurse")
    for slot in slots[:5]:
        trial.unmask(slot.id, category="emergency", reason="an emergency", by="nurse")
    with pytest.raises(LimitReached):
        trial.unmask(slots[5].id, category="emergency", reason="an emergency", by="nurse")
    trial.unmask(
        slots[4].id, category="emergency", reason="an emergency", by="nurse"
    )  # told already
    trial.unmask(slots[5].id, category="emergency", reason="an emergency", by="doctor")
    trial.set_limits(max_unmasked=6, reason="a second ward", by="admin")
    trial.unmask(slots[5].id, category="emergency", reason="an emergency", by="nurse")
    with pytest.raises(LimitReached):
        trial.unmask(slots[6].id, category="emergency", reason="an emergency", by="nurse")
    numbers = [e.data["number_in_24_hours"] for e in trial.events() if e.kind == "unmasked"]
    assert numbers == [1, 2, 3, 4, 5, 1, 6]
    assert "7 allocations were unmasked" in trial_page(trial.report())
    monkeypatch.setattr("decobandit.trials.recording._day_ago", lambda: "2999")  # a day later
    trial.unmask(slots[6].id, category="emergency", reason="an emergency", by="nurse")
    assert trial.verify().ok


def test_an_unmasking_is_in_both_logs_once_per_person(store: Store) -> None:
    trial = create_trial(Problem.uniform(arms=2, horizon=6), name="pilot", db=store)
    slot = trial.ask()
    for by in ("nurse", "nurse", "doctor"):
        assert (
            trial.unmask(slot.id, category="emergency", reason="an emergency", by=by).arm
            == slot.arm
        )
    about = {"category": "emergency", "reason": "an emergency"}
    wanted = {"allocation": slot.id, **about, "number_in_24_hours": 1}
    assert [(e.kind, e.by, e.data) for e in trial.events()[2:]] == [
        ("unmasked", "nurse", wanted),
        ("unmasked", "doctor", wanted),
    ]
    where = {"trial": trial.id, "name": "pilot"}
    assert [(e.kind, e.by, e.data) for e in people_log(store).events] == [
        ("unmasked", "nurse", where | wanted),
        ("unmasked", "doctor", where | wanted),
    ]
    assert trial.verify().ok
    assert trial.replay().ok


def test_what_is_not_written_leaves_no_record(store: Store) -> None:
    new_token(store, "ann", "admin")
    before = kinds(store)
    with pytest.raises(Conflict):
        new_token(store, "ann", "viewer")
    with refused("conflict"):
        revoke_token(store, "ann")
    assert kinds(store) == before
