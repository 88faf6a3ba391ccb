"""Studies of designs: the numbers of `deco design`, a grid of rules, kept and shown as ever."""

import csv
import json
import pickle
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from decobandit import Problem, load_design, operating_characteristics
from decobandit.studies import (
    CellScenario,
    DesignRow,
    collect_folder,
    load_study,
    rows_of,
    run_study,
    save_csv,
    save_markdown,
    save_parquet,
)
from decobandit.studies.records import read_cell
from helpers.program import deco
from helpers.refusals import refused

TRIAL = """
horizon = 12
[[arms]]
name = "control"
prior = { good = 3, bad = 7 }
[[arms]]
name = "new"
count = 2
[design]
policies = ["thompson", "equal"]
control = "control"
burn_in = 1
delay = 2
looks = { first = 6, every = 3 }
stop = { superiority = 0.95 }
test = { kind = "posterior", threshold = 0.9 }
draws = 150
seed = 7
[[design.scenarios]]
name = "nothing works"
truth = [0.3, 0.3, 0.3]
[[design.scenarios]]
name = "one works | well"
truth = [0.3, 0.7, 0.3]
"""
STUDY = """
[design]
[[problems]]
file = "trial.toml"
[[problems]]
file = "trial.toml"
name = "floor"
design = { floor = 0.2 }
[[problems]]
arms = 2
horizon = 8
design = { policies = ["greedy"], scenarios = [{ name = "one", truth = [0.2, 0.7] }] }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "trial.toml").write_text(TRIAL, encoding="utf-8")
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, run once."""
    folder = tmp_path_factory.mktemp("designs")
    (folder / "trial.toml").write_text(TRIAL, encoding="utf-8")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    assert run_study(load_study(folder / "study.toml"), folder / "study").computed == 9
    return folder


def designed(folder: Path) -> list[DesignRow]:
    rows = [row for row in rows_of(collect_folder(folder).finished) if isinstance(row, DesignRow)]
    assert len(rows) == 9
    return rows


def test_numbers_are_those_of_deco_design(made: Path) -> None:
    for name, extra in (("trial", ""), ("floor", "floor = 0.2\n")):
        alone = made / "alone.toml"
        alone.write_text(TRIAL.replace("burn_in = 1\n", f"burn_in = 1\n{extra}"), encoding="utf-8")
        tree = deco("design", alone, "--json").json
        for number, scenario in enumerate(tree["scenarios"], 1):
            for each in scenario["policies"]:
                path = made / "study" / f"{name}--scenario-{number}--{each['policy']}--seed-7.json"
                cell = json.loads(path.read_text(encoding="utf-8"))
                del each["seconds"]
                assert cell["figures"]["characteristics"] == each
                assert cell["figures"]["value"] == each["good"]


def test_a_cell_that_can_be_followed_is_exact(made: Path) -> None:
    (row,) = [row for row in designed(made / "study") if row.policy == "greedy"]
    assert row.exact
    assert (row.value_se, row.method, row.reject_se) == (0.0, "exact", None)
    # Wald: every pull of an arm is good with the arm's probability
    first, second = map(float, row.pulls.split())
    assert row.value == pytest.approx(0.2 * first + 0.7 * second, abs=1e-12)
    assert first + second == pytest.approx(row.size, abs=1e-12)


def test_what_the_study_says_comes_before_what_its_files_say(file: Path) -> None:
    text = (
        'policies = ["greedy"]\nseeds = [1, 2]\ndraws = 30\n'
        + STUDY.partition("[[problems]]\na")[0]
    )
    file.write_text(text.replace("[design]\n", "[design]\nburn_in = 2\n", 1), encoding="utf-8")
    cells = load_study(file).cells
    assert [cell.name for cell in cells[:4]] == [
        f"trial--scenario-{number}--greedy--seed-{seed}" for number in (1, 2) for seed in (1, 2)
    ]
    rules = {
        (cell.problem_name, cell.design.burn_in, cell.design.floor) for cell in cells if cell.design
    }
    assert rules == {("trial", 2, 0.0), ("floor", 2, 0.2)}
    assert {(cell.draws, cell.per_draw) for cell in cells} == {(30, 1)}
    assert cells[2].scenario == CellScenario("one works | well", (0.3, 0.7, 0.3), 1)


def test_cells_come_back_from_their_files_and_from_workers(made: Path) -> None:
    cells = load_study(made / "study.toml").cells
    for cell in cells:
        assert read_cell(made / "study" / cell.file).cell == cell
        assert pickle.loads(pickle.dumps(cell)) == cell


def test_tables_have_the_characteristics_and_read_back_exactly(made: Path, tmp_path: Path) -> None:
    table = designed(made / "study")
    for name, save in (("a.csv", save_csv), ("a.pq", save_parquet), ("a.md", save_markdown)):
        save(table, tmp_path / name)
    assert pq.read_table(tmp_path / "a.pq").to_pylist() == [asdict(row) for row in table]
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as text:
        read = list(csv.DictReader(text))
    assert [float(row["reject"]) for row in read] == [row.reject for row in table]
    head, _, *lines = (tmp_path / "a.md").read_text(encoding="utf-8").splitlines()
    assert head == "| good outcomes | `thompson` | `equal` | `greedy` |"
    assert len(lines) == 5
    thompson = table[0]
    assert lines[1].startswith("| trial: one works \\| well | ")
    assert f"| trial: nothing works | {thompson.value:.3f} ± {thompson.value_se:.3f}" in lines[0]


def test_show_prints_a_table_for_every_scenario(made: Path, tmp_path: Path) -> None:
    shown = deco("study", "show", made / "study", "--out", tmp_path / "good.png")
    assert (shown.code, (tmp_path / "good.png").read_bytes()[:4]) == (0, b"\x89PNG")
    assert "floor: one works | well: 0.3, 0.7, 0.3" in shown.out
    for row in designed(made / "study"):
        assert f"{row.reject:.4f}" in shown.out
    assert "9 cells, 0 missing" in shown.out


def test_only_missing_cells_are_computed_and_other_rules_are_refused(
    made: Path, file: Path
) -> None:
    folder = file.parent / "study"
    folder.mkdir()
    kept = [path for path in (made / "study").iterdir() if "scenario-2--equal" not in path.name]
    for path in kept:
        (folder / path.name).write_bytes(path.read_bytes())
    assert run_study(load_study(file), folder).computed == 2
    for path in (made / "study").iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    file.write_text(STUDY.replace("floor = 0.2", "floor = 0.3"), encoding="utf-8")
    with refused("invalid_study"):
        run_study(load_study(file), folder)


def test_a_policy_that_cannot_obey_fails_alone(file: Path) -> None:
    file.write_text('policies = ["optimal", "equal"]\n' + STUDY, encoding="utf-8")
    ran = run_study(load_study(file), file.parent / "study")
    assert set(ran.failed) == {
        f"{name}--scenario-{number}--optimal--seed-7"
        for name in ("trial", "floor")
        for number in (1, 2)
    }
    assert ran.computed == 6


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("floor = 0.2", "floor = 2", "problems[1]: design.floor: 2 is not allowed"),
        ("floor = 0.2", "flor = 0.2", "problems[1]: design.flor: unknown key"),
        ("floor = 0.2", 'policies = ["no"]', 'problems[1]: design.policies[0]: "no"'),
        ("floor = 0.2", "scenarios = []", "problems[1]: design.scenarios: required"),
        ("floor = 0.2", 'control = "x"', 'problems[1]: design.control: "x" is not allowed'),
        ("[0.2, 0.7]", "[0.2]", "problems[2]: design.scenarios[0].truth:"),
        ("[design]\n", "", "problems[1].design: "),
        ("[design]\n", "per_draw = 2\n[design]\n", "per_draw: 2 is not allowed; must be left out"),
        ("[design]\n", "design = 3\n", "design: 3 is not allowed; must be a table"),
        ("horizon = 8", "horizon = 8\ntrue_horizon = 9", "problems[2].true_horizon: 9"),
    ],
)
def test_what_is_refused_names_its_place(file: Path, old: str, new: str, said: str) -> None:
    text = STUDY.replace(old, new, 1)
    if old == "[design]\n" and not new:
        text = 'policies = ["greedy"]\n' + text
    file.write_text(text, encoding="utf-8")
    with refused("invalid_study") as refusal:
        load_study(file)
    assert str(refusal.value).startswith(f"{file}: ")
    assert "\n" not in str(refusal.value)


def test_a_study_without_a_design_still_simulates_a_file_that_has_one(file: Path) -> None:
    file.write_text('policies = ["greedy"]\n[[problems]]\nfile = "trial.toml"\n', encoding="utf-8")
    (cell,) = load_study(file).cells
    assert (cell.design, cell.scenario, cell.name) == (None, None, "trial--greedy--seed-1")
    assert cell.problem != Problem.uniform(arms=3, horizon=12)


GRADES = """horizon = 4
[[arms]]
name = "score"
prior = { kind = "categorical", counts = [2, 1, 1] }
reward = { values = [0, 1, 3] }
[[arms]]
name = "dose"
prior = { kind = "normal", mean = 1.0, sd = 0.5 }
noise_sd = 1.0
[design]
policies = ["greedy", "equal"]
draws = 60
[[design.scenarios]]
name = "one"
truth = [[0.5, 0.25, 0.25], 2.0]
"""


def test_scenarios_of_other_outcomes_are_studied(tmp_path: Path) -> None:
    (tmp_path / "grades.toml").write_text(GRADES, encoding="utf-8")
    text = '[design]\nburn_in = 1\n[[problems]]\nname = "g"\nfile = "grades.toml"\n'
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    study, folder = load_study(tmp_path / "study.toml"), tmp_path / "study"
    assert run_study(study, folder).computed == 2
    assert run_study(study, folder).computed == 0
    problem, design = load_design(tmp_path / "grades.toml")
    ruled = design.model_copy(update={"burn_in": 1})
    (scenario,) = operating_characteristics(problem, ruled).scenarios
    rows = [row for row in rows_of(collect_folder(folder).finished) if isinstance(row, DesignRow)]
    assert {row.truth for row in rows} == {"0.5+0.25+0.25 2.0"}
    expected = {each.policy: (each.good, each.reject) for each in scenario.policies}
    assert {row.policy: (row.value, row.reject) for row in rows} == expected
