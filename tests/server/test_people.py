"""Who logged in, looked, exported and unmasked is on record; strangers cannot fill the record."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from decobandit.server.auth import MAX_ADDRESSES, OTHERS, WINDOW_SECONDS, Recorder
from decobandit.server.limits import Limits
from decobandit.server.tokens import MAX_DAYS, list_tokens, new_token
from decobandit.trials import Event, NotFound, StoreError, people_log
from decobandit.trials.schema import tokens as table
from helpers.page_browser import Browser
from helpers.refusals import refused
from helpers.web_client import Clock, Site, answer, asking


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def site(tmp_path: Path, clock: Clock) -> Iterator[Site]:
    made = Site(tmp_path, Limits(clock=clock))
    yield made
    made.close()


def noted(site: Site, *kinds: str) -> list[Event]:
    site.app.state.guard.recorder.flush()
    found = people_log(site.store)
    assert found.ok
    return [event for event in found.events if event.kind in kinds]


# -- logins and refusals ------------------------------------------------------------------------


def test_logins_by_browser_and_by_program_are_on_record(site: Site, clock: Clock) -> None:
    Browser(site, "viewer")
    for _ in range(3):
        site.get("/trials", "operator")
    said = [(e.by, e.data["via"], e.data.get("repeated")) for e in noted(site, "login")]
    assert said == [
        ("the-viewer", "browser", None),
        ("the-operator", "bearer", None),
        ("the-operator", "bearer", 2),  # written because the log was read
    ]
    clock.now += WINDOW_SECONDS
    site.get("/trials", "operator")
    assert len(noted(site, "login")) == 4


def test_a_refused_token_is_on_record_without_the_token(site: Site) -> None:
    answer(site.app, asking("GET", "/api/v1/trials", "deco_wrong"))
    Browser(site, None).post("/login", data={"token": "deco_other"})
    found = noted(site, "refused")
    assert [(e.by, e.data["what"]) for e in found] == [("nobody", "request"), ("nobody", "login")]
    assert all(e.data["address"] == "127.0.0.1" for e in found)
    assert not [e for e in found if "deco_" in e.body]


def test_strangers_do_not_grow_the_log_without_end(site: Site, clock: Clock) -> None:
    per_hour = []
    for _ in range(3):
        before = len(people_log(site.store).events)
        for number in range(400):
            client = (f"192.0.2.{number % 200}", 1)
            answer(site.app, asking("GET", "/api/v1/trials", "deco_wrong", client=client))
        per_hour.append(len(people_log(site.store).events) - before)
        clock.now += WINDOW_SECONDS
    assert max(per_hour) <= MAX_ADDRESSES + 1
    found = noted(site, "refused")
    count: Counter[str] = Counter()
    for event in found:
        count[event.data["address"]] += event.data.get("repeated", 0)
        count[event.data["address"]] += "repeated" not in event.data
    assert sum(count.values()) >= 3 * 400 - 6 * MAX_ADDRESSES  # nearly all are counted
    assert count[OTHERS] > 1000


class _Broken:
    """A database that cannot be written until it is repaired."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site, self.patch = site, monkeypatch

        def refuse(*arguments: object) -> None:
            raise StoreError("disk full")

        monkeypatch.setattr("decobandit.server.auth.record_all", refuse)


def test_reading_goes_on_while_the_record_cannot_be_written(
    site: Site, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = site.trial()
    with monkeypatch.context() as patch:
        _Broken(site, patch)
        assert site.get(f"/trials/{trial.id}", "viewer").status == 200
        assert not [e for e in people_log(site.store).events if e.kind == "looked"]
    clock.now += 10
    site.get("/health")
    (look,) = noted(site, "looked")
    assert (look.by, look.data["trial"]) == ("the-viewer", trial.id)


def test_what_waits_and_what_is_counted_is_bounded(site: Site) -> None:
    recorder = Recorder(site.store, clock=Clock())
    for number in range(20_000):
        recorder.note("looked", "ann", {}, once=number)
    assert len(recorder._waiting) == 1000
    assert len(recorder._counted) == 10_000


# -- looks and exports --------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/why", "/events", "/path"])
def test_who_saw_results_over_the_api_is_on_record(site: Site, path: str) -> None:
    trial = site.trial()
    for role in ("viewer", "operator", "admin"):
        site.get(f"/trials/{trial.id}{path}", role)
    found = noted(site, "looked")
    assert [(e.by, e.data["trial"], e.data["name"]) for e in found] == [
        ("the-viewer", trial.id, "pilot"),
        ("the-admin", trial.id, "pilot"),
    ]


@pytest.mark.parametrize("path", ["", "/why", "/why.json", "/audit"])
def test_who_saw_results_on_a_page_is_on_record(site: Site, path: str) -> None:
    trial = site.trial()
    for role in ("viewer", "operator"):
        Browser(site, role).get(f"/trials/{trial.id}{path}")
    assert [e.by for e in noted(site, "looked")] == ["the-viewer"]


def test_exports_are_on_record(site: Site) -> None:
    trial = site.trial()
    site.get(f"/trials/{trial.id}/export", "viewer")
    browser = Browser(site, "admin")
    for kind in ("json", "csv"):
        browser.get(f"/trials/{trial.id}/export.{kind}")
    site.get(f"/trials/{trial.id}/export", "operator")
    found = [(e.by, e.data["form"]) for e in noted(site, "exported")]
    assert found == [("the-viewer", "json"), ("the-admin", "json"), ("the-admin", "csv")]


def test_the_log_is_read_by_administrators(site: Site) -> None:
    site.get("/trials", "viewer")
    tree = site.get("/people").json
    assert (tree["ok"], tree["problems"]) == (True, [])
    assert {"token_made", "login"} <= {event["kind"] for event in tree["events"]}
    page = Browser(site, "admin").get("/people").text
    assert "The log is intact" in page
    assert "the-viewer" in page
    ends = next(e["data"]["expires_at"] for e in tree["events"] if e["kind"] == "token_made")
    assert f"<strong>token made</strong>: the-admin, until {ends[:10]}, role admin<" in page
    for role in ("viewer", "operator"):
        assert Browser(site, role).get("/people").status_code == 403
    change = "UPDATE people SET body = replace(body, 'viewer', 'admin') WHERE seq = 2"
    site.store.write(lambda connection: connection.exec_driver_sql(change))
    assert not site.get("/people").json["ok"]
    assert "The log was changed" in Browser(site, "admin").get("/people").text


# -- tokens that end, and tokens for trials -----------------------------------------------------


def test_a_token_ends(site: Site) -> None:
    made, secret = new_token(site.store, "ann", "viewer")
    assert made.expires_at is not None
    assert made.created_at[:4] <= made.expires_at[:4]
    site.app.state.guard.tokens_changed()
    look = asking("GET", "/api/v1/trials", secret)
    assert answer(site.app, look).status == 200

    past = {"expires_at": "2020-01-01T00:00:00.000+00:00"}
    change = update(table).where(table.c.id == made.id).values(past)
    site.store.write(lambda connection: connection.execute(change))
    site.app.state.guard.tokens_changed()
    assert answer(site.app, look).status == 401


@pytest.mark.parametrize("days", [0, -1, MAX_DAYS + 1])
def test_days_that_make_no_sense_are_refused(site: Site, days: int) -> None:
    with refused("bad_request"):
        new_token(site.store, "ann", "viewer", days=days)
    sent = {"name": "ann", "role": "viewer", "days": days}
    assert site.post("/tokens", sent).status == 422


def test_a_token_for_one_trial_opens_no_other(site: Site) -> None:
    mine, other = site.trial(name="mine"), site.trial(name="other")
    made = site.post("/tokens", {"name": "ann", "role": "admin", "trials": ["mine"]}).json
    assert made["trials"] == ["mine"]
    site.tokens["ann"] = made["token"]
    for known in ("mine", mine.id):
        assert site.get(f"/trials/{known}", "ann").status == 200
        assert site.post(f"/trials/{known}/ask", None, "ann").status == 200
    before = len(other.events())
    for known in ("other", other.id, "nothing"):
        got = [
            site.get(f"/trials/{known}{path}", "ann")
            for path in ("", "/why", "/events", "/verify", "/replay", "/export", "/path")
        ]
        got.append(site.post(f"/trials/{known}/ask", None, "ann"))
        got.append(site.post(f"/trials/{known}/close", None, "ann"))
        assert {(each.status, each.code) for each in got} == {(404, "not_found")}
    assert len(other.events()) == before
    assert [one["name"] for one in site.get("/trials", "ann").json["trials"]] == ["mine"]
    problem = {"horizon": 4, "arms": [{"name": "a"}, {"name": "b"}]}
    for got in (
        site.get("/tokens", "ann"),
        site.get("/people", "ann"),
        site.post("/tokens", {"name": "x", "role": "viewer"}, "ann"),
        site.post("/trials", {"problem": problem}, "ann"),
        site.ask("DELETE", "/tokens/the-viewer", "ann"),
    ):
        assert (got.status, got.code) == (403, "forbidden")
    browser = Browser(site, "ann")
    assert "other" not in re.sub(r"<[^>]*>", " ", browser.get("/").text)
    for path in ("", "/why", "/audit", "/export.json", "/export.csv"):
        assert browser.get(f"/trials/{mine.id}{path}").status_code == 200
        assert browser.get(f"/trials/{other.id}{path}").status_code == 404


def test_the_last_administrator_stays(site: Site) -> None:
    site.trial(name="mine")
    got = site.ask("DELETE", "/tokens/the-admin", "admin")
    assert (got.status, got.code) == (409, "conflict")
    # neither one for named trials nor one that has ended counts
    new_token(site.store, "limited", "admin", trials=["mine"])
    assert site.ask("DELETE", "/tokens/the-admin", "admin").status == 409
    new_token(site.store, "second", "admin")
    assert site.ask("DELETE", "/tokens/the-admin", "admin").status == 200
    assert [t.name for t in list_tokens(site.store) if t.administers_all] == ["second"]


def test_a_first_administrator_is_for_all_trials(tmp_path: Path) -> None:
    from decobandit.trials import open_store

    with open_store(tmp_path / "t.db") as store:
        with pytest.raises(NotFound):
            new_token(store, "ann", "viewer", trials=["nothing"])
        from decobandit.problem import Problem
        from decobandit.trials import create_trial

        create_trial(Problem.uniform(arms=2, horizon=4), name="mine", policy="equal", db=store)
        with refused("conflict"):
            new_token(store, "ann", "admin", trials=["mine"])
        assert list_tokens(store) == []


# -- codes and unmasking ------------------------------------------------------------------------

ARMS = {"horizon": 6, "arms": [{"name": "PLACEBO"}, {"name": "VERUM"}]}


def test_an_operator_sees_codes_and_no_names_anywhere(site: Site) -> None:
    trial = site.trial(ARMS)
    browser, heard = Browser(site, "operator"), []
    slots = [site.post(f"/trials/{trial.id}/ask", {"subject": f"S{n}"}, "operator") for n in "123"]
    heard += [each.body.decode() for each in slots]
    first = slots[0].json
    assert first["arm"] == trial.codes[trial.allocations()[0].arm]
    assert first["subject"] == "S1"
    told = {"outcome": 1}
    path = f"/trials/{trial.id}/allocations/{first['id']}/tell"
    heard.append(site.post(path, told, "operator").body.decode())
    heard.append(site.get(f"/trials/{trial.id}", "operator").body.decode())
    for query in ("", f"?now={slots[1].json['id']}", f"?done={first['id']}"):
        heard.append(browser.get(f"/trials/{trial.id}{query}").text)
    for text in heard:
        assert "PLACEBO" not in text
        assert "VERUM" not in text
    status = site.get(f"/trials/{trial.id}", "viewer").json
    assert {arm["name"]: arm["code"] for arm in status["arms"]} == trial.codes


def test_unmasking_needs_a_reason_and_is_on_record(site: Site) -> None:
    trial = site.trial(ARMS)
    one, two = trial.ask(), trial.ask()
    path = f"/trials/{trial.id}/allocations/{one.id}/unmask"
    emergency = {"category": "emergency"}
    bodies = (None, {}, {"reason": ""}, {"reason": 5}, {"reason": "an emergency"})
    for body in (*bodies, {"reason": "an emergency", "category": "curiosity"}):
        assert site.post(path, body, "operator").status == 422
    for reason in (" ", ".", "emergency"):
        assert site.post(path, emergency | {"reason": reason}, "operator").status == 400
    assert not noted(site, "unmasked")
    got = site.post(path, emergency | {"reason": "an emergency"}, "operator")
    assert got.json == {"id": one.id, "arm": one.arm, "code": trial.codes[one.arm]}
    form = f"/trials/{trial.id}/allocations/{two.id}/unmask"
    browser = Browser(site, "operator")
    assert browser.post(form, data={"key": "k"}).status_code == 422
    sent = {"key": "k", "reason": "call of the ward", "category": "planned"}
    assert two.arm in browser.post(form, data=sent).text
    assert [(e.by, e.data["allocation"], e.data["reason"]) for e in noted(site, "unmasked")] == [
        ("the-operator", one.id, "an emergency"),
        ("the-operator", two.id, "call of the ward"),
    ]
    assert site.post(path, emergency | {"reason": "x"}, "viewer").status == 403


# -- reasons, limits and closing over HTTP ------------------------------------------------------


def test_cancelling_and_correcting_need_a_reason(site: Site) -> None:
    trial = site.trial()
    slot = trial.ask()
    path = f"/trials/{trial.id}/allocations/{slot.id}"
    for body in (None, {}, {"key": "k"}):
        got = site.post(f"{path}/cancel", body, "operator")
        assert (got.status, got.code) == (422, "invalid")
    trial.tell(slot.id, 0)
    got = site.post(f"{path}/correct", {"outcome": 1})
    assert (got.status, got.json["error"]["message"]) == (
        422,
        "body.reason: required key is missing",
    )
    fixed = site.post(f"{path}/correct", {"outcome": 1, "reason": "misread"}).json
    assert fixed["change_reason"] == "misread"
    assert [event.kind for event in trial.events()] == ["created", "asked", "told", "corrected"]


def test_a_trial_is_limited_closed_archived_and_reopened_over_http(site: Site) -> None:
    problem = {"horizon": 30, "arms": [{"name": "a"}, {"name": "b"}]}
    sent = {"problem": problem, "name": "t", "max_open": 1, "max_cancelled": 0, "policy": "equal"}
    assert site.post("/trials", sent).json["limits"] == {
        "open": 1,
        "cancelled": 0,
        "unmasked": 5,
        "unmask_role": None,
    }
    slot = site.post("/trials/t/ask", {"subject": "S"}, "operator").json["id"]
    assert site.post("/trials/t/ask", {"subject": "S"}, "operator").json["id"] == slot
    assert site.post("/trials/t/ask", None, "operator").code == "limit_reached"
    cancel = {"reason": "went home"}
    got = site.post(f"/trials/t/allocations/{slot}/cancel", cancel, "operator")
    assert (got.status, got.code) == (409, "limit_reached")
    changed = {"max_cancelled": 5, "reason": "a flood"}
    assert site.post("/trials/t/limits", changed).status == 200
    assert site.post(f"/trials/t/allocations/{slot}/cancel", cancel, "operator").status == 200
    assert site.post("/trials/t/close").json["state"] == "closed"
    got = site.post("/trials/t/ask", None, "operator")
    assert (got.status, got.code) == (409, "closed")
    assert site.get("/trials/t", "operator").json["state"] == "closed"
    assert site.post("/trials/t/archive", {"reason": "over"}).json["state"] == "archived"
    assert site.get("/trials").json["trials"] == []
    assert [one["name"] for one in site.get("/trials?archived=true").json["trials"]] == ["t"]
    assert site.post("/trials/t/reopen").status == 422
    assert site.post("/trials/t/reopen", {"reason": "more"}).json["state"] == "running"
    assert len(site.get("/trials", "operator").json["trials"]) == 1
    counts = site.get("/trials/t").json["cancellations"]
    assert [(c["by"], c["count"], c["reasons"]) for c in counts] == [
        ("the-operator", 1, ["went home"])
    ]


def test_pages_close_reopen_archive_and_count_cancellations(site: Site) -> None:
    trial, browser = site.trial(ARMS), Browser(site, "admin")
    here = f"/trials/{trial.id}"
    browser.post(f"{here}/ask", data={"key": "a", "subject": " S1 ", "note": ""})
    (slot,) = trial.allocations()
    assert (slot.subject, slot.note) == ("S1", None)
    assert "subject S1" in browser.get(f"{here}?now=x&done=y").text
    cancel = f"{here}/allocations/{slot.id}/cancel"
    assert browser.post(cancel, data={"key": "b", "reason": " "}).status_code == 422
    browser.post(cancel, data={"key": "b", "reason": "went home"})
    audit = browser.get(f"{here}/audit").text
    assert "Cancelled allocations" in audit
    assert "went home" in audit
    browser.post(f"{here}/close", data={"key": "c", "reason": ""})
    page = browser.get(here).text
    assert "The trial is closed." in page
    assert "Allocate the next participant" not in page
    assert browser.post(f"{here}/ask", data={"key": "d"}).status_code == 409
    assert browser.post(f"{here}/reopen", data={"key": "e", "reason": ""}).status_code == 422
    browser.post(f"{here}/archive", data={"key": "f"})
    assert trial.name not in browser.get("/").text.partition("<main")[2]
    assert trial.name in browser.get("/?archived=true").text
    browser.post(f"{here}/reopen", data={"key": "g", "reason": "more"})
    assert [event.kind for event in trial.events()] == [
        "created",
        "asked",
        "cancelled",
        "closed",
        "archived",
        "reopened",
    ]
    operator = Browser(site, "operator")
    for action in ("close", "reopen", "archive"):
        assert operator.post(f"{here}/{action}", data={"reason": "x"}).status_code == 403


def test_the_page_takes_as_many_arms_as_the_server(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(max_arms=2))
    problem = {"horizon": 6, "arms": [{"name": "a"}, {"name": "b"}]}
    made = site.post("/trials", {"problem": problem, "name": "t", "policy": "deco"})
    late = {"arm": 'name = "late"', "reason": "ready"}
    refused = Browser(site, "admin").post(f"/trials/{made.json['id']}/arms", data=late)
    assert refused.status_code == 400
    assert "at most 2 arms" in refused.text
    site.close()


def test_arms_join_and_leave_over_http(site: Site) -> None:
    problem = {"horizon": 6, "arms": [{"name": "a"}, {"name": "b"}]}
    site.post("/trials", {"problem": problem, "name": "t", "policy": "deco"})
    site.post("/trials/t/ask")
    late = {"arm": {"name": "late", "prior": {"good": 9, "bad": 1}}, "reason": "ready", "key": "k"}
    assert site.post("/trials/t/arms", late, "operator").status == 403
    first = site.post("/trials/t/arms", late)
    assert (first.status, first.json["arms"]) == (200, 3)
    assert site.post("/trials/t/arms", late).json == first.json
    assert site.post("/trials/t/arms", late | {"reason": "other"}).status == 409
    taken = site.post("/trials/t/arms", late | {"key": None, "reason": "again"})
    assert (taken.status, taken.code) == (400, "bad_request")
    assert site.post("/trials/t/arms", {"arm": {"name": 3}, "reason": "x"}).status == 422
    other = {"arm": {"name": "x"}, "reason": "x", "policy": "fh-gittins"}
    assert site.post("/trials/t/arms", other).code == "unsupported"
    assert site.post("/trials/t/arms", {"arm": {"name": "x"}}).status == 422
    closed = site.post("/trials/t/arms/a/close", {"reason": "unsafe"})
    assert (closed.status, closed.json["arms"]) == (200, 3)
    assert site.post("/trials/t/arms/zinc/close", {"reason": "x"}).status == 404
    again = site.post("/trials/t/arms/a/close", {"reason": "x"})
    assert (again.status, again.code) == (409, "conflict")
    policy = {"reason": "x", "policy": "deco-calibrated"}
    refused = site.post("/trials/t/arms/b/close", policy)
    assert (refused.status, refused.code) == (422, "unsupported")
    assert site.post("/trials/t/ask").json["arm"] == "late"
    assert site.post("/trials/t/ask", None, "operator").json["arm"] == "C"
    changes = site.get("/trials/t").json["arm_changes"]
    assert [(one["kind"], one["arm"], one["stage"], one["by"]) for one in changes] == [
        ("arm_added", "late", 1, "the-admin"),
        ("arm_closed", "a", 1, "the-admin"),
    ]
    assert site.get("/trials/t/verify").json["ok"]
    assert site.get("/trials/t/replay").json["ok"]


def test_pages_add_and_close_arms(site: Site) -> None:
    trial, browser = site.trial(ARMS, policy="deco"), Browser(site, "admin")
    here = f"/trials/{trial.id}"
    trial.ask()
    assert "Add or close an arm" in browser.get(here).text
    sent = {"key": "a", "arm": 'name = "late"\nprior = { good = 9, bad = 1 }', "reason": "ready"}
    for _ in range(2):
        assert browser.post(f"{here}/arms", data=sent).status_code == 303
    bad = {"key": "b", "arm": "name = ", "reason": "ready"}
    assert browser.post(f"{here}/arms", data=bad).status_code == 422
    assert browser.post(f"{here}/arms", data=sent | {"key": "c", "reason": ""}).status_code == 422
    name = trial.problem.arms[0].name
    closing = {"key": "d", "arm": name, "reason": "unsafe"}
    assert browser.post(f"{here}/arms/close", data=closing).status_code == 303
    shown = browser.get(here).text
    assert "late joined at stage 1 (by the-admin): ready" in shown
    assert f"{name} left at stage 1 (by the-admin): unsafe" in shown
    assert "late (ready)" in browser.get(f"{here}/audit").text
    assert "Arms that joined and left" in browser.get(f"{here}/report").text
    operator = Browser(site, "operator")
    assert "Add or close an arm" not in operator.get(here).text
    for action in ("arms", "arms/close"):
        assert operator.post(f"{here}/{action}", data=sent).status_code == 403
    assert trial.replay().ok
