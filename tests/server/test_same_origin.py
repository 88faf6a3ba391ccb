"""Pages of other sites change nothing here, and other names for this machine do not work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from decobandit.server.app import create_app
from decobandit.server.auth import COOKIE
from helpers.web_client import HOST, Answer, Ask, Site, answer, asking

SELF = f"http://{HOST}"
TOKENS = "/api/v1/tokens"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


CHANGES = [
    # headers, by token, by cookie
    ({}, 201, 403),
    ({"origin": SELF}, 201, 201),
    ({"sec-fetch-site": "same-origin"}, 201, 201),
    ({"sec-fetch-site": "none"}, 201, 201),
    ({"origin": SELF, "sec-fetch-site": "same-origin"}, 201, 201),
    ({"origin": f"https://{HOST}"}, 201, 201),  # a proxy that speaks TLS
    ({"origin": "null"}, 403, 403),
    ({"origin": ""}, 403, 403),
    ({"origin": "http://evil.example"}, 403, 403),
    ({"origin": "http://127.0.0.1:8001"}, 403, 403),
    ({"origin": "http://127.0.0.1"}, 403, 403),
    ({"origin": "http://localhost:8000"}, 403, 403),
    ({"origin": f"ftp://{HOST}"}, 403, 403),
    ({"origin": f"{SELF}.evil.example"}, 403, 403),
    ({"origin": f"{SELF}/"}, 403, 403),
    ({"origin": f"http://evil.example@{HOST}"}, 403, 403),
    ({"sec-fetch-site": "cross-site"}, 403, 403),
    ({"sec-fetch-site": "same-site"}, 403, 403),
    ({"sec-fetch-site": "odd"}, 403, 403),
    ({"origin": SELF, "sec-fetch-site": "cross-site"}, 403, 403),
    ({"origin": "null", "sec-fetch-site": "same-origin"}, 403, 403),
]


@pytest.mark.parametrize("way", ["token", "cookie"])
@pytest.mark.parametrize(("headers", "by_token", "by_cookie"), CHANGES)
def test_changes_come_from_our_own_pages_or_from_programs(
    site: Site, headers: dict[str, str], by_token: int, by_cookie: int, way: str
) -> None:
    token = site.tokens["admin"]
    if way == "cookie":
        session = site.app.state.guard.log_in({"client": None}, token)
        headers = headers | {"cookie": f"{COOKIE}={session}"}
    shown = token if way == "token" else None
    body = {"name": "ann", "role": "viewer"}
    got = answer(site.app, asking("POST", TOKENS, shown, body, headers=headers))
    assert got.status == (by_token if way == "token" else by_cookie)
    if got.status == 403:
        assert got.code == "cross_site"


def test_two_origins_or_two_cookies_are_one_too_many(site: Site) -> None:
    session = site.app.state.guard.log_in({"client": None}, site.tokens["admin"])
    lines = [("cookie", f"{COOKIE}={session}"), ("content-type", "application/json")]
    twice = [*lines, ("origin", SELF), ("origin", "http://evil.example")]
    assert answer(site.app, Ask("POST", TOKENS, twice, b"{}")).status == 403
    two = [("cookie", f"{COOKIE}=tossed; {COOKIE}={session}"), ("origin", SELF)]
    assert answer(site.app, Ask("GET", TOKENS, two)).status == 401


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST", "PROPFIND"])
def test_every_method_that_is_not_safe_is_checked(site: Site, method: str) -> None:
    evil = {"origin": "http://evil.example"}
    got = answer(site.app, asking(method, TOKENS, site.tokens["admin"], headers=evil))
    assert got.status == 403


def test_without_authentication_other_sites_are_still_refused(tmp_path: Path) -> None:
    site = Site(tmp_path, auth=False)
    body = {"name": "ann", "role": "viewer"}
    for headers, status in [({"origin": "http://evil.example"}, 403), ({"origin": SELF}, 201)]:
        assert (
            answer(site.app, asking("POST", TOKENS, None, body, headers=headers)).status == status
        )
    site.close()


HOSTS = {
    "127.0.0.1": 200,
    "127.0.0.1:8000": 200,
    "localhost": 200,
    "LOCALHOST:1": 200,
    "[::1]": 200,
    "[::1]:8000": 200,
    "localhost.": 200,
    "trials.example:443": 200,
    "": 421,
    "evil.example": 421,
    "127.0.0.1.evil.example": 421,
    "localhost@evil.example": 421,
    "evil.example@localhost": 421,
    "localhost/x": 421,
    "localhost:port": 421,
    "[::1": 421,
    "localhost:99999": 421,
    "localhost?": 200,
    "0.0.0.0": 421,
    "127.1": 421,
    "other.example": 421,
}


@pytest.mark.parametrize("host", HOSTS)
def test_only_our_own_hosts_are_answered_for(site: Site, host: str) -> None:
    app = create_app(site.store, allowed_hosts=["trials.example"])
    assert answer(app, asking("GET", "/api/v1/health", host=host)).status == HOSTS[host]


def test_no_host_or_two_are_refused(site: Site) -> None:
    assert answer(site.app, asking("GET", "/api/v1/health", host=None)).status == 421
    twice = asking("GET", "/api/v1/health", headers={"host": "localhost"})
    assert answer(site.app, twice).status == 421


# -- pages of named origins ---------------------------------------------------------------------

FRIEND = "https://app.example.org"


@pytest.fixture
def friendly(site: Site) -> Site:
    site.app = create_app(site.store, cors_origins=[FRIEND, "http://localhost:3000"])
    return site


def cors(found: Answer) -> dict[str, str]:
    return {name: value for name, value in found.headers if name.startswith("access-control")}


@pytest.mark.parametrize("origin", [FRIEND, "http://localhost:3000"])
def test_a_page_of_a_named_origin_uses_the_api_with_a_token(friendly: Site, origin: str) -> None:
    asked = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type, idempotency-key",
    }
    before = answer(friendly.app, asking("OPTIONS", TOKENS, headers=asked))
    assert (before.status, before.header("access-control-allow-origin")) == (204, origin)
    allowed = (before.header("access-control-allow-headers") or "").lower()
    assert {"authorization", "content-type", "idempotency-key"} <= set(allowed.split(", "))
    assert "POST" in (before.header("access-control-allow-methods") or "")
    headers = {"origin": origin, "sec-fetch-site": "cross-site"}
    body = {"name": "ann", "role": "viewer"}
    made = answer(
        friendly.app, asking("POST", TOKENS, friendly.tokens["admin"], body, headers=headers)
    )
    assert (made.status, made.header("access-control-allow-origin")) == (201, origin)
    assert made.header("vary") == "Origin"
    refused = answer(friendly.app, asking("GET", "/api/v1/trials", "deco_x", headers=headers))
    assert (refused.status, refused.header("access-control-allow-origin")) == (401, origin)
    assert not any(
        "credentials" in name for found in (before, made, refused) for name in cors(found)
    )


def test_a_named_origin_gets_nothing_by_cookie_and_no_pages(friendly: Site) -> None:
    session = friendly.app.state.guard.log_in({"client": None}, friendly.tokens["admin"])
    headers = {"origin": FRIEND, "cookie": f"{COOKIE}={session}"}
    body = {"name": "ann", "role": "viewer"}
    assert answer(friendly.app, asking("POST", TOKENS, None, body, headers=headers)).status == 403
    page = answer(friendly.app, asking("GET", "/login", headers={"origin": FRIEND}))
    assert (page.status, cors(page)) == (200, {})
    form = {"origin": FRIEND, "content-type": "application/x-www-form-urlencoded"}
    assert answer(friendly.app, asking("POST", "/login", headers=form)).status == 403


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        f"{FRIEND}.evil.example",
        f"{FRIEND}:444",
        "http://app.example.org",
        f"{FRIEND}/",
    ],
)
def test_other_origins_get_nothing(friendly: Site, origin: str) -> None:
    headers = {"origin": origin}
    asked = headers | {"access-control-request-method": "POST"}
    assert cors(answer(friendly.app, asking("OPTIONS", TOKENS, headers=asked))) == {}
    body = {"name": "ann", "role": "viewer"}
    token = friendly.tokens["admin"]
    refused = answer(friendly.app, asking("POST", TOKENS, token, body, headers=headers))
    assert (refused.status, cors(refused)) == (403, {})
    assert refused.header("vary") == "Origin"


def test_no_origin_is_named_by_default(site: Site) -> None:
    found = answer(site.app, asking("GET", "/api/v1/health", headers={"origin": FRIEND}))
    assert (found.status, cors(found), found.header("vary")) == (200, {}, None)


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "https://*.example.org",
        "app.example.org",
        "https://",
        "ftp://a",
        "https://a/b",
        "https://a/",
        "https://u@a",
        "https://a:b",
        "https://a?b",
        "null",
        "",
        "https://a b",
    ],
)
def test_what_is_no_origin_is_refused(site: Site, text: str) -> None:
    with pytest.raises(ValueError, match=r"--cors-origin: .* is not allowed"):
        create_app(site.store, cors_origins=[text])
