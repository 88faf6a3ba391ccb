"""What is sent from pages: forms count once, plans become trials, mistakes are pages."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decobandit.problem.problem_files import format_problem, parse_problem
from decobandit.trials import Trial, list_trials, open_trial
from helpers.page_browser import EVIL, NAMES, Browser, Elements
from helpers.web_client import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def trial(site: Site) -> Trial:
    """Two outcomes told, one open."""
    made = site.trial(NAMES)
    for outcome in (1, 0):
        made.tell(made.ask().id, outcome)
    made.ask()
    return made


def test_forms_that_are_sent_twice_count_once(site: Site) -> None:
    trial, browser = site.trial(NAMES), Browser(site, "operator")
    here = f"/trials/{trial.id}"
    first, again = (browser.post(f"{here}/ask", data={"key": "k1"}) for _ in range(2))
    assert first.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    (slot,) = trial.allocations()
    tell = f"{here}/allocations/{slot.id}/tell"
    for _ in range(2):
        assert browser.post(tell, data={"key": "k2", "outcome": "good"}).status_code == 303
    assert [event.kind for event in trial.events()] == ["created", "asked", "told"]
    other = browser.post(tell, data={"key": "k2", "outcome": "bad"})
    assert other.status_code == 409
    assert "Another outcome is recorded" in other.text
    assert trial.allocations()[0].outcome == 1


def test_an_allocation_can_be_cancelled_and_an_outcome_corrected(site: Site) -> None:
    trial, browser = site.trial(NAMES), Browser(site, "admin")
    here = f"/trials/{trial.id}/allocations"
    one, two = trial.ask(), trial.ask()
    browser.post(f"{here}/{one.id}/cancel", data={"key": "a", "reason": "did not come"})
    browser.post(f"{here}/{two.id}/tell", data={"key": "b", "outcome": "bad"})
    corrected = {"key": "c", "outcome": "good", "reason": "misread"}
    browser.post(f"{here}/{two.id}/correct", data=corrected)
    assert [(s.state, s.outcome) for s in trial.allocations()] == [("cancelled", None), ("told", 1)]
    for data in ({"outcome": "2", "reason": "x"}, {"reason": "x"}, {"outcome": "bad"}):
        assert browser.post(f"{here}/{two.id}/correct", data=data).status_code == 422


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9"])
def test_forms_of_other_sites_are_refused(site: Site, trial: Trial, origin: str) -> None:
    browser, before = Browser(site, "admin"), len(trial.events())
    for path in (f"/trials/{trial.id}/ask", "/trials", "/login", "/logout"):
        assert browser.post(path, origin=origin).status_code == 403
    assert len(trial.events()) == before


def test_what_is_no_form_is_refused(site: Site, trial: Trial) -> None:
    browser, path = Browser(site, "admin"), f"/trials/{trial.id}/ask"
    assert browser.post(path, content=b"{}", kind="application/json").status_code == 415
    assert browser.post(path, content=b"key=%ff").status_code == 422
    assert browser.post(path, content=b"a=1&" * 3000).status_code == 422


# -- plans --------------------------------------------------------------------------------------

PLAN = {
    "name": "planned",
    "horizon": "8",
    "pulls": "1",
    "policy": "deco",
    "arm": ["A", EVIL, ""],
    "good": ["1", "2.5", "1"],
    "bad": ["1", "1", "1"],
}


@pytest.mark.parametrize("policy", ["deco", "auto"])
def test_a_plan_can_be_started_once(site: Site, policy: str) -> None:
    browser = Browser(site, "admin")
    found = browser.post("/plan", data=PLAN | {"policy": policy})
    assert found.status_code == 200
    assert found.text.count('class="chosen"') == 1
    assert "Not computed here" not in found.text
    hidden = [
        (str(attributes["name"]), str(attributes["value"]))
        for tag, attributes in Elements(found.text).found
        if tag == "input" and attributes.get("type") == "hidden"
    ]
    data: dict[str, list[str]] = {}
    for name, value in hidden:
        data.setdefault(name, []).append(value)
    first, again = (browser.post("/trials", data=data) for _ in range(2))
    assert first.headers["location"] == again.headers["location"]
    trial = open_trial("planned", db=site.store)
    assert [(a.name, a.prior.good) for a in trial.problem.arms] == [("A", 1.0), (EVIL, 2.5)]
    assert EVIL not in found.text
    shown = found.text.replace("&#34;", '"').replace("&lt;", "<").replace("&gt;", ">")
    assert format_problem(trial.problem, format="toml") in shown
    other = browser.post("/trials", data=data | {"horizon": "9"})
    assert (other.status_code, len(list_trials(db=site.store))) == (409, 1)


def test_only_an_administrator_can_start_a_plan(site: Site) -> None:
    assert "Start this trial" not in Browser(site, "viewer").post("/plan", data=PLAN).text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"horizon": "soon"}, "Horizon (stages): &#39;soon&#39; is not a whole number"),
        ({"horizon": "0"}, "Horizon (stages): 0 is not allowed; must be a whole number from 1"),
        ({"pulls": "3"}, "Pulls per stage: 3 is not allowed; must be at most the number of arms"),
        ({"good": ["-1", "1", "1"]}, "must be a positive number"),
        ({"good": ["x", "1", "1"]}, "is not a number"),
        # rows are counted as the page shows them, from one, those without a name included
        ({"arm": ["A", "", "B"], "bad": ["1", "1", "-2"]}, "Arm 3, prior, bad: -2 is not allowed"),
        ({"arm": ["A", "", "B"], "bad": ["1", "1", "x"]}, "Arm 3, prior, bad: &#39;x&#39; is not"),
        (
            {"arm": ["", "A", "a\x7fb"]},
            r"Arm 3, name: &#34;a\u007fb&#34; is not allowed; must be 1",
        ),
        ({"arm": ["A", "", "A"]}, "Arm 3, name: &#34;A&#34; is not allowed; must differ from"),
        ({"arm": ["", "", ""]}, "Arms: 0 is not allowed; must be 1 to 100000 arms"),
        ({"arm": ["A", "A", ""]}, "A"),
        ({"policy": "none"}, "policy"),
        ({"horizon": "2001"}, "at most"),
    ],
)
def test_mistakes_are_named_and_what_was_typed_stays(
    site: Site, change: dict[str, Any], said: str
) -> None:
    for path in ("/plan", "/trials"):
        found = Browser(site, "admin").post(path, data=PLAN | change)
        assert found.status_code == 422
        alert = found.text.partition('role="alert">')[2].partition("</p>")[0]
        assert said in alert
        assert 'value="planned"' in found.text
    assert list_trials(db=site.store) == []


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"horizon": "soon", "bad": ["1", "x", "1"]}, {"horizon", "bad-2"}),
        ({"good": ["-1", "1", "1"], "bad": ["1", "0", "1"]}, {"good-1", "bad-2"}),
        ({"pulls": "3"}, {"pulls"}),
        ({"name": "a/b"}, {"name"}),
        ({"name": "n" * 101}, {"name"}),
        ({"deploy": "-1"}, {"deploy"}),
        ({"reward_good": ["1", "much", "1"]}, {"reward_good-2"}),
        ({"arm": ["A", "A", ""]}, {"arm-2"}),
        ({"arm": ["", "", ""]}, {"arms"}),
        ({"policy": "none"}, {"policy"}),
        ({"horizon": "2001"}, {"horizon"}),
        ({"file": "horizon = "}, {"file"}),
        ({"file": '{"horizon": 3, "arms": []}'}, {"file"}),
    ],
)
def test_mistakes_are_shown_beside_their_fields(
    site: Site, change: dict[str, Any], fields: set[str]
) -> None:
    elements = Elements(Browser(site, "admin").post("/plan", data=PLAN | change).text).found
    said = {str(a["id"]).removeprefix("wrong-") for t, a in elements if a.get("class") == "wrong"}
    assert said == fields
    marked = {str(a["aria-describedby"]) for _, a in elements if "aria-describedby" in a}
    assert marked == {f"wrong-{field}" for field in fields - {"arms"}}


FILE = """horizon = 6
terminal = { deploy = 2.5 }
[[arms]]
name = "dose"
count = 2
prior = { good = 2, bad = 3 }
reward = { good = 4, bad = -1 }
"""
BY_STAGE = FILE.replace("good = 4", "good = [1, 1, 2, 2, 3, 3]").replace("terminal", "# terminal")


@pytest.mark.parametrize("text", [FILE, BY_STAGE])
def test_a_problem_file_is_the_problem(site: Site, text: str) -> None:
    browser = Browser(site, "admin")
    shown = browser.post("/plan", data=PLAN | {"file": text}).text
    assert "The problem and its rules are those of this file" in shown
    assert browser.post("/trials", data=PLAN | {"file": text}).status_code == 303
    (made,) = list_trials(db=site.store)
    assert open_trial(made.id, db=site.store).problem == parse_problem(text)


def test_the_bound_of_a_plan_is_that_of_its_trial_and_the_chosen_policy_is_shown(
    site: Site,
) -> None:
    data = PLAN | {"horizon": "30", "policy": "v-ids", "arm": ["A", "B", "C"]}
    shown = Browser(site, "admin").post("/plan", data=data).text
    bound = re.search(r'class="good">([\d.]+)</strong>', shown)
    browser = Browser(site, "admin")
    trial = open_trial(
        browser.post("/trials", data=data).headers["location"].split("/")[-1], db=site.store
    )
    assert bound is not None
    assert bound[1] == f"{trial.status().best_bound:.3f}"
    rows = re.findall(r'<tr class="chosen">\s*<td>.*?</svg>([^<]+)</span></td>', shown)
    assert rows == ["v-ids"]


def test_rows_can_be_added_without_a_script(site: Site) -> None:
    found = Browser(site, "viewer").post("/plan", data=PLAN | {"add": "2"})
    assert found.text.count('name="arm"') == 5


# -- errors and files ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nowhere", "/trials/none", "/trials/none/audit", "/apis"])
def test_what_does_not_exist_is_a_page(site: Site, path: str) -> None:
    found = Browser(site, "admin").get(path)
    assert found.status_code == 404
    assert "<h1>Not found</h1>" in found.text


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/trials/x/ask", 405)])
def test_the_api_answers_for_itself(site: Site, path: str, status: int) -> None:
    found = Browser(site, "admin").get(f"/api/v1{path}")
    assert (found.status_code, set(found.json())) == (status, {"error"})


def test_files_are_ours_and_plotlys(site: Site) -> None:
    stranger = Browser(site, None)
    script = stranger.get("/static/plotly.min.js")
    assert "immutable" in script.headers["cache-control"]
    assert script.text.lstrip().startswith("/**")
    for name in ("style.css", "pages.js", "figures.js", "icon.svg"):
        assert stranger.get(f"/static/{name}").status_code == 200
    for name in ("../pages.py", "pages.py", "/etc/passwd", ".."):
        assert stranger.get(f"/static/{name}").status_code == 404


def test_exports_are_downloads(site: Site, trial: Trial) -> None:
    browser = Browser(site, "viewer")
    whole = browser.get(f"/trials/{trial.id}/export.json")
    assert whole.json()["head"] == trial.status().head
    table = browser.get(f"/trials/{trial.id}/export.csv")
    assert len(table.text.splitlines()) == 1 + len(trial.allocations())
    for found in (whole, table):
        assert found.headers["content-disposition"].startswith("attachment")


def test_the_chain_and_the_decisions_are_checked_on_request(site: Site, trial: Trial) -> None:
    browser = Browser(site, "viewer")
    chain = browser.get(f"/trials/{trial.id}/audit?check=chain").text
    assert f"The log is intact: {len(trial.events())} events" in chain
    replay = browser.get(f"/trials/{trial.id}/audit?check=decisions").text
    assert "3 of 3 decisions are the same" in replay


def test_a_changed_outcome_is_found(site: Site, trial: Trial) -> None:
    with sqlite3.connect(site.folder / "site.db") as rows:
        change = "UPDATE events SET body = replace(body, '\"outcome\":1', '\"outcome\":0')"
        assert rows.execute(f"{change} WHERE kind = 'told'").rowcount == 2
    rows.close()
    for fresh in (False, True):
        if fresh:  # a server that has never read the trial
            site.close()
            site.reopen()
        for name in (trial.id, trial.name):
            found = Browser(site, "viewer").get(f"/trials/{name}/audit?check=chain")
            assert found.status_code == 200
            assert "The record of this trial was changed" in found.text
            assert "Of 6 events" in found.text
            assert found.text.count(f"trial {trial.id}, event ") >= 1
