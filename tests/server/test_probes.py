"""Liveness answers whatever else happens; readiness says whether the database does."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from decobandit.server.limits import Limits
from decobandit.trials import Store
from decobandit.trials.lists import TrialPage
from helpers.web_client import Ask, Site, answer, answers, asking
from helpers.web_server import PATIENCE, request, served

LIVE, READY, HEALTH = "/api/v1/live", "/api/v1/ready", "/api/v1/health"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, Limits(ready_seconds=3.0, database_seconds=4.0, threads=4))
    yield made
    made.close()


@pytest.mark.parametrize("path", [LIVE, READY, HEALTH])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_probes_are_asked_by_both_methods(site: Site, method: str, path: str) -> None:
    with served(site.app) as port:
        status, _, body = request(port, method, path)
    assert status == 200
    assert (b'"version"' in body) == (method == "GET")


def test_a_probe_is_for_reading(site: Site) -> None:
    refused = answer(site.app, asking("POST", LIVE, site.tokens["admin"]))
    assert (refused.status, refused.code) == (405, "method_not_allowed")
    assert refused.header("allow") == "GET, HEAD"


def test_a_probe_knows_no_limits_and_any_host(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(rate=1.0, burst=1, strangers=0, concurrent=0))
    for path in (LIVE, READY):
        asked = answers(site.app, [asking("GET", path, host="10.0.0.7:8000") for _ in range(20)])
        assert {each.status for each in asked} == {200}
    assert site.get("/health", None).status == 503
    site.close()


def _stalled(store: Store, hold: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the database does not answer."""
    read = Store.read

    def waits(self: Store) -> object:
        hold.wait(PATIENCE)
        return read(self)

    monkeypatch.setattr(Store, "read", waits)


def test_a_stalled_database_stops_neither_liveness_nor_the_rest(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight times as many requests as threads; all of them end, none waits for the database."""
    hold = threading.Event()
    with served(site.app) as port:
        _stalled(site.store, hold, monkeypatch)
        site.app.state.guard.tokens_changed()
        done: list[int] = []

        def ask() -> None:
            done.append(request(port, "GET", "/api/v1/trials", site.tokens["admin"])[0])

        threads = [threading.Thread(target=ask) for _ in range(32)]
        for thread in threads:
            thread.start()
        assert request(port, "GET", LIVE)[0] == 200
        assert request(port, "GET", HEALTH)[0] == 200
        assert request(port, "GET", "/login")[0] == 200
        status, headers, body = request(port, "GET", READY)
        assert (status, headers["retry-after"]) == (503, "5")
        assert b'{"error":{"code":"unavailable"' in body
        for thread in threads:
            thread.join(PATIENCE)
        assert set(done) == {503}
        hold.set()
        monkeypatch.undo()
        assert request(port, "GET", READY)[0] == 200


def test_a_locked_database_is_alive_and_not_ready(site: Site) -> None:
    with sqlite3.connect(site.folder / "site.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        assert answer(site.app, asking("GET", LIVE)).status == 200
        assert answer(site.app, asking("GET", READY)).status == 503
        other.rollback()
    other.close()


def test_liveness_answers_while_all_threads_work(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = threading.Event()
    with served(site.app) as port:
        assert request(port, "GET", "/api/v1/trials", site.tokens["admin"])[0] == 200
        monkeypatch.setattr(
            "decobandit.server.api.routes.page_of_trials",
            lambda *given, **named: hold.wait(PATIENCE) and TrialPage((), None, 0),
        )
        ask = lambda role: request(port, "GET", "/api/v1/trials", site.tokens[role])  # noqa: E731
        roles = ["admin", "operator", "viewer"] * 4
        threads = [threading.Thread(target=ask, args=[role]) for role in roles]
        for thread in threads:
            thread.start()
        assert request(port, "GET", LIVE)[0] == 200  # health waits for a place, as all others do
        hold.set()
        for thread in threads:
            thread.join(PATIENCE)


def test_requests_without_a_token_ask_no_database(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.app.state.guard.tokens_changed()
    monkeypatch.setattr(Store, "read", lambda self: pytest.fail("the database is asked"))
    asks = [Ask("GET", LIVE), Ask("GET", HEALTH), Ask("GET", "/login")]
    assert {found.status for found in answers(site.app, asks)} == {200}
