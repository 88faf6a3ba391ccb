"""Records of a study: what a file becomes, what goes to workers, and what a study does not know."""

import ast
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import decobandit
from decobandit import Arm, BetaBernoulli, Problem, Reward, Terminal
from decobandit.policies import POLICIES
from decobandit.studies import Cell, CellResult, FinishedCell, collect_folder, rows_of
from decobandit.studies.records import read_cell, write_cell
from helpers.refusals import refused

# written by hand, as files have been since the first study
FILE = """{
 "figures": {
  "curve": {
   "regret": [
    0.1,
    0.30000000000000004
   ],
   "regret_se": [
    0.0,
    0.01
   ]
  },
  "estimates": {
   "plain": {
    "value": 1.5,
    "value_se": 0.02
   }
  },
  "method": "plain",
  "regret": 0.30000000000000004,
  "regret_se": 0.02,
  "upper_bound": null,
  "value": 1.5,
  "value_se": 0.02
 },
 "format": "decobandit-cell-1",
 "settings": {
  "draws": 4,
  "name": "trial",
  "per_draw": 2,
  "policy": "greedy",
  "problem": {
   "arms": [
    {
     "name": "Placebo Ä",
     "prior": {
      "bad": 0.3333333333333333,
      "good": 2.0
     },
     "reward": {
      "bad": 0.0,
      "good": [
       1.0,
       2.5
      ]
     }
    },
    {
     "count": 2,
     "name": "dose",
     "prior": {
      "bad": 1.0,
      "good": 1.0
     },
     "reward": {
      "bad": 0.0,
      "good": 1.0
     }
    }
   ],
   "horizon": 2,
   "pulls_per_stage": 1,
   "terminal": {
    "deploy": 3.0
   }
  },
  "seed": 7,
  "ties": "least-pulled",
  "tol": 0.0001,
  "true_horizon": null,
  "truth_prior": {
   "bad": 4.0,
   "good": 1.0
  }
 },
 "version": "VERSION"
}
""".replace("VERSION", decobandit.__version__)
PROBLEM = Problem(
    arms=(
        Arm(
            name="Placebo Ä", prior=BetaBernoulli(good=2, bad=1 / 3), reward=Reward(good=(1.0, 2.5))
        ),
        Arm(name="dose-1"),
        Arm(name="dose-2"),
    ),
    horizon=2,
    terminal=Terminal(deploy=3.0),
)
CELL = Cell(
    problem_name="trial",
    problem=PROBLEM,
    policy="greedy",
    seed=7,
    draws=4,
    per_draw=2,
    ties="least-pulled",
    tol=1e-4,
    truth_prior=BetaBernoulli(good=1, bad=4),
    true_horizon=None,
)
RESULT = CellResult(
    value=1.5,
    value_se=0.02,
    regret=0.1 + 0.2,
    regret_se=0.02,
    upper_bound=None,
    method="plain",
    estimates={"plain": {"value": 1.5, "value_se": 0.02}},
    curve={"regret": (0.1, 0.1 + 0.2), "regret_se": (0.0, 0.01)},
)


def test_a_record_becomes_its_file_and_the_file_its_record(tmp_path: Path) -> None:
    path = tmp_path / CELL.file
    write_cell(CELL, RESULT, tmp_path)
    assert path.name == "trial--greedy--seed-7.json"
    assert path.read_text(encoding="utf-8") == FILE
    assert read_cell(path) == FinishedCell(CELL, RESULT, decobandit.__version__)


@pytest.mark.parametrize(
    ("old", "new", "place", "rule"),
    [
        ('"good": 2.0', '"good": -2.0', "settings.problem", "arms[0].prior.good: -2.0"),
        ('"draws": 4', '"draws": "4"', "settings.draws", "valid integer"),
        ('"value": 1.5', '"value": NaN', "figures.value", "finite"),
        ('"name": "trial"', '"name": "../trial"', "settings.name", "it names files"),
        ('"method"', '"methods"', "figures.method", ""),
    ],
)
def test_a_file_that_makes_no_record_is_refused_with_the_place(
    tmp_path: Path, old: str, new: str, place: str, rule: str
) -> None:
    path = tmp_path / CELL.file
    # the last of them: there is an estimate with the value of the cell
    path.write_text(new.join(FILE.rsplit(old, maxsplit=1)), encoding="utf-8")
    with refused("invalid_study") as refusal:
        collect_folder(tmp_path)
    (message,) = str(refusal.value).splitlines()
    assert f"{path}: not a file of a study: {place}" in message
    assert rule in message


def test_a_file_that_leaves_out_defaults_of_the_problem_is_the_same_cell(tmp_path: Path) -> None:
    tree = json.loads(FILE)
    tree["settings"]["problem"]["arms"][1] = {"name": "dose", "count": 2}
    path = tmp_path / CELL.file
    path.write_text(json.dumps(tree), encoding="utf-8")
    assert read_cell(path).cell == CELL


def test_cells_and_results_come_through_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(CELL)) == CELL
    assert pickle.loads(pickle.dumps(RESULT)) == RESULT


def test_a_cell_of_many_equal_arms_is_small_on_its_way() -> None:
    cell = replace(CELL, problem=Problem.uniform(arms=20_000, horizon=3))
    text = pickle.dumps(cell)
    assert len(text) < 1000
    one, two = pickle.loads(text), pickle.loads(text)
    assert one == cell
    assert one.problem is two.problem  # so that a worker solves its dual once


def test_a_row_has_the_counts_of_the_problem() -> None:
    (row,) = rows_of([FinishedCell(CELL, RESULT, "1.0")])
    assert (row.problem, row.arms, row.horizon, row.pulls_per_stage) == ("trial", 3, 2, 1)
    assert (row.truth_prior_good, row.truth_prior_bad, row.version) == (1.0, 4.0, "1.0")


def test_studies_know_no_policy_by_name() -> None:
    folder = Path(decobandit.__file__).parent / "studies"
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not texts & set(POLICIES), path.name
