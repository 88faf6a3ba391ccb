"""Outcomes may come in any order: what is known, and what is decided next, is the same."""

import json
import random
from pathlib import Path

import pytest

from decobandit.problem import Arm, BetaBernoulli, Problem
from decobandit.trials import create_trial, open_store
from decobandit.trials.decisions import decider_of
from decobandit.trials.events import Event, new_event
from decobandit.trials.ledger import Ledger

pytest_plugins = ["helpers.databases"]

PRIORS = ((1.0, 1.0), (2.0, 1.5), (0.7, 0.9))
ASKS, ORDERS = 8, 500


def problem_of(pulls: int) -> Problem:
    arms = tuple(
        Arm(name=name, prior=BetaBernoulli(good=good, bad=bad))
        for name, (good, bad) in zip("abc", PRIORS, strict=True)
    )
    return Problem(arms=arms, horizon=10, pulls_per_stage=pulls)


def asked(path: Path, policy: str, pulls: int) -> list[Event]:
    """The log of a trial with open allocations only."""
    with open_store(path) as store:
        trial = create_trial(problem_of(pulls), policy=policy, db=store, seed=5)
        for _ in range(ASKS):
            trial.ask()
        return trial.events()


def tell(ledger: Ledger, allocation: str, arm: str, outcome: int) -> Ledger:
    """The ledger after one more outcome, of one arm of an allocation."""
    data: dict[str, object] = {"allocation": allocation}
    if ledger.allocations[allocation].size == 1:
        data["outcome"] = outcome
    else:
        data["counts"] = {arm: [outcome, 1]}
    event = new_event(
        ledger.trial,
        ledger.seq + 1,
        "told",
        data,
        previous=ledger.head,
        at="2024-01-01T00:00:00.000+00:00",
        by="test",
    )
    return ledger.extended([event])


@pytest.mark.parametrize(("policy", "pulls"), [("deco", 1), ("deco", 2), ("thompson", 1)])
def test_orders_of_tells_do_not_matter_to_the_ledger(
    tmp_path: Path, policy: str, pulls: int
) -> None:
    events = asked(tmp_path / "orders.db", policy, pulls)
    start = Ledger(events[0].trial).extended(events)
    decider, rng = decider_of(start.settings), random.Random(2)
    slots = [(slot.id, arm) for slot in start.allocations.values() for arm in slot.pulls]
    assert len(slots) == ASKS * pulls
    good, bad = slots[: 3 * pulls], slots[3 * pulls : 6 * pulls]  # two allocations stay open
    outcomes = dict.fromkeys(good, 1) | dict.fromkeys(bad, 0)
    decisions = set()
    for _ in range(ORDERS):
        order = rng.sample(list(outcomes), len(outcomes))
        ledger = start
        for slot in order:
            ledger = tell(ledger, *slot, outcomes[slot])
        by_hand = [[0, 0], [0, 0], [0, 0]]
        for (_, arm), outcome in outcomes.items():
            by_hand["abc".index(arm)][1 - outcome] += 1
        assert [
            list(pair) for pair in zip(ledger.known.good, ledger.known.bad, strict=True)
        ] == by_hand
        decisions.add(repr(decider.decide(ledger)))
    assert len(decisions) == 1


def test_orders_of_tells_do_not_matter_to_the_database(db: str) -> None:
    rng, problem, results = random.Random(5), problem_of(1), set()
    with open_store(db) as store:
        for number in range(6):
            trial = create_trial(problem, name=f"order {number}", db=store, seed=7)
            told = list(enumerate(trial.ask() for _ in range(6)))
            rng.shuffle(told)
            for place, slot in told:
                trial.tell(slot.id, int(place in (0, 1, 4)))
            status = trial.status().to_dict()
            # codes are drawn for every trial
            arms = [arm | {"code": ""} for arm in status["arms"]]
            results.add(json.dumps([arms, status["next_arm"], trial.ask().arm]))
    assert len(results) == 1
