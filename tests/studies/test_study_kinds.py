"""Studies of problems whose outcomes are not good or bad: run, kept, shown, refused."""

import json
from pathlib import Path

import pytest

from decobandit import NormalNormal, Problem, load_problem, simulate
from decobandit.studies import StudyError, load_study
from helpers.program import deco

GRADES = """
horizon = 4

[[arms]]
name = "g"
count = 2
prior = { kind = "categorical", counts = [1, 1, 1] }
reward = { values = [0, 1, 3] }
"""
LENGTHS = """
horizon = 3

[[arms]]
name = "n"
count = 2
prior = { kind = "normal", mean = 0, sd = 1 }
noise_sd = 1
"""
STUDY = """
policies = ["deco", "ids", "optimal"]
draws = 20

[[problems]]
file = "grades.toml"

[[problems]]
file = "lengths.toml"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("grades", GRADES), ("lengths", LENGTHS), ("study", STUDY)):
        (tmp_path / f"{name}.toml").write_text(text)
    return tmp_path


def test_cells_of_kinds_have_the_numbers_of_a_simulation(folder: Path) -> None:
    run = deco("study", "run", folder / "study.toml", "--out", folder / "out")
    assert "lengths--optimal--seed-1: policy 'optimal' needs finitely many states" in run.err
    tree = json.loads((folder / "out" / "grades--ids--seed-1.json").read_text())
    problem: Problem = load_problem(folder / "grades.toml")
    (alone,) = simulate(problem, "ids", draws=20, rng=1).results
    assert tree["figures"]["value"] == pytest.approx(alone.estimates.best.value, abs=1e-12)
    assert tree["figures"]["regret"] == pytest.approx(alone.regret, abs=1e-12)
    shown = deco("study", "show", folder / "out", "--json")
    assert len(json.loads(shown.out)["cells"]) == 5


def test_a_design_of_classes_is_kept_and_read_again(folder: Path) -> None:
    text = STUDY.replace('"optimal"', '"equal"').partition('[[problems]]\nfile = "lengths')[0]
    truth = "[[0.3, 0.4, 0.3], [0.2, 0.3, 0.5]]"
    design = f'[design]\nscenarios = [{{ name = "better", truth = {truth} }}]\n\n[[problems]]'
    (folder / "design.toml").write_text(text.replace("[[problems]]", design, 1))
    run = deco("study", "run", folder / "design.toml", "--out", folder / "out")
    assert (run.code, run.err) == (0, "")
    shown = deco("study", "show", folder / "out", "--json")
    assert {cell["policy"] for cell in json.loads(shown.out)["cells"]} == {"deco", "ids", "equal"}


def test_a_prior_of_other_outcomes_is_refused_as_truth(folder: Path) -> None:
    (folder / "study.toml").write_text(STUDY + "truth_prior = { good = 2, bad = 5 }\n")
    reason = r"problems\[1\]: truth_prior: .* must be a prior as arm 'n-1' has, kind='normal'"
    with pytest.raises(StudyError, match=reason):
        load_study(folder / "study.toml")


@pytest.mark.parametrize("policy", ["deco", "ids"])
def test_plans_for_another_horizon_have_the_numbers_of_a_simulation(
    folder: Path, policy: str
) -> None:
    (folder / "study.toml").write_text(STUDY + "true_horizon = 5\n")
    deco("study", "run", folder / "study.toml", "--out", folder / "out")
    tree = json.loads((folder / "out" / f"lengths--{policy}--seed-1.json").read_text())
    problem: Problem = load_problem(folder / "lengths.toml")
    (alone,) = simulate(problem, policy, draws=20, rng=1, true_horizon=5).results
    assert tree["settings"]["true_horizon"] == 5
    assert tree["figures"]["value"] == pytest.approx(alone.estimates.best.value, abs=1e-12)
    # more stages than planned, each of which has an arm to pull
    assert len(tree["figures"]["curve"]["regret"]) == 5


def test_the_truth_of_classes_is_written_as_it_is_read(folder: Path) -> None:
    truth = "[[0.3, 0.4, 0.3], [0.2, 0.3, 0.5]]"
    text = f"""
policies = ["equal"]
[design]
scenarios = [{{ name = "better", truth = {truth} }}]
[[problems]]
file = "grades.toml"
"""
    (folder / "design.toml").write_text(text)
    assert deco("study", "run", folder / "design.toml", "--out", folder / "out").code == 0
    assert "0.3+0.4+0.3, 0.2+0.3+0.5" in deco("study", "show", folder / "out").out


def test_a_truth_prior_may_be_of_any_outcome_model(folder: Path) -> None:
    prior = '{ kind = "normal", mean = 2, sd = 0.5 }'
    (folder / "study.toml").write_text(STUDY + f"truth_prior = {prior}\n")
    assert deco("study", "run", folder / "study.toml", "--out", folder / "out").code is not None
    tree = json.loads((folder / "out" / "lengths--deco--seed-1.json").read_text())
    assert tree["settings"]["truth_prior"] == {"kind": "normal", "mean": 2.0, "sd": 0.5}
    problem = load_problem(folder / "lengths.toml")
    (alone,) = simulate(problem, "deco", draws=20, rng=1, truth_prior=NormalNormal(2, 0.5)).results
    assert tree["figures"]["value"] == pytest.approx(alone.estimates.best.value, abs=1e-12)
