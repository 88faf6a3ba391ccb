"""Nothing waits for PostgreSQL without end: locks, statements, connections, a silent server."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import text

from decobandit.problem import problem_from_dict
from decobandit.trials import Store, StoreError, Trial, create_trial, database, open_store

pytest_plugins = ["helpers.databases"]

SMALL = {"horizon": 4, "arms": [{"name": "old"}, {"name": "new"}]}


@contextmanager
def opened(url: str) -> Iterator[tuple[Store, Trial]]:
    with open_store(url) as store:
        yield store, create_trial(problem_from_dict(SMALL), name="pilot", db=store)


def other(url: str) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(url.replace("+psycopg", ""))


def test_a_locked_row_is_not_waited_for_without_end(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.5)
    with opened(postgresql) as (_, trial), other(postgresql) as holder:
        holder.execute("SELECT * FROM trials FOR UPDATE")
        with pytest.raises(StoreError, match="lock timeout"):
            trial.ask()
        assert trial.status().allocated == 0  # reading needs no lock
        holder.rollback()
        assert trial.ask().stage == 0


def test_a_statement_is_not_waited_for_without_end(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STATEMENT_SECONDS", 1.0)
    with (
        open_store(postgresql) as store,
        pytest.raises(StoreError, match="statement timeout"),
        store.read() as connection,
    ):
        connection.execute(text("SELECT pg_sleep(600)"))


def test_a_transaction_that_stands_still_gives_its_locks_up(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "IDLE_SECONDS", 1.0)
    with opened(postgresql) as (store, trial), store._writer.connect() as stalled:
        stalled.execute(text("SELECT * FROM trials FOR UPDATE"))
        assert trial.ask().stage == 0
        stalled.invalidate()


def test_connections_of_the_pool_are_not_waited_for_without_end(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"POOL_SECONDS": 0.2, "POOL_SIZE": 1, "MORE_CONNECTIONS": 0}.items():
        monkeypatch.setattr(database, name, value)
    with (
        opened(postgresql) as (store, trial),
        store.read(),
        pytest.raises(StoreError, match="too many requests at once"),
    ):
        trial.status()


def test_a_silent_server_is_given_up_and_found_again(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "ANSWER_SECONDS", 3.0)
    with opened(postgresql) as (store, trial):
        stopped = []

        def stop_in_the_middle() -> None:
            with store.read() as connection:
                stopped.append(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
                os.kill(stopped[0], signal.SIGSTOP)
                connection.execute(text("SELECT 1"))

        try:
            with pytest.raises(StoreError, match="does not answer"):
                stop_in_the_middle()
            assert trial.ask().stage == 0  # on another connection
        finally:
            os.kill(stopped[0], signal.SIGCONT)
        assert trial.verify().ok


def test_a_connection_that_fell_silent_is_replaced(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "ANSWER_SECONDS", 3.0)
    with opened(postgresql) as (store, trial):
        with store.read() as connection:
            backend = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        os.kill(backend, signal.SIGSTOP)
        try:
            assert trial.ask().stage == 0
        finally:
            os.kill(backend, signal.SIGCONT)


def test_a_server_that_does_not_say_hello_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "CONNECT_SECONDS", 2)  # the least that the driver takes
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql://deco@127.0.0.1:{mute.getsockname()[1]}/x?sslmode=disable"
        with pytest.raises(StoreError, match="timeout"):
            open_store(url)


def test_options_of_the_url_count(postgresql: str) -> None:
    url = f"{postgresql}&options=-c%20lock_timeout%3D1234"
    with open_store(url) as store, store.read() as connection:
        locks = connection.execute(text("SHOW lock_timeout")).scalar_one()
        statements = connection.execute(text("SHOW statement_timeout")).scalar_one()
    assert (locks, statements) == ("1234ms", "15s")
