"""Rules of a design in trials whose stages are batches: obeyed, stopped, reported, replayed."""

import json
from pathlib import Path

import pytest

from decobandit import Problem
from decobandit.problem import FinalTest, Looks, Rules, Stop
from decobandit.trials import Allocation, Closed, Trial, TrialError, create_trial
from decobandit.trials.verification import replay_export, verify_export
from helpers.refusals import refused

HOURS = Problem.uniform(arms=3, horizon=6, pulls_per_stage=20, repeat=True, unit=2)


def new(folder: Path, rules: Rules, policy: str = "greedy", problem: Problem = HOURS) -> Trial:
    db = folder / "trials.db"
    return create_trial(
        problem, policy=policy, name="shop", db=db, seed=3, bound=False, design=rules
    )


def given(batch: Allocation) -> dict[str, int]:
    return {f"arm-{k}": batch.pulls.get(f"arm-{k}", 0) for k in (1, 2, 3)}


def given_as(batch: Allocation, good: float) -> dict[str, tuple[int, int]]:
    """Outcomes of a whole batch, so many of every arm good."""
    return {arm: (round(good * n), n) for arm, n in given(batch).items() if n}


def play(trial: Trial, rates: dict[str, float]) -> dict[str, int]:
    """Ask for a batch and record all of it; an arm has its rate of good outcomes, rounded."""
    batch = trial.ask()
    counts = given(batch)
    trial.tell(batch.id, {a: (round(rates[a] * n), n) for a, n in counts.items() if n})
    return counts


def confirmed(trial: Trial) -> bool:
    """Replayed from the log, and from an export that is intact."""
    tree = json.loads("".join(trial.export_text()))
    again = replay_export(tree)
    return verify_export(tree).ok and again.ok and trial.replay().ok and again.decisions > 0


def test_burn_in_floor_and_share_of_control_are_kept_in_every_batch(tmp_path: Path) -> None:
    rules = Rules(burn_in=4, control="arm-1", control_share=0.3, floor=0.2)
    trial = new(tmp_path, rules)
    rates = {"arm-1": 1.0, "arm-2": 0.5, "arm-3": 0.0}
    assert play(trial, rates) == {"arm-1": 8, "arm-2": 6, "arm-3": 6}
    first = trial.allocations()[0].reason
    assert first.endswith("; burn-in, 4 pulls of every arm first")
    # greedy alone gives all to arm-1, which has its share; of the others it takes arm-2
    for _ in range(4):
        assert play(trial, rates) == {"arm-1": 6, "arm-2": 10, "arm-3": 4}
    said = "drawn by greedy and the rules (arm-1 0.300, arm-2 0.500, arm-3 0.200)"
    assert said in trial.allocations()[-1].reason
    assert confirmed(trial)


def test_pending_pulls_count_for_the_burn_in_of_batches(tmp_path: Path) -> None:
    trial = new(tmp_path, Rules(burn_in=10))
    assert given(trial.ask()) == {"arm-1": 8, "arm-2": 6, "arm-3": 6}
    assert given(trial.ask()) == {"arm-1": 6, "arm-2": 8, "arm-3": 6}
    third = trial.ask()
    assert "burn-in" not in third.reason
    assert "averaged over 256 draws of 40 pending outcomes" in third.reason
    assert confirmed(trial)


def test_a_batch_whose_outcomes_are_pending_keeps_the_floor_too(tmp_path: Path) -> None:
    trial = new(tmp_path, Rules(floor=0.1), policy="deco")
    batches = [trial.ask() for _ in range(3)]
    trial.tell(batches[1].id, given_as(batches[1], good=0.5))
    for batch in [*batches, trial.ask()]:
        assert min(given(batch).values()) >= 2
    assert "averaged over" in trial.allocations()[-1].reason
    assert confirmed(trial)


def test_an_arm_is_dropped_between_batches_and_a_later_look_stops_the_trial(tmp_path: Path) -> None:
    rules = Rules(
        control="arm-1",
        burn_in=6,
        control_share=0.4,
        looks=Looks(first=20, every=20),
        stop=Stop(superiority=0.999, inferiority=0.005),
    )
    trial = new(tmp_path, rules)
    batch = trial.ask()
    assert given(batch) == {"arm-1": 8, "arm-2": 6, "arm-3": 6}
    trial.tell(batch.id, {"arm-1": (6, 8), "arm-2": (6, 6)})
    assert trial.status().dropped == ()  # 14 outcomes: no look yet
    trial.tell(batch.id, {"arm-3": (0, 6)})
    status = trial.status()
    assert (status.dropped, status.stopped) == (("arm-3",), None)
    later = trial.ask()
    assert given(later) == {"arm-1": 8, "arm-2": 12, "arm-3": 0}
    assert later.reason.endswith("(arm-1 0.400, arm-2 0.600, arm-3 0.000); dropped: arm-3")
    trial.tell(later.id, {"arm-1": (0, 8), "arm-2": (12, 12)})
    status = trial.status()
    assert (status.stopped, status.next_pulls) == ("superiority", None)
    assert (status.is_over, status.finished) == (True, False)
    with refused("closed", kind=Closed):
        trial.ask()
    report = trial.report()
    assert (report.control, report.declared, report.stopped) == ("arm-1", ("arm-2",), "superiority")
    assert report.rules == rules.model_dump(mode="json", exclude_none=True)
    assert confirmed(trial)


def test_stages_of_different_arms_have_a_burn_in(tmp_path: Path) -> None:
    problem = Problem.uniform(arms=3, horizon=6, pulls_per_stage=2)
    trial = new(tmp_path, Rules(burn_in=2), "greedy", problem)
    arms = [arm for _ in range(3) for arm in trial.ask().pulls]
    assert sorted(arms) == sorted(["arm-1", "arm-2", "arm-3"] * 2)
    assert confirmed(trial)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (Rules(floor=0.1), "design.floor: 0.1 is not allowed; must be 0 where a stage pulls"),
        (Rules(stop=Stop(inferiority=0.1)), "must be left out where a stage pulls several"),
        (Rules(burn_in=5), "design.burn_in: 5 is not allowed; must be at most 4"),
    ],
)
def test_rules_that_cannot_be_obeyed_are_refused_when_the_trial_is_made(
    tmp_path: Path, rules: Rules, said: str
) -> None:
    problem = Problem.uniform(arms=3, horizon=6, pulls_per_stage=2)
    with pytest.raises(TrialError, match=said):
        new(tmp_path, rules, "greedy", problem)


@pytest.mark.parametrize(
    ("test", "good", "declared"),
    [
        # P(arm-2 better) of Beta(1, 11) against Beta(7, 5), Beta(4, 8): 0.998 and 0.955
        (FinalTest(threshold=0.99), 6, ("arm-2",)),
        (FinalTest(threshold=0.99), 3, ()),
        # one-sided Fisher of 6 of 10 against 0 of 10: 0.0054; of 3 of 10: 0.105
        (FinalTest(kind="fisher", alpha=0.025), 6, ("arm-2",)),
        (FinalTest(kind="fisher", alpha=0.025), 3, ()),
    ],
)
def test_the_test_at_the_end_is_in_the_report(
    tmp_path: Path, test: FinalTest, good: int, declared: tuple[str, ...]
) -> None:
    problem = Problem.uniform(arms=2, horizon=2, pulls_per_stage=10, repeat=True, unit=5)
    trial = new(tmp_path, Rules(control="arm-1", test=test), "equal", problem)
    for number in range(2):
        batch = trial.ask()
        assert batch.pulls == {"arm-1": 5, "arm-2": 5}
        assert trial.report().declared is None
        trial.tell(batch.id, {"arm-1": (0, 5), "arm-2": (good // 2 + number * (good % 2), 5)})
    assert trial.report().declared == declared
