"""Arms that join and leave a running trial: decisions, the log, refusals."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from decobandit.policies import make_policy
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    NormalNormal,
    Problem,
    Rules,
    State,
    Terminal,
    remaining_problem,
)
from decobandit.trials import (
    Store,
    Trial,
    create_trial,
    open_store,
    open_trial,
    replay_export,
    verify_export,
)
from decobandit.trials.events import StoredEvent, new_event
from decobandit.trials.report_text import trial_page
from decobandit.trials.verification import LogCheck, replayed
from helpers.refusals import refused

PROBLEM = Problem(arms=[Arm(name="a"), Arm(name="b", prior=BetaBernoulli(2, 3))], horizon=10)
LATE = Arm(name="late", prior=BetaBernoulli(3, 2))


@pytest.fixture
def store(tmp_path: Any) -> Iterator[Store]:
    with open_store(tmp_path / "arms.db") as store:
        yield store


def started(store: Store, problem: Problem = PROBLEM, *, told: int = 4, **settings: Any) -> Trial:
    """A trial after some stages; every third outcome is bad."""
    settings = {"policy": "deco", "seed": 7} | settings
    trial = create_trial(problem, name="wheat", db=store, **settings)
    for number in range(told):
        trial.tell(trial.ask().id, int(number % 3 > 0))
    return trial


def known(trial: Trial) -> State:
    counts = [(arm.good or 0, arm.bad or 0) for arm in trial.status().arms]
    return State.of_counts(*map(tuple, zip(*counts, strict=True)))


# -- decisions are those of a fresh trial of what is left ------------------------------------------


@pytest.mark.parametrize("policy", ["deco", "greedy", "thompson", "knowledge-gradient"])
@pytest.mark.parametrize("deploy", [0.0, 6.0])
def test_decisions_after_an_arm_joined_are_those_of_a_fresh_trial(
    store: Store, policy: str, deploy: float
) -> None:
    problem = PROBLEM.model_copy(update={"terminal": Terminal(deploy=deploy)})
    trial = started(store, problem, policy=policy, bound=True)
    seen = known(trial)
    later = problem.model_copy(update={"arms": (*problem.arms, LATE)})
    left = remaining_problem(later, 4, State.of_counts((*seen.good, 0), (*seen.bad, 0)))
    fresh = create_trial(left, policy=policy, seed=7, bound=True, db=store)
    trial.add_arm(LATE, reason="it is ready", by="boss")
    status, other = trial.status(), fresh.status()
    assert trial.settings.prices is not None
    assert fresh.settings.prices is not None
    np.testing.assert_array_equal(trial.settings.prices[4:], fresh.settings.prices)
    assert status.bound_from_here == pytest.approx(other.bound_from_here, rel=1e-9)
    assert status.arm_changes[0].bound_from_here == status.bound_from_here
    for outcome in (1, 0, 1, 1, 0, 1):
        mine, theirs = trial.status(), fresh.status()
        terms = [(arm.expected_reward, arm.index) for arm in mine.arms]
        for pair, arm in zip(terms, theirs.arms, strict=True):
            assert pair == (pytest.approx(arm.expected_reward), pytest.approx(arm.index))
        if policy != "thompson":  # whose random numbers belong to the stage
            assert mine.next_arm == theirs.next_arm
        slot = trial.ask()
        trial.tell(slot.id, outcome)
        fresh_slot = fresh.ask()
        if fresh_slot.arm != slot.arm:
            break
        fresh.tell(fresh_slot.id, outcome)
    assert trial.replay().ok
    assert trial.verify().ok


def test_an_arm_that_is_closed_is_not_allocated_again(store: Store) -> None:
    trial = started(store, told=0)
    slot = trial.ask()
    assert trial.close_arm("a", reason="unsafe", by="boss").arms == 2
    assert slot.arm == "b" or trial.tell(slot.id, 1).outcome == 1
    while trial.status().remaining:
        later = trial.ask()
        assert later.arm == "b"
        trial.tell(later.id, 1)
    (change,) = trial.status().arm_changes
    assert (change.kind, change.arm, change.stage, change.by) == ("arm_closed", "a", 1, "boss")
    assert (change.reason, trial.report().arm_changes) == ("unsafe", (change,))
    assert trial.replay().ok
    assert trial.verify().ok


def test_the_bound_after_closing_is_that_of_the_arm_left(store: Store) -> None:
    trial = started(store)
    trial.close_arm("b", reason="one is enough")
    good, bad = known(trial).good[0], known(trial).bad[0]
    mean = (1 + good) / (2 + good + bad)
    assert trial.status().bound_from_here == pytest.approx(6 * mean, rel=1e-9)


def test_pending_outcomes_are_averaged_and_can_still_be_recorded(store: Store) -> None:
    trial = started(store)
    waiting = [trial.ask(), trial.ask()]
    trial.add_arm(LATE, reason="ready")
    trial.close_arm(str(waiting[0].arm), reason="unsafe")
    assert trial.status().arm_changes[0].stage == 6
    trial.tell(waiting[0].id, 1)
    assert trial.cancel(waiting[1].id, reason="lost").told == 0
    status = trial.status()  # the stage of the cancelled one is over
    assert (status.stage, status.told, status.allocated) == (6, 5, 6)
    while trial.status().remaining:
        assert trial.ask().arm != waiting[0].arm
    assert trial.replay().ok
    assert trial.verify().ok


def test_a_cancelled_subject_can_be_asked_for_again_after_a_change(store: Store) -> None:
    trial = started(store, told=0)
    first = trial.ask(subject="S1")
    trial.add_arm(LATE, reason="ready")
    trial.cancel(first.id, reason="did not come")
    assert trial.ask(subject="S1").id != first.id


def test_another_handle_sees_the_arm(store: Store) -> None:
    trial = started(store)
    other = open_trial("wheat", db=store)
    trial.add_arm(LATE, reason="ready")
    assert other.problem == trial.problem
    assert other.codes["late"] == "C"
    assert [arm.name for arm in other.status().arms] == ["a", "b", "late"]


def test_an_arm_of_another_kind_joins_where_the_policy_serves_it(store: Store) -> None:
    trial = started(store)
    trial.add_arm(
        {"name": "scale", "prior": {"kind": "normal", "mean": 5.0, "sd": 1.0}, "noise_sd": 1.0},
        reason="ready",
    )
    slot = trial.ask()
    assert slot.arm == "scale"
    assert trial.tell(slot.id, 5.5).outcome == 5.5
    assert trial.replay().ok
    assert verify_export(trial.export()).ok


def test_batches_share_with_the_arm_that_joined(store: Store) -> None:
    batches = PROBLEM.model_copy(update={"pulls_per_stage": 4, "repeat": True, "horizon": 4})
    trial = create_trial(batches, policy="equal", seed=3, db=store)
    trial.tell(trial.ask().id, {"a": (1, 2), "b": (1, 2)})
    trial.add_arm(LATE, reason="ready")
    assert trial.ask().pulls["late"] >= 1
    assert trial.replay().ok


def test_rules_apply_to_the_arm_that_joined(store: Store) -> None:
    rules = Rules(burn_in=1, control="a")
    trial = started(store, design=rules)
    trial.add_arm(LATE, reason="ready")
    assert trial.ask().arm == "late"
    with refused("conflict", "arm"):
        trial.close_arm("a", reason="no control")
    assert trial.replay().ok


def test_a_random_horizon_keeps_its_scale(store: Store) -> None:
    law = {"law": "uniform", "least": 5, "most": 10}
    problem = PROBLEM.model_copy(update={"horizon": law})
    trial = started(store, problem)
    trial.add_arm(LATE, reason="ready")
    left = remaining_problem(
        trial.problem, 4, State.of_counts((*known(trial).good,), (*known(trial).bad,))
    )
    fresh = create_trial(left, policy="deco", seed=7, db=store)
    assert trial.status().bound_from_here == pytest.approx(fresh.settings.upper_bound, rel=1e-9)
    assert trial.status().next_arm == fresh.status().next_arm
    assert trial.replay().ok


# -- repeated requests, exports, changed logs ------------------------------------------------------


def test_a_repeated_request_changes_nothing(store: Store) -> None:
    trial = started(store)
    first = trial.add_arm(LATE, reason="ready", key="one", by="boss")
    assert trial.add_arm(LATE, reason="ready", key="one", by="boss") == first
    with refused("conflict", "key"):
        trial.add_arm(LATE, reason="another", key="one", by="boss")
    trial.close_arm("b", reason="bad", key="two")
    trial.close_arm("b", reason="bad", key="two")
    kinds = [event.kind for event in trial.events()]
    assert (kinds.count("arm_added"), kinds.count("arm_closed")) == (1, 1)


def test_exports_keep_the_events(store: Store) -> None:
    trial = started(store)
    trial.add_arm(LATE, reason="ready")
    trial.tell(trial.ask().id, 1)
    trial.close_arm("b", reason="bad")
    trial.ask()
    tree = json.loads("".join(trial.export_text()))
    assert verify_export(tree).ok
    assert replay_export(tree).ok
    assert [one["arm"] for one in tree["status"]["arm_changes"]] == ["late", "b"]


def forged(trial: Trial, **changes: Any) -> tuple[bool, bool]:
    """Whether check and replay accept a log in which the data of the change were replaced."""
    check, previous, events = LogCheck(trial.id), "0" * 64, []
    for event in trial.events():
        data = event.data
        if event.kind in ("arm_added", "arm_closed"):
            data = data | {
                name: value(data[name]) if callable(value) else value
                for name, value in changes.items()
            }
        about = (event.trial, event.seq, event.kind, data)
        later = new_event(*about, previous=previous, at=event.at, by=event.by, key=event.key)
        previous = later.hash
        events.append(later)
        check.add(StoredEvent(later.seq, later.kind, later.key, later.body, later.hash))
    if check.problems:
        return False, False
    return True, replayed(events).ok


def _first_price(plan: dict[str, Any]) -> dict[str, Any]:
    return plan | {"multipliers": [0.1, *plan["multipliers"][1:]]}


def _last_price(plan: dict[str, Any]) -> dict[str, Any]:
    return plan | {"multipliers": [*plan["multipliers"][:-1], 0.1]}


def test_a_changed_log_is_found_out(store: Store) -> None:
    trial = started(store)
    trial.add_arm(LATE, reason="ready")
    trial.ask()
    assert forged(trial) == (True, True)
    assert forged(trial, stage=3) == (False, False)
    assert forged(trial, arm="other") == (False, False)
    assert forged(trial, plan=_first_price) == (False, False)
    assert forged(trial, plan=lambda plan: plan | {"seed": 8}) == (False, False)
    assert forged(trial, definition='{"name":"late"}') == (False, False)
    assert forged(trial, plan=_last_price) == (True, False)
    assert forged(trial, bound_from_here=1.0) == (True, False)


# -- refusals --------------------------------------------------------------------------------------


def test_refused_changes_of_arms(store: Store) -> None:
    trial = started(store)
    with refused("not_found", "arm"):
        trial.close_arm("c", reason="x")
    with refused("bad_request", "arm"):
        trial.add_arm(Arm(name="A"), reason="x")
    with refused("bad_request", "arm"):
        trial.add_arm({"name": "c", "prior": {"good": -1}}, reason="x")
    with refused("bad_request", "arm"):
        trial.add_arm({"name": "c", "count": 2}, reason="x")
    with refused("bad_request", "arm"):
        trial.add_arm(Arm(name="c", available=(0, 3)), reason="x")
    with refused("bad_request", "reason"):
        trial.add_arm(LATE, reason="")
    trial.close_arm("b", reason="x")
    with refused("conflict", "arm"):
        trial.close_arm("b", reason="x")
    with refused("conflict", "arm"):
        trial.close_arm("a", reason="x")
    trial.close()
    with refused("closed"):
        trial.add_arm(LATE, reason="x")
    trial.archive()
    with refused("closed"):
        trial.close_arm("a", reason="x")


def test_a_full_trial_takes_no_arm(store: Store) -> None:
    trial = started(store, told=10)
    with refused("no_free_slot"):
        trial.add_arm(LATE, reason="x")


def test_a_policy_that_refuses_windows_is_kept_or_replaced(store: Store) -> None:
    trial = started(store, policy="deco-calibrated")
    with refused("unsupported", "policy"):
        trial.add_arm(LATE, reason="x", policy="fh-gittins")
    trial.add_arm(LATE, reason="x", policy="deco")
    assert trial.policy == trial.status().policy == "deco"
    trial.tell(trial.ask().id, 1)
    assert trial.replay().ok
    assert trial.verify().ok


def test_the_default_policy_takes_an_arm_that_joins(store: Store) -> None:
    """As `auto` picks it for the problem with the arm; a forged policy is found out."""
    trial = started(store, policy="auto")
    assert trial.policy == "deco-calibrated"
    trial.add_arm(LATE, reason="x")
    picked = make_policy(trial.problem, "auto").name
    (change,) = trial.status().arm_changes
    assert trial.policy == trial.status().policy == change.policy == picked
    trial.tell(trial.ask().id, 1)
    trial.close_arm("b", reason="y")
    assert trial.status().arm_changes[-1].policy is None
    assert f"policy: {picked}" in trial_page(trial.report())
    assert forged(trial, plan=lambda plan: plan | {"policy": "deco-calibrated"}) == (False, False)
    assert trial.replay().ok
    assert trial.verify().ok


def test_an_outcome_kind_that_the_policy_does_not_serve_is_refused(store: Store) -> None:
    trial = started(store, policy="deco-rolling", told=1)
    normal = Arm(name="scale", prior=NormalNormal(0, 1), noise_sd=1.0)
    with refused("unsupported", "policy"):
        trial.add_arm(normal, reason="x")
