"""`deco design`: its JSON, its tables, and refusals in a line."""

import html
import json
import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from decobandit import bound, load_problem
from decobandit.cli.app import app
from decobandit.designs import designing, reporting
from decobandit.figures.report_page import BROWSERS
from decobandit.trials import open_store, open_trial
from helpers.program import DECO, PLAIN, deco_at_terminal, json_object
from helpers.refusals import refused

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
    "policy",
    "good",
    "good_sd",
    "pulls",
    "pulls_sd",
    "best_share",
    "select_best",
    "reject",
    "reject_by_arm",
    "reject_best",
    "reject_wrong",
    "size",
    "size_sd",
    "stopped",
    "bias",
    "rmse",
    "exact",
}


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


def test_inference_is_printed_where_it_is_asked_for(file: Path) -> None:
    words = ["design", str(file), "--draws", "100", "--policy", "thompson"]
    assert "estimates" not in CliRunner().invoke(app, words).stdout.partition("--json")[0]
    result = CliRunner().invoke(app, [*words, "--inference"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert "thompson: estimates and 95% intervals" in result.stdout
    assert re.search(r"weighted +control", result.stdout)
    assert "thompson: left out: odds ratio, p-value" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    result = CliRunner().invoke(app, [*words, "--inference", "--power", "0.8"])
    assert result.exit_code == 2
    assert "--inference" in result.output


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("policies", ['["thompson"]', '["thompson", "greedy"]'])
@pytest.mark.parametrize("ending", ["toml", "json"])
def test_a_calibrated_file_holds_its_type_one_error_in_designs_and_trials(
    file: Path, policies: str, ending: str
) -> None:
    text = re.sub("policies = .*", f"policies = {policies}", file.read_text())
    file.write_text(text)
    saved = file.with_name(f"calibrated.{ending}")
    first = json.loads(run("design", file, "--calibrate", 0.1, "--out", saved, "--json"))
    again = json.loads(run("design", saved, "--json"))
    fitted = {one["policy"]: one["threshold"] for one in first["calibration"]}
    for row in again["scenarios"][0]["policies"]:
        assert row["threshold"] == fitted[row["policy"]]
        assert 0.0 < row["reject"] <= 0.1
    report = file.with_name("report.html")
    run("design", saved, "--report", report)
    rules = report.read_text().partition("<h2>Priors</h2>")[0]
    db = file.with_name("trials.db")
    for policy, threshold in fitted.items():
        assert f"{threshold:.6g}" in rules
        run("trial", "new", saved, "--policy", policy, "--name", policy, "--db", db)
        with open_store(db) as store:
            settings = open_trial(policy, db=store).settings.rules
        assert settings.final_test.level == threshold
        assert settings.thresholds is None


def test_calibrated_files_need_a_level_to_calibrate_to(file: Path) -> None:
    out = file.with_name("calibrated.toml")
    result = CliRunner().invoke(app, ["design", str(file), "--out", str(out)])
    assert result.exit_code == 2
    assert not out.exists()


def test_simulate_says_first_that_it_plays_without_the_rules(file: Path) -> None:
    lines = run("simulate", file, "--policy", "equal", "--draws", 20).splitlines()
    assert "without the rules" in lines[0]
    as_json = CliRunner().invoke(
        app, ["simulate", str(file), "--policy", "equal", "--draws", "20", "--json"]
    )
    assert "results" in json.loads(as_json.stdout)
    assert "without the rules" in as_json.stderr.splitlines()[0]


# -- the report -----------------------------------------------------------------------------------


def cells(page: str, title: str, number: int = 0) -> list[list[str]]:
    """The cells of a table of a section."""
    part = page.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0]
    body = part.split("<tbody>")[number + 1].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body)
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in rows
    ]


def test_the_report_has_the_numbers_of_the_design_beside_equal_allocation(file: Path) -> None:
    text = file.read_text().replace(', "equal"]', ']\nquestion = "Does <new> work?"')
    file.write_text(text)
    page = file.with_name("report.html")
    result = CliRunner().invoke(app, ["design", str(file), "--report", str(page), "--json"])
    assert result.exit_code == 0, result.output
    tree, shown = json.loads(result.stdout), page.read_text()
    for scenario in tree["scenarios"]:
        rows = cells(shown, f"Scenario {scenario['name']}")
        assert [row[0] for row in rows] == ["thompson", "equal"]
        for row, each in zip(rows, scenario["policies"], strict=True):
            assert row[1] == f"{each['good']:.2f}"
            assert row[6] == f"{each['reject']:.3f}"
    # Wald's identity: where nothing works, every pull is good with the same probability
    equal = tree["scenarios"][0]["policies"][1]
    assert equal["good"] == pytest.approx(0.3 * equal["size"])
    said = {row[0] for row in cells(shown, "Sensitivity to priors")}
    assert said == {
        "as planned",
        "uniform priors",
        "half the effective sample sizes",
        "twice the effective sample sizes",
    }
    assert "Does &lt;new&gt; work?" in shown
    assert f"{bound(load_problem(file))[0].value:.3f}" in shown
    assert html.escape(text.strip()) in shown.replace("&#34;", "&quot;")


def test_the_command_of_a_report_computes_the_same_report(file: Path) -> None:
    file.write_text(file.read_text().replace("burn_in = 2", "burn_in = 2\ndelay = 2"))
    page = file.with_name("report.html")
    options = ["--draws", "150", "--seed", "7", "--ties", "random", "--report", str(page)]
    assert CliRunner().invoke(app, ["design", str(file), *options]).exit_code == 0
    first = page.read_text()
    assert "150 trials" in first
    (line,) = re.findall(r"^deco (design .*)</code>", first, re.MULTILINE)
    words = shlex.split(html.unescape(line))
    names = {file.name: str(file), "report.html": str(page)}
    page.unlink()
    again = CliRunner().invoke(app, [names.get(word, word) for word in words])
    assert again.exit_code == 0, again.output
    assert page.read_text() == first


@pytest.mark.parametrize(
    ("at", "expected", "missing"),
    [
        (2, ["thompson"], "bound and sensitivity to priors: interrupted"),
        (3, ["thompson", "equal"], "bound and what comes after it: interrupted"),
        (5, ["thompson", "equal"], "half the effective sample sizes and what comes after it"),
    ],
)
def test_ctrl_c_keeps_what_is_finished(
    file: Path, monkeypatch: pytest.MonkeyPatch, at: int, expected: list[str], missing: str
) -> None:
    """Interrupted in the second policy, in the bound, in the second of the other priors."""
    stop_at(monkeypatch, at)
    page = file.with_name("report.html")
    result = CliRunner().invoke(app, ["design", str(file), "--report", str(page), "--json"])
    assert result.exit_code == 0, result.output
    tree, shown = json.loads(result.stdout), page.read_text()
    assert [each["policy"] for each in tree["scenarios"][0]["policies"]] == expected
    assert tree["interrupted"] == (at == 2)
    assert missing in shown
    assert ("uniform priors" in shown) == (at == 5)


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Ctrl-C at a step of the report: policies as planned (1, 2), the bound (3), variants (4...)"""
    policies, bound, seen = designing.make_policies, reporting.bound, [0]

    def counted(whole: bool, made: Any) -> Any:
        def step_of(*args: Any, **named: Any) -> Any:
            if whole or seen[0] < 3 or args[1] == ["thompson"]:  # a variant is one step
                seen[0] += 1
            if seen[0] == step:
                raise KeyboardInterrupt
            return made(*args, **named)

        return step_of

    monkeypatch.setattr(designing, "make_policies", counted(False, policies))
    monkeypatch.setattr(reporting, "bound", counted(True, bound))


SLOW = """
horizon = 140
[[arms]]
name = "arm"
count = 2
[design]
policies = ["equal", "thompson"]
[[design.scenarios]]
name = "null"
truth = [0.3, 0.3]
[[design.scenarios]]
name = "one works"
truth = [0.3, 0.5]
"""


def test_a_signal_ends_a_design_with_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "slow.toml"
    path.write_text(SLOW)
    stopped = deco_at_terminal("design", path, "--json", interrupt_at="thompson")
    tree = json_object(stopped.out)
    assert (stopped.code, tree["interrupted"]) == (0, True)
    assert "interrupted: these are the policies and scenarios that were finished" in stopped.err
    assert "Traceback" not in stopped.err
    for scenario in tree["scenarios"]:
        (equal,) = scenario["policies"]
        assert equal["good"] == pytest.approx(70 * sum(scenario["truth"]))  # 70 pulls of each arm


def test_a_signal_before_anything_is_finished_ends_with_code_130(tmp_path: Path) -> None:
    path = tmp_path / "slow.toml"
    path.write_text(SLOW.replace('"equal", ', ""))
    stopped = deco_at_terminal("design", path, interrupt_at="thompson")
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err.rstrip().endswith("deco: interrupted")
    assert "Traceback" not in stopped.err


def test_scenarios_that_are_finished_are_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, seen = designing._Task.ends, [0]

    def stopping(*args: Any) -> Any:
        seen[0] += 1
        if seen[0] == 4:  # the second scenario of the second policy
            raise KeyboardInterrupt
        return ends(*args)

    monkeypatch.setattr(designing._Task, "ends", stopping)
    result = CliRunner().invoke(app, ["design", str(file), "--json"])
    tree = json.loads(result.stdout)
    names = [[each["policy"] for each in one["policies"]] for one in tree["scenarios"]]
    assert names == [["thompson", "equal"], ["thompson"]]
    assert tree["interrupted"]


def test_nothing_is_written_where_nothing_was_finished(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, 1)
    page = file.with_name("report.html")
    result = CliRunner().invoke(app, ["design", str(file), "--report", str(page)])
    assert result.exit_code != 0
    assert not page.exists()


def test_a_report_is_printed_to_pdf_where_a_program_can(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file.with_name("report.pdf")
    words = ["design", str(file), "--draws", "100", "--report", str(path)]
    if any(map(shutil.which, BROWSERS)) or find_spec("weasyprint"):
        assert CliRunner().invoke(app, words).exit_code == 0
        assert path.read_bytes().startswith(b"%PDF-")
        path.unlink()
    monkeypatch.setattr("decobandit.figures.report_page.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(file.parent))
    with refused("unsupported", "report"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert not path.exists()


def test_reports_that_cannot_be_written_are_refused_before_the_work(file: Path) -> None:
    bad = {
        "nowhere/report.html": "no such directory as",
        "report.txt": "must end in .html",
        ".": "is a directory; give a file",
    }
    for name, line in bad.items():
        said = program(["design", str(file), "--report", str(file.parent / name)])
        assert line in said
    file.write_text(file.read_text().partition("[design]")[0])
    said = program(["design", str(file), "--report", str(file.with_name("report.html"))])
    assert "design: required key is missing" in said


def program(arguments: list[str]) -> str:
    """What a command says that ends with exit code 2."""
    done = subprocess.run(
        [DECO, *arguments], capture_output=True, text=True, env={**os.environ, **PLAIN}, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    return done.stderr


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
    assert str(result.exception).startswith(f"{file}: ")
    assert "\n" not in str(result.exception)


def test_a_design_without_scenarios_is_refused_with_the_name_of_its_file(file: Path) -> None:
    file.write_text(FILE.partition("[[design.scenarios]]")[0])
    result = CliRunner().invoke(app, ["design", str(file)])
    assert str(result.exception) == f"{file}: design.scenarios: required key is missing"
