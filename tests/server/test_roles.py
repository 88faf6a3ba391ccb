"""Who may do what: every route with every kind of caller; a route not in the table fails."""

from collections.abc import Iterator
from typing import Any

import pytest

from decobandit.server.api.routing import ApiRoute
from decobandit.server.auth import COOKIE, allow
from decobandit.server.tokens import new_token, revoke_token
from helpers.routes import OPEN, PROBES, ROLES, TABLE, routes_of
from helpers.web_client import SMALL, Answer, Site, answer, asking

CALLERS = (
    "nobody",
    "wrong",
    "revoked",
    "no scheme",
    "stale cookie",
    *ROLES,
    *(f"{r} cookie" for r in ROLES),
)


# both arms are called by what may be their code: only then does one body serve all roles
BATCHED = {
    "horizon": 4,
    "pulls_per_stage": 4,
    "repeat": True,
    "arms": [{"name": "A"}, {"name": "B"}],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("roles"))
    new_token(made.store, "gone", "admin")
    made.tokens["revoked"] = new_token(made.store, "lost", "admin")[1]
    revoke_token(made.store, "lost")
    made.app.state.guard.tokens_changed()
    yield made
    made.close()


def test_every_route_is_in_the_table(site: Site) -> None:
    found = {
        (method, route.path)
        for route in routes_of(site.app.routes)
        for method in (route.methods or ())
        if route.path.startswith(("/api/", "/ofrep/")) and method != "HEAD"
    }
    assert found == set(TABLE)


def test_a_route_that_does_not_say_who_may_use_it_cannot_be_made() -> None:
    def forgotten() -> None: ...

    with pytest.raises(TypeError, match="forgotten: does not say whose roles"):
        ApiRoute("/x", forgotten)
    ApiRoute("/x", allow("admin")(forgotten))


def _headers(site: Site, caller: str) -> dict[str, str]:
    role = caller.removesuffix(" cookie")
    if caller == "nobody":
        return {}
    if caller == "no scheme":
        return {"authorization": site.tokens["admin"]}
    if caller == "stale cookie":
        return {"cookie": f"{COOKIE}=abc", "origin": "http://127.0.0.1:8000"}
    if " cookie" in caller:
        guard = site.app.state.guard
        session = guard.log_in({"client": None}, site.tokens[role])
        return {"cookie": f"{COOKIE}={session}", "origin": "http://127.0.0.1:8000"}
    return {"authorization": f"Bearer {site.tokens.get(caller, 'deco_wrong')}"}


def _body(path: str, number: int) -> Any:
    if path.endswith("/trials"):
        return {"problem": SMALL, "name": f"n{number}", "tol": 0.1}
    if "/design" in path:
        scenario = {"name": "null", "truth": [0.5, 0.5]}
        return {"problem": SMALL | {"design": {"policies": ["equal"], "scenarios": [scenario]}}}
    if path.endswith("/plan"):
        return {"problem": SMALL, "policies": []}
    if path.endswith("/tokens"):
        return {"name": f"n{number}", "role": "viewer"}
    if path.endswith("/correct"):
        return {"outcome": 1, "reason": "misread"}
    if path.endswith("/arms"):
        return {"arm": {"name": "late"}, "reason": "ready"}
    if path.endswith(("/cancel", "/reopen", "/limits", "/{arm}/close", "/unlock")):
        return {"reason": "did not come"}
    if "/flags" in path:
        return {"context": {"targetingKey": f"subject {number}"}}
    if path.endswith("/unmask"):
        return {"category": "emergency", "reason": "an adverse event"}
    if path.endswith("/review"):
        return {"up_to": 0}
    return {"outcome": 1} if path.endswith("/tell") else None


def _fill(path: str, site: Site, number: int) -> str:
    """The path with ids for which an allowed request succeeds."""
    path = path.replace("{name}", "gone").replace("{arm}", "old")
    if "{trial}" in path:
        trial = site.trial(name=f"t{number}")
        slot = trial.ask()
        if path.endswith("/correct"):
            trial.tell(slot.id, 0)
        if path.endswith(("/lock", "/unlock")):
            trial.close()
        if path.endswith("/unlock"):
            trial.lock(by="somebody else")
        path = path.replace("{trial}", trial.id).replace("{allocation}", slot.id)
    return path


def _events(site: Site) -> Any:
    with site.store.read() as connection:
        return [
            connection.exec_driver_sql(f"select count(*) from {table}").scalar()
            for table in ("trials", "events", "tokens")
        ]


def _allowed(caller: str, roles: tuple[str, ...]) -> bool:
    return caller.removesuffix(" cookie") in roles


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(("method", "path"), TABLE, ids=str)
def test_only_the_roles_of_the_table_are_let_in(
    site: Site, method: str, path: str, caller: str
) -> None:
    number = abs(hash((method, path, caller)))
    filled = _fill(path, site, number)
    before = _events(site)
    headers = _headers(site, caller)
    site.app.state.guard.failures._credits.clear()  # what is told after many wrong ones: elsewhere
    ask = asking(method, filled, None, _body(path, number), headers=headers)
    got = answer(site.app, ask)
    roles = TABLE[method, path]
    if _allowed(caller, roles):
        assert got.status in {200, 201}, got.body
        return
    bad_header = caller in {"wrong", "revoked", "no scheme"}
    if roles == OPEN and (not bad_header or path in PROBES):
        assert got.status == 200
        return
    known = caller.removesuffix(" cookie") in ROLES
    _is_refusal(got, 403 if known else 401)
    assert _events(site) == before  # nothing was written


def _is_refusal(got: Answer, status: int) -> None:
    assert (got.status, got.code) == (status, {401: "unauthorized", 403: "forbidden"}[status])
    assert got.header("www-authenticate") == ("Bearer" if status == 401 else None)


@pytest.mark.parametrize("caller", ["nobody", "viewer"])
def test_who_asks_is_looked_at_before_what_is_sent(site: Site, caller: str) -> None:
    headers = _headers(site, caller) | {"content-type": "application/json"}
    ask = asking("POST", "/api/v1/trials", headers=headers, body=b"{{{")
    assert answer(site.app, ask).status == (401 if caller == "nobody" else 403)


def test_a_revoked_token_ends_its_sessions_at_once(site: Site) -> None:
    _, secret = new_token(site.store, "brief", "admin")
    site.app.state.guard.tokens_changed()
    session = site.app.state.guard.log_in({"client": None}, secret)
    cookie = {"cookie": f"other=1; {COOKIE}={session}"}
    look = asking("GET", "/api/v1/tokens", headers=cookie)
    assert answer(site.app, look).status == 200
    assert site.ask("DELETE", "/tokens/brief", "admin").json["revoked_at"] is not None
    assert answer(site.app, look).status == 401
    assert answer(site.app, asking("GET", "/api/v1/tokens", secret)).status == 401


def test_without_authentication_only_this_machine_is_let_in(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    site = Site(tmp_path_factory.mktemp("open"), auth=False)
    for client, status in [
        (("127.0.0.1", 1), 200),
        (("127.9.9.9", 1), 200),
        (("::1", 1), 200),
        (("192.0.2.1", 1), 401),
        (("::2", 1), 401),
        (("localhost", 1), 401),
        (None, 401),
    ]:
        ask = asking("GET", "/api/v1/tokens", client=client)
        assert answer(site.app, ask).status == status
    site.close()
