"""`deco serve` and `deco token` as people run them, and the server behind a real socket."""

import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from decobandit.server.http_server import is_loopback
from decobandit.server.limits import Limits
from decobandit.server.tokens import new_token, revoke_token
from decobandit.trials import open_store
from helpers.program import deco
from helpers.serving import serving
from helpers.wanted_headers import WANTED
from helpers.web_client import SMALL, Site
from helpers.web_server import PATIENCE, request, served


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_first_start_shows_a_token_once_and_signals_end_it(
    tmp_path: Path, stop: signal.Signals
) -> None:
    db = tmp_path / "t.db"
    with serving("--db", db) as (process, lines, port):
        shown, url = lines
        found = re.fullmatch(r"admin token \(shown once\): (deco_\S{43})", shown)
        assert found is not None
        assert url == f"serving at http://127.0.0.1:{port}"
        token = found[1]
        status, headers, _ = request(port, "POST", "/api/v1/trials", token, {"problem": SMALL})
        assert status == 201
        assert "server" not in headers
        assert request(port, "GET", "/api/v1/trials")[0] == 401
        process.send_signal(stop)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    with serving("--db", db) as (_, lines, port):
        assert len(lines) == 1  # no second token
        status, _, body = request(port, "GET", "/api/v1/trials", token)
        assert (status, body.count(b'"id"')) == (200, 1)


def test_without_authentication_this_machine_needs_no_token(tmp_path: Path) -> None:
    with serving("--db", tmp_path / "t.db", "--no-auth") as (_, lines, port):
        assert len(lines) == 1
        assert request(port, "GET", "/api/v1/tokens")[0] == 200


def test_no_authentication_for_all_the_world_is_refused(tmp_path: Path) -> None:
    run = deco("serve", "--db", tmp_path / "t.db", "--no-auth", "--host", "0.0.0.0")
    assert (run.code, run.out) == (2, "")
    assert run.err.count("\n") == 1
    assert "--no-auth" in run.err
    assert not (tmp_path / "t.db").exists()
    for host in ("0.0.0.0", "::", "192.0.2.1", "no.such.host.invalid", "x" * 300):
        assert not is_loopback(host)
    for host in ("127.0.0.1", "127.3.2.1", "localhost", "::1"):
        assert is_loopback(host)


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = deco("serve", "--db", tmp_path / "t.db", "--port", port)
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert "cannot listen" in run.err


@pytest.mark.parametrize("command", [("serve",), ("token", "list")])
def test_a_password_on_the_command_line_is_refused_and_not_repeated(
    command: tuple[str, ...],
) -> None:
    run = deco(*command, "--db", "postgresql://ann:hunter2@127.0.0.1:1/x")
    assert (run.code, run.out) == (2, "")
    assert "DECO_DB" in run.err
    assert "hunter2" not in run.err


@pytest.mark.parametrize(
    ("command", "extra"), [(("serve",), "server"), (("token", "list"), "trials")]
)
def test_a_missing_library_is_named_with_the_way_to_get_it(
    command: tuple[str, ...], extra: str, tmp_path: Path
) -> None:
    for module in ("fastapi", "sqlalchemy"):
        (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError('no', name='{module}')")
    run = deco(*command, "--db", tmp_path / "t.db", more={"PYTHONPATH": str(tmp_path)})
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert f"pip install 'decobandit[{extra}]'" in run.err


def test_tokens_on_the_command_line(tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    made = deco("token", "new", "ann", "--role", "operator", "--db", db)
    assert (made.code, made.err) == (0, "")
    assert re.fullmatch(r"deco_\S{43}\n", made.out)
    second = deco("token", "new", "bob", "--role", "admin", "--db", db, "--json").json
    assert second["role"] == "admin"
    assert second["token"].startswith("deco_")
    assert deco("token", "revoke", "ann", "--db", db).out.startswith("ann: revoked 2")
    listed = deco("token", "list", "--db", db, "--json").json["tokens"]
    assert [(one["name"], one["revoked_at"] is None) for one in listed] == [
        ("ann", False),
        ("bob", True),
    ]
    assert second["token"] not in str(listed)
    wrong = deco("token", "revoke", "eve", "--db", db)
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (2, "", 1)


def test_a_token_made_and_revoked_beside_a_running_server_counts(tmp_path: Path) -> None:
    db = tmp_path / "t.db"

    def becomes(status: int) -> bool:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if request(port, "GET", "/api/v1/trials", token)[0] == status:
                return True
            time.sleep(0.1)
        return False

    with serving("--db", db) as (_, _, port), open_store(db) as store:
        _, token = new_token(store, "ann", "viewer")
        assert becomes(200)
        revoke_token(store, "ann")
        assert becomes(401)


# -- behind a real socket -----------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def _say(port: int, text: bytes) -> bytes:
    """All that comes back before the server hangs up."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
        line.sendall(text)
        while piece := line.recv(65536):
            heard += piece
    return heard


def test_a_head_that_does_not_come_ends_the_connection(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(head_seconds=0.2))
    with served(site.app) as port:
        assert _say(port, b"") == b""
        assert _say(port, b"GET /api/v1/health HTTP/1.1\r\nHost: local") == b""
        whole = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        heard = _say(port, whole + b"GET /api")  # the second half of a request never comes
        assert heard.count(b"HTTP/1.1 200") == 1


def test_what_is_not_http_is_answered_with_care(site: Site) -> None:
    with served(site.app) as port:
        heard = _say(port, b"\x16\x03\x01 hello\r\n\r\n").decode()
        assert heard.startswith("HTTP/1.1 400 ")
        for name, value in WANTED.items():
            assert f"{name}: {value}".lower() in heard.lower()
        long = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000
        assert _say(port, long).startswith(b"HTTP/1.1 400 ")
        whole = long + b"\r\n\r\n"
        assert _say(port, whole).startswith(b"HTTP/1.1 400 ")
        many = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n"
        assert _say(port, many).startswith(b"HTTP/1.1 400 ")


def test_a_head_that_never_ends_is_cut_off(site: Site) -> None:
    sent = 0
    with served(site.app) as port, socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        with suppress(OSError):  # a reset or a broken pipe
            while sent < 10_000_000:
                sent += line.send(b"x" * 1000)
                time.sleep(0.005)  # a busy machine has time to cut it off
    assert 16_000 < sent < 1_000_000


@pytest.mark.parametrize("more", [b"X: y\r\n", b"x"])
@pytest.mark.parametrize("path", [b"/login", b"/api/v1/plan"])
def test_trailers_without_end_are_cut_off(site: Site, path: bytes, more: bytes) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent = 0
    with served(site.app) as port, socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
        line.sendall(head + b"1\r\nx\r\n0\r\nX: ")
        with suppress(OSError):
            while sent < 10_000_000:
                sent += line.send(more * 200)
                time.sleep(0.005)
    assert sent < 1_000_000


def test_a_body_in_tiny_chunks_is_read(site: Site) -> None:
    token = f"Authorization: Bearer {site.tokens['admin']}\r\n".encode()
    head = b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + token
    head += b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with served(site.app) as port:
        heard = _say(port, head + b"1\r\n \r\n" * 9_000 + b"2\r\n{}\r\n0\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 422 ")


def test_requests_that_follow_at_once_are_answered(site: Site) -> None:
    one = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"x" * 5_000 + b"\r\n"
    with served(site.app) as port:
        heard = _say(port, (one + b"\r\n") * 7 + one + b"Connection: close\r\n\r\n")
    assert heard.count(b"HTTP/1.1 200 ") == 8


@pytest.mark.parametrize(
    "head",
    [
        b"GET http://elsewhere/ HTTP/1.1\r\nHost: elsewhere",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost",
        b"GET /\xc3\xa9 HTTP/1.1\r\nHost: localhost",
        b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding: chunked",
        b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
        b"GET / HTTP/1.1",
    ],
)
def test_odd_heads_are_refused(site: Site, head: bytes) -> None:
    with served(site.app) as port:
        heard = _say(port, head + b"\r\nConnection: close\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 4"), heard


def test_a_chunked_body_is_counted_too(site: Site) -> None:
    token = f"Authorization: Bearer {site.tokens['admin']}\r\n".encode()
    head = b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\n" + token
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with served(site.app) as port:
        heard = _say(port, head + chunk * 4 + b"1\r\n \r\n0\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 413 ")
