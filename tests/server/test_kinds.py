"""Trials of other outcomes than good or bad over HTTP: the API, and forms that fit the kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from decobandit import solve
from decobandit.problem import (
    Arm,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    format_problem,
)
from decobandit.trials import Trial, create_trial, open_trial
from helpers.page_browser import Browser
from helpers.web_client import Site

ARMS = [
    Arm(name="grades", prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 1, 3])),
    Arm(name="lab", prior=NormalNormal(0, 1), noise_sd=1),
    Arm(name="events", prior=GammaPoisson(1, 1)),
]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def trial(site: Site) -> Trial:
    problem = Problem(arms=ARMS, horizon=9)
    return create_trial(problem, policy="equal", name="kinds", db=site.store)


def test_outcomes_of_the_kind_are_recorded_and_others_are_refused(site: Site, trial: Trial) -> None:
    slots = {slot.arm: slot.id for slot in [trial.ask() for _ in range(3)]}
    path = "/trials/kinds/allocations"
    for arm, wrong, right in (("grades", 3, 2), ("lab", "x", -1.5), ("events", 0.5, 7)):
        bad = site.post(f"{path}/{slots[arm]}/tell", {"outcome": wrong})
        assert (bad.status, bad.code) == (422, "invalid")
        assert "must be" in bad.json["error"]["message"]
        got = site.post(f"{path}/{slots[arm]}/tell", {"outcome": right})
        assert (got.status, got.json["outcome"]) == (200, right)
    changed = {"outcome": 2.5, "reason": "misread"}
    assert site.post(f"{path}/{slots['lab']}/correct", changed).json["outcome"] == 2.5
    arms = site.get("/trials/kinds").json["arms"]
    assert [arm["seen"] for arm in arms] == ["0+0+1", "2.5/1", "7/1"]
    assert site.get("/trials/kinds/report").json["arms"][1]["rate"] == 2.5
    assert site.get("/trials/kinds/replay").json["ok"]


def test_the_field_of_a_form_fits_the_kind(trial: Trial, site: Site) -> None:
    browser = Browser(site, "admin")
    wanted = {
        "grades": '<option value="2">2</option>',
        "lab": 'placeholder="Outcome" step="any"',
        "events": 'placeholder="Outcome" min="0" step="1"',
    }
    told = {"grades": "2", "lab": "-0.5", "events": "3"}
    for _ in ARMS:
        slot = trial.ask()
        assert wanted[slot.arm] in browser.get(f"/trials/{trial.id}?now={slot.id}").text
        here = f"/trials/{trial.id}/allocations/{slot.id}/tell"
        assert browser.post(here, data={"key": slot.id, "outcome": "x"}).status_code == 422
        sent = {"key": slot.id, "outcome": told[slot.arm]}
        assert browser.post(here, data=sent).status_code == 303
        text = browser.get(f"/trials/{trial.id}?done={slot.id}").text
        assert f"Recorded: outcome {trial.kinds[slot.arm].format.named(_last(trial))} for" in text
    for page in ("", "/why", "/allocations", "/audit", "/results", "/report", "/why.json"):
        got = browser.get(f"/trials/{trial.id}{page}")
        assert got.status_code == 200
    why = browser.get(f"/trials/{trial.id}/why").text
    assert "-0.5/1" in why
    assert "counted at least what was expected" in why
    drawn = browser.get(f"/trials/{trial.id}/why.json").json()["path"]["data"]
    assert {"grades", "lab", "events"} <= {trace["name"] for trace in drawn}
    assert "lab: -0.5" in browser.get(f"/trials/{trial.id}/audit").text


def test_sums_of_measurements_are_shown_in_few_digits(trial: Trial, site: Site) -> None:
    browser = Browser(site, "admin")
    for told in (0.1, 0.1, 0.1):
        while (slot := trial.ask()).arm != "lab":
            pass
        trial.tell(slot.id, told)
    assert trial.report().arms[1].seen == "0.30000000000000004/3"  # as files have it
    for page in ("/why", "/results", "/report"):
        text = browser.get(f"/trials/{trial.id}{page}").text
        assert ">0.3/3<" in text
        assert "0000000" not in text


def test_the_plan_page_forecasts_a_file_with_other_outcomes(site: Site) -> None:
    browser, problem = Browser(site, "admin"), Problem(arms=ARMS, horizon=6)
    sent = {
        "name": "planned",
        "horizon": "",
        "pulls": "",
        "policy": "deco",
        "file": format_problem(problem, format="toml"),
        "arm": [],
        "good": [],
        "bad": [],
    }
    found = browser.post("/plan", data=sent)
    assert found.status_code == 200
    expected = solve(problem).upper_bound
    assert f"{expected:.3f}" in found.text
    assert browser.post("/trials", data=sent).status_code == 303
    assert open_trial("planned", db=site.store).problem == problem


def _last(trial: Trial) -> float:
    outcome = trial.allocations()[-1].outcome
    assert isinstance(outcome, int | float)
    return outcome


# -- batches ------------------------------------------------------------------------------------

SHARED = Problem(arms=ARMS, horizon=3, pulls_per_stage=6, repeat=True, unit=2)


@pytest.fixture
def shared(site: Site) -> Trial:
    return create_trial(SHARED, policy="equal", name="shared", db=site.store, bound=False)


def test_outcomes_of_a_batch_are_recorded_as_tallies_parts_or_rows(
    site: Site, shared: Trial
) -> None:
    path = f"/trials/shared/allocations/{site.post('/trials/shared/ask').json['id']}"
    for wrong, said in (
        ({"counts": {"grades": "1+1"}}, "must be 3 counts"),
        ({"counts": {"lab": {"good": 1, "pulls": -1}}}, "whole numbers from 0 to"),
        ({"counts": {"events": [0.5, 1]}}, "whole number"),
        ({"rows": [{"arm": "lab", "outcome": "x"}]}, "must be a finite number"),
    ):
        bad = site.post(f"{path}/tell", wrong)
        assert (bad.status, bad.code) == (422, "invalid")
        assert said in bad.json["error"]["message"]
    told = site.post(f"{path}/tell", {"counts": {"grades": "0+1+0", "events": [7, 2]}})
    assert told.status == 200
    rows = [{"arm": "lab", "outcome": -1.5}, {"arm": "grades", "outcome": 2}]
    told = site.post(f"{path}/tell", {"rows": rows})
    assert [one["seen"] for one in told.json["arms"]] == ["0+1+1", "-1.5/1", "7/2"]
    assert [one["good"] for one in told.json["arms"]] == [None, None, None]
    fixed = site.post(f"{path}/correct", {"counts": {"lab": "-1/2"}, "reason": "misread"})
    assert fixed.json["state"] == "told"
    assert [arm["seen"] for arm in site.get("/trials/shared").json["arms"]][1] == "-1/2"
    assert site.get("/trials/shared/replay").json["ok"]
    assert site.get("/trials/shared/report").json["arms"][1]["rate"] == -0.5


@pytest.mark.parametrize("role", ["admin", "operator"])
def test_the_page_of_batches_has_a_field_for_tallies(site: Site, shared: Trial, role: str) -> None:
    browser, page = Browser(site, role), f"/trials/{shared.id}"
    assert (
        browser.post(f"{page}/ask", data={"key": "k", "subject": "", "note": ""}).status_code == 303
    )
    (batch,) = shared.allocations()
    called = shared.codes if role == "operator" else {arm: arm for arm in shared.codes}
    text = browser.get(page).text
    assert 'placeholder="3 counts, one of each class, such as 0+1+2"' in text
    action = f"{page}/allocations/{batch.id}/tell"
    sent = {"key": "t", "other": [called["grades"], called["lab"]], "seen": ["0+2+0", "-0.5/1"]}
    wrong = sent | {"key": "w", "seen": ["0+2", ""]}
    assert browser.post(action, data=wrong).status_code == 422
    assert browser.post(action, data=sent | {"seen": ["1"]}).status_code == 422
    assert browser.post(action, data=sent).status_code == 303
    assert shared.allocation(batch.id).told == 3
    text = browser.get(page).text
    assert ("-0.5/1" in text) is (role == "admin")
    assert ("0+2+0" in text) is (role == "admin")
    if role == "admin":
        fixed = {"key": "c", "other": ["lab"], "seen": ["0.25/2"], "reason": "misread"}
        assert browser.post(f"{page}/allocations/{batch.id}/correct", data=fixed).status_code == 303
        assert "lab 0.25/2" in browser.get(f"/trials/{shared.id}/audit").text
        for tab in ("", "/why", "/results", "/report"):
            assert browser.get(f"/trials/{shared.id}{tab}").status_code == 200
