"""The best bound of a trial: that of plans, kept in the log, and absent where it was not known."""

import json
from pathlib import Path
from typing import Any

import pytest

from decobandit import Problem, evaluate, optimum
from decobandit.trials import create_trial, open_trial, replay_export, verify_export
from decobandit.trials.report_text import trial_page
from decobandit.trials.settings import TrialSettings
from helpers.refusals import refused

SMALL = Problem.uniform(arms=3, horizon=12)


def test_status_report_and_export_have_the_exact_optimum_where_it_is_known(tmp_path: Path) -> None:
    trial = create_trial(SMALL, policy="deco", name="pilot", db=tmp_path / "trials.db")
    best = optimum(SMALL).value
    status = open_trial("pilot", db=tmp_path / "trials.db").status()
    assert (status.best_bound, status.best_bound_is) == (pytest.approx(best, abs=1e-9), "optimum")
    assert status.upper_bound is not None
    assert status.upper_bound > best
    assert evaluate(SMALL, "deco").value <= best
    assert f"{best:.3f} (the exact optimum)" in trial_page(trial.report())
    tree = json.loads(json.dumps(trial.export()))
    assert tree["status"]["best_bound"] == pytest.approx(best, abs=1e-9)
    assert verify_export(tree).ok
    assert replay_export(tree).ok
    plan = next(iter(trial.events())).data["plan"]
    assert (plan["best_bound"], plan["best_bound_is"]) == (status.best_bound, "optimum")


def test_without_a_dual_there_is_no_best_bound(tmp_path: Path) -> None:
    trial = create_trial(SMALL, policy="equal", bound=False, db=tmp_path / "trials.db")
    assert (trial.status().best_bound, trial.status().best_bound_is) == (None, None)
    assert next(iter(trial.events())).data["plan"]["best_bound"] is None
    assert trial.export()["status"]["best_bound"] is None


@pytest.mark.parametrize(
    "wrong",
    [{"best_bound": 1e6}, {"best_bound": "9"}, {"best_bound": True}, {"best_bound_is": "guess"}],
)
def test_a_log_cannot_claim_any_bound(tmp_path: Path, wrong: dict[str, Any]) -> None:
    trial = create_trial(SMALL, policy="deco", db=tmp_path / "trials.db")
    plan = trial.settings.to_dict()
    assert TrialSettings.from_dict(plan).best_bound == trial.settings.best_bound
    with refused("bad_request"):
        TrialSettings.from_dict(plan | wrong)
