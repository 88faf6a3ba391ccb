"""The page on file formats has every key that files may have, and no other."""

import csv
import re
from pathlib import Path

import pytest

from decobandit import Arm, Design, Problem, Segment, Terminal
from decobandit.problem.design_model import Scenario
from decobandit.studies.study_files import _ProblemEntry, _StudyFile
from decobandit.trials import create_trial, outcomes_csv
from decobandit.trials.events import KINDS
from helpers.documented import ROOT

PAGE = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
DESIGNS = (ROOT / "docs" / "guide" / "designs.md").read_text(encoding="utf-8")


def section(title: str, page: str = PAGE) -> str:
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    return str(found)


def keys(text: str) -> set[str]:
    """Names in the first column of the first table."""
    rows = re.search(r"^\|---.*\n((?:\|.*\n)+)", text, re.M)
    assert rows is not None
    return {
        key for row in rows[1].splitlines() for key in re.findall(r"`([^`]*)`", row.split("|")[1])
    }


def test_the_keys_of_a_problem_are_those_that_are_read() -> None:
    own = set(Problem.model_fields) - {"terminal", "random_horizon"} | {"design"}
    own |= {f"terminal.{name}" for name in Terminal.model_fields}
    own |= {f"segments[].{name}" for name in Segment.model_fields}
    arms = {f"arms[].{name}" for name in (*Arm.model_fields, "count")}
    assert keys(section("Problem")) == own | arms


def test_the_keys_of_a_study_are_those_that_are_read() -> None:
    listed = {key.removeprefix("problems[].") for key in keys(section("Study"))}
    assert listed == set(_StudyFile.model_fields) | set(_ProblemEntry.model_fields)


def test_the_keys_of_a_design_are_those_that_are_read() -> None:
    assert keys(section("The keys", DESIGNS)) == set(Design.model_fields)
    assert set(Scenario.model_fields) == {"name", "truth"}


def test_the_kinds_of_events_and_the_columns_of_exports_are_listed(
    tmp_path: Path,
) -> None:
    text = section("Trial log and export")
    (row,) = (line for line in text.splitlines() if line.startswith("| `kind`"))
    assert set(re.findall(r"`([^`]*)`", row.split("|")[2])) == set(KINDS)
    db = tmp_path / "t.db"
    single = Problem.uniform(arms=2, horizon=2)
    batches = Problem.uniform(arms=2, horizon=2, pulls_per_stage=2, repeat=True)
    for name, problem in (("single", single), ("batches", batches)):
        trial = create_trial(problem, policy="equal", bound=False, name=name, db=db)
        trial.ask()
        header = next(csv.reader(outcomes_csv(trial.events()).splitlines()))
        assert ", ".join(f"`{key}`" for key in header) in re.sub(
            r" \(where outcomes.*?\)", "", text
        ).replace(",\n", ", ")


def test_a_missing_key_is_found() -> None:
    assert keys("| key |\n|---|\n| `a`, `b` | `c` |\n") == {"a", "b"}
    with pytest.raises(ValueError, match="not enough values"):
        section("No such section")
