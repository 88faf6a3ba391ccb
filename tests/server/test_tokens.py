"""Tokens are shown once, kept as digests, and gone when they are revoked."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from decobandit.server import tokens
from decobandit.server.auth import MAX_IDLE_SECONDS, MAX_SESSION_SECONDS, MAX_SESSIONS, Sessions
from decobandit.server.tokens import (
    MAX_AGE_SECONDS,
    Token,
    TokenCache,
    list_tokens,
    new_token,
    revoke_token,
)
from decobandit.trials import Conflict, NotFound, Store, open_store, people_log
from decobandit.trials.schema import tokens as table
from helpers.refusals import refused
from helpers.web_client import Clock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "t.db") as opened:
        yield opened


def test_only_the_digest_of_a_token_is_in_the_files(store: Store, tmp_path: Path) -> None:
    made, secret = new_token(store, "ann", "admin")
    store.close()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert made.digest == hashlib.sha256(secret.encode()).hexdigest()
    assert made.digest.encode() in written
    assert secret.encode() not in written
    assert secret.removeprefix("deco_").encode() not in written


def test_tokens_are_long_and_never_the_same(store: Store) -> None:
    secrets = {new_token(store, f"t{i}", "viewer")[1] for i in range(20)}
    assert len(secrets) == 20
    assert all(secret.startswith("deco_") and len(secret) == 5 + 43 for secret in secrets)


def test_what_people_see_of_a_token_opens_nothing(store: Store) -> None:
    made, secret = new_token(store, "ann", "admin")
    shown = json.dumps(made.to_dict())
    assert secret not in shown
    assert made.digest not in shown


def test_a_name_is_taken_for_ever(store: Store) -> None:
    new_token(store, "ann", "operator")
    with pytest.raises(Conflict):
        new_token(store, "ann", "viewer")
    revoke_token(store, "ann")
    with pytest.raises(Conflict):
        new_token(store, "ann", "viewer")


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "a" * 65, "a\n", "é", "a,b", "a\0"])
def test_odd_names_are_refused(store: Store, name: str) -> None:
    with refused("bad_request"):
        new_token(store, name, "viewer")


def test_unknown_roles_and_tokens_are_refused(store: Store) -> None:
    with refused("bad_request"):
        new_token(store, "ann", "root")
    with pytest.raises(NotFound):
        revoke_token(store, "bob")


def test_revoking_twice_keeps_the_first_time(store: Store) -> None:
    new_token(store, "ann", "operator")
    first = revoke_token(store, "ann")
    assert revoke_token(store, "ann") == first
    assert not first.valid


@pytest.mark.parametrize(
    "edit",
    [
        {"role": "admin"},
        {"name": "bob"},
        {"created_at": "1"},
        {"id": "0"},
        {"revoked_at": None},
        {"expires_at": "2999-01-01T00:00:00.000+00:00"},
    ],
)
def test_the_log_of_people_finds_a_changed_row(store: Store, edit: dict[str, Any]) -> None:
    new_token(store, "ann", "viewer")
    revoke_token(store, "ann")
    assert people_log(store).ok
    store.write(lambda connection: connection.execute(update(table).values(edit)))
    assert not people_log(store).ok


def test_a_token_revoked_elsewhere_lives_for_a_second_at_most(store: Store) -> None:
    clock = Clock()
    book = TokenCache(store, clock=clock)
    made, secret = new_token(store, "ann", "viewer")
    assert book.find(secret) == made
    revoke_token(store, "ann")
    clock.now += MAX_AGE_SECONDS
    assert book.find(secret) is None
    assert book.by_id(made.id) is None


def test_a_change_while_the_table_is_read_is_not_missed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = new_token(store, "ann", "viewer")
    book = TokenCache(store, clock=Clock())

    def read_then_revoke(store: Store) -> list[Token]:
        found = list_tokens(store)
        monkeypatch.undo()
        revoke_token(store, "ann")
        book.forget()
        return found

    monkeypatch.setattr(tokens, "list_tokens", read_then_revoke)
    book.find(secret)  # may still pass: it was asked before
    assert book.find(secret) is None


def test_wrong_tokens_do_not_cost_a_look_at_the_database(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    read = Store.read
    monkeypatch.setattr(Store, "read", lambda self: looks.append(1) or read(self))
    book = TokenCache(store, clock=Clock())
    assert [book.find(f"deco_{i}") for i in range(100)] == [None] * 100
    assert len(looks) == 1


def test_a_session_ends_when_idle_and_in_any_case() -> None:
    clock = Clock()
    sessions = Sessions(clock=clock)
    idle, busy = sessions.begin("id"), sessions.begin("id")
    for _ in range(int(MAX_SESSION_SECONDS // MAX_IDLE_SECONDS)):
        clock.now += MAX_IDLE_SECONDS
        assert sessions.token_of(busy) == "id"
    assert sessions.token_of(idle) is None
    clock.now += 1
    assert sessions.token_of(busy) is None


def test_sessions_are_kept_hashed_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions()
    secrets = [sessions.begin("id") for _ in range(MAX_SESSIONS + 1)]
    assert sessions.token_of(secrets[0]) is None
    assert sessions.token_of(secrets[1]) == "id"
    assert secrets[1] not in str(vars(sessions))
    sessions.end(secrets[1])
    assert sessions.token_of(secrets[1]) is None


def test_many_logins_with_one_token_end_nobody_elses_session() -> None:
    sessions = Sessions()
    mine = sessions.begin("ann")
    for _ in range(12_000):
        sessions.begin("bob")
    assert sessions.token_of(mine) == "ann"
    assert len(sessions._by_digest) == MAX_SESSIONS + 1
