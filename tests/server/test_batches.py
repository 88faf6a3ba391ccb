"""Allocations of several pulls over HTTP: the API, and forms on pages; operators see codes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decobandit.problem import problem_from_dict
from decobandit.trials import Trial, create_trial
from helpers.page_browser import Browser, Elements
from helpers.web_client import Site

PROBLEM = {
    "horizon": 3,
    "pulls_per_stage": 20,
    "repeat": True,
    "unit": 5,
    "arms": [{"name": "red"}, {"name": "blue", "prior": {"good": 3, "bad": 1}}],
}
ASK, BASE = "/trials/shop/ask", "/trials/shop/allocations"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def trial(site: Site) -> Trial:
    problem = problem_from_dict(PROBLEM)
    return create_trial(problem, policy="equal", name="shop", db=site.store, seed=1, bound=False)


def test_the_whole_life_of_a_batched_trial_over_http(site: Site) -> None:
    sent = {"problem": PROBLEM, "name": "shop", "policy": "greedy", "bound": False}
    made = site.post("/trials", sent)
    assert (made.status, made.json["upper_bound"]) == (201, None)
    for stage in range(3):
        asked = site.post(ASK, {"subject": f"hour {stage}", "note": "n"})
        batch = asked.json
        assert (asked.status, batch["stage"], batch["state"]) == (200, stage, "open")
        assert sum(batch["pulls"].values()) == batch["pending"] == 20
        assert batch["pulls"] == {one["arm"]: one["pulls"] for one in batch["arms"]}
        path = f"{BASE}/{batch['id']}"
        counts: dict[str, Any] = {
            one["arm"]: {"good": 1, "pulls": one["pulls"] - 2}
            for one in batch["arms"]
            if one["pulls"]
        }
        told = site.post(f"{path}/tell", {"counts": counts})
        assert told.status == 200
        pending = {one["arm"]: one["pending"] for one in told.json["arms"] if one["pending"]}
        assert set(pending.values()) == {2}
        rows = [{"arm": arm, "outcome": each} for arm in pending for each in ("good", False)]
        done = site.post(f"{path}/tell", {"rows": rows}).json
        assert (done["state"], done["pending"]) == ("told", 0)
        assert site.get(path, "viewer").json == done
    status = site.get("/trials/shop").json
    assert (status["finished"], status["told"], status["next_pulls"]) == (True, 60, None)
    assert site.post(ASK).code == "no_free_slot"
    listed = site.get(f"{BASE}?limit=2").json
    assert len(listed["allocations"]) == 2
    assert len(site.get(f"{BASE}?after={listed['next']}").json["allocations"]) == 1
    assert site.get(f"{BASE}?state=open").json == {"allocations": []}
    assert site.get("/trials/shop/verify").json["remarks"] == [
        "no bound: the dual was not solved for this trial"
    ]
    assert site.get("/trials/shop/replay").json["decisions"] == 3
    assert site.get("/trials/shop/replay").json["ok"]
    assert len(site.get("/trials/shop/export").json["allocations"]) == 3
    assert site.get("/trials/shop/report").json["told"] == 60


def test_cancel_and_correct_and_keys(site: Site, trial: Trial) -> None:
    first = site.post(ASK, headers={"idempotency-key": "k"})
    assert site.post(ASK, {"key": "k"}).body == first.body
    path = f"{BASE}/{first.json['id']}"
    for _ in range(2):
        site.post(f"{path}/tell", {"counts": {"red": "2/3"}, "key": "once"})
    assert trial.allocation(first.json["id"]).told == 3
    fixed = site.post(f"{path}/correct", {"counts": {"red": "1/2"}, "reason": "typo"}).json
    assert [one["pending"] for one in fixed["arms"]] == [8, 10]
    assert site.post(f"{path}/cancel", {}).status == 422
    gone = site.post(f"{path}/cancel", {"reason": "over"}).json
    assert (gone["state"], gone["change_reason"]) == ("told", "over")
    assert site.post(f"{path}/cancel", {"reason": "over"}).code == "conflict"
    assert site.get("/trials/shop").json["cancelled"] == 18
    report = site.get("/trials/shop/report").json
    assert [(one["before"], one["after"]) for one in report["corrections"]] == [("2/3", "1/2")]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "missing"),
        ({"counts": {"red": "1/2"}, "rows": [{"arm": "red", "outcome": 1}]}, 422, "two forms"),
        ({"counts": {}}, 422, "body.counts"),
        ({"counts": {"green": "1/2"}}, 400, "no arm is called 'green'; arms: red, blue"),
        ({"counts": {"red": "3/2"}}, 400, "good at most pulls"),
        ({"counts": {"red": {"good": -1, "pulls": 2}}}, 422, "red: given a table; must be"),
        ({"counts": {"red": {"good": 1}}}, 422, "counts.red: given a table; must be"),
        ({"counts": {"red": 5}}, 422, "counts.red: given 5; must be a table of good and pulls"),
        ({"counts": {"red": "5" * 10_001}}, 422, "counts.red: given text; must be"),
        ({"counts": {"red": "١/٢"}}, 400, "red=١/٢; must be good/pulls, whole numbers"),
        (
            {"counts": {"red": {"good": 1, "pulls": 11}}},
            409,
            "red: more outcomes than pulls are pending",
        ),
        ({"rows": []}, 422, "rows"),
        ({"rows": [{"arm": "red", "outcome": 2}]}, 422, "outcome"),
        ({"rows": [{"arm": "red"}]}, 422, "outcome"),
    ],
)
def test_bad_outcomes_are_refused_in_the_documented_form(
    site: Site, trial: Trial, body: Any, status: int, said: str
) -> None:
    batch = trial.ask()
    got = site.post(f"{BASE}/{batch.id}/tell", body)
    assert got.status == status, got.body
    assert got.code
    assert said in got.json["error"]["message"]
    assert "\n" not in got.json["error"]["message"]
    assert trial.allocation(batch.id) == batch


def test_an_operator_sees_codes_and_pulls_and_no_outcomes(site: Site, trial: Trial) -> None:
    asked = site.post(ASK, {"subject": "monday"}, "operator").json
    codes = {trial.codes[name] for name in ("red", "blue")}
    assert {one["arm"] for one in asked["arms"]} == codes == {"A", "B"}
    assert set(asked) == {"id", "arm", "pending", "arms", "subject"}
    assert set(asked["arms"][0]) == {"arm", "pulls", "pending"}
    path = f"{BASE}/{asked['id']}"
    told = site.post(f"{path}/tell", {"counts": {"A": "3/4"}}, "operator")
    assert told.status == 200
    named = {code: name for name, code in trial.codes.items()}
    own = trial.allocation(asked["id"]).part(named["A"])
    assert own is not None
    assert (own.good, own.told) == (3, 4)
    heard = [told, site.get(path, "operator"), site.get("/trials/shop", "operator")]
    heard.append(site.post(f"{path}/tell", {"counts": {"red": "1/1"}}, "operator"))
    heard.append(site.post(f"{path}/tell", {"counts": {"A": "1/99"}}, "operator"))
    assert [got.status for got in heard] == [200, 200, 200, 400, 409]
    for got in heard:
        assert not re.search(r'red"|blue|good"|bad"|stage|told|reason', got.body.decode()), got.body
    assert not re.search(r"\d", heard[-1].json["error"]["message"])
    assert (
        site.post(f"{path}/correct", {"counts": {"A": "1/1"}, "reason": "x"}, "operator").status
        == 403
    )
    assert site.post(f"{path}/cancel", {"reason": "over"}, "operator").json["pending"] == 0


# -- pages --------------------------------------------------------------------------------------


def fields(text: str, action: str) -> list[str]:
    """Values of the hidden field `arm` of one form."""
    form = text.split(f'action="{action}"', 1)[1].split("</form>", 1)[0]
    found = [attributes for tag, attributes in Elements(form).found if tag == "input"]
    return [str(each["value"]) for each in found if each.get("name") == "arm"]


@pytest.mark.parametrize("role", ["admin", "operator"])
def test_a_batch_is_asked_for_and_recorded_on_its_page(site: Site, trial: Trial, role: str) -> None:
    browser, page = Browser(site, role), f"/trials/{trial.id}"
    assert "The next allocation has 20 pulls" in browser.get(page).text
    form = {"key": "k", "subject": "monday", "note": ""}
    for _ in range(2):  # a form that is sent twice asks once
        assert browser.post(f"{page}/ask", data=form).status_code == 303
    (batch,) = trial.allocations()
    text = browser.get(page).text
    action = f"{page}/allocations/{batch.id}/tell"
    arms = fields(text, action)
    assert arms == (["red", "blue"] if role == "admin" else ["A", "B"])
    sent = {"key": "t", "arm": arms, "good": ["2", ""], "pulls": ["5", ""]}
    assert browser.post(action, data=sent).status_code == 303
    assert trial.allocation(batch.id).told == 5
    text = browser.get(page).text
    assert "5 of 20 outcomes are recorded; 15 pending" in text
    assert ("2 / 5" in text) is (role == "admin")
    if role == "operator":
        assert not re.search(">red<|blue|posterior|Total reward", text)
    half = browser.post(action, data=sent | {"key": "u", "good": ["", ""]})
    assert half.status_code == 422
    assert (
        browser.post(f"{page}/allocations/{batch.id}/cancel", data={"key": "c"}).status_code == 422
    )
    assert (
        browser.post(
            f"{page}/allocations/{batch.id}/cancel", data={"key": "c", "reason": "over"}
        ).status_code
        == 303
    )
    assert trial.allocation(batch.id).state == "told"


def test_counts_that_are_refused_stay_in_their_fields(site: Site, trial: Trial) -> None:
    browser, batch = Browser(site, "admin"), trial.ask()
    arms = [one.arm for one in batch.arms if one.pulls]
    here = f"/trials/{trial.id}/allocations/{batch.id}"
    sent = {"arm": arms, "good": ["<1>", *[""] * (len(arms) - 1)], "pulls": ["2"] * len(arms)}
    told = browser.post(f"{here}/tell", data=sent)
    assert told.status_code == 422
    assert 'role="alert"' in told.text.partition("20 outcomes are recorded")[2]
    assert 'name="good"' in told.text
    assert 'value="&lt;1&gt;"' in told.text
    assert told.text.count('name="pulls"') == told.text.count('value="2"')
    trial.tell(batch.id, {arms[0]: (1, 1)})
    wrong = {"arm": arms[:1], "good": ["0"], "pulls": ["77"], "reason": "two were lost"}
    corrected = browser.post(f"{here}/correct", data=wrong)
    assert corrected.status_code in (409, 422)
    form = corrected.text.partition('<details class="card" open>')[2]
    assert 'value="two were lost"' in form
    assert 'value="77"' in form
    assert trial.allocation(batch.id).told == 1
    elsewhere = browser.post(f"/trials/{trial.id}/allocations/none/tell", data=sent)
    assert "give good outcomes and all outcomes" in elsewhere.text  # though no form is there
    counts = {"arm": arms, "good": ["1"] * len(arms), "pulls": ["2"] * len(arms)}
    gone = browser.post(f"/trials/{trial.id}/allocations/none/tell", data=counts)
    assert gone.status_code == 404


def test_an_administrator_corrects_a_batch_and_the_log_is_shown(site: Site, trial: Trial) -> None:
    batch = trial.ask()
    trial.tell(batch.id, {"red": (2, 3)})
    browser, page = Browser(site, "admin"), f"/trials/{trial.id}"
    action = f"{page}/allocations/{batch.id}/correct"
    arms = fields(browser.get(page).text, action)
    sent = {"arm": arms, "good": ["1"], "pulls": ["3"], "reason": "typo", "key": "k"}
    assert browser.post(action, data=sent).status_code == 303
    assert trial.allocation(batch.id).arms[0].good == 1
    text = browser.get(f"/trials/{trial.id}/audit?check=decisions").text
    assert "red 10, blue 10" in text
    assert "red 2/3" in text
    assert "1 of 1 decisions are the same" in text


@pytest.mark.parametrize("role", ["admin", "viewer"])
def test_all_pages_of_a_trial_without_a_bound_say_so(site: Site, trial: Trial, role: str) -> None:
    trial.tell(trial.ask().id, {"red": (1, 2)})
    browser = Browser(site, role)
    for page, said in (
        ("/why", "No bound: the dual was not solved"),
        ("", "No bound: the dual was not solved"),
        ("/results", "red"),
        ("/report", "No bound: the dual was not solved"),
        ("/allocations", "red 1/2 of 10"),
        ("/audit", "red 1/2"),
    ):
        got = browser.get(f"/trials/{trial.id}{page}")
        assert got.status_code == 200, page
        assert said in got.text, page
    assert browser.get(f"/trials/{trial.id}/why.json").json()["path"] is None


# -- sizes --------------------------------------------------------------------------------------


def test_fifty_thousand_pulls_are_a_normal_experiment(site: Site) -> None:
    arms = [{"name": f"v{k}"} for k in range(8)]
    problem = {"horizon": 25, "pulls_per_stage": 2000, "repeat": True, "unit": 200, "arms": arms}
    sent = {"problem": problem, "name": "large", "policy": "thompson"}
    made = site.post("/trials", sent)
    assert (made.status, made.json["slots"], made.json["upper_bound"]) == (201, 50_000, None)
    batch = site.post("/trials/large/ask").json
    assert sum(batch["pulls"].values()) == 2000


def test_long_horizons_are_for_policies_without_prices_and_tables(site: Site) -> None:
    arms = [{"name": f"v{k}", "prior": {"good": 1 + k, "bad": 1}} for k in range(20)]
    problem = {"horizon": 10_000, "arms": arms}
    made = site.post("/trials", {"problem": problem, "policy": "thompson", "name": "long"})
    assert (made.status, made.json["upper_bound"]) == (201, None)
    assert site.post("/trials/long/ask").status == 200
    for more in ({"policy": "deco"}, {"policy": "ucb1"}, {"policy": "thompson", "bound": True}):
        got = site.post("/trials", {"problem": problem, **more})
        assert (got.status, got.code) == (422, "invalid")
        assert "at most 200 arms and 2000 stages" in got.body.decode()
