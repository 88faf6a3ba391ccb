"""Rules of a live trial compare arms by the reward of a pull, as its report does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import Arm, BetaBernoulli, Problem, Reward
from decobandit.problem import (
    DirichletCategorical,
    FinalTest,
    GammaPoisson,
    Looks,
    NormalNormal,
    Rules,
    Stop,
)
from decobandit.trials import Trial, create_trial
from decobandit.trials.errors import Stopped
from decobandit.trials.report_text import trial_page

LAB = {"prior": NormalNormal(0, 2), "noise_sd": 1.0}
GRADES = DirichletCategorical([1, 1, 1])

# two arms, outcomes of each in turn; that of the second is larger, and it earns less
HARM: dict[str, tuple[list[Arm], list[Any]]] = {
    "unequal rewards": (
        [Arm(name="old"), Arm(name="new", reward=Reward(good=0.2))],
        [[1, 1, 0], [1, 1, 1]],
    ),
    "bad outcomes earn": (
        [Arm(name=n, reward=Reward(good=0, bad=1)) for n in ("old", "new")],
        [[0], [1]],
    ),
    "events": (
        [Arm(name=n, prior=GammaPoisson(2, 1), reward=Reward(factor=-1)) for n in ("old", "new")],
        [[1, 1, 0], [4, 3, 5]],
    ),
    "measurements": (
        [Arm(name=n, reward=Reward(factor=-3), **LAB) for n in ("old", "new")],
        [[0.2, -0.4], [2.1, 1.7]],
    ),
    "classes": (
        [
            Arm(name=n, prior=GRADES, reward=Reward(values=[0, 1, 3], factor=-1))
            for n in ("old", "new")
        ],
        [[0, 0, 1], [2, 1, 2]],
    ),
    "mixed": (
        [
            Arm(name="old", prior=BetaBernoulli(2, 1), reward=Reward(good=5)),
            Arm(name="new", prior=GammaPoisson(2, 1), reward=Reward(factor=-1)),
        ],
        [[1, 1, 0], [4, 3, 5]],
    ),
    "safe arm": (
        [
            Arm(name="old", reward=Reward(good=0.6, bad=0.6)),
            Arm(name="new", reward=Reward(good=0.7)),
        ],
        [[0, 0, 1], [1, 1, 1, 0]],
    ),
}


def played(folder: Path, name: str, rules: Rules, policy: str = "equal") -> Trial:
    """A trial of 24 pulls to its end, or until it is stopped."""
    arms, outcomes = HARM[name]
    problem = Problem(arms=arms, horizon=24)
    trial = create_trial(problem, policy=policy, db=folder / "t.db", seed=1, design=rules)
    turn = dict.fromkeys(("old", "new"), 0)
    stream = dict(zip(turn, outcomes, strict=True))
    try:
        for _ in range(24):
            slot = trial.ask()
            own = stream[slot.arm]
            trial.tell(slot.id, own[turn[slot.arm] % len(own)])
            turn[slot.arm] += 1
    except Stopped:
        pass
    return trial


def draws_of(trial: Trial, by: str) -> Any:
    """Values by which arms are compared, drawn from their posteriors with numpy alone, (N, 2)."""
    rng, columns = np.random.default_rng(5), []
    for arm, result in zip(trial.settings.problem.arms, trial.report().arms, strict=True):
        prior, n = arm.prior, result.pulls
        total = (result.rate or 0.0) * n
        if isinstance(prior, BetaBernoulli):
            mean = rng.beta(prior.good + total, prior.bad + n - total, 200_000)
        elif isinstance(prior, GammaPoisson):
            mean = rng.gamma(prior.shape + total, 1 / (prior.rate + n), 200_000)
        elif isinstance(prior, NormalNormal):
            weight = 1 / prior.sd**2 + n
            mean = rng.normal((prior.mean / prior.sd**2 + total) / weight, weight**-0.5, 200_000)
        else:
            assert isinstance(prior, DirichletCategorical)
            counts = np.array([float(x) for x in result.seen.split("+")])
            chances = rng.dirichlet(np.array(prior.counts) + counts, 200_000)
            mean = chances @ np.array(arm.reward.values)  # type: ignore[union-attr]
        reward = arm.reward
        if by == "reward" and isinstance(prior, BetaBernoulli):
            mean = float(reward.bad) + (float(reward.good) - float(reward.bad)) * mean  # type: ignore[arg-type]
        elif by == "reward":
            mean = float(reward.factor) * mean  # type: ignore[union-attr, arg-type]
        columns.append(mean)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("by", ["reward", "outcome"])
@pytest.mark.parametrize("control", [None, "old"])
@pytest.mark.parametrize("name", HARM)
def test_looks_and_report_have_the_same_probabilities(
    tmp_path: Path, name: str, control: str | None, by: Any
) -> None:
    """One look at the end of a trial that does not stop: beside the report's, and beside draws."""
    rules = Rules(
        control=control,
        compare=by,
        looks=Looks(first=24),
        stop=Stop(equivalence=0.9999),
        margin=1e-9,
        test=FinalTest(threshold=0.9),
    )
    trial = played(tmp_path, name, rules)
    report, (look,) = trial.report(), trial.looks()
    values = draws_of(trial, by)
    first = values[:, 0] == values.max(axis=1)
    beats = float((values[:, 1] > values[:, 0]).mean())
    for result in report.arms:
        shown = result.best if control is None else result.better_than_control
        if shown is not None:
            assert look.probabilities[result.name] == pytest.approx(shown, abs=4e-4)
    assert look.probabilities["new"] == pytest.approx(beats, abs=4e-3)
    assert report.arms[0].best == pytest.approx(float(first.mean()), abs=4e-3)
    uplift, spread = values[:, 1] - values[:, 0], float((values[:, 1] - values[:, 0]).std())
    new = report.arms[1]
    assert new.uplift == pytest.approx(float(uplift.mean()), abs=0.01 * spread)
    assert new.uplift_interval == pytest.approx(
        np.quantile(uplift, [0.025, 0.975]), abs=0.03 * spread
    )
    harmful = by == "reward"
    assert (beats < 0.5) == harmful
    assert "new" not in (trial.declared() or ()) or not harmful
    page = trial_page(report)
    assert ("mean outcome of the arm is the largest" in page) == (not harmful)


@pytest.mark.parametrize("name", HARM)
def test_a_harmful_arm_is_never_declared_superior(tmp_path: Path, name: str) -> None:
    rules = Rules(
        control="old",
        looks=Looks(first=6, every=3),
        stop=Stop(superiority=0.9, inferiority=0.1),
        test=FinalTest(threshold=0.8),
    )
    trial = played(tmp_path, name, rules)
    assert trial.declared() in ((), None)
    assert trial.status().stopped in (None, "inferiority")
    assert trial.replay().ok


def test_the_arm_with_fewer_events_is_declared(tmp_path: Path) -> None:
    rules = Rules(control="new", looks=Looks(first=6, every=3), stop=Stop(superiority=0.95))
    trial = played(tmp_path, "events", rules)
    assert trial.status().stopped == "superiority"
    assert trial.declared() == ("old",)
