"""Trials of arms that move at rest over HTTP: states of all arms, by API and on pages."""

from pathlib import Path

import pytest

from decobandit.trials import open_trial
from helpers.page_browser import Browser
from helpers.web_client import Site

WEAR = {
    "kind": "chain",
    "rest": [[0.8, 0.2], [0, 1]],
    "pull": [[1, 0], [0.9, 0.1]],
    "rest_reward": [1, 0.4],
    "reward": [0.5, 0.3],
}
PROBLEM = {
    "horizon": 3,
    "arms": [{"name": "press", "prior": WEAR}, {"name": "lathe", "prior": WEAR}],
}
BASE = "/trials/plant/allocations"


@pytest.fixture
def site(tmp_path: Path):
    made = Site(tmp_path)
    assert made.post("/trials", {"problem": PROBLEM, "name": "plant"}).status == 201
    yield made
    made.close()


def test_states_are_told_by_arm(site):
    for stage in range(3):
        asked = site.post("/trials/plant/ask", {}).json
        assert (asked["arm"], asked["pending"]) == (None, 1)
        assert [part["arm"] for part in asked["arms"]] == ["press", "lathe"]
        assert site.post("/trials/plant/ask", {}).status == 409
        path = f"{BASE}/{asked['id']}/tell"
        assert site.post(path, {"outcome": "0"}).status == 422
        assert site.post(path, {"counts": {"press": "0"}}).status == 422
        told = site.post(path, {"counts": {"press": "0", "lathe": "0" if stage else "1"}})
        if told.status == 422:  # the lathe was served, and stays new
            told = site.post(path, {"counts": {"press": "1", "lathe": "0"}})
        assert told.status == 200
        assert told.json["state"] == "told"
    assert site.get("/trials/plant").json["finished"]


def test_page_has_a_field_for_every_arm(site):
    trial, browser = open_trial("plant", db=site.store), Browser(site, "admin")
    page, asked = f"/trials/{trial.id}", trial.ask()
    text = browser.get(page).text
    assert text.count('name="seen"') == 2
    assert "Enter the states of all arms after the stage" in text
    action = f"{page}/allocations/{asked.id}/tell"
    form = {"key": "t", "other": ["press", "lathe"], "seen": ["0", ""]}
    assert browser.post(action, data=form).status_code == 422
    assert browser.post(action, data=form | {"seen": ["0", "0"]}).status_code == 303
    assert trial.allocation(asked.id).state == "told"
    for part in ("", "/results", "/why", "/report", "/allocations", "/audit"):
        assert browser.get(page + part).status_code == 200, part
    assert "at rest" in browser.get(f"{page}/allocations").text
