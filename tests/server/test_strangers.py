"""What a stranger may make the server hold: little, and not for long."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from decobandit.server.http_server import AHEAD_BYTES, MAX_HEADERS, BoundedProtocol, Connections
from decobandit.server.limits import Limits
from helpers.web_client import Site
from helpers.web_server import PATIENCE, request, served

HEAD = b"Host: localhost\r\n"
HEALTH = b"GET /api/v1/health HTTP/1.1\r\n" + HEAD + b"\r\n"
LARGE = b"GET /static/plotly.min.js HTTP/1.1\r\n" + HEAD + b"\r\n"


def connected(port: int, *, small: bool = False) -> socket.socket:
    line = socket.socket()
    if small:  # what the system keeps for a client that does not read
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(PATIENCE)
    line.connect(("127.0.0.1", port))
    return line


def becomes(true: Callable[[], bool]) -> bool:
    """Whether it does within some time."""
    end = time.monotonic() + PATIENCE
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def is_cut(line: socket.socket) -> bool:
    """Whether the server has closed a connection that it had nothing to say on."""
    line.setblocking(False)
    try:
        return line.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@contextmanager
def site_within(folder: Path, **limits: float) -> Iterator[tuple[Site, int]]:
    site = Site(folder, Limits(**limits))  # type: ignore[arg-type]
    with served(site.app) as port:
        yield site, port
    site.close()


def send_all(line: socket.socket, data: bytes, most: int) -> int:
    """Bytes that the server takes of endless copies of the data, up to `most`."""
    line.setblocking(False)
    sent, idle = 0, 0
    while sent < most and idle < 20:
        try:
            sent += line.send(data)
            idle = 0
        except BlockingIOError:
            idle += 1
            time.sleep(0.02)
        except OSError:
            break
    return sent


def test_requests_sent_ahead_are_not_read_without_end(tmp_path: Path) -> None:
    with (
        site_within(tmp_path, rate=1e9, burst=10**9) as (_, port),
        connected(port, small=True) as line,
    ):
        sent = send_all(line, LARGE * 500, most=200_000_000)
        assert sent < 10_000_000  # the buffers of the system, and one of ours
        assert request(port, "GET", "/api/v1/health")[0] == 200


def test_one_request_is_parsed_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest, ahead = [0], [0]
    hold = BoundedProtocol._hold

    def watched(self: BoundedProtocol, data: bytes) -> None:
        hold(self, data)
        longest.append(len(self.pipeline))
        ahead.append(len(self._ahead))

    monkeypatch.setattr(BoundedProtocol, "_hold", watched)
    with site_within(tmp_path, rate=1e9, burst=10**9) as (_, port), connected(port) as line:
        many = 3000
        closing = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        line.sendall(HEALTH * (many - 1) + closing)
        heard = b""
        while piece := line.recv(65536):
            heard += piece
    assert heard.count(b"HTTP/1.1 200 OK") == many
    assert max(longest) == 0
    assert 0 < max(ahead) <= AHEAD_BYTES + 512 * 1024  # and what the loop reads at once


@pytest.mark.parametrize("cut", range(1, 4))
def test_heads_cut_anywhere_are_put_together(tmp_path: Path, cut: int) -> None:
    with site_within(tmp_path) as (_, port), connected(port) as line:
        whole = HEALTH * 3 + HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        at = len(HEALTH) * 2 - cut
        line.sendall(whole[:at])
        time.sleep(0.05)
        line.sendall(whole[at:])
        heard = b""
        while piece := line.recv(65536):
            heard += piece
    assert heard.count(b"HTTP/1.1 200 OK") == 4


@contextmanager
def not_reading(port: int, count: int) -> Iterator[list[socket.socket]]:
    """So many clients that ask for a large file and do not read it."""
    with ExitStack() as stack:
        lines = [stack.enter_context(connected(port, small=True)) for _ in range(count)]
        for line in lines:
            line.sendall(LARGE)
        yield lines


def test_clients_that_do_not_read_hold_no_place(tmp_path: Path) -> None:
    """Ten times as many as there are places for strangers, from one address."""
    limits = {"strangers": 4, "strangers_per_address": 4, "write_seconds": 600.0, "threads": 4}
    with site_within(tmp_path, **limits) as (site, port), not_reading(port, 40):
        for path in ("/login", "/api/v1/health"):  # the 40 arrive at once, and are served in turn
            assert becomes(lambda path=path: request(port, "GET", path)[0] == 200)  # type: ignore[misc]
        assert request(port, "GET", "/api/v1/live")[0] == 200
        assert request(port, "GET", "/api/v1/trials", site.tokens["viewer"])[0] == 200


def test_clients_that_do_not_read_are_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = []
    lost = BoundedProtocol.connection_lost
    monkeypatch.setattr(
        BoundedProtocol, "connection_lost", lambda self, exc: (gone.append(self), lost(self, exc))
    )
    with site_within(tmp_path, write_seconds=0.5) as (_, port), not_reading(port, 10):
        assert becomes(lambda: len(gone) == 10)


def test_a_client_that_reads_slowly_gets_all_of_it(tmp_path: Path) -> None:
    with site_within(tmp_path, write_seconds=3.0) as (_, port), connected(port, small=True) as line:
        line.sendall(LARGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        heard, began = 0, time.monotonic()
        first = line.recv(4096)
        length = int(first.lower().partition(b"content-length: ")[2].split()[0])
        heard += len(first)
        while time.monotonic() - began < 4.0:  # longer than it may stand still
            heard += len(line.recv(65536))
            time.sleep(0.01)
        while piece := line.recv(65536):
            heard += len(piece)
    assert heard > length


def test_silent_connections_keep_nobody_out(tmp_path: Path) -> None:
    limits = {"connections": 30, "connections_per_address": 20, "head_seconds": 60.0}
    with site_within(tmp_path, **limits) as (site, port), ExitStack() as stack:
        silent = [stack.enter_context(connected(port)) for _ in range(100)]
        for path, token in [
            ("/api/v1/live", None),
            ("/login", None),
            ("/api/v1/trials", site.tokens["viewer"]),
        ]:
            assert request(port, "GET", path, token)[0] == 200
        assert becomes(lambda: sum(not is_cut(line) for line in silent) <= 20)
        assert not is_cut(silent[-1])  # the newest are let be


def test_silent_connections_are_closed_in_time(tmp_path: Path) -> None:
    with site_within(tmp_path, head_seconds=0.2) as (_, port), ExitStack() as stack:
        silent = [stack.enter_context(connected(port)) for _ in range(30)]
        assert becomes(lambda: all(is_cut(line) for line in silent))


class _Line:
    def __init__(self, address: str, *, known: bool = False, waits: bool = True) -> None:
        self.address, self.known, self.waits, self.open = address, known, waits, True

    def cut(self) -> None:
        self.open = False


def test_room_is_made_by_the_oldest_stranger_that_does_nothing() -> None:
    crowd = Connections(6, 3)
    works = _Line("a", waits=False)
    lines = [works, _Line("a"), _Line("a", known=True), _Line("a")]
    assert all(crowd.add(line) for line in lines)
    assert crowd.add(_Line("a"))
    assert [line.open for line in lines] == [True, False, True, True]
    others = [_Line("b", known=True), _Line("c", known=True)]
    assert all(crowd.add(line) for line in others)
    assert lines[3].open
    assert crowd.add(_Line("d"))  # the seventh of 6 takes the place of one of the fullest address
    assert not lines[3].open
    for line in others + lines:
        crowd.remove(line)
    assert len(crowd) == 2


def test_where_all_are_at_work_a_new_one_is_for_known_people() -> None:
    crowd = Connections(2, 2)
    for _ in range(2):
        assert crowd.add(_Line("a", waits=False))
    late = _Line("b")
    assert not crowd.add(late)
    assert late.open


def test_a_crowded_connection_serves_known_people_and_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site_within(tmp_path) as (site, port):
        monkeypatch.setattr(Connections, "add", lambda self, new: False)
        status, headers, body = request(port, "GET", "/login")
        assert (status, json.loads(body)["error"]["code"]) == (503, "busy")
        assert int(headers["retry-after"]) >= 1
        assert request(port, "GET", "/api/v1/live")[0] == 200
        assert request(port, "GET", "/api/v1/trials", site.tokens["viewer"])[0] == 200


def test_what_is_not_http_is_refused_in_the_form_of_all_errors(tmp_path: Path) -> None:
    with site_within(tmp_path) as (_, port), connected(port) as line:
        line.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        head, _, body = line.recv(65536).partition(b"\r\n\r\n")
    assert b"application/json" in head
    assert json.loads(body)["error"]["code"] == "bad_request"


def heard(port: int, *lines: bytes) -> tuple[int, str]:
    """Status and error code of the answer to a head of these lines."""
    with connected(port) as line:
        line.sendall(b"\r\n".join([*lines, b"Connection: close", b"", b""]))
        text = b""
        while piece := line.recv(65536):
            text += piece
    head, _, body = text.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body).get("error", {}).get("code", "")


def test_a_head_has_few_headers(tmp_path: Path) -> None:
    get = b"GET /api/v1/health HTTP/1.1"
    with site_within(tmp_path) as (_, port):
        few = [b"x: y"] * (MAX_HEADERS - 2)
        assert heard(port, get, b"Host: localhost", *few) == (200, "")
        for more in (1, 2000):
            many = few + [b"x: y"] * more
            assert heard(port, get, b"Host: localhost", *many) == (400, "bad_request")


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://localhost/api/v1/health", b"localhost", 200),
        (b"http://LOCALHOST:80/api/v1/health", b"localhost:80", 200),
        (b"http://localhost/api/v1/health", b"127.0.0.1", 400),
        (b"http://other.example/api/v1/health", b"localhost", 400),
        (b"http://other.example/api/v1/health", b"other.example", 421),
        (b"http://localhost:99/api/v1/health", b"localhost", 400),
        (b"http://localhost@other.example/api/v1/health", b"localhost", 400),
        (b"ftp://localhost/api/v1/health", b"localhost", 400),
        (b"other.example:443", b"localhost", 400),
    ],
)
def test_targets_of_other_hosts_are_refused(
    tmp_path: Path, target: bytes, host: bytes, status: int
) -> None:
    with site_within(tmp_path) as (_, port):
        assert heard(port, b"GET " + target + b" HTTP/1.1", b"Host: " + host)[0] == status
