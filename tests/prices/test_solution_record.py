"""A solution as plain values: one record; files, logs and `deco solve --json` are views of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from decobandit import __version__
from decobandit.prices import DualSolution, SolutionRecord, load_solution, save_solution
from decobandit.problem import Problem, ProblemError, Terminal, problem_to_dict
from decobandit.trials.events import canonical
from decobandit.trials.settings import TrialSettings

PLAIN = Problem.uniform(arms=2, horizon=3)
DEPLOYED = PLAIN.model_copy(update={"terminal": Terminal(deploy=5.0)})


def solution(problem: Problem) -> DualSolution:
    return DualSolution(
        problem=problem,
        multipliers=np.array([0.5, 0.25, 0.125]),
        deployment_price=None if problem is PLAIN else 2.0,
        upper_bound=1.75,
        lower_bound=1.5,
        tol=1e-3,
        oracle_calls=7,
        seconds=0.5,
        interrupted=True,
        history=(),
    )


FOUND = {
    "multipliers": [0.5, 0.25, 0.125],
    "upper_bound": 1.75,
    "lower_bound": 1.5,
    "tol": 0.001,
}
SEARCH = {"oracle_calls": 7, "seconds": 0.5, "interrupted": True}


@pytest.mark.parametrize(("problem", "price"), [(PLAIN, None), (DEPLOYED, 2.0)])
def test_files_keep_their_keys_and_their_order(
    tmp_path: Path, problem: Problem, price: float | None
) -> None:
    save_solution(solution(problem), tmp_path / "a.json", ties="last")
    tree = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert list(tree) == [
        "format",
        "version",
        "problem",
        "multipliers",
        "deployment_price",
        "upper_bound",
        "lower_bound",
        "tol",
        "oracle_calls",
        "seconds",
        "interrupted",
        "ties",
    ]
    assert tree == {
        "format": "decobandit-solution-1",
        "version": __version__,
        "ties": "last",
        "problem": problem_to_dict(problem),
        "deployment_price": price,
        **FOUND,
        **SEARCH,
    }
    back = load_solution(tmp_path / "a.json")
    assert back.problem == problem
    assert back.prices.tolist() == solution(problem).prices.tolist()
    assert SolutionRecord.of(back) == SolutionRecord.of(solution(problem))


@pytest.mark.parametrize(("problem", "price"), [(PLAIN, None), (DEPLOYED, 2.0)])
def test_logs_keep_their_keys(problem: Problem, price: float | None) -> None:
    plan = TrialSettings(solution(problem), "deco", "first", 4)
    expected = {
        "problem": problem_to_dict(problem),
        "policy": "deco",
        "ties": "first",
        "seed": 4,
        "deployment_price": price,
        "path": None,
        "rules": None,
        "best_bound": None,
        "best_bound_is": None,
        **FOUND,
    }
    assert canonical(plan.to_dict()) == canonical(expected)
    back = TrialSettings.from_dict(json.loads(canonical(expected)) | {"of a later version": 1})
    assert (back.multipliers_hash, back.tables_hash) == (plan.multipliers_hash, plan.tables_hash)
    assert (back.solution.oracle_calls, back.solution.interrupted) == (0, False)


def test_what_solve_prints_keeps_its_keys_and_their_order() -> None:
    keys = [
        "arms",
        "horizon",
        "pulls_per_stage",
        "upper_bound",
        "lower_bound",
        "relative_gap",
        "tol",
        "converged",
        "stopped",
        "interrupted",
        "multipliers",
        "oracle_calls",
        "seconds",
    ]
    size = {"arms": 2, "horizon": 3, "pulls_per_stage": 1}
    gap = {"relative_gap": 0.25 / 1.75, "converged": False, "stopped": None}
    plain, deployed = solution(PLAIN).to_dict(), solution(DEPLOYED).to_dict()
    assert list(plain) == keys
    assert list(deployed) == [*keys, "deployment_price"]
    assert plain == {**size, **gap, **FOUND, **SEARCH}
    assert deployed == {**plain, "deployment_price": 2.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"multipliers": [0.5]}, "here: multipliers: 1 numbers; must have one per stage, 3"),
        ({"deployment_price": 1.0}, "here: deployment_price: must be there exactly when"),
    ],
)
def test_a_record_that_does_not_fit_its_problem_is_refused(
    change: dict[str, object], message: str
) -> None:
    tree = SolutionRecord.of(solution(PLAIN)).to_dict() | change
    with pytest.raises(ProblemError, match=message):
        SolutionRecord.from_dict(tree).solution("here")


@pytest.mark.parametrize("change", [{"upper_bound": float("inf")}, {"tol": -1.0}, {"tol": "1"}])
def test_values_that_are_no_solution_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        SolutionRecord.from_dict(SolutionRecord.of(solution(PLAIN)).to_dict() | change)
