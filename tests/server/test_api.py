"""A trial over HTTP is the trial of the library; repeated requests change nothing."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

import decobandit
from decobandit import trials
from decobandit.problem import problem_from_dict
from decobandit.server import limits, tokens
from decobandit.server.auth import access_of
from decobandit.server.errors import ApiError
from decobandit.server.limits import Limits, RecordReaders
from decobandit.server.tokens import new_token
from decobandit.trials import open_trial
from helpers.policies import Bench
from helpers.refusals import refused
from helpers.routes import routes_of
from helpers.web_client import SMALL, Site, answer, asking
from helpers.web_server import request, served


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def test_a_trial_over_http_goes_as_the_policy_says(site: Site) -> None:
    problem = {"horizon": 5, "arms": [{"name": "a", "prior": {"good": 2, "bad": 1}}, {"name": "b"}]}
    made = site.post("/trials", {"problem": problem, "name": "pilot", "seed": 3})
    assert made.status == 201
    policy = Bench(problem_from_dict(problem)).policy("deco-calibrated")
    good, bad = [0, 0], [0, 0]
    for stage in range(5):
        state = decobandit.State.of_counts(good=tuple(good), bad=tuple(bad))
        (expected,) = policy.select(stage, state, None)
        slot = site.post("/trials/pilot/ask", role="operator").json
        codes = {arm["name"]: arm["code"] for arm in site.get("/trials/pilot").json["arms"]}
        assert slot["arm"] == codes["ab"[expected]]
        outcome = stage % 2
        told = site.post(f"/trials/pilot/allocations/{slot['id']}/tell", {"outcome": outcome})
        assert (told.status, told.json["stage"], told.json["outcome"]) == (200, stage, outcome)
        (good if outcome else bad)[expected] += 1
    status = site.get("/trials/pilot", "viewer").json
    assert (status["finished"], status["told"], status["remaining"]) == (True, 5, 0)
    assert [(arm["good"], arm["bad"]) for arm in status["arms"]] == list(
        zip(good, bad, strict=True)
    )
    assert site.post("/trials/pilot/ask").code == "no_free_slot"
    assert site.get("/trials/pilot", "operator").json["finished"] is True
    _records_are_those_of_the_library(site)


def _records_are_those_of_the_library(site: Site) -> None:
    trial = open_trial("pilot", db=site.store)
    kinds = [event["kind"] for event in site.get("/trials/pilot/events").json["events"]]
    assert kinds == [event.kind for event in trial.events()]
    assert site.get("/trials/pilot/verify").json["head"] == trial.status().head
    replay = site.get("/trials/pilot/replay").json
    assert (replay["ok"], replay["decisions"], replay["differences"]) == (True, 5, [])
    assert replay["made_by"] == [f"5 by {replay['recomputed_by']}"]
    exported, again = site.get("/trials/pilot/export").json, trial.export()
    assert exported | {"exported_at": ""} == json.loads(json.dumps(again)) | {"exported_at": ""}
    assert site.get("/trials/pilot/path").json["pulled"] == trial.episode().to_dict()["pulled"]
    assert site.get("/trials/pilot/why").json["next_arm"] is None
    by = {event["by"] for event in exported["events"]}
    assert by == {"the-admin", "the-operator"}


def test_trials_are_found_by_name_and_by_id(site: Site) -> None:
    made = site.post("/trials", {"problem": SMALL, "name": "with blank é"}).json
    for path in (made["id"], "with blank é"):
        assert site.get(f"/trials/{path}").json["id"] == made["id"]
    assert site.post("/trials", {"problem": SMALL, "name": "with blank é"}).code == "conflict"
    assert site.get("/trials/other").code == "not_found"


def test_the_same_key_gives_the_same_answer_and_no_second_event(site: Site) -> None:
    trial = site.trial()
    first = site.post("/trials/pilot/ask", headers={"idempotency-key": "k1"})
    again = site.post("/trials/pilot/ask", {"key": "k1"})
    both = site.post("/trials/pilot/ask", {"key": "k1"}, headers={"idempotency-key": "k1"})
    assert first.status == again.status == both.status == 200
    assert first.body == again.body == both.body
    other = site.post("/trials/pilot/ask", {"key": "k2"})
    assert other.json["id"] != first.json["id"]
    tell = f"/trials/pilot/allocations/{first.json['id']}/tell"
    told = [site.post(tell, {"outcome": 1, "key": "k3"}) for _ in range(3)]
    told.append(site.post(tell, {"outcome": 1}))
    assert {(one.status, one.body) for one in told} == {(200, told[0].body)}
    assert [event.kind for event in trial.events()] == ["created", "asked", "asked", "told"]


def test_a_key_for_something_else_is_a_conflict(site: Site) -> None:
    site.trial()
    slot = site.post("/trials/pilot/ask", {"key": "k"}).json["id"]
    assert (
        site.post(f"/trials/pilot/allocations/{slot}/cancel", {"key": "k", "reason": "gone"}).code
        == "conflict"
    )
    differ = site.post("/trials/pilot/ask", {"key": "a"}, headers={"idempotency-key": "b"})
    assert (differ.status, differ.code) == (422, "invalid")


@pytest.mark.parametrize("key", ["", "a\nb", "k" * 101, 5, "é"])
def test_odd_keys_are_refused(site: Site, key: Any) -> None:
    site.trial()
    assert site.post("/trials/pilot/ask", {"key": key}).status == 422
    if isinstance(key, str):
        lines = {"idempotency-key": key}
        assert site.post("/trials/pilot/ask", headers=lines).status == 422


def test_a_cancelled_slot_is_free_and_a_told_one_can_be_corrected(site: Site) -> None:
    site.trial()
    slots = [site.post("/trials/pilot/ask").json["id"] for _ in range(4)]
    assert site.post("/trials/pilot/ask").code == "no_free_slot"
    path = "/trials/pilot/allocations"
    assert site.post(f"{path}/{slots[0]}/cancel", {"reason": "gone"}).json["state"] == "cancelled"
    assert site.post("/trials/pilot/ask").status == 200
    assert site.post(f"{path}/{slots[1]}/tell", {"outcome": 0}).json["outcome"] == 0
    assert site.post(f"{path}/{slots[1]}/tell", {"outcome": 1}).code == "conflict"
    assert (
        site.post(f"{path}/{slots[1]}/correct", {"outcome": 1, "reason": "misread"}).json["outcome"]
        == 1
    )
    assert site.post(f"{path}/none/tell", {"outcome": 1}).code == "not_found"


@pytest.mark.parametrize("outcome", [1.5, "1", "Good", "", 2, -1, None, [], 1e300])
def test_an_outcome_is_good_or_bad(site: Site, outcome: Any) -> None:
    trial = site.trial()
    slot = trial.ask().id
    got = site.post(f"/trials/pilot/allocations/{slot}/tell", {"outcome": outcome})
    assert got.status == 422
    assert trial.status().told == 0


def test_what_no_outcome_can_be_is_told_in_one_rule(site: Site) -> None:
    """Not as the first of the types that were tried."""
    slot = site.trial().ask().id
    rule = "must be a number, true, false, or text of 1 to 100 characters"
    for outcome, given in (
        (None, "null"),
        ([1], "a list of 1"),
        ("", "empty text"),
        ({"good": 1}, "a table"),
    ):
        got = site.post(f"/trials/pilot/allocations/{slot}/tell", {"outcome": outcome})
        said = got.json["error"]["message"]
        assert (got.status, said) == (422, f"body.outcome: given {given}; {rule}")


@pytest.mark.parametrize(
    ("outcome", "recorded"),
    [(1, 1), (0, 0), (True, 1), (False, 0), ("good", 1), ("bad", 0)],
)
def test_an_outcome_can_be_said_in_three_ways(site: Site, outcome: Any, recorded: int) -> None:
    trial = site.trial()
    slot = trial.ask().id
    got = site.post(f"/trials/pilot/allocations/{slot}/tell", {"outcome": outcome})
    assert (got.status, got.json["outcome"]) == (200, recorded)
    assert trial.allocations()[0].outcome == recorded
    assert (
        trial.events()[-1].data["outcome"] is recorded
        or trial.events()[-1].data["outcome"] == recorded
    )


BAD_TRIALS: list[dict[str, Any]] = [
    {},
    {"problem": SMALL, "colour": "red"},
    {"problem": SMALL | {"colour": "red"}},
    {"problem": SMALL | {"horizon": 0}},
    {"problem": SMALL | {"horizon": 2.5}},
    {"problem": SMALL | {"horizon": "2"}},
    {"problem": SMALL | {"horizon": True}},
    {"problem": SMALL | {"horizon": 2001}},
    {"problem": SMALL | {"pulls_per_stage": 3}},
    {"problem": SMALL | {"arms": []}},
    {"problem": SMALL | {"arms": [{"name": "a"}, {"name": "a"}]}},
    {"problem": SMALL | {"arms": [{"name": "a", "count": 201}]}},
    {"problem": SMALL | {"arms": [{"name": "a", "count": 100_000}] * 3}},
    {"problem": SMALL | {"arms": [{"name": "a\tb"}]}},
    {"problem": SMALL | {"arms": [{"name": "a", "prior": {"good": 0, "bad": 1}}]}},
    {"problem": SMALL | {"arms": [{"name": "a", "reward": {"good": [1, 2]}}]}},
    {"problem": SMALL, "policy": "no such policy"},
    {"problem": SMALL, "tol": 0},
    {"problem": SMALL, "ties": "odd"},
    {"problem": SMALL, "seed": -1},
    {"problem": SMALL, "name": ""},
    {"problem": SMALL, "name": " a "},
    {"problem": SMALL, "name": "a/b"},
]


@pytest.mark.parametrize("body", BAD_TRIALS)
def test_a_trial_that_cannot_be_is_refused_in_a_sentence(site: Site, body: dict[str, Any]) -> None:
    got = site.post("/trials", body)
    assert got.status in {400, 422}
    message = got.json["error"]["message"]
    assert message.isprintable()
    assert len(message) < 500
    assert site.get("/trials").json["trials"] == []


def test_a_plan_compares_policies_below_the_bound(site: Site) -> None:
    problem = {"horizon": 10, "arms": [{"name": "a", "count": 3}]}
    got = site.post("/plan", {"problem": problem, "policies": ["deco", "greedy"]}, "viewer").json
    assert [row["policy"] for row in got["policies"]] == ["deco", "greedy", "equal"]
    bench = Bench(problem_from_dict(problem))
    for row in got["policies"]:
        exact = decobandit.evaluate(bench.problem, bench.policy(row["policy"])).value
        assert row["value"] == pytest.approx(exact, abs=5 * row["value_se"] + 1e-9)
        assert exact <= got["upper_bound"]
    assert site.post("/plan", {"problem": problem, "policies": ["none"]}).status == 422
    assert site.get("/trials").json["trials"] == []


def test_sizes_are_limited_by_the_server(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(max_arms=3, max_horizon=6))
    for arms, horizon, status in [(3, 6, 201), (4, 6, 422), (3, 7, 422)]:
        problem = {"horizon": horizon, "arms": [{"name": "a", "count": arms}]}
        assert site.post("/trials", {"problem": problem}).status == status
        assert (site.post("/plan", {"problem": problem}).status == 200) == (status == 201)
    site.close()


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/jsonx",
        "text/json",
    ],
)
def test_bodies_that_are_not_json_are_refused(site: Site, kind: str) -> None:
    site.trial()
    token = site.tokens["admin"]
    for path in ("tokens", "trials/pilot/ask"):
        ask = asking("POST", f"/api/v1/{path}", token, headers={"content-type": kind}, body=b"{}")
        got = answer(site.app, ask)
        assert (got.status, got.code) == (415, "not_json")


@pytest.mark.parametrize("body", [b"[NaN]", b'{"key": "a", "key": "b"}', b'{"key": "\\ud800"}'])
def test_strict_json_is_read_by_the_routes(site: Site, body: bytes) -> None:
    trial = site.trial()
    lines = {"content-type": "application/json; charset=UTF-8"}
    ask = asking("POST", "/api/v1/trials/pilot/ask", site.tokens["admin"], headers=lines, body=body)
    got = answer(site.app, ask)
    assert (got.status, got.code) == (422, "bad_json")
    assert len(trial.events()) == 1


def test_tokens_over_http_are_shown_once(site: Site) -> None:
    made = site.post("/tokens", {"name": "ann", "role": "viewer"}).json
    site.tokens["ann"] = made["token"]
    assert site.get("/trials", "ann").status == 200
    listed = site.get("/tokens")
    assert made["token"].encode() not in listed.body
    assert "digest" not in str(listed.json)
    assert site.post("/tokens", {"name": "ann", "role": "viewer"}).code == "conflict"
    assert site.ask("DELETE", "/tokens/ann", "admin").status == 200
    assert site.get("/trials", "ann").status == 401
    assert site.ask("DELETE", "/tokens/bob", "admin").status == 404


def test_of_64_who_ask_at_once_for_the_last_slot_one_gets_it(site: Site) -> None:
    trial = site.trial(SMALL | {"horizon": 1})
    found: list[int] = []
    start = threading.Barrier(64)
    with served(site.app) as port:

        def ask() -> None:
            start.wait(240)
            path = f"/api/v1/trials/{trial.id}/ask"
            found.append(request(port, "POST", path, site.tokens["operator"])[0])

        threads = [threading.Thread(target=ask) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
    assert sorted(found) == [200] + [409] * 63
    assert [event.kind for event in trial.events()] == ["created", "asked"]


# -- records --------------------------------------------------------------------------------------


def test_a_checkpoint_is_signed_by_the_servers_key(site: Site) -> None:
    trial = site.trial(name="signed")
    site.get("/trials")  # checkpoints cover the access log, which has the first use of a token
    made = site.ask("POST", "/checkpoints", "admin")
    assert made.status == 201
    text = site.app.state.signing_key.public.check(made.json["note"])
    assert f"trial {trial.id} 1 {trial.verify().head}\n" in text
    assert site.ask("POST", "/checkpoints", "admin").json == made.json  # nothing has changed
    site.app.state.signing_key = None
    refused = site.ask("POST", "/checkpoints", "admin")
    assert (refused.status, refused.json["error"]["code"]) == (409, "no_key")


def test_a_head_is_found_in_the_log(site: Site) -> None:
    trial = site.trial(name="headed")
    head = trial.verify().head
    trial.ask()
    found = site.get(f"/trials/{trial.id}/verify?head={head}").json
    assert found["ok"]
    assert (found["given_head_event"], found["events_since_given_head"]) == (0, 1)
    lost = site.get(f"/trials/{trial.id}/verify?head={'0' * 64}").json
    assert not lost["ok"]
    assert "given_head_event" not in lost
    assert site.get(f"/trials/{trial.id}/verify?head=x").status == 422


def test_few_logs_are_read_at_a_time_and_the_rest_is_told_to_wait(site: Site) -> None:
    trial = site.trial(name="read")
    readers = site.app.state.record_readers = RecordReaders(2, wait=0.01)
    for _ in range(5):  # places are given back
        assert site.get(f"/trials/{trial.id}/export").json["trial"] == trial.id
    with readers.one("ann"), readers.one("bob"):
        for path in ("export", "events", "verify", "report"):
            refused = site.get(f"/trials/{trial.id}/{path}")
            assert (refused.status, refused.json["error"]["code"]) == (503, "busy")
            assert "retry-after" in dict(refused.headers)
        assert site.ask("POST", f"/trials/{trial.id}/ask", "operator").status == 200
    with readers.one("ann"), readers.one("bob"):
        pass


def test_one_person_cannot_take_all_places_of_readers(site: Site) -> None:
    """Whatever the viewer reads, the administrator's exports and checks go on."""
    trial = site.trial(name="shared")
    readers = site.app.state.record_readers = RecordReaders(wait=0.01)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(readers.one("the-viewer"))
        with pytest.raises(ApiError) as refused:
            stack.enter_context(readers.one("the-viewer"))
        assert (refused.value.status_code, refused.value.code) == (503, "busy")
        for path in ("export", "events", "verify", "report"):
            assert site.get(f"/trials/{trial.id}/{path}").status == 200


def test_an_export_that_nobody_reads_holds_no_place(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts are made at once and wait on disk; there are few of one person."""
    monkeypatch.setattr(limits, "MEMORY_BYTES", 1000)
    readers = RecordReaders(wait=0.01)
    pieces: list[int] = []

    def make() -> Iterator[str]:
        for number in range(100):
            pieces.append(number)
            yield f"{number} é\r\n" * 10

    unread = [readers.text("ann", make) for _ in range(limits.MAX_UNREAD)]
    assert len(pieces) == 100 * len(unread)  # all of every text is made
    assert all(text.file._rolled for text in unread)  # type: ignore[attr-defined]  # on disk
    with readers.one("ann"), readers.one("ann"), readers.one("bob"):  # no place is held
        pass
    with refused("busy", kind=ApiError):
        readers.text("ann", make)
    assert "".join(readers.text("bob", make)) == "".join(unread.pop()) == "".join(make())
    unread.pop()  # a client that has gone
    for _ in range(2):
        unread.append(readers.text("ann", make))
    with pytest.raises(ApiError):
        readers.text("ann", make)


def test_an_export_that_fails_is_an_error_and_holds_nothing(site: Site) -> None:
    readers = RecordReaders(1, wait=0.01)

    def fails() -> Iterator[str]:
        yield "half"
        raise OSError(28, "No space left on device")

    for _ in range(2 * limits.MAX_UNREAD):
        with refused("busy", kind=ApiError):
            readers.text("ann", fails)


def test_a_token_for_one_trial_gets_no_note_of_all_trials(site: Site) -> None:
    site.trial(name="mine")
    site.trial(name="secret")
    site.tokens["limited"] = new_token(site.store, "limited", "admin", trials=["mine"])[1]
    site.app.state.guard.tokens_changed()
    refused = site.ask("POST", "/checkpoints", "limited")
    assert (refused.status, refused.code) == (403, "forbidden")
    assert b"secret" not in refused.body


def test_routes_of_no_single_trial_are_for_all_trials_or_listed_here(site: Site) -> None:
    """A token for named trials gets to routes without a trial only if they were thought about."""
    known = {
        "trial_list",  # shows the trials of the token
        "flags_evaluate",  # those of the token, too
        "plan_make",
        "design_make",
        "design_report",  # about no trial at all
        "show",
        "expect",
        "report",
        "trials",  # the same as pages
    }
    reached = {
        route.name
        for route in routes_of(site.app.routes)
        if isinstance(route, APIRoute)
        and "{trial}" not in route.path
        and access_of(route.endpoint).roles
        and not access_of(route.endpoint).all_trials
    }
    assert reached == known


@pytest.mark.parametrize(
    ("model", "record", "beside"),
    [
        ("Summary", trials.Summary, set()),
        ("Allocation", trials.Allocation, set()),
        ("ArmStatus", trials.ArmStatus, set()),
        ("TrialLimits", trials.TrialLimits, set()),
        ("CancellationCount", trials.CancellationCount, set()),
        ("StatusOut", trials.Status, {"stale"}),
        ("TrialReport", trials.TrialReport, set()),
        ("Event", trials.Event, {"body"}),
        ("VerifyOut", trials.Verification, {"trial", "ok"}),
        ("ReplayOut", trials.Replay, {"trial", "ok"}),
        ("TokenOut", tokens.Token, {"digest"}),
    ],
)
def test_responses_have_the_fields_of_their_records(
    site: Site, model: str, record: type, beside: set[str]
) -> None:
    documented = site.app.openapi()["components"]["schemas"][model]["properties"]
    assert documented.keys() ^ {field.name for field in fields(record)} == beside
    assert all(field["description"] for field in documented.values())


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/trials", {"problem": {"horizon": 4, "arms": [{"nam": "a"}]}}, "body.problem.arms.0.nam"),
        (
            "/trials",
            {"problem": {"horizon": 10**7, "arms": [{"name": "a"}]}},
            "body.problem.horizon",
        ),
        (
            "/plan",
            {"problem": {"horizon": 4, "arms": [{"name": "a"}]}, "policies": 1},
            "body.policies",
        ),
        ("/design", {"problem": {"horizon": 4, "arms": [{"name": "a"}]}}, "body.problem.design"),
        ("/trials/nowhere/ask", None, None),
    ],
)
def test_errors_name_the_field_at_fault(
    site: Site, path: str, body: dict[str, object] | None, field: str | None
) -> None:
    refused = site.post(path, body)
    assert refused.code == ("invalid" if field else "not_found")
    assert refused.json["error"].get("field") == field
