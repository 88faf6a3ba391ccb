"""Every result prints as one short line and is shown as a card in notebooks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decobandit import (
    Design,
    Problem,
    bound,
    evaluate,
    follow,
    forecast,
    gap,
    load_study,
    make_policy,
    operating_characteristics,
    optimum,
    recommend,
    run_study,
    simulate,
    solve,
)
from decobandit.bounds import compare_by_simulation, compare_exactly
from decobandit.policies import Context, choose_path
from decobandit.prices import demand, dual_value
from decobandit.studies import collect_folder
from decobandit.trials import create_trial, list_trials, people_log

PROBLEM = Problem.uniform(arms=2, horizon=3)
DESIGN = Design(policies=["equal"], scenarios=[{"name": "null", "truth": [0.5, 0.5]}])
STUDY = 'policies = ["greedy"]\ndraws = 5\n[[problems]]\narms = 2\nhorizon = 3\n'
LONGEST = 120  # characters

RESULTS: dict[str, Callable[[], Any]] = {
    "bound": lambda: bound(PROBLEM),
    "one bound": lambda: bound(PROBLEM)[0],
    "comparison, exact": lambda: compare_exactly(Context(PROBLEM), ["greedy"], bound_draws=0),
    "comparison, simulated": lambda: compare_by_simulation(
        Context(PROBLEM), ["greedy"], draws=5, bound_draws=0
    ),
    "demand": lambda: demand(solve(PROBLEM)),
    "design": lambda: operating_characteristics(PROBLEM, DESIGN),
    "scenario": lambda: operating_characteristics(PROBLEM, DESIGN).scenarios[0],
    "dual value": lambda: dual_value(PROBLEM, [0.5, 0.5, 0.5]),
    "episode": lambda: follow(PROBLEM, "greedy"),
    "evaluation": lambda: evaluate(PROBLEM, "greedy"),
    "forecast": lambda: forecast(PROBLEM, ["greedy"]),
    "gap": lambda: gap(PROBLEM, "greedy"),
    "optimum": lambda: optimum(PROBLEM),
    "path": lambda: choose_path(PROBLEM),
    "problem": lambda: PROBLEM,
    "policy": lambda: make_policy(PROBLEM, "greedy"),
    "recommendation": lambda: recommend(PROBLEM, "1/1,0/0", "greedy"),
    "simulation": lambda: simulate(PROBLEM, ["greedy", "equal"], draws=5),
    "simulation of a policy": lambda: simulate(PROBLEM, "greedy", draws=5).results[0],
    "solution": lambda: solve(PROBLEM),
}


def check(result: Any) -> None:
    line = repr(result)
    assert line.startswith(f"{type(result).__name__}("), line
    assert "\n" not in line
    assert " at 0x" not in line
    assert len(line) <= LONGEST, line
    assert "<strong>" in result._repr_html_()


@pytest.mark.parametrize("name", RESULTS)
def test_results_print_as_one_short_line_and_have_a_card(name: str) -> None:
    check(RESULTS[name]())


def test_results_of_studies_print_as_one_short_line_and_have_a_card(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    study = load_study(tmp_path / "study.toml")
    for result in (study, run_study(study, tmp_path / "cells"), collect_folder(tmp_path / "cells")):
        check(result)


def test_results_of_trials_print_as_one_short_line_and_have_a_card(tmp_path: Path) -> None:
    trial = create_trial(PROBLEM, name="pilot", policy="equal", db=tmp_path / "trials.db")
    with trial.store:
        check(trial)
        check(trial.ask())
        for result in (trial.status(), trial.report(), trial.verify(), trial.replay()):
            check(result)
        check(people_log(trial.store))
        for summary in list_trials(db=trial.store):
            check(summary)
