"""Solution files: what is saved decides the same, and what was edited badly is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import make_policy
from decobandit.prices import DualSolution, load_solution, read_solution, save_solution, solve
from decobandit.problem import TIE_RULES, ProblemError
from helpers.examples import KINDS, random_state
from helpers.refusals import refused


def solved(kind: str, horizon: int = 5) -> DualSolution:
    return solve(KINDS[kind](horizon), tol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_is_read_back(tmp_path: Path, kind: str) -> None:
    solution = solved(kind)
    save_solution(solution, tmp_path / "solution.json")
    found = load_solution(tmp_path / "solution.json")
    assert found.problem == solution.problem
    assert found.prices.tolist() == solution.prices.tolist()  # to the last digit
    for field in ("upper_bound", "lower_bound", "tol", "oracle_calls", "seconds", "interrupted"):
        assert getattr(found, field) == getattr(solution, field)
    assert found.to_dict() == solution.to_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_that_is_read_back_decides_the_same(tmp_path: Path, kind: str) -> None:
    solution = solved(kind)
    policy = make_policy(solution.problem, "deco", solution=solution, ties="most-pulled")
    save_solution(solution, tmp_path / "policy.json", ties="most-pulled")
    read, ties = read_solution(tmp_path / "policy.json")
    found = make_policy(read.problem, "deco", solution=read, ties=ties)
    rng = np.random.default_rng(8)
    for _ in range(100):
        stage = int(rng.integers(solution.problem.stages))
        state = random_state(solution.problem, stage, rng)
        assert found.select(stage, state) == policy.select(stage, state)
        assert found.indices(stage, state).tolist() == policy.indices(stage, state).tolist()


@pytest.mark.parametrize("ties", TIE_RULES)
def test_tie_rules_are_kept(tmp_path: Path, ties: Any) -> None:
    solution = solved("uniform")
    save_solution(solution, tmp_path / "policy.json", ties=ties)
    assert read_solution(tmp_path / "policy.json")[1] == ties


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "solution.json"
    path.write_text("old", encoding="utf-8")
    save_solution(solved("uniform"), path)
    assert load_solution(path).problem == KINDS["uniform"](5)
    assert list(tmp_path.iterdir()) == [path]


# -- files that were edited badly ---------------------------------------------------------------


def put(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda tree: tree.update({key: value})


def drop(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda tree: tree.pop(key)


EDITS = {
    "too few multipliers": (put("multipliers", [0.5] * 4), "multipliers: 4 numbers"),
    "too many multipliers": (put("multipliers", [0.5] * 6), "multipliers: 6 numbers"),
    "text for a price": (put("multipliers", ["0.5"] * 5), r"multipliers\.0: "),
    "NaN for a price": (put("multipliers", [0.5] * 4 + [float("nan")]), r"multipliers\.4: "),
    "infinite bound": (put("upper_bound", float("inf")), "upper_bound: "),
    "bounds in the wrong order": (put("lower_bound", 1e6), "lower_bound: must not exceed"),
    "negative tolerance": (put("tol", -1.0), "tol: "),
    "fractional calls": (put("oracle_calls", 1.5), "oracle_calls: "),
    "unknown key": (put("colour", "red"), "colour: "),
    "missing key": (drop("upper_bound"), "upper_bound: "),
    "missing problem": (drop("problem"), "problem: "),
    "other format": (put("format", "decobandit-solution-2"), "format: "),
    "unknown tie rule": (put("ties", "any"), "ties: "),
    "price of no deployment": (put("deployment_price", 3.0), "deployment_price: "),
    "no arms": (lambda tree: tree["problem"].update(arms=[]), "problem: arms"),
    "negative prior": (
        lambda tree: tree["problem"]["arms"][0]["prior"].update(good=-1),
        r"problem: arms\[0\]\.prior\.good",
    ),
    "longer horizon": (lambda tree: tree["problem"].update(horizon=6), "multipliers: 5 numbers"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_bad_edits_are_refused_with_file_and_key(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "solution.json"
    save_solution(solved("uniform"), path)
    tree = json.loads(path.read_text(encoding="utf-8"))
    change, message = EDITS[edit]
    change(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(ProblemError, match=message) as info:
        load_solution(path)
    assert str(info.value).startswith(f"{path}: ")
    assert "\n" not in str(info.value)


def test_a_deployment_without_its_price_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "solution.json"
    save_solution(solved("deployed"), path)
    tree = json.loads(path.read_text(encoding="utf-8"))
    del tree["deployment_price"]
    path.write_text(json.dumps(tree), encoding="utf-8")
    with refused("invalid_problem"):
        load_solution(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "0", '"text"'])
def test_other_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "solution.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProblemError) as info:
        load_solution(path)
    assert str(info.value).startswith(f"{path}: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with refused("invalid_problem"):
        load_solution(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["solution", "solution.txt", "solution.toml"])
def test_a_name_that_cannot_be_read_back_is_refused_when_saving(tmp_path: Path, name: str) -> None:
    with refused("invalid_problem"):
        save_solution(solved("uniform"), tmp_path / name)
    assert list(tmp_path.iterdir()) == []
