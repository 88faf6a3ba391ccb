"""`deco design`: its JSON, its tables, and refusals in a line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from decobandit.cli.app import app

FILE = """
horizon = 16
[[arms]]
name = "control"
prior = { good = 3, bad = 7 }
[[arms]]
name = "new"
count = 2
[design]
policies = ["thompson", "equal"]
control = "control"
burn_in = 2
floor = 0.1
looks = { first = 8, every = 4 }
stop = { superiority = 0.97, inferiority = 0.02 }
test = { kind = "posterior", threshold = 0.9 }
draws = 400
[[design.scenarios]]
name = "null"
truth = [0.3, 0.3, 0.3]
[[design.scenarios]]
name = "one works"
truth = [0.3, 0.7, 0.3]
"""
KEYS = {
    "policy", "good", "good_sd", "pulls", "pulls_sd", "best_share", "select_best", "reject",
    "reject_by_arm", "size", "size_sd", "stopped", "bias", "rmse", "exact",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trial.toml"
    path.write_text(FILE)
    return path


def test_json_has_every_characteristic_by_scenario_and_policy(file: Path) -> None:
    result = CliRunner().invoke(app, ["design", str(file), "--json"])
    assert result.exit_code == 0, result.output
    tree = json.loads(result.stdout)
    assert [each["name"] for each in tree["scenarios"]] == ["null", "one works"]
    assert (tree["seed"], tree["draws"], tree["ties"]) == (1, 400, "least-pulled")
    for scenario in tree["scenarios"]:
        for row in scenario["policies"]:
            assert row.keys() >= KEYS
            assert sum(row["pulls"]) == pytest.approx(row["size"])
            assert row["exact"]
            assert not any(key.endswith("_se") for key in row)
    assert tree["scenarios"][0]["policies"][0]["select_best"] is None
    assert tree["scenarios"][0]["null"]


def test_simulated_numbers_have_errors_and_repeat_with_their_seed(file: Path) -> None:
    file.write_text(file.read_text().replace("burn_in = 2", "burn_in = 2\ndelay = 2"))
    runs = [
        CliRunner().invoke(app, ["design", str(file), "--json", "--draws", "300", "--seed", seed])
        for seed in ("5", "5", "6")
    ]
    first, same, other = (
        [each["good"] for each in json.loads(run.stdout)["scenarios"][1]["policies"]]
        for run in runs
    )
    assert first == same != other
    row = json.loads(runs[0].stdout)["scenarios"][1]["policies"][0]
    assert not row["exact"]
    assert row["good_se"] == pytest.approx(row["good_sd"] / 300**0.5)
    assert len(row["pulls_se"]) == 3


def test_tables_say_what_a_null_is_and_what_was_calibrated(file: Path) -> None:
    result = CliRunner().invoke(app, ["design", str(file), "--calibrate", "0.1"])
    assert result.exit_code == 0, result.output
    assert "all arms are equal: there is no best one to select" in result.stdout
    assert "thompson: test.threshold = 0." in result.stdout
    assert "at most 0.1" in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("[[design.scenarios]]", "[[design.scenario]]", "design.scenario: unknown key"),
        ('"thompson"', '"tomson"', "no policy is called 'tomson'; did you mean 'thompson'?"),
        ("[design]", "[[arms]]\nname='x'\n[design]", "design.scenarios[0].truth: a list of 3"),
    ],
)
def test_bad_files_are_refused_in_a_line(file: Path, old: str, new: str, line: str) -> None:
    file.write_text(file.read_text().replace(old, new))
    result = CliRunner().invoke(app, ["design", str(file)])
    assert line in str(result.exception)
    assert "\n" not in str(result.exception)
