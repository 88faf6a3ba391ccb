"""Nobody can ask for too much: requests, bytes, patience, long computations."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from decobandit.server.limits import Buckets, Limits, address_of
from helpers.web_client import Ask, Clock, Site, answer, answers, asking

HEALTH = "/api/v1/health"


def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    clock = Clock()
    buckets = Buckets(2.0, 5, most=10, clock=clock)
    passed = 0
    for _ in range(400):  # 100 seconds
        passed += sum(buckets.take("ann") == 0 for _ in range(3))
        clock.now += 0.25
    assert passed == 5 + 2 * 100 - 1  # the last quarter's half coin is not spent yet
    assert buckets.take("bob") == 0


def test_the_wait_that_is_told_is_the_wait_that_is_needed() -> None:
    clock = Clock()
    buckets = Buckets(0.5, 1, most=10, clock=clock)
    assert buckets.take("ann") == 0
    wait = buckets.take("ann")
    clock.now += wait * 0.99
    assert buckets.take("ann") > 0
    clock.now += wait * 0.01 + 1e-9
    assert buckets.take("ann") == 0


def test_memory_for_addresses_is_bounded() -> None:
    buckets = Buckets(1.0, 1, most=100, clock=Clock())
    for i in range(10_000):
        buckets.take(str(i))
    assert len(buckets) == 100


def test_neighbours_in_ipv6_share_a_bucket() -> None:
    def of(address: str) -> str:
        return address_of({"client": (address, 1)})

    assert of("2001:db8::1") == of("2001:db8::ffff:2")
    assert of("2001:db8::1") != of("2001:db8:0:1::1")
    assert of("192.0.2.1") != of("192.0.2.2")
    assert of("no address") == "no address"
    assert address_of({"client": None}) == "unknown"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def site(tmp_path: Path, clock: Clock) -> Iterator[Site]:
    made = Site(tmp_path, Limits(rate=1.0, burst=3, failed_burst=2, body_bytes=1000, clock=clock))
    yield made
    made.close()


def test_too_many_requests_are_told_when_to_come_back(site: Site, clock: Clock) -> None:
    assert [site.get("/health", None).status for _ in range(5)] == [200] * 3 + [429] * 2
    late = site.get("/health", None)
    assert late.code == "too_many_requests"
    assert late.header("retry-after") == "1"
    # a token, and another address, have buckets of their own
    assert [site.get("/trials").status for _ in range(4)] == [200] * 3 + [429]
    assert answer(site.app, asking("GET", HEALTH, client=("192.0.2.7", 1))).status == 200
    clock.now += 1.0
    assert [site.get("/health", None).status for _ in range(2)] == [200, 429]


def test_guessing_tokens_is_stopped_and_locks_nobody_out(site: Site, clock: Clock) -> None:
    def guess() -> int:
        return answer(site.app, asking("GET", "/api/v1/trials", "deco_guess")).status

    assert [guess() for _ in range(4)] == [401, 401, 429, 429]
    assert site.get("/trials").status == 200  # the same address, a valid token
    clock.now += 1.0
    assert [guess() for _ in range(2)] == [401, 429]


@pytest.mark.parametrize("token", ["", "deco_", "x" * 5000, "é"])
def test_odd_tokens_are_only_wrong(site: Site, token: str) -> None:
    assert answer(site.app, asking("GET", "/api/v1/trials", token)).status == 401


def test_a_body_is_counted_as_it_comes(site: Site) -> None:
    def post(body: bytes | list[bytes], told: str | None) -> int:
        lines = [("authorization", f"Bearer {site.tokens['admin']}")]
        lines += [("content-type", "application/json")]
        lines += [] if told is None else [("content-length", told)]
        return answer(site.app, Ask("POST", "/api/v1/tokens", lines, body)).status

    assert post([b" " * 500, b" " * 501], None) == 413
    assert post([b" " * 500, b" " * 501], "3") == 413  # a lie
    assert post(b"{}", "1001") == 413  # refused before it comes
    assert (
        answer(site.app, asking("GET", HEALTH, headers={"content-length": "9" * 400})).status == 413
    )


def test_a_body_of_the_largest_size_passes(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(body_bytes=1000))
    body = b'{"name": "ann", "role": "viewer"}'
    lines = [("authorization", f"Bearer {site.tokens['admin']}")]
    lines += [("content-type", "application/json")]
    ask = Ask("POST", "/api/v1/tokens", lines, [body, b" " * (1000 - len(body))])
    assert answer(site.app, ask).status == 201
    site.close()


def test_a_body_that_drips_is_given_up(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(body_seconds=0.05))
    lines = [("authorization", f"Bearer {site.tokens['admin']}")]
    ask = Ask("POST", "/api/v1/tokens", lines, body=[b" "] * 1000, pause=0.02)
    given_up = answer(site.app, ask)
    assert (given_up.status, given_up.code) == (408, "too_slow")
    site.close()


def test_too_many_at_once_are_sent_away(tmp_path: Path) -> None:
    """One person never holds all places: the slow bodies of one leave room for another."""
    site = Site(tmp_path, replace(Limits(), concurrent=3))
    lines = [("authorization", f"Bearer {site.tokens['viewer']}")]
    slow = [Ask("POST", "/api/v1/tokens", lines, body=[b"", b""], pause=0.5) for _ in range(5)]
    other = asking("GET", "/api/v1/trials", site.tokens["admin"])
    *statuses, status = (found.status for found in answers(site.app, [*slow, other]))
    assert sorted(statuses) == [403, 403, 503, 503, 503]
    assert status == 200
    assert site.get("/health").status == 200
    site.close()


def test_strangers_hold_no_place_by_sending_slowly(tmp_path: Path) -> None:
    site = Site(tmp_path, replace(Limits(), concurrent=8, strangers=3))
    slow = [Ask("POST", "/api/v1/tokens", body=[b" "] * 100, pause=0.02) for _ in range(5)]
    assert {found.status for found in answers(site.app, slow)} == {401}  # before the body
    logins = [Ask("POST", "/login", body=[b"", b""], pause=0.5) for _ in range(6)]
    known = asking("GET", "/api/v1/trials", site.tokens["admin"])
    statuses = [found.status for found in answers(site.app, [*logins, known])]
    assert statuses.count(503) == 4
    assert statuses[-1] == 200
    site.close()


@pytest.mark.parametrize(
    "addresses",
    [["192.0.2.1", "192.0.2.2"], ["2001:db8::1", "2001:db8:0:1::1"], ["::ffff:192.0.2.1"] * 2],
    ids=["IPv4", "IPv6", "mapped"],
)
def test_slow_logins_of_few_addresses_keep_no_stranger_out(
    tmp_path: Path, addresses: list[str]
) -> None:
    """Far more than there are places for strangers, from two addresses (or /64 networks)."""
    site = Site(tmp_path)
    logins = [
        Ask("POST", "/login", body=[b"", b""], pause=2.0, client=(addresses[i % 2], i))
        for i in range(3 * site.limits.strangers)
    ]
    neighbours = [
        Ask("POST", "/login", body=[b"", b""], pause=2.0, client=("2001:db8::ffff", 1)),
        asking("GET", "/login", client=("192.0.2.3", 1)),
        asking("GET", "/login", client=("::ffff:192.0.2.3", 1)),
        asking("GET", HEALTH, client=("2001:db8:7::1", 1)),
    ]
    found = [each.status for each in answers(site.app, [*logins, *neighbours])]
    assert found[: len(logins)].count(503) > site.limits.strangers
    assert found[len(logins) + 1 :] == [200, 200, 200]
    if addresses[0] == "2001:db8::1":  # of the same /64 network
        assert found[len(logins)] == 503
    site.close()


def test_the_body_of_a_login_is_short_and_quick(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(login_seconds=0.05))
    lines = [("content-type", "application/x-www-form-urlencoded"), ("origin", "http://127.0.0.1")]
    long = Ask("POST", "/login", lines, b"token=" + b"x" * site.limits.login_bytes)
    assert answer(site.app, replace(long, headers=lines[:1])).status == 413
    slow = Ask("POST", "/login", lines[:1], body=[b" "] * 1000, pause=0.02)
    assert answer(site.app, slow).status == 408
    site.close()


def test_a_client_that_leaves_gets_no_answer(tmp_path: Path) -> None:
    site = Site(tmp_path)
    sent: list[object] = []

    async def leave() -> None:
        async def receive() -> dict[str, str]:
            return {"type": "http.disconnect"}

        async def send(message: object) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "path": HEALTH,
            "query_string": b"",
            "scheme": "http",
            "headers": [(b"host", b"localhost")],
            "client": ("127.0.0.1", 1),
        }
        await site.app(scope, receive, send)  # type: ignore[arg-type]

    asyncio.run(leave())
    assert sent == []
    site.close()
