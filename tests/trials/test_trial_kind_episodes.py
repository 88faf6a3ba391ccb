"""The course of trials of other outcomes than good or bad, against the prices."""

from pathlib import Path

import numpy as np
import pytest

from decobandit.problem import (
    Arm,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    NormalNormal,
    Problem,
    Reward,
    model_of,
)
from decobandit.trials import Trial, create_trial, open_store

MACHINE = MarkovArm(
    first="new",
    states={
        "new": {"mean": 1.0, "next": {"fine": (0.75, "new"), "worn": (0.25, "old")}},
        "old": {"mean": 0.25, "next": {"fine": (1.0, "old")}},
    },
)
KINDS = [
    Arm(name="grades", prior=DirichletCategorical([1, 2, 1]), reward=Reward(values=[0, 1, 3])),
    Arm(name="lab", prior=NormalNormal(1.0, 0.5), noise_sd=2.0),
    Arm(name="events", prior=GammaPoisson(3, 2)),
    Arm(name="machine", prior=MACHINE),
    Arm(name="cure"),
]
TOLD = {"grades": 2, "lab": -0.75, "events": 4, "machine": "fine", "cure": 1}


def two_classes(arms: int, horizon: int, pulls: int) -> Problem:
    """Uniform arms whose good and bad outcomes are classes worth 1 and 0."""
    prior, reward = DirichletCategorical([1, 1]), Reward(values=[0, 1])
    made = [Arm(name=f"arm-{k + 1}", prior=prior, reward=reward) for k in range(arms)]
    return Problem(arms=made, horizon=horizon, pulls_per_stage=pulls)


def play(trial: Trial, outcomes: list[int]) -> None:
    """Outcomes one after the other, of every arm of an allocation."""
    left = iter(outcomes)
    for _ in range(trial.problem.horizon):
        slot = trial.ask()
        told = [(arm, next(left)) for arm in slot.pulls]
        trial.tell(slot.id, told if len(told) > 1 else told[0][1])
    assert next(left, None) is None


@pytest.mark.parametrize(("horizon", "pulls"), [(6, 1), (4, 2)])
def test_two_classes_are_good_and_bad_outcomes(tmp_path: Path, horizon: int, pulls: int) -> None:
    same = Problem.uniform(arms=3, horizon=horizon, pulls_per_stage=pulls)
    outcomes = np.random.default_rng(3).integers(0, 2, horizon * pulls).tolist()
    with open_store(tmp_path / "t.db") as store:
        good_or_bad = create_trial(same, policy="equal", name="b", db=store, seed=1, tol=1e-9)
        classes = two_classes(3, horizon, pulls)
        classed = create_trial(classes, policy="equal", name="c", db=store, seed=1, tol=1e-9)
        assert classed.status().loss_so_far == 0.0
        play(good_or_bad, outcomes)
        play(classed, outcomes)
        expected, found = good_or_bad.episode(), classed.episode()
        assert (found.pulled, found.favourable) == (expected.pulled, expected.favourable)
        np.testing.assert_allclose(found.index, expected.index, atol=1e-12)
        np.testing.assert_allclose(found.running_loss, expected.running_loss, atol=1e-12)
        assert expected.running_loss[-1] > 0.1
        loss = classed.status().loss_so_far
        assert loss == pytest.approx(good_or_bad.status().loss_so_far, abs=1e-12)


def test_outcomes_of_different_arms_are_those_of_their_pulls(tmp_path: Path) -> None:
    problem = Problem(arms=KINDS, horizon=3, pulls_per_stage=2)
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(problem, policy="equal", db=store, seed=9)
        expected = []
        for _ in range(problem.horizon):
            slot = trial.ask()
            trial.tell(slot.id, [(arm, TOLD[arm]) for arm in slot.pulls])
            expected.append({TOLD[arm] for arm in slot.pulls})
        outcomes = trial.episode().outcomes
        assert [set(stage) for stage in outcomes] == expected
        assert {type(one) for stage in outcomes for one in stage} >= {str, float}


@pytest.mark.parametrize("arm", KINDS, ids=lambda arm: arm.name)
def test_the_outcome_of_a_tally_of_one(arm: Arm) -> None:
    kind = model_of(arm)
    assert kind.format.sole(kind.format.tally([TOLD[arm.name]])) == TOLD[arm.name]
