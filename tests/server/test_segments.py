"""Segments of a trial over HTTP: the API, the client, pages with a choice of segments."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from decobandit.client import Client
from decobandit.trials import TrialError, open_trial
from helpers.page_browser import Browser
from helpers.web_client import Site
from helpers.web_server import served

PROBLEM = {
    "horizon": 10,
    "segments": [{"name": "EU", "share": 0.6}, {"name": "US", "share": 0.4}],
    "arms": [
        {"name": "old", "prior": {"good": 3, "bad": 2}},
        {"name": "new", "priors": {"US": {"good": 2, "bad": 4}}},
    ],
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def test_a_trial_with_segments_runs_over_the_api(site: Site) -> None:
    made = site.post("/trials", {"problem": PROBLEM, "name": "visits", "policy": "deco", "seed": 1})
    assert made.status == 201, made.json
    assert [one["name"] for one in made.json["segments"]] == ["EU", "US"]
    for body in ({}, {"segment": "Mars"}):
        bad = site.post("/trials/visits/ask", body)
        assert (bad.status // 100, bad.json["error"]["field"]) == (4, "segment")
        assert "EU, US" in bad.json["error"]["message"]
    slot = site.post("/trials/visits/ask", {"segment": "US", "subject": "S-1"}).json
    assert (slot["segment"], slot["stage"]) == ("US", 0)
    other = site.post("/trials/visits/ask", {"segment": "EU", "subject": "S-1"})
    assert (other.status, other.code) == (409, "conflict")
    told = site.post(f"/trials/visits/allocations/{slot['id']}/tell", {"outcome": 1}).json
    assert (told["segment"], told["outcome"]) == ("US", 1)
    status = site.get("/trials/visits").json
    assert [(one["name"], one["told"]) for one in status["segments"]] == [("EU", 0), ("US", 1)]
    why = site.get("/trials/visits/why?segment=US").json
    assert why["next_arm"] == status["segments"][1]["next_arm"]
    assert site.get("/trials/visits/why").json["error"]["field"] == "segment"
    assert site.get("/trials/visits/path?segment=US").status == 200
    report = site.get("/trials/visits/report").json
    assert [one["told"] for one in report["segments"]] == [0, 1]
    assert site.get("/trials/visits/verify").json["ok"]
    assert site.get("/trials/visits/replay").json["ok"]
    refusal = site.post("/trials/visits/arms", {"arm": {"name": "late"}, "reason": "ready"})
    assert (refusal.status // 100, "segments" in refusal.json["error"]["message"]) == (4, True)


def test_an_operator_sees_the_segment_and_no_arm(site: Site) -> None:
    trial = site.trial(PROBLEM)
    slot = site.post(f"/trials/{trial.id}/ask", {"segment": "EU"}, "operator").json
    assert slot["segment"] == "EU"
    assert slot["arm"] in trial.codes.values()


def test_pages_offer_the_segments(site: Site) -> None:
    trial = site.trial(PROBLEM)
    browser, home = Browser(site, "admin"), f"/trials/{trial.id}"
    assert '<select name="segment"' in browser.get(home).text
    assert "Add or close an arm" not in browser.get(home).text
    answer = browser.post(f"{home}/ask", {"segment": "US", "subject": "S-1"})
    assert answer.status_code < 400
    assert browser.post(f"{home}/ask", {"subject": "S-2"}).status_code in (400, 422)
    (slot,) = trial.allocations()
    trial.tell(slot.id, 1)
    trial.ask(segment="EU")
    page = browser.get(home).text
    assert "Segment: <strong>EU" in page
    assert "US: 1 of 1 outcomes are recorded" in page
    assert "segment=EU" in browser.get(f"{home}/why").text
    assert "Next allocation in US" in browser.get(f"{home}/why?segment=US").text
    assert 'svg class="bar"' in browser.get(f"{home}/why?segment=US").text
    assert "<th>Segment</th>" in browser.get(f"{home}/allocations").text
    assert "Segment EU" in browser.get(f"{home}/results").text
    assert "Segment EU" in browser.get(f"{home}/report").text
    assert "in US for S-1" in browser.get(f"{home}/audit").text
    trial.tell(trial.allocations()[-1].id, 0)
    assert "EU: <strong>" in Browser(site, "viewer").get(home).text


def test_the_client_asks_by_segment(site: Site) -> None:
    with (
        served(site.app) as port,
        Client(f"http://127.0.0.1:{port}", site.tokens["admin"]) as client,
    ):
        trial = client.create_trial(PROBLEM, name="visits", policy="deco", seed=1)
        slot = trial.ask(segment="EU", subject="S-1")
        assert (slot.segment, trial.tell(slot.id, 1).segment) == ("EU", "EU")
        with pytest.raises(TrialError, match="EU, US"):
            trial.ask()
        with pytest.raises(TrialError, match="one segment"):
            trial.ask(segment="US", subject="S-1")
        assert trial.why(segment="US").stage == 0
        assert trial.episode(segment="EU").to_dict()["policy"] == "deco"
        frame = trial.to_frame("arms", kind="pandas")
        local = open_trial("visits", db=site.store).to_frame("arms", kind="pandas")
        assert frame.equals(local)
        assert frame["segment"].tolist()[:4] == ["EU", "EU", "US", "US"]
        assert "segment" in trial.to_frame(kind="pandas")
