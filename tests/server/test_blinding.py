"""What an operator can get out of the server says nothing about how a trial goes."""

import json
import re
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from decobandit.problem import Problem, problem_from_dict
from decobandit.trials import Trial, create_trial, outcomes_csv
from helpers.routes import DOCUMENTS, TABLE, routes_of
from helpers.web_client import Answer, Site, answer, asking

PROBLEM = {
    "horizon": 6,
    "arms": [
        {"name": "red", "prior": {"good": 7.3125, "bad": 3.671}, "reward": {"good": 1.4142}},
        {"name": "blue", "prior": {"good": 6.9173, "bad": 3.137}, "reward": {"good": 1.5772}},
    ],
    "terminal": {"deploy": 5.5511},
}
KEYS = {
    "id",
    "name",
    "arm",
    "finished",
    "open",
    "trials",
    "error",
    "code",
    "field",
    "message",
    "state",
    "subject",
}
WORDS = (
    "index",
    "posterior",
    "good",
    "bad",
    "price",
    "stage",
    "value",
    "expected",
    "count",
    "told",
    "allocated",
    "horizon",
    "prior",
    "remaining",
    "slots",
    "earned",
    "bound",
    "loss",
    "seed",
    "multiplier",
    "reason",
    "hash",
    "head",
    "deploy",
    "policy",
    "event",
    "traceback",
)
HEADERS = {
    "content-length",
    "content-type",
    "www-authenticate",
    "retry-after",
    "allow",
    "connection",
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "cache-control",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "permissions-policy",
    "x-request-id",
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def _play(site: Site, trial: Trial, outcomes: str) -> list[Answer]:
    """Everything an operator hears who plays a trial, errors and repetitions too."""
    base, heard = f"/trials/{trial.id}", []

    def post(path: str, body: Any = None) -> Answer:
        heard.append(site.post(f"{base}{path}", body, "operator"))
        return heard[-1]

    for number, outcome in enumerate(outcomes):
        heard.append(site.get(base, "operator"))
        slot = post("/ask", {"key": f"k{number}"}).json["id"]
        post("/ask", {"key": f"k{number}"})
        heard.append(site.get(base, "operator"))
        if number == 1:
            post(f"/allocations/{slot}/cancel", {"reason": "gone"})
            post(f"/allocations/{slot}/cancel", {"reason": "gone"})
            post(f"/allocations/{slot}/tell", {"outcome": 1})
            slot = post("/ask").json["id"]
        post(f"/allocations/{slot}/tell", {"outcome": int(outcome)})
        post(f"/allocations/{slot}/tell", {"outcome": int(outcome)})
        post(f"/allocations/{slot}/cancel", {"reason": "gone"})
        post(f"/allocations/{slot}/cancel", {"reason": "gone", "key": f"k{number}"})
    heard += [site.get(base, "operator"), site.get("/trials", "operator")]
    if len(outcomes) == 6:
        post("/ask")
    return heard


def _every_route(site: Site, trial: Trial) -> list[Answer]:
    """All routes with bodies good and bad, as an operator."""
    slot, heard = trial.allocations()[0].id, []
    bodies: list[Any] = [
        None,
        {},
        {"outcome": 1},
        {"outcome": "x" * 99},
        {"key": "k"},
        [1],
        {"a": {}},
    ]
    for method, path in TABLE:
        if path in DOCUMENTS:
            continue
        for trial_id in (trial.id, trial.name, "nothing"):
            full = path.replace("{trial}", trial_id).replace("{allocation}", slot)
            full = full.replace("{name}", "the-admin")
            for body in bodies if method == "POST" else [None]:
                ask = asking(method, full, site.tokens["operator"], body)
                heard.append(answer(site.app, ask))
    odd = {"content-type": "text/plain"}
    for body in (b"{", b" " * 300_000):
        for headers in (odd, {"content-type": "application/json"}):
            path = f"/api/v1/trials/{trial.id}/ask"
            token = site.tokens["operator"]
            heard.append(answer(site.app, asking("POST", path, token, headers=headers, body=body)))
    heard.append(site.ask("PUT", f"/trials/{trial.id}", "operator"))
    return heard


def _keys(tree: Any) -> set[str]:
    if isinstance(tree, dict):
        return set(tree).union(*map(_keys, tree.values()))
    return set().union(*map(_keys, tree)) if isinstance(tree, list) else set()


def _numbers(tree: Any) -> set[str]:
    """The fractions of a tree, to as many digits as cannot be there by chance."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        return set().union(*map(_numbers, tree))
    shown = repr(tree)[:6] if isinstance(tree, float) else ""
    return {shown} if len(shown) == 6 else set()


def _headers(got: Answer) -> list[tuple[str, str]]:
    """All but the id of the request, which is drawn."""
    return [(name, value) for name, value in got.headers if name != "x-request-id"]


def _without_ids(got: Answer) -> str:
    return re.sub(r"[0-9a-f]{16}", "*", got.body.decode())


def _document(site: Site, path: str) -> bytes:
    """What the API is, the same for everybody and whatever has happened."""
    known, stranger = (
        answer(site.app, asking("GET", path, token)) for token in (site.tokens["operator"], None)
    )
    assert known.status == 200
    assert known.body == stranger.body
    return known.body


def test_an_operator_hears_nothing_but_ids_and_arms(site: Site) -> None:
    trial = create_trial(problem_from_dict(PROBLEM), name="blind", db=site.store, seed=987654321)
    before = [_document(site, path) for path in DOCUMENTS]
    heard = _play(site, trial, "110100") + _every_route(site, trial)
    assert {200, 403, 404, 405, 409, 413, 415, 422} <= {got.status for got in heard}
    assert all(got.status < 500 for got in heard)
    numbers = _numbers(json.loads(site.get("/trials/blind/export").body))
    assert len(numbers) > 30
    assert "7.3125" in numbers
    versions = [site.get(path, "operator").body for path in ("/health", "/live", "/ready")]
    for got in heard:
        if got.body in versions:
            continue  # the version of the program
        assert _keys(got.json) <= KEYS, got.body
        assert {name for name, _ in got.headers} <= HEADERS
        said = _without_ids(got).lower()
        assert not [number for number in numbers | {"987654321"} if number in said], said
        if got.status >= 400:
            message = got.json["error"]["message"]
            # that a body needs a reason may be told; why a decision was made is not
            words = set(WORDS) - ({"reason"} if got.status in {400, 422} else set())
            assert not [word for word in words if word in message.lower()], message
            # what a body or a size must be may be told; of the trial no number is
            assert got.status in {413, 422} or not re.search(r"\d", message), message
    assert [_document(site, path) for path in DOCUMENTS] == before


def _pages(site: Site, trial: Trial) -> list[Answer]:
    """All pages and what their buttons answer, as an operator."""
    slot, heard = trial.allocations()[0].id, []
    for route in routes_of(site.app.routes):
        if route.path.startswith(("/api/", "/static/")):
            continue
        path = route.path.replace("{trial}", trial.id).replace("{allocation}", slot)
        path = path.replace("{path:elsewhere}", "nowhere")
        for method in (route.methods or set()) - {"HEAD"}:
            for query in ("", f"?now={slot}", f"?done={slot}"):
                form = {"content-type": "application/x-www-form-urlencoded"}
                ask = asking(
                    method,
                    path + query,
                    site.tokens["operator"],
                    headers=form,
                    body=b"outcome=good&key=pages&reason=none" if method == "POST" else b"",
                )
                heard.append(answer(site.app, ask))
    return heard


def test_no_page_shows_an_operator_a_number_of_the_trial(site: Site) -> None:
    trial = create_trial(problem_from_dict(PROBLEM), name="blind", db=site.store, seed=987654321)
    heard = []
    for outcomes in ("1101", "00"):
        _play(site, trial, outcomes)
        heard += _pages(site, trial)
    numbers = _numbers(json.loads(site.get("/trials/blind/export").body)) | {"987654321"}
    assert {200, 303, 403, 404, 409} <= {got.status for got in heard}
    for got in heard:
        assert got.status < 500
        said = got.bytes.decode()
        assert not [number for number in numbers if number in said]
        assert "posterior" not in said.lower()


def _run_page(site: Site, trial: Trial) -> str:
    got = answer(site.app, asking("GET", f"/trials/{trial.id}", site.tokens["operator"]))
    assert got.status == 200
    return re.sub(r'name="key" value="[^"]+"|[0-9a-f]{16}', "*", got.body.decode())


def test_nothing_an_operator_hears_depends_on_outcomes_or_priors(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trials of a policy that does not look at outcomes: one goes well, the other badly."""
    # codes are drawn for every trial: here both get the same
    monkeypatch.setattr("decobandit.trials.event_log.drawn_codes", lambda arms: ["B", "A"])
    heard, pages = [], []
    for name, outcomes, prior in [("one", "111111", 9.25), ("two", "000000", 0.125)]:
        arms = [{"name": arm, "prior": {"good": prior, "bad": 2.5}} for arm in ("red", "blue")]
        problem: Problem = problem_from_dict({"horizon": 6, "arms": arms})
        trial = create_trial(problem, policy="equal", name=name, db=site.store)
        heard.append(_play(site, trial, outcomes)[:-2])
        heard[-1].append(site.post(f"/trials/{name}/ask", None, "operator"))
        pages.append(_run_page(site, trial).replace(name, "*"))
    assert pages[0] == pages[1]
    one, two = (
        [(got.status, _headers(got), _without_ids(got).replace(name, "*")) for got in answers]
        for name, answers in zip(("one", "two"), heard, strict=True)
    )
    assert one == two


def test_a_damaged_database_does_not_tell_an_operator_how_long_a_trial_is(
    site: Site,
) -> None:
    trial = create_trial(problem_from_dict(PROBLEM), name="blind", db=site.store)
    _play(site, trial, "11010")
    change = text("update events set body = body || ' ' where seq = 3")
    site.store.write(lambda connection: connection.execute(change))
    site.close()
    site.reopen()  # a server that has not read the trial yet
    for role, told in [("operator", False), ("admin", True)]:
        got = site.get("/trials/blind", role)
        assert (got.status, got.code) == (503, "damaged")
        assert (trial.id in got.json["error"]["message"]) == told


def test_what_an_operator_hears_of_batches_does_not_depend_on_which_arm_has_which_code(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arms alike, and equal shares: lists in the order of arms or names would tell them apart."""
    arms = [{"name": name} for name in ("red", "blue", "green")]
    problem = problem_from_dict({"horizon": 2, "pulls_per_stage": 6, "repeat": True, "arms": arms})
    heard = set()
    for codes in permutations("ABC"):
        monkeypatch.setattr("decobandit.trials.event_log.drawn_codes", lambda arms, c=codes: [*c])
        name = "".join(codes)
        trial = create_trial(problem, policy="equal", name=name, db=site.store)
        batch = site.post(f"/trials/{name}/ask", None, "operator")
        path = f"/trials/{name}/allocations/{batch.json['id']}/tell"
        told: list[Any] = [{"Z": "1/1"}, {"C": "3/3", "B": "3/3", "A": "3/3"}, {"B": "1/2"}]
        answers = [batch, *(site.post(path, {"counts": each}, "operator") for each in told)]
        assert [got.status for got in answers] == [200, 400, 409, 200]
        masked = outcomes_csv(trial.events(), masked=True)
        said = [*map(_without_ids, answers), re.sub(r"[0-9a-f]{16}|2\d{3}-[^,\n]+", "*", masked)]
        heard.add(json.dumps(said))
    assert len(heard) == 1
