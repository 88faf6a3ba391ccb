"""A problem file with a design on the plan page: operating characteristics, and the report."""

import hashlib
import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decobandit import Design, operating_characteristics
from decobandit.problem import Rules, designed_from_dict
from decobandit.problem.problem_files import parse_tree
from decobandit.trials import create_trial, open_trial
from helpers.design_pages import FILE
from helpers.page_browser import Browser, Page
from helpers.web_client import Site

FORM = {"name": "planned", "horizon": "8", "pulls": "1", "policy": "thompson"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def send(site: Site, path: str, text: str, role: str = "viewer") -> Page:
    return Browser(site, role).post(path, data=FORM | {"file": text.replace("\n", "\r\n")})


def good_outcomes(page: str, scenario: str) -> dict[str, str]:
    """By policy, from the first table of the scenario."""
    part = page.partition(f"<h2>Scenario {scenario}</h2>")[2].partition("</table>")[0]
    rows = (re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", part))
    return {re.sub(r"<[^>]+>", "", row[0]): row[1] for row in rows if row}


def test_the_plan_and_the_report_have_the_numbers_of_deco_design(site: Site) -> None:
    problem, design = designed_from_dict(parse_tree(FILE, "toml"))
    assert design is not None
    both = design.model_copy(update={"policies": ("thompson", "equal")})
    expected = {
        scenario.name: {each.policy: f"{each.good:.2f}" for each in scenario.policies}
        for scenario in operating_characteristics(problem, both).scenarios
    }
    plan, report = send(site, "/plan", FILE), send(site, "/plan/report", FILE)
    assert (plan.status_code, report.status_code) == (200, 200)
    for page in (plan.text, report.text):
        assert {name: good_outcomes(page, name) for name in expected} == expected
    assert 'action="/plan/report"' in plan.text
    assert "Is new better?" in report.text
    assert hashlib.sha256(FILE.encode()).hexdigest() in report.text
    assert "deco design trial.toml --draws 300 --seed 1" in report.text
    # it can be saved and printed: all of it is in its text, and nothing runs
    assert "<script" not in report.text
    assert "style-src 'self' 'unsafe-inline'" in report.headers["content-security-policy"]


def test_a_file_without_scenarios_is_planned_but_has_no_report(site: Site) -> None:
    rules = FILE.partition("[[design.scenarios]]")[0]
    for text, line in (
        (rules, "design.scenarios: required key is missing"),
        (
            rules.partition("[design]")[0],
            "a report needs rules or scenarios, here or in a problem file",
        ),
    ):
        plan, report = send(site, "/plan", text), send(site, "/plan/report", text)
        assert (plan.status_code, report.status_code) == (200, 422)
        assert 'action="/plan/report"' not in plan.text
        assert line in report.text


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("burn_in = 2", "burn_in = 7", "Design.burn_in: 7 is not allowed; must be at most 6"),
        ('"thompson"', '"tomson"', "No policy is called"),
        # 12 pulls of two policies in two scenarios: 48 pulls of a server that takes 100,000,000
        (
            "draws = 300",
            "draws = 2083334",
            "Design.draws: 2083334 is not allowed; must be at most 2083333",
        ),
    ],
)
def test_mistakes_of_a_design_are_said_beside_the_file(
    site: Site, old: str, new: str, line: str
) -> None:
    for path in ("/plan", "/plan/report"):
        found = send(site, path, FILE.replace(old, new))
        assert found.status_code == 422
        beside = found.text.partition('id="wrong-file">')[2].partition("</span>")[0]
        assert beside.startswith(line)


def test_a_report_that_takes_too_long_is_refused_with_the_reason(site: Site) -> None:
    work = site.app.state.long_work
    work._limits = replace(work._limits, plan_seconds=0.01)
    found = send(site, "/plan/report", FILE)
    assert found.status_code == 422
    assert "the computation was ended after 0.01 seconds" in found.text


@pytest.mark.parametrize("more", ["", "\nseed = 7"])
def test_rules_and_scenarios_of_a_file_are_the_design(site: Site, more: str) -> None:
    text = FILE.replace("draws = 300", f"draws = 300{more}")
    found = Browser(site, "viewer").post("/plan", data=FORM | {"file": text})
    problem, design = designed_from_dict(parse_tree(text, "toml"))
    assert design is not None
    shown = found.text.partition('<code id="toml">')[2].partition("</code>")[0]
    again = designed_from_dict(parse_tree(html.unescape(shown), "toml"))
    assert again == (problem, design)


RULED = FORM | {
    "horizon": "30",
    "policy": "greedy",
    "arm": ["control", "", "new"],
    "good": ["3", "1", "1"],
    "bad": ["7", "1", "1"],
    "control": "control",
    "burn_in": "2",
    "floor": "0.1",
    "floor_kind": "clip",
    "control_share": "0.4",
    "delay": "1",
    "looks_first": "10",
    "looks_every": "5",
    "superiority": "0.99",
    "inferiority": "0.01",
    "futility": "0.02",
    "test": "fisher",
    "level": "0.05",
    "draws": "200",
    "question": "Better?",
    "compare": "thompson",
    "scenario": ["null", "", "works"],
    "truth": ["0.3", "", "0.3", "", "", "", "0.3", "0.9", "0.6"],
}


def test_rules_and_scenarios_that_are_typed_are_the_design(site: Site) -> None:
    browser = Browser(site, "admin")
    found = browser.post("/plan", data=RULED)
    assert found.status_code == 200
    text = html.unescape(found.text.partition('<code id="toml">')[2].partition("</code>")[0])
    problem, design = designed_from_dict(parse_tree(text, "toml"))
    assert design == Design(
        control="control",
        burn_in=2,
        floor=0.1,
        floor_kind="clip",
        control_share=0.4,
        delay=1,
        looks={"first": 10, "every": 5},
        stop={"superiority": 0.99, "inferiority": 0.01, "futility": 0.02},
        test={"kind": "fisher", "alpha": 0.05},
        policies=("greedy", "thompson", "equal"),
        draws=200,
        question="Better?",
        # the row without a name is left out, and so is the arm without one
        scenarios=[
            {"name": "null", "truth": (0.3, 0.3)},
            {"name": "works", "truth": (0.3, 0.6)},
        ],
    )
    expected = operating_characteristics(problem, design)
    for scenario in expected.scenarios:
        shown = good_outcomes(found.text, scenario.name)
        means = {one.policy: f"{one.good:.2f}" for one in scenario.policies}
        assert {name: text.partition(" ±")[0] for name, text in shown.items()} == means
    report = browser.post("/plan/report", data=RULED)
    assert html.unescape(report.text).count(text.strip()) == 1
    assert browser.post("/trials", data=RULED).status_code == 303
    assert open_trial("planned", db=site.store).settings.rules == design.rules


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"control": "old"}, {"control": '"old" is not allowed; must be the name of an arm'}),
        ({"burn_in": "few"}, {"burn_in": "'few' is not a whole number"}),
        ({"burn_in": "16"}, {"burn_in": "16 is not allowed; must be at most 15: 30 pulls, 2 arms"}),
        ({"floor": "2"}, {"floor": "2 is not allowed; must be a number from 0 to 1"}),
        ({"looks_first": ""}, {"looks_first": "required: fill it in"}),
        (
            {"superiority": "1"},
            {"superiority": "1 is not allowed; must be a number above 0 and below 1"},
        ),
        ({"test": ""}, {"level": "choose a final test that it belongs to"}),
        (
            {"test": "posterior", "level": "3"},
            {"level": "3 is not allowed; must be a number above 0 and below 1"},
        ),
        (
            {"level": "x", "draws": "0.5"},
            {"level": "'x' is not a number", "draws": "'0.5' is not a whole number"},
        ),
        ({"compare": "tomson"}, {"compare": "no policy is called 'tomson'"}),
        ({"compare": "os:system"}, {"compare": "policy 'os:system': code of another module"}),
        ({"draws": "9999999"}, {"draws": "9999999 is not allowed; must be at most 555555"}),
        ({"truth": ["0.3", "", "", "", "", "", "0.3", "0.9", "7"]}, {"truth-1-3": "give a number"}),
        (
            {"truth": ["0.3", "", "0.3", "", "", "", "0.3", "0.9", "7"]},
            {"truth-3-3": "7 is not allowed; must be a number from 0 to 1"},
        ),
        (
            {"scenario": ["works", "", "works"]},
            {"scenario-3": '"works" is not allowed; must differ from other scenarios'},
        ),
    ],
)
def test_mistakes_of_rules_are_said_beside_their_fields(
    site: Site, change: dict[str, Any], said: dict[str, str]
) -> None:
    found = Browser(site, "admin").post("/plan", data=RULED | change)
    assert found.status_code == 422
    spans = re.findall(r'<span class="wrong" id="wrong-([^"]+)">(.*?)</span>', found.text)
    shown = {name: html.unescape(text).lower() for name, text in spans}
    assert shown.keys() == said.keys()
    for name, text in said.items():
        assert shown[name].startswith(text.lower())
        described = f'aria-invalid="true" aria-describedby="wrong-{name}"'
        assert found.text.count(described) == 1
    assert "design." not in found.text  # nor does it speak in keys of files


def test_a_scenario_can_be_added_without_a_script(site: Site) -> None:
    found = Browser(site, "viewer").post("/plan", data=RULED | {"add_scenario": "1"})
    assert (found.text.count('name="scenario"'), found.text.count('name="truth"')) == (4, 12)
    found = Browser(site, "viewer").post("/plan", data=RULED | {"add": "2"})
    assert (found.text.count('name="arm"'), found.text.count('name="truth"')) == (5, 15)
    assert re.findall(r'name="truth" value="([^"]*)"', found.text)[10:13] == ["0.3", "0.9", "0.6"]


def test_without_rules_a_trial_has_none(site: Site) -> None:
    kept = (*FORM, "arm", "good", "bad", "draws", "scenario", "truth")
    data = {name: value for name, value in RULED.items() if name in kept}
    assert Browser(site, "admin").post("/trials", data=data).status_code == 303
    assert open_trial("planned", db=site.store).settings.rules is None


def test_a_trial_that_is_started_from_a_design_obeys_its_rules(site: Site) -> None:
    browser = Browser(site, "admin")
    data = FORM | {"file": FILE}
    assert "with the rules of the design" in browser.post("/plan", data=data).text
    first, again = (browser.post("/trials", data=data) for _ in range(2))
    assert first.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    other = browser.post(
        "/trials", data=FORM | {"file": FILE.replace("burn_in = 2", "burn_in = 3")}
    )
    assert other.status_code == 409
    trial = open_trial("planned", db=site.store)
    # two pulls of each arm first, whatever the policy
    assert sorted(trial.ask().arm for _ in range(4)) == ["control"] * 2 + ["new"] * 2


# -- batches, other outcomes --------------------------------------------------------------------

ARMS = {"arm": ["a", "b"], "good": ["1", "1"], "bad": ["1", "1"]}
GRADES = """horizon = 6
[[arms]]
name = "standard"
prior = { kind = "categorical", counts = [2, 1, 1] }
reward = { values = [0, 1, 3] }
[[arms]]
name = "dose"
prior = { kind = "normal", mean = 1.0, sd = 0.5 }
noise_sd = 1.0
[design]
policies = ["greedy"]
control = "standard"
delay = 1
margin = 1.5
draws = 100
[[design.scenarios]]
name = "one"
truth = [[0.5, 0.25, 0.25], 2.0]
"""


def test_results_have_looks_rules_and_an_axis_that_fits(site: Site) -> None:
    table = {"arms": [{"name": "a"}, {"name": "b"}], "horizon": 40}
    problem, _ = designed_from_dict(table)
    rules = Rules(control="a", looks={"first": 20, "every": 10}, stop={"superiority": 0.9999})
    trial = create_trial(problem, name="looked", policy="equal", design=rules, db=site.store)
    for _ in range(40):
        slot = trial.ask()
        trial.tell(slot.id, int(slot.stage % 4 > 0))
    page = Browser(site, "viewer").get(f"/trials/{trial.id}/results").text
    assert "<h2>Looks</h2>" in page
    assert "<h2>Rules</h2>" in page
    assert "after 20 outcomes, then every 10" in page
    (begin,) = re.findall(r"The axis begins at ([0-9.]+), not at 0", page)
    lows = [one.credible_interval[0] for one in trial.report().arms if one.credible_interval]
    assert 0.0 < float(begin) < min(lows)


def test_a_batch_is_typed_and_is_the_problem_of_the_trial(site: Site) -> None:
    typed = {"name": "b", "horizon": "3", "pulls": "6", "policy": "thompson", **ARMS}
    page = Browser(site, "viewer").post("/plan", data=typed | {"repeat": "1", "unit": "2"})
    assert page.status_code == 200
    text = html.unescape(page.text)
    assert "repeat = true" in text
    assert "unit = 2" in text
    assert '<option value="1" selected>' in page.text


@pytest.mark.parametrize(
    ("more", "field", "said"),
    [
        ({"pulls": "2", "unit": "2"}, "unit", "must be 1 unless repeat is true"),
        ({"repeat": "1", "unit": "4"}, "unit", "must divide pulls_per_stage, 6"),
        ({"repeat": "1", "unit": "x"}, "unit", "'x' is not a whole number"),
    ],
)
def test_mistakes_of_batches_are_said_beside_the_unit(
    site: Site, more: dict[str, str], field: str, said: str
) -> None:
    typed = {"name": "b", "horizon": "3", "pulls": "6", "policy": "thompson", **ARMS}
    page = Browser(site, "viewer").post("/plan", data=typed | more)
    assert page.status_code == 422
    assert f'id="wrong-{field}"' in page.text
    assert said in html.unescape(page.text)


def test_other_outcomes_have_a_forecast_a_design_and_a_report_of_rewards(site: Site) -> None:
    problem, design = designed_from_dict(parse_tree(GRADES, "toml"))
    assert design is not None
    both = design.model_copy(update={"policies": ("thompson", "greedy", "equal")})
    (scenario,) = operating_characteristics(problem, both).scenarios
    expected = {each.policy: f"{each.good:.2f}" for each in scenario.policies}
    plan, report = send(site, "/plan", GRADES), send(site, "/plan/report", GRADES)
    assert (plan.status_code, report.status_code) == (200, 200)
    for page in (plan.text, report.text):
        seen = {name: cell.split(" ")[0] for name, cell in good_outcomes(page, "one").items()}
        assert seen == expected
        part = page.partition("<h2>Scenarios</h2>")[2].partition("How to read")[0]
        assert "Total reward" in part
        assert "0.5+0.25+0.25, mean 1" in part
        assert "ood outcomes" not in part


def test_what_arms_are_compared_by_goes_through_the_form(site: Site) -> None:
    typed = RULED | {"compare_by": "outcome", "margin": "0.1", "test": "", "level": ""}
    assert Browser(site, "admin").post("/trials", data=typed).status_code == 303
    rules = open_trial("planned", db=site.store).settings.rules
    assert rules is not None
    assert (rules.compare, rules.margin) == ("outcome", 0.1)
