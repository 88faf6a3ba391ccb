"""The log of the server: who, what and how long, on lines that nobody can forge."""

import json
import logging
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from decobandit.server.observation import JsonLines, PlainLines, redacted
from helpers.program import deco
from helpers.serving import serving
from helpers.web_client import SMALL, Site, answer, asking
from helpers.web_server import PATIENCE, request

TOKEN = "deco_" + "A1b2-" * 8 + "xyz"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


class Kept:
    """A logger of its own, and what it wrote."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.text = StringIO()
        self.log = logging.Logger("decobandit.requests", logging.INFO)
        handler = logging.StreamHandler(self.text)
        handler.setFormatter(formatter)
        self.log.addHandler(handler)

    @property
    def lines(self) -> list[str]:
        return self.text.getvalue().splitlines()


# -- ids ----------------------------------------------------------------------------------------


def test_a_request_keeps_the_id_that_it_came_with(site: Site) -> None:
    for path, status in (("/api/v1/health", 200), ("/api/v1/nothing", 404), ("/login", 200)):
        got = answer(site.app, asking("GET", path, headers={"x-request-id": "proxy-1.a_B"}))
        assert (got.status, got.header("x-request-id")) == (status, "proxy-1.a_B")


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a\x00", "ü", 'a"', "a\tb"])
def test_an_id_that_is_not_plain_is_replaced(site: Site, given: str) -> None:
    got = answer(site.app, asking("GET", "/api/v1/health", headers={"x-request-id": given}))
    assert re.fullmatch("[0-9a-f]{16}", got.header("x-request-id") or "")
    assert got.header("x-request-id") != answer(site.app, asking("GET", "/api/v1/health")).header(
        "x-request-id"
    )


# -- lines --------------------------------------------------------------------------------------


def test_a_served_request_is_one_json_line_with_person_and_id(tmp_path: Path) -> None:
    with serving("--db", tmp_path / "t.db", "--log-format", "json") as (process, lines, port):
        token = lines[0].rpartition(" ")[2]
        request(port, "POST", "/api/v1/trials", token, {"problem": SMALL, "name": "pilot"})
        _, headers, _ = request(port, "POST", "/api/v1/trials/pilot/ask", token)
        request(port, "GET", f"/login?next={token}")
        request(port, "GET", f"/static/{token}")
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE)
    trees = [json.loads(line) for line in said.splitlines()]
    asked = next(tree for tree in trees if tree.get("route", "").endswith("/ask"))
    assert asked["request_id"] == headers["x-request-id"]
    assert (asked["person"], asked["method"], asked["status"]) == ("admin", "POST", 200)
    assert asked["route"] == "/api/v1/trials/{trial}/ask"
    assert asked["level"] == "info"
    assert asked["seconds"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", asked["time"])
    stranger = next(tree for tree in trees if tree.get("route") == "/login")
    assert (stranger["person"], stranger["path"]) == (None, "/login")
    assert token not in said


def test_plain_lines_of_requests_are_for_the_verbose(tmp_path: Path) -> None:
    for options, expected in (((), 0), (("--verbose",), 1)):
        with serving("--db", tmp_path / "t.db", "--no-auth", *options) as (process, _, port):
            request(port, "GET", "/api/v1/health?secret=1")
            process.terminate()
            _, said = process.communicate(timeout=PATIENCE)
        assert said.count("GET /api/v1/health 200") == expected
        assert "secret" not in said


def test_an_unknown_form_of_the_log_is_refused(tmp_path: Path) -> None:
    run = deco("serve", "--db", tmp_path / "t.db", "--log-format", "xml")
    assert (run.code, run.err.count("\n")) == (2, 1)


def test_an_internal_error_is_logged_with_the_id_of_its_request(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"lost {TOKEN}")

    monkeypatch.setattr("decobandit.server.api.routes.page_of_trials", broken)
    written: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(JsonLines().format(record))  # type: ignore[method-assign]
    logging.getLogger("decobandit.server").addHandler(handler)
    try:
        ask = asking("GET", "/api/v1/trials", site.tokens["viewer"], headers={"x-request-id": "r1"})
        got = answer(site.app, ask)
    finally:
        logging.getLogger("decobandit.server").removeHandler(handler)
    assert (got.status, got.header("x-request-id")) == (500, "r1")
    (tree,) = map(json.loads, written)
    assert (tree["request_id"], tree["person"], tree["level"]) == ("r1", "the-viewer", "error")
    assert "RuntimeError: lost [secret]" in tree["exception"]
    assert TOKEN not in written[0]


def test_a_client_cannot_begin_a_line() -> None:
    kept = Kept(PlainLines())
    kept.log.info("GET %s", "/a\n2026-01-01 INFO forged\x1b[2J")
    assert len(kept.lines) == 1
    assert "\x1b" not in kept.lines[0]


def test_secrets_are_left_out_and_long_lines_cut() -> None:
    assert redacted(f"a {TOKEN} b") == "a [secret] b"
    assert redacted("postgresql://ann:hunter2@host/x") == "postgresql://[secret]@host/x"
    assert redacted("x" * 9000) == "x" * 2000 + "... (9000 characters)"
    for formatter in (PlainLines(), JsonLines()):
        kept = Kept(formatter)
        kept.log.info("%s", "y" * 10**6)
        assert len(kept.text.getvalue()) < 3000
