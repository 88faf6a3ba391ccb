"""Trials in batches: whole stages allotted at once, outcomes as counts, on every database."""

import json
import math
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import make_policy
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward, State, Terminal, read_outcomes
from decobandit.trials import (
    Allocation,
    Trial,
    create_trial,
    open_store,
    open_trial,
    outcomes_csv,
    replay_export,
    verify_export,
)
from decobandit.trials.decisions import PendingState, allot, batch_clause, whole_units
from decobandit.trials.errors import (
    Closed,
    Conflict,
    NoFreeSlot,
    NotFound,
    TrialError,
)
from decobandit.trials.events import Event, new_event
from decobandit.trials.ledger import Ledger
from helpers.nursery import Nursery
from helpers.refusals import refused

pytest_plugins = ["helpers.databases"]

ARMS = tuple(
    Arm(name=name, prior=BetaBernoulli(good, bad), reward=Reward(good=2.0, bad=-1.0))
    for name, good, bad in (("a", 1.0, 1.0), ("b", 2.0, 1.5), ("c", 3.0, 4.0))
)
SHARED = Problem(arms=ARMS, horizon=4, pulls_per_stage=6, repeat=True, unit=2)
DIFFERENT = Problem(arms=ARMS, horizon=4, pulls_per_stage=2)
GONE = {"reason": "the hour is over"}


@pytest.fixture
def trial(db: str) -> Any:
    with open_store(db) as store:
        yield create_trial(SHARED, policy="deco", name="shop", db=store, seed=7)


def pulls(batch: Allocation) -> tuple[int, ...]:
    return tuple(batch.pulls.get(name, 0) for name in ("a", "b", "c"))


def whole(batch: Allocation, good: int = 0) -> dict[str, tuple[int, int]]:
    """Counts of all that is pending, with at most `good` good ones of each arm."""
    return {one.arm: (min(good, one.pending), one.pending) for one in batch.arms if one.pending}


def by_hand(events: list[Event]) -> dict[str, Counter[str]]:
    """Good, bad and pending pulls of every arm, from the bodies of the events alone."""
    allotted: dict[str, Counter[str]] = {}
    told: dict[str, dict[str, tuple[int, int]]] = {}
    closed: dict[str, bool] = {}
    for event in (json.loads(each.body) for each in events):
        data, kind = event["data"], event["kind"]
        if kind == "asked":
            allotted[data["allocation"]] = Counter(data["pulls"])
            told[data["allocation"]] = {}
        elif kind == "told":
            for arm, (good, n) in data["counts"].items():
                before = told[data["allocation"]].get(arm, (0, 0))
                told[data["allocation"]][arm] = (before[0] + good, before[1] + n)
        elif kind == "corrected":
            told[data["allocation"]] |= {arm: tuple(pair) for arm, pair in data["counts"].items()}
        elif kind == "cancelled":
            closed[data["allocation"]] = True
    found: dict[str, Counter[str]] = {name: Counter() for name in ("good", "bad", "open")}
    for batch, counts in told.items():
        for arm in allotted[batch]:
            good, n = counts.get(arm, (0, 0))
            found["good"][arm] += good
            found["bad"][arm] += n - good
            found["open"][arm] += 0 if closed.get(batch) else allotted[batch][arm] - n
    return found


# -- the whole life -----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["deco", "thompson", "greedy", "bayes-ucb"])
@pytest.mark.parametrize("problem", [SHARED, DIFFERENT], ids=["shared", "different arms"])
def test_the_whole_life_of_a_trial_in_batches(db: str, policy: str, problem: Problem) -> None:
    rng = random.Random(5)
    with open_store(db) as store:
        trial = create_trial(problem, policy=policy, name="shop", db=store, seed=3)
        for stage in range(problem.horizon):
            batch = trial.ask(subject=f"hour {stage}", note="planned")
            assert sum(pulls(batch)) == problem.pulls_per_stage == batch.pending
            assert batch.pulls == {one.arm: one.pulls for one in batch.arms}
            assert all(one.pulls % problem.unit == 0 for one in batch.arms)
            assert batch.stage == stage
            while trial.allocation(batch.id).state == "open":  # outcomes come in several requests
                one = rng.choice([one for one in trial.allocation(batch.id).arms if one.pending])
                n = rng.randint(1, one.pending)
                trial.tell(batch.id, {one.arm: (rng.randint(0, n), n)})
        status, hand = trial.status(), by_hand(trial.events())
        assert status.finished
        assert status.remaining == 0
        assert not status.open
        for arm in status.arms:
            assert (arm.good, arm.bad, arm.open) == tuple(hand[k][arm.name] for k in hand)
        earned = sum(2.0 * hand["good"][arm] - hand["bad"][arm] for arm in "abc")
        assert status.earned == pytest.approx(earned)
        with pytest.raises(NoFreeSlot):
            trial.ask()
        assert trial.verify().ok
        again = trial.replay()
        assert (again.ok, again.decisions, again.differences) == (True, problem.horizon, ())
        tree = json.loads("".join(trial.export_text()))
        assert verify_export(tree).ok
        assert replay_export(tree).ok
    with open_store(db) as store:
        assert open_trial("shop", db=store).status() == status


def test_with_nothing_pending_a_batch_is_what_the_policy_allots(trial: Trial) -> None:
    policy, good, bad = make_policy(SHARED, "deco"), [0, 0, 0], [0, 0, 0]
    for stage in range(SHARED.horizon):
        expected = policy.allocate(State.of_counts(tuple(good), tuple(bad)))
        batch = trial.ask()
        assert pulls(batch) == expected
        assert trial.status().price is None or stage < SHARED.horizon - 1
        trial.tell(batch.id, whole(batch, good=stage))
        for k, n in enumerate(expected):
            good[k] += min(stage, n)
            bad[k] += n - min(stage, n)


# -- pending outcomes ---------------------------------------------------------------------------


def beta_binomial(j: int, n: int, a: float, b: float) -> float:
    """P(j of n good), by the gamma function."""
    logs = (
        math.lgamma(n + 1)
        - math.lgamma(j + 1)
        - math.lgamma(n - j + 1)
        + math.lgamma(a + j)
        + math.lgamma(b + n - j)
        - math.lgamma(a + b + n)
        + math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
    )
    return math.exp(logs)


@pytest.mark.parametrize("name", ["greedy", "deco"])
def test_a_policy_is_asked_in_all_states_that_pending_outcomes_lead_to(name: str) -> None:
    policy = make_policy(SHARED, name)
    pending = PendingState(State.of_counts((1, 0, 0), (1, 0, 1)), (0, 2, 1), 1)
    mean = np.zeros(3)
    for j, i in product(range(3), range(2)):
        weight = beta_binomial(j, 2, 2.0, 1.5) * beta_binomial(i, 1, 3.0, 5.0)
        state = State.of_counts(good=(1, j, i), bad=(1, 2 - j, 1 + 1 - i))
        mean += weight * np.array(policy.allocation(1, state))
    found = allot(policy, pending, None, draws=lambda: np.random.default_rng(1))
    assert sum(found.pulls) == 6
    assert max(abs(np.array(found.pulls) - mean)) < 2.0  # less than a unit from the mean
    assert found.pulls == tuple(2 * n for n in whole_units(mean / 2, 3))
    assert "averaged over 3 pending outcomes" in found.reason


@pytest.mark.parametrize(
    ("mean", "total", "units"),
    [
        ([1.5, 1.5], 3, [2, 1]),  # equal remainders: the first
        ([0.2, 0.7, 2.1], 3, [0, 1, 2]),
        ([3.0, 0.0], 3, [3, 0]),
        ([0.9999999999, 2.0], 3, [1, 2]),
        ([1 / 3] * 3, 1, [1, 0, 0]),
    ],
)
def test_shares_are_rounded_by_the_largest_remainder(
    mean: list[float], total: int, units: list[int]
) -> None:
    assert whole_units(np.array(mean), total) == units


@pytest.mark.parametrize(
    ("pulls", "said"),
    [
        ((3, 0, 5), "p: c 5, a 3 of 8 pulls"),
        ((1, 2, 3, 4, 5, 6), "p: f 6, e 5, d 4, c 3, b 2, 1 other arm 1 of 21 pulls"),
        ((1,) * 8, "p: a 1, b 1, c 1, d 1, e 1, 3 other arms 3 of 8 pulls"),
    ],
)
def test_the_reason_names_the_arms_that_get_most(pulls: tuple[int, ...], said: str) -> None:
    arms = [Arm(name=name, prior=BetaBernoulli(1, 1)) for name in "abcdefgh"[: len(pulls)]]
    assert batch_clause(Problem(arms=arms, horizon=1), pulls, "p") == said


def test_many_pending_outcomes_are_drawn_and_come_out_the_same_again(tmp_path: Path) -> None:
    problem = Problem.uniform(arms=3, horizon=4, pulls_per_stage=200, repeat=True, unit=20)
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(problem, policy="greedy", db=store, seed=2, bound=False, max_open=800)
        first, second = trial.ask(), trial.ask()
        assert "averaged over 256 draws of 200 pending outcomes" in second.reason
        trial.tell(first.id, {"arm-1": (60, 60)})
        third = trial.ask()
        assert third.pulls["arm-1"] > 100  # by far the best so far
        assert trial.replay().ok


def test_outcomes_are_drawn_from_the_seed_of_the_stage(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(SHARED, policy="thompson", db=store, seed=11)
        first = trial.ask()
        trial.cancel(first.id, reason="not this one")
        assert pulls(trial.ask()) == pulls(first)  # nobody can ask until a wanted one comes


# -- partial, late, cancelled, corrected --------------------------------------------------------


def test_what_is_cancelled_of_a_batch_with_outcomes_is_lost(trial: Trial) -> None:
    first = trial.ask(subject="monday")
    one = next(one for one in first.arms if one.pulls)
    trial.tell(first.id, {one.arm: (1, 1)})
    rest = trial.cancel(first.id, **GONE)
    assert (rest.state, rest.told, rest.pending, rest.change_reason) == (
        "told",
        1,
        0,
        GONE["reason"],
    )
    status = trial.status()
    assert (status.stage, status.allocated, status.told, status.cancelled) == (1, 6, 1, 5)
    assert sum(each.count for each in status.cancellations) == 5
    for _ in range(3):
        batch = trial.ask()
        trial.tell(batch.id, whole(batch))
    assert trial.status().finished
    assert trial.status().told == 19
    assert trial.ask(subject="monday").id == first.id
    assert trial.replay().ok
    assert trial.verify().ok


def test_a_batch_without_outcomes_is_cancelled_as_a_whole(trial: Trial) -> None:
    first = trial.ask(subject="monday")
    gone = trial.cancel(first.id, **GONE)
    assert gone.state == "cancelled"
    assert trial.cancel(first.id, reason="again") == gone  # it is on record already
    assert trial.status().stage == trial.status().allocated == 0
    assert trial.ask(subject="monday").id != first.id
    with refused("conflict", "outcome"):
        trial.tell(first.id, {"a": (0, 1)})
    assert trial.replay().ok


def test_a_correction_replaces_the_counts_of_an_arm(trial: Trial) -> None:
    batch = trial.ask()
    one = next(one for one in batch.arms if one.pulls >= 2)
    trial.tell(batch.id, {one.arm: (2, 2)})
    fixed = trial.correct(batch.id, {one.arm: (0, 1)}, reason="misread").part(one.arm)
    assert fixed is not None
    assert (fixed.good, fixed.bad, fixed.pending) == (0, 1, one.pulls - 1)
    kinds = [event.kind for event in trial.events()]
    assert kinds == ["created", "asked", "told", "corrected"]
    with refused("conflict", "outcome"):
        trial.correct(batch.id, {one.arm: (0, 9)}, reason="more")
    empty = next(other for other in batch.arms if other.arm != one.arm)
    with refused("conflict", "outcome"):
        trial.correct(batch.id, {empty.arm: (0, 1)}, reason="more")


def test_a_repeated_key_records_once_and_gives_the_same_answer(trial: Trial) -> None:
    batch = trial.ask(key="k0")
    one = next(one for one in batch.arms if one.pulls >= 2)
    first = trial.tell(batch.id, {one.arm: "1/1"}, key="k1")
    trial.tell(batch.id, {one.arm: "0/1"}, key="k2")
    assert trial.tell(batch.id, {one.arm: (1, 1)}, key="k1") == first
    assert trial.ask(key="k0") == batch
    assert trial.allocation(batch.id).told == 2
    with refused("conflict", "key"):
        trial.tell(batch.id, {one.arm: "0/1"}, key="k1")


def test_limits_count_pulls(db: str) -> None:
    with open_store(db) as store:
        trial = create_trial(SHARED, policy="equal", db=store, max_open=11, max_cancelled=5)
        first = trial.ask()
        with refused("limit_reached"):
            trial.ask()
        with refused("limit_reached"):
            trial.cancel(first.id, **GONE)
        trial.tell(first.id, {"a": (1, 1)})
        trial.cancel(first.id, **GONE)
        trial.close()
        with pytest.raises(Closed):
            trial.ask()
        assert trial.verify().ok


def test_a_single_outcome_of_several_pulls_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(DIFFERENT, policy="equal", db=store)
        slot = trial.ask()
        assert (slot.arm, slot.size) == (None, 2)
        with refused("invalid", "outcome"):
            trial.tell(slot.id, 1)
        with pytest.raises(NotFound):
            trial.tell("none", {"a": (0, 1)})
        with refused("conflict"):
            trial.unmask(slot.id, category="emergency", reason="an adverse event")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"d": (0, 1)}, "no arm is called 'd'; arms: a, b, c"),
        ({"a": (2, 1)}, "good at most pulls"),
        ({"a": (-1, 1)}, "whole numbers"),
        ({"a": (0.5, 1)}, "whole numbers"),
        ({"a": (True, 1)}, "whole numbers"),
        ({"a": "1/2/3"}, "good/pulls"),
        ({"a": "x"}, "good/pulls"),
        ({"a": 3}, "good/pulls"),
        ({"a": (1, 10**10)}, "good/pulls"),
        ({"a": (0, 0)}, "no outcomes"),
        ({}, "no outcomes"),
    ],
)
def test_bad_counts_are_refused_in_one_line(tmp_path: Path, counts: Any, said: str) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(SHARED, policy="equal", db=store)
        batch = trial.ask()
        with pytest.raises(TrialError, match=said) as info:
            trial.tell(batch.id, counts)
        assert "\n" not in str(info.value)
        assert [event.kind for event in trial.events()] == ["created", "asked"]


def test_more_outcomes_than_pulls_are_refused_and_nothing_of_the_request_is_recorded(
    trial: Trial,
) -> None:
    batch = trial.ask()
    one, other = sorted(batch.arms, key=lambda each: -each.pulls)[:2]
    with refused("conflict", "outcome"):
        trial.tell(batch.id, {other.arm: (0, 1), one.arm: (0, 7)})
    assert trial.allocation(batch.id) == batch
    event = trial.events()[-1]
    assert (event.kind, event.data["request"]["counts"][one.arm]) == ("refused", [0, 7])
    assert trial.verify().ok  # the ledger reads the refusal again
    with open_store(trial.store.url) as store:
        assert open_trial(trial.id, db=store).status() == trial.status()


# -- many at once -------------------------------------------------------------------------------


def test_concurrent_partial_outcomes_are_all_recorded(db: str) -> None:
    problem = Problem.uniform(arms=2, horizon=2, pulls_per_stage=200, repeat=True)
    with open_store(db) as store:
        trial = create_trial(problem, policy="equal", name="many", db=store, bound=False)
        batch = trial.ask()

        def tell(number: int) -> object:
            arm = f"arm-{1 + number % 2}"
            try:
                return trial.tell(batch.id, {arm: (number % 4 // 2, 3)}, key=f"k{number}")
            except Conflict as error:
                return error

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(tell, range(80)))
        refusals = sum(isinstance(answer, Conflict) for answer in answers)
        # 40 requests of 3 for each arm; 33 fit into 100 pulls
        assert refusals == 2 * 7
        now = trial.allocation(batch.id)
        assert [one.told for one in now.arms] == [99, 99]
        hand = by_hand(trial.events())
        assert [one.good for one in now.arms] == [hand["good"][one.arm] for one in now.arms]
        assert trial.verify().ok


def test_another_process_sees_the_same_batches(db: str, trial: Trial, nursery: Nursery) -> None:
    batch = trial.ask()
    trial.tell(batch.id, {one.arm: (0, 1) for one in batch.arms if one.pulls})
    said = nursery.side_by_side([("read_status", db, trial.id)])
    (status,) = (line["status"] for line in said if "status" in line)
    assert status == json.loads(json.dumps(trial.status().to_dict()))


# -- the log ------------------------------------------------------------------------------------


def forged(trial: Trial, kind: str, **data: Any) -> Event:
    last = trial.events()[-1]
    return new_event(
        trial.id, last.seq + 1, kind, data, previous=last.hash, at=last.at, by="mallory"
    )


def test_events_that_cannot_have_happened_are_damage(trial: Trial) -> None:
    batch = trial.ask()
    arm = next(one for one in batch.arms if one.pulls)
    ledger = Ledger(trial.id).extended(trial.events())
    asked = trial.events()[-1].data
    more = {"decision": {"stage": 1}, "reason": "", "number": 1, "arm": None}
    bad = [
        forged(trial, "told", allocation=batch.id, counts={arm.arm: [0, arm.pulls + 1]}),
        forged(trial, "told", allocation=batch.id, counts={arm.arm: [2, 1]}),
        forged(trial, "told", allocation=batch.id, counts={"other": [0, 1]}),
        forged(trial, "told", allocation=batch.id, counts={}),
        forged(trial, "told", allocation="0", counts={arm.arm: [0, 1]}),
        forged(trial, "corrected", allocation=batch.id, counts={arm.arm: [0, 1]}, reason="x"),
        forged(trial, "asked", **asked),  # the same batch twice
        forged(trial, "asked", allocation="1", pulls={"a": 6, "c": 2}, **more),
        forged(trial, "asked", allocation="1", pulls={"a": 5, "b": 1}, **more),
        forged(trial, "asked", allocation="1", pulls={"a": 4}, **more),
        forged(trial, "asked", allocation="1", pulls={"a": 8, "b": -2}, **more),
        forged(trial, "asked", allocation="1", pulls={"a": 6}, **more | {"arm": "a"}),
        forged(trial, "asked", allocation="1", pulls={"a": 6, "d": 0}, **more),
    ]
    for event in bad:
        with refused("damaged"):
            ledger.extended([event])


def test_replay_finds_another_allotment(trial: Trial) -> None:
    batch = trial.ask()
    events = trial.events()
    counts = dict.fromkeys("abc", 0) | events[1].data["pulls"]
    high, low = max(counts, key=lambda arm: counts[arm]), min(counts, key=lambda arm: counts[arm])
    counts[high], counts[low] = counts[high] - 2, counts[low] + 2
    counts = {arm: n for arm, n in counts.items() if n}
    tree = trial.export()
    first = events[1]
    changed = new_event(
        trial.id,
        1,
        "asked",
        first.data | {"pulls": counts},
        previous=first.previous,
        at=first.at,
        by=first.by,
    )
    row = changed.to_dict() | {"body": changed.body}
    forgery = tree | {"events": [tree["events"][0], row], "head": changed.hash}
    assert not verify_export(forgery).ok  # what is shown belongs to another log
    from decobandit.trials.verification import replayed

    found = replayed([events[0], changed])
    assert any("pulls" in difference for difference in found.differences)
    assert batch.id == changed.data["allocation"]


def test_exported_counts_are_read_back(trial: Trial, tmp_path: Path) -> None:
    for good in (1, 2):
        batch = trial.ask()
        trial.tell(batch.id, whole(batch, good))
    file = tmp_path / "batches.csv"
    file.write_text(outcomes_csv(trial.events()), encoding="utf-8")
    state, status = read_outcomes(SHARED, file), trial.status()
    assert list(state.good) == [arm.good for arm in status.arms]
    assert list(state.bad) == [arm.bad for arm in status.arms]
    assert read_outcomes(SHARED, trial.to_frame(kind="polars")) == state
    header = outcomes_csv(trial.events(), masked=True).splitlines()[0].split(",")
    assert not {"arm", "good", "stage"} & set(header)


# -- bounds and deployment ----------------------------------------------------------------------


def test_the_bound_from_here_is_that_of_the_problem_that_is_left(tmp_path: Path) -> None:
    """By another road: the dual function of the remaining problem at the remaining prices."""
    from decobandit.prices import dual_value
    from decobandit.problem import remaining_problem

    problem = Problem(
        arms=ARMS, horizon=3, pulls_per_stage=6, repeat=True, unit=2, terminal=Terminal(deploy=9)
    )
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(problem, policy="deco", db=store)
        status = trial.status()
        assert status.upper_bound is not None
        assert status.bound_from_here == pytest.approx(status.upper_bound, rel=1e-9)
        batch = trial.ask()
        trial.tell(batch.id, whole(batch, good=1))
        good = tuple(arm.good for arm in trial.status().arms)
        bad = tuple(arm.bad for arm in trial.status().arms)
        left = remaining_problem(problem, 1, State.of_counts(good, bad))
        assert trial.solution is not None
        expected = dual_value(left, trial.solution.prices[1:]).value
        assert trial.status().bound_from_here == pytest.approx(expected, rel=1e-9)
        for _ in range(2):
            batch = trial.ask()
            trial.tell(batch.id, whole(batch, good=2))
        end = trial.status()
        means = {
            arm.name: arm.posterior_good / (arm.posterior_good + arm.posterior_bad)
            for arm in end.arms
        }
        assert end.deployment is not None
        assert means[end.deployment] == pytest.approx(max(means.values()))
        assert end.bound_from_here == pytest.approx(9 * max(means.values()))
