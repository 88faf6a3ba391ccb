"""A problem file with a design on the plan page: operating characteristics, and the report."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from decobandit import operating_characteristics
from decobandit.problem import designed_from_dict
from decobandit.problem.problem_files import parse_tree
from decobandit.trials import open_trial
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
    return {row[0]: row[1] for row in rows if row}


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
        (rules.partition("[design]")[0], "a report needs a problem file with a table design"),
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
        ("draws = 300", "draws = 2083334", "Design.draws: 2083334 is not allowed; must be at most "
         "2083333"),
    ],
)  # fmt: skip
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
    work._limits = replace(work._limits, solve_seconds=0.01)
    found = send(site, "/plan/report", FILE)
    assert found.status_code == 422
    assert "it takes longer than 0.01 seconds" in found.text


def test_the_design_stays_when_the_form_is_filled_in_from_the_file(site: Site) -> None:
    data = FORM | {"file": FILE, "load": "1"}
    loaded = Browser(site, "admin").post("/plan", data=data).text
    assert 'name="horizon" value="12"' in loaded
    assert "[[design.scenarios]]" in loaded
    assert "The problem is that of this file" in loaded


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
