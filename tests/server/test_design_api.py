"""Designs by the API: operating characteristics, the report, and trials that obey the rules."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from decobandit.cli.app import app
from decobandit.problem.problem_files import parse_tree
from decobandit.trials import open_trial
from helpers.design_pages import FILE
from helpers.page_browser import Browser
from helpers.web_client import Site

TREE: dict[str, Any] = parse_tree(FILE, "toml")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def changed(**design: Any) -> dict[str, Any]:
    tree = copy.deepcopy(TREE)
    tree["design"] |= design
    return tree


def timeless(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: timeless(value) for key, value in tree.items() if key != "seconds"}
    return [timeless(each) for each in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("alpha", [None, 0.1])
def test_the_answer_is_what_deco_design_prints(
    site: Site, tmp_path: Path, alpha: float | None
) -> None:
    file = tmp_path / "trial.json"
    # long, with a delay: simulated, so that there are standard errors
    tree = changed(delay=6, draws=200, policies=["thompson", "equal"]) | {"horizon": 70}
    file.write_text(json.dumps(tree))
    more = [] if alpha is None else ["--calibrate", str(alpha)]
    printed = CliRunner().invoke(app, ["design", str(file), "--json", *more])
    body = {"problem": tree} | ({} if alpha is None else {"calibrate": alpha})
    answer = site.post("/design", body, "viewer")
    assert answer.status == 200
    assert timeless(answer.json) == timeless(json.loads(printed.stdout))
    assert "reject_se" in answer.json["scenarios"][0]["policies"][0]
    assert len(answer.json["calibration"]) == (0 if alpha is None else 2)


def test_the_report_of_what_was_sent(site: Site) -> None:
    answer = site.post("/design/report", {"problem": TREE}, "viewer")
    assert answer.status == 200
    assert answer.header("content-type") == "text/html; charset=utf-8"
    page = answer.body.decode()
    assert "<h2>Sensitivity to priors</h2>" in page
    assert "Is new better?" in page
    assert "deco design trial.json --draws 300 --seed 1" in page
    # the file that it prints gives the same design
    start = page.index("<code>{") + len("<code>")
    text = page[start : page.index("</code>", start)].replace("&#34;", '"')
    assert json.loads(text)["design"] == TREE["design"]


@pytest.mark.parametrize(
    ("design", "line"),
    [
        (None, "body.problem.design: required key is missing"),
        ({}, "design.scenarios: required key is missing"),
        (TREE["design"] | {"burn_in": 7}, "body.problem.design.burn_in: 7 is not allowed; must be"),
        (
            TREE["design"] | {"policies": ["os:system"]},
            "policy 'os:system': code of another module",
        ),
        (TREE["design"] | {"draws": 4_166_667}, "body.problem.design.draws: 4166667 is not"),
        (TREE["design"] | {"looks": {"every": 2}}, "body.problem.design.looks.first: required key"),
        (TREE["design"] | {"flor": 0.1}, "body.problem.design.flor: unknown key"),
    ],
)
def test_mistakes_are_named_by_their_keys(site: Site, design: Any, line: str) -> None:
    body = {"problem": TREE | {"design": design}}
    for path in ("/design", "/design/report"):
        answer = site.post(path, body)
        assert (answer.status, answer.code) == (422, "invalid")
        assert answer.json["error"]["message"].startswith(line)


def test_a_design_that_takes_too_long_is_ended(site: Site) -> None:
    work = site.app.state.long_work
    work._limits = replace(work._limits, plan_seconds=0.01)
    answer = site.post("/design", {"problem": TREE})
    assert (answer.status, answer.code) == (422, "too_slow")


def test_a_trial_obeys_the_rules_that_were_sent(site: Site) -> None:
    rules = {
        "control": "control",
        "burn_in": 2,
        "floor": 0.1,
        "delay": 1,
        "control_share": 0.5,
        "looks": {"first": 4, "every": 2},
        "stop": {"superiority": 0.9},
        "test": {"kind": "fisher", "alpha": 0.05},
    }
    body = {"name": "ruled", "policy": "greedy", "problem": TREE | {"design": rules}}
    made = site.post("/trials", body)
    assert made.status == 201
    kept = made.json["rules"]
    assert {key: kept[key] for key in rules} == rules
    given = [site.post("/trials/ruled/ask", role="operator").json for _ in range(4)]
    trial = open_trial("ruled", db=site.store)
    assert sorted(slot.arm for slot in trial.allocations()) == ["control"] * 2 + ["new"] * 2
    for slot in trial.allocations():
        path = f"/trials/ruled/allocations/{slot.id}/tell"
        assert site.post(path, {"outcome": int(slot.arm == "new")}).status == 200
    assert len({one["id"] for one in given}) == 4
    # 2 of 2 good against 0 of 2: Beta(3, 1) is better than Beta(3, 9) with probability 0.97
    status = site.get("/trials/ruled").json
    assert (status["stopped"], status["dropped"], status["next_arm"]) == ("superiority", [], None)
    for role, said in (("admin", "(superiority) at the look after 4"), ("operator", "is over")):
        refused = site.post("/trials/ruled/ask", role=role)
        assert (refused.status, refused.code) == (409, "closed")
        assert said in refused.json["error"]["message"]
    assert "superiority" not in refused.json["error"]["message"]
    assert site.get("/trials/ruled", "operator").json["finished"] is True
    assert site.get("/trials/ruled/report").json["declared"] == ["new"]
    assert site.get("/trials/ruled/replay").json["ok"] is True
    exported = site.get("/trials/ruled/export").json
    assert exported["events"][0]["data"]["plan"]["rules"]["test"]["kind"] == "fisher"
    assert exported["status"]["stopped"] == "superiority"


@pytest.mark.parametrize("batched", [False, True])
def test_pages_say_why_a_trial_has_stopped_but_not_to_operators(site: Site, batched: bool) -> None:
    design = {
        "control": "control",
        "burn_in": 2,
        "stop": {"superiority": 0.9},
        "looks": {"first": 4},
    }
    more = {"pulls_per_stage": 4, "repeat": True, "horizon": 4} if batched else {}
    body = {"name": "ruled", "policy": "greedy", "problem": TREE | more | {"design": design}}
    assert site.post("/trials", body).status == 201
    trial = open_trial("ruled", db=site.store)
    if batched:
        trial.tell(trial.ask().id, {"control": (0, 2), "new": (2, 2)})
    else:
        for slot in [trial.ask() for _ in range(4)]:
            trial.tell(slot.id, int(slot.arm == "new"))
    path = f"/trials/{trial.id}"
    said, blind = (Browser(site, role).get(path).text for role in ("viewer", "operator"))
    assert "The rules have stopped the trial: superiority." in said
    assert "The trial is over." in blind
    assert "superiority" not in blind
    assert "Allocate the next" not in said + blind
    assert "stopped the trial (superiority)" in Browser(site, "viewer").get(f"{path}/why").text
    assert "Declared better than control: new." in said


@pytest.mark.parametrize(
    ("design", "line"),
    [
        ({"floor": 2}, "body.problem.design.floor: must be a number from 0 to 1"),
        ({"control": "nobody"}, 'body.problem.design.control: "nobody" is not allowed'),
        ({"stop": {"futility": 0.1}}, "body.problem.design.stop.futility: 0.1 is not allowed"),
    ],
)
def test_rules_are_checked_before_a_trial_is_made(site: Site, design: Any, line: str) -> None:
    answer = site.post("/trials", {"name": "no", "problem": TREE | {"design": design}})
    assert (answer.status, answer.code) == (422, "invalid")
    assert answer.json["error"]["message"].startswith(line)
    assert site.get("/trials").json["trials"] == []


def test_the_document_has_the_keys_of_designs(site: Site) -> None:
    shown = site.app.openapi()
    schemas = shown["components"]["schemas"]
    assert schemas["DesignedIn"]["properties"].keys() == {
        *TREE,
        "pulls_per_stage",
        "terminal",
        "budget",
        "resources",
        "segments",
        "repeat",
        "unit",
    }
    for name in ("Design", "Looks", "Stop", "FinalTest", "Scenario", "DesignOut", "ScenarioOut"):
        for key, field in schemas[name]["properties"].items():
            assert field.get("description"), (name, key)
    page = shown["paths"]["/api/v1/design/report"]["post"]["responses"]["200"]["content"]
    assert list(page) == ["text/html"]


def test_a_design_of_classes_is_answered_with_their_chances(site: Site) -> None:
    arm = {"prior": {"kind": "categorical", "counts": [1, 1, 1]}, "reward": {"values": [0, 1, 3]}}
    truth = [[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]
    problem = {
        "horizon": 4,
        "arms": [{"name": name, **arm} for name in "ab"],
        "design": {"policies": ["greedy"], "scenarios": [{"name": "one", "truth": truth}]},
    }
    (scenario,) = site.post("/design", {"problem": problem}, "viewer").json["scenarios"]
    assert scenario["truth"] == truth
    assert scenario["policies"][0]["exact"] is True
    report = site.post("/design/report", {"problem": problem}, "viewer")
    assert "0.2+0.3+0.5, mean 1.8" in report.body.decode()
