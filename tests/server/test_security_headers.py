"""Every response tells browsers to be careful, whatever went wrong."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decobandit.server.auth import CONTENT_POLICY, INLINE_STYLES
from decobandit.server.limits import Limits
from decobandit.trials import Store
from helpers.wanted_headers import WANTED
from helpers.web_client import Answer, Ask, Site, answer, asking


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, Limits(body_bytes=100, failed_burst=1, failed_rate=1e-9))
    yield made
    made.close()


def _raw(site: Site, body: bytes, kind: str = "application/json") -> Answer:
    lines = {"content-type": kind}
    ask = asking("POST", "/api/v1/tokens", site.tokens["admin"], headers=lines, body=body)
    return answer(site.app, ask)


def _guess(site: Site) -> Answer:
    return answer(site.app, asking("GET", "/api/v1/trials", "deco_wrong"))


KINDS: dict[int, Callable[[Site], Answer]] = {
    200: lambda site: site.get("/trials"),
    201: lambda site: site.post("/tokens", {"name": "n", "role": "viewer"}),
    401: lambda site: site.get("/trials", None),
    403: lambda site: site.get("/tokens", "viewer"),
    404: lambda site: site.get("/nothing"),
    405: lambda site: site.ask("PUT", "/trials", "admin"),
    413: lambda site: _raw(site, b" " * 101),
    415: lambda site: _raw(site, b"{}", "text/plain"),
    421: lambda site: answer(site.app, asking("GET", "/api/v1/health", host="evil.example")),
    422: lambda site: _raw(site, b"{}"),
    429: lambda site: [_guess(site) for _ in range(2)][-1],
}


def _is_careful(got: Answer) -> None:
    for name, value in WANTED.items():
        assert got.header(name) == value, name
    assert "camera=()" in str(got.header("permissions-policy"))
    assert got.header("server") is None
    assert got.header("content-type") == "application/json"
    assert got.header("access-control-allow-origin") is None


@pytest.mark.parametrize("status", KINDS)
def test_headers_are_on_responses_of_every_kind(site: Site, status: int) -> None:
    got = KINDS[status](site)
    assert got.status == status
    _is_careful(got)
    if status >= 400:
        assert got.code


def test_an_unexpected_error_is_logged_by_a_number_and_not_shown(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site.get("/trials")  # the table of tokens has been read

    def broken(self: Store) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Store, "read", broken)
    with caplog.at_level(logging.ERROR, "decobandit.server"):
        got = site.get("/tokens")
    _is_careful(got)
    assert (got.status, got.code) == (500, "internal")
    number = got.json["error"]["message"].split()[-1]
    assert number in caplog.text
    assert "secret detail" in caplog.text
    assert b"secret detail" not in got.bytes
    assert b"Traceback" not in got.bytes


def test_the_policy_differs_in_styles_alone_where_figures_need_it() -> None:
    assert (
        CONTENT_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
        == INLINE_STYLES
    )
    assert "unsafe" not in CONTENT_POLICY


def test_nothing_is_redirected_or_documented_by_pages_of_other_hosts(site: Site) -> None:
    for path in ("/docs", "/redoc", "/openapi.json", "/api/v1/trials/", "//api/v1/trials"):
        assert answer(site.app, asking("GET", path, site.tokens["admin"])).status == 404


@pytest.mark.parametrize(
    "path", ["x" * 5000, "\ud800", "a\0b", "%00", "..", "é" * 50, "'; drop table trials; --", "\n"]
)
def test_odd_ids_are_not_found_or_refused(site: Site, path: str) -> None:
    for tail in ("", "/ask", f"/allocations/{path}/tell", "/export"):
        method = "POST" if tail.endswith(("ask", "tell")) else "GET"
        body = {"outcome": 1} if tail.endswith("tell") else None
        for full in (f"/trials/{path}{tail}", f"/tokens/{path}"):
            got = site.ask("DELETE" if "tokens" in full else method, full, "admin", body)
            assert got.status in {404, 405, 422}
            assert got.code
            assert len(got.body) < 600


def test_a_refused_value_is_not_repeated(site: Site) -> None:
    got = _raw(site, b'{"name": "n", "role": "<script>alert(1)</script>"}')
    assert (got.status, b"script" in got.body) == (422, False)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/v1/trials", {"GET", "POST"}),
        ("GET", "/api/v1/trials/x/ask", {"POST"}),
        ("GET", "/api/v1/tokens/x", {"DELETE"}),
        ("PUT", "/login", {"GET", "POST"}),
        ("TRACE", "/api/v1/trials", {"GET", "POST"}),
    ],
)
def test_a_refused_method_is_told_all_methods_of_the_path(
    site: Site, method: str, path: str, allowed: set[str]
) -> None:
    got = answer(site.app, asking(method, path, site.tokens["admin"]))
    assert got.status == 405
    assert set(str(got.header("allow")).split(", ")) == allowed
    assert str(got.header("allow")) in got.json["error"]["message"]


def test_options_of_other_sites_get_no_permission(site: Site) -> None:
    ask = Ask("OPTIONS", "/api/v1/trials", [("origin", "http://evil.example")])
    got = answer(site.app, ask)
    assert got.status == 405
    assert not [name for name, _ in got.headers if name.startswith("access-control")]
