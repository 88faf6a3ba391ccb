"""Trials whose dual was not solved: policies that need no prices start at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from decobandit.prices import is_quick
from decobandit.problem import Problem
from decobandit.trials import create_trial, open_store, open_trial, verify_export
from decobandit.trials.settings import TrialSettings
from helpers.program import deco
from helpers.refusals import refused

LONG = Problem.uniform(arms=8, horizon=10_000)


@pytest.fixture
def no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever solves a dual fails."""

    def fail(*given: Any, **named: Any) -> None:
        raise AssertionError("the dual was solved")

    monkeypatch.setattr("decobandit.policies.base.solve", fail)


@pytest.mark.parametrize("policy", ["thompson", "equal", "greedy", "bayes-ucb", "ucb1"])
@pytest.mark.usefixtures("no_solver")
def test_a_policy_without_prices_starts_without_solving(tmp_path: Path, policy: str) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(LONG, policy=policy, name="long", db=store, seed=1)
        assert trial.solution is None
        trial.tell(trial.ask().id, 1)
        status = trial.status()
        bounds = (status.upper_bound, status.bound_from_here, status.loss_so_far, status.price)
        assert bounds == (None, None, None, None)
        assert trial.replay().ok
        assert trial.verify().ok
        assert trial.verify().remarks == ("no bound: the dual was not solved for this trial",)
    with open_store(tmp_path / "t.db") as store:
        assert open_trial("long", db=store).status() == status


@pytest.mark.usefixtures("no_solver")
def test_a_bound_can_be_declined(tmp_path: Path) -> None:
    problem = Problem.uniform(arms=2, horizon=5)
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(problem, policy="thompson", db=store, bound=False)
        assert trial.solution is None
        tree = json.loads("".join(trial.export_text()))
        assert tree["status"]["upper_bound"] is None
        assert verify_export(tree).ok
        tree["status"]["upper_bound"] = 3.0
        assert not verify_export(tree).ok
        with refused("bad_request"):
            trial.episode()


def test_what_is_made_from_prices_has_a_bound_all_the_same(tmp_path: Path) -> None:
    problem = Problem.uniform(arms=2, horizon=5)
    with open_store(tmp_path / "t.db") as store:
        for policy, bound in (("deco", False), ("thompson", True), ("thompson", None)):
            trial = create_trial(problem, policy=policy, db=store, bound=bound)
            assert trial.status().upper_bound is not None


def test_only_quick_duals_are_solved_for_the_bound_alone() -> None:
    assert is_quick(Problem.uniform(arms=50, horizon=100))
    assert is_quick(Problem.uniform(arms=5, horizon=10, pulls_per_stage=50, repeat=True, unit=10))
    assert not is_quick(LONG)
    large = Problem.uniform(arms=8, horizon=25, pulls_per_stage=2000, repeat=True, unit=200)
    assert not is_quick(large)


def test_settings_without_prices_are_written_and_read() -> None:
    settings = TrialSettings(None, "equal", "first", 4, None, Problem.uniform(arms=2, horizon=5))
    again = TrialSettings.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert again.problem == settings.problem
    assert again.to_dict() == settings.to_dict()
    assert (again.upper_bound, again.multipliers_hash) == (None, None)
    with refused("bad_request"):
        TrialSettings(None, "deco", "first", 4, None, settings.problem).make_policy()


def test_the_program_declines_a_bound(tmp_path: Path) -> None:
    words = ["--arms", 2, "--horizon", 5, "--policy", "thompson", "--db", tmp_path / "t.db"]
    shown = deco("trial", "new", *words, "--name", "a", "--no-bound").out
    assert "no bound: the dual was not solved" in shown
    assert deco("trial", "new", *words, "--name", "b", "--json").json["upper_bound"] > 2.5
    status = deco("trial", "status", "a", "--db", tmp_path / "t.db", "--json").json
    assert status["upper_bound"] is None
