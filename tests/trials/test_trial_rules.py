"""Rules of a design in a trial: obeyed, explained, kept in the log, and replayed."""

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from decobandit import Problem
from decobandit.cli.app import app
from decobandit.problem import Looks, Rules, Stop
from decobandit.trials import Closed, Trial, create_trial, open_trial
from decobandit.trials.report_text import trial_page
from helpers.refusals import refused

THREE = Problem.uniform(arms=3, horizon=60)


def new(folder: Path, rules: Rules, policy: str = "greedy", problem: Problem = THREE) -> Trial:
    db = folder / "trials.db"
    return create_trial(problem, policy=policy, name="ward", db=db, seed=3, design=rules)


def play(trial: Trial, good: dict[str, int], most: int) -> Counter[str]:
    """Ask and record at once; an arm's outcomes are those of `good`."""
    given: Counter[str] = Counter()
    for _ in range(most):
        allocation = trial.ask()
        given[allocation.arm] += 1
        trial.tell(allocation.id, good[allocation.arm])
    return given


def test_a_trial_begins_with_its_burn_in_also_while_outcomes_are_pending(tmp_path: Path) -> None:
    trial = new(tmp_path, Rules(burn_in=2))
    asked = [trial.ask() for _ in range(6)]
    assert Counter(each.arm for each in asked) == {"arm-1": 2, "arm-2": 2, "arm-3": 2}
    assert asked[0].reason == "arm-1: burn-in, 2 pulls of every arm first"


def test_a_floor_gives_every_arm_a_chance_and_the_reason_says_so(tmp_path: Path) -> None:
    trial = new(tmp_path, Rules(floor=0.3))
    given = play(trial, {"arm-1": 1, "arm-2": 0, "arm-3": 0}, 60)
    assert min(given.values()) >= 8  # greedy alone would stay with the first
    assert trial.replay().ok
    asked = [each for each in trial.events() if each.kind == "asked"]
    assert "drawn by greedy and the rules (arm-1 0." in asked[-1].data["reason"]


def test_a_look_stops_the_trial_with_its_reason_and_replays(tmp_path: Path) -> None:
    rules = Rules(
        control="arm-1",
        burn_in=1,
        looks=Looks(first=12, every=6),
        stop=Stop(superiority=0.99, inferiority=0.01),
    )
    trial = new(tmp_path, rules, "equal")
    with refused("closed", kind=Closed):
        play(trial, {"arm-1": 0, "arm-2": 1, "arm-3": 0}, 60)
    again = open_trial("ward", db=tmp_path / "trials.db")
    assert again.settings.rules == rules
    assert again.replay().ok
    assert again.status().told == 12  # 4 good of 4 against 0 of 4, at the first look


def test_a_dropped_arm_is_not_allocated_any_more(tmp_path: Path) -> None:
    rules = Rules(control="arm-1", looks=Looks(first=18, every=100), stop=Stop(inferiority=0.01))
    trial = new(tmp_path, rules, "equal")
    play(trial, {"arm-1": 1, "arm-2": 1, "arm-3": 0}, 18)
    later = play(trial, {"arm-1": 1, "arm-2": 1, "arm-3": 0}, 10)
    assert set(later) == {"arm-1", "arm-2"}
    assert trial.replay().ok


def test_rules_of_no_effect_are_refused_but_a_trial_on_record_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Rules(looks=Looks(first=61), stop=Stop(superiority=0.5))
    with refused("bad_request", "design"):
        new(tmp_path, late)
    with monkeypatch.context() as earlier:  # a version that let it pass
        earlier.setattr(Rules, "check", Rules.check_possible)
        new(tmp_path, late)
    again = open_trial("ward", db=tmp_path / "trials.db")
    assert sum(play(again, {"arm-1": 1, "arm-2": 0, "arm-3": 0}, 60).values()) == 60
    assert again.replay().ok


def test_rules_come_from_the_problem_file(tmp_path: Path) -> None:
    file = tmp_path / "trial.toml"
    file.write_text(
        'horizon = 20\n[[arms]]\nname = "a"\ncount = 2\n'
        '[design]\nburn_in = 3\ncontrol = "a-1"\ncontrol_share = 0.5\n'
    )
    db = str(tmp_path / "trials.db")
    args = ["trial", "new", str(file), "--policy", "greedy", "--name", "ward", "--db", db]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    rules = open_trial("ward", db=db).settings.rules
    assert rules == Rules(burn_in=3, control="a-1", control_share=0.5)


def test_without_a_design_the_log_has_no_rules(tmp_path: Path) -> None:
    trial = create_trial(THREE, policy="greedy", name="plain", db=tmp_path / "trials.db")
    created = next(iter(trial.events()))
    assert created.data["plan"]["rules"] is None


def test_looks_are_told_with_their_numbers_and_the_arm_that_is_declared(tmp_path: Path) -> None:
    rules = Rules(
        control="arm-1", looks=Looks(first=6, every=6), stop=Stop(superiority=0.99, inferiority=0.2)
    )
    trial = new(tmp_path, rules, "equal")
    assert trial.looks() == ()
    assert trial.declared() is None
    with pytest.raises(Closed):
        play(trial, {"arm-1": 0, "arm-2": 1, "arm-3": 0}, 60)
    first, *_, last = trial.looks()
    # two good of two against none of two: P(Beta(3, 1) > Beta(1, 3)) = 1 - 3! 3! / 6!
    assert first.probabilities == pytest.approx({"arm-2": 0.95, "arm-3": 0.5})
    assert (first.outcomes, first.dropped, first.stopped) == (6, (), None)
    assert last.stopped == "superiority"
    assert last.outcomes == trial.status().told
    assert trial.declared() == ("arm-2",)
    report = trial.report()
    assert report.looks == trial.looks()
    page = trial_page(report)
    assert "Looks" in page
    assert "stopped: superiority" in page
    run = CliRunner().invoke(app, ["trial", "status", "ward", "--db", str(tmp_path / "trials.db")])
    assert f"looks: {len(report.looks)}, the last after {last.outcomes} outcomes" in run.output
    assert "declared better than control: arm-2" in run.output
