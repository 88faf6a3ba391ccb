"""Trials within a budget: what is spent, by hand; decisions, bounds and the log."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decobandit.policies import Policy
from decobandit.problem import Arm, BetaBernoulli, NormalNormal, Problem, Rules, Terminal
from decobandit.trials import Allocation, Store, Trial, create_trial, open_store
from decobandit.trials.errors import NoFreeSlot
from decobandit.trials.events import StoredEvent, new_event
from decobandit.trials.verification import LogCheck
from helpers.experiments import Experiment, best
from helpers.page_browser import Browser
from helpers.refusals import refused
from helpers.web_client import Site

PRIORS, COSTS = [(1, 1), (2, 1), (1, 2)], [1.0, 2.0, 0.5]
BATCH = {"pulls_per_stage": 4, "repeat": True, "unit": 2}


def problem_of(budget: float = 5.0, costs: Any = COSTS, **settings: Any) -> Problem:
    arms = [
        Arm(name=name, prior=BetaBernoulli(*prior), cost=cost)
        for name, prior, cost in zip("abc", PRIORS, costs, strict=True)
    ]
    return Problem(**{"horizon": 8, "arms": arms, "budget": budget} | settings)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "budget.db") as store:
        yield store


def outcomes(slot: Allocation, draw: random.Random) -> Any:
    if slot.arm is not None:
        return draw.randrange(2)
    return {arm: (draw.randrange(n + 1), n) for arm, n in slot.pulls.items()}


def cost_of(trial: Trial) -> float:
    """Cost of all allocations that hold their slots, by hand."""
    costs = {arm.name: arm.cost for arm in trial.problem.arms}
    total = 0.0
    for slot in trial.allocations():
        for arm, n in slot.pulls.items() if slot.state != "cancelled" else ():
            cost = costs[arm]
            assert cost is not None
            total += n * (cost if isinstance(cost, float) else cost[slot.stage])
    return total


def played(trial: Trial, seed: int = 1) -> str:
    """Ask, tell and cancel at random until the end; return the code of the last refusal."""
    draw, waiting = random.Random(seed), list[Allocation]()
    while True:
        try:
            slot = trial.ask()
        except NoFreeSlot as error:
            while waiting:
                last = waiting.pop()
                trial.tell(last.id, outcomes(last, draw))
            return error.code
        assert cost_of(trial) <= trial.problem.budget + 1e-9
        waiting += [slot] * bool(slot.pulls)
        if waiting and draw.random() < 0.6:
            chosen = waiting.pop(draw.randrange(len(waiting)))
            if draw.random() < 0.2:
                trial.cancel(chosen.id, reason="gone")
            else:
                trial.tell(chosen.id, outcomes(chosen, draw))


@pytest.mark.parametrize("settings", [{}, {"pulls_per_stage": 2}, BATCH], ids=["1", "2", "batch"])
@pytest.mark.parametrize("policy", ["deco", "greedy", "deco-rolling", "thompson"])
def test_no_trial_overspends(store: Store, policy: str, settings: dict[str, Any]) -> None:
    if settings is BATCH and policy in ("deco-rolling", "thompson"):
        with refused("unsupported", "policy"):
            create_trial(problem_of(**settings), policy=policy, db=store)
        return
    trial = create_trial(problem_of(**settings), policy=policy, db=store, seed=4, max_cancelled=99)
    code, status = played(trial), trial.status()
    assert code in ("budget_spent", "no_free_slot")
    assert status.spent == pytest.approx(cost_of(trial), abs=1e-12)
    assert (status.spent or 0.0) + (status.left or 0.0) == pytest.approx(5.0, abs=1e-12)
    assert (status.finished, status.next_pulls, status.bound_from_here) == (True, None, 0.0)
    assert trial.verify().ok
    assert trial.replay().findings == ()
    report = trial.report()
    assert (report.spent, report.left) == (status.spent, status.left)


def test_decisions_without_pending_outcomes_are_those_of_the_policy(store: Store) -> None:
    for name in ("deco", "greedy", "deco-rolling"):
        trial, draw = create_trial(problem_of(), policy=name, db=store, seed=1), random.Random(5)
        policy: Policy = trial.settings.make_policy()
        while (status := trial.status()).next_pulls is not None:
            state = trial.read().known
            expected = policy.allocation(status.stage, state)
            slot = trial.ask()
            assert tuple(slot.pulls.get(arm, 0) for arm in "abc") == expected
            if slot.pulls:
                trial.tell(slot.id, draw.randrange(2))


def test_the_bound_from_here_is_above_the_optimum_of_what_is_left(store: Store) -> None:
    trial, draw = create_trial(problem_of(horizon=6), policy="deco", db=store), random.Random(2)
    assert trial.status().bound_from_here == pytest.approx(trial.status().upper_bound, abs=1e-12)
    while not (status := trial.status()).finished:
        priors = [(arm.posterior_good or 0.0, arm.posterior_bad or 0.0) for arm in status.arms]
        left = Experiment(priors, 6 - status.stage, costs=COSTS, budget=status.left)
        assert status.bound_from_here is not None
        assert status.bound_from_here >= best(left) - 1e-12
        slot = trial.ask()
        if slot.pulls:
            trial.tell(slot.id, draw.randrange(2))


def test_a_stage_may_have_no_pull(store: Store) -> None:
    """All arms are too dear at the first two stages."""
    costs = [(9.0, 9.0, *[1.0] * 6)] * 3
    trial = create_trial(problem_of(2.0, costs), policy="greedy", db=store)
    first = trial.ask(subject="one")
    assert (first.arm, first.pulls, first.state, first.pending) == (None, {}, "told", 0)
    assert trial.ask(subject="one") == first
    with refused("conflict"):
        trial.cancel(first.id, reason="x")
    pulls = [trial.ask().pulls for _ in range(3)]
    assert [sum(one.values()) for one in pulls] == [0, 1, 1]
    with refused("budget_spent"):
        trial.ask()
    status = trial.status()
    assert (status.stage, status.pending, status.finished, status.spent) == (4, 2, False, 2.0)
    assert trial.replay().ok


def test_cancelled_pulls_cost_nothing_and_lost_ones_do(store: Store) -> None:
    trial = create_trial(problem_of(**BATCH), policy="greedy", db=store)
    first = trial.ask()
    trial.cancel(first.id, reason="x")
    assert trial.money == (0.0, 5.0)
    again = trial.ask()
    arm = next(iter(again.pulls))
    trial.tell(again.id, {arm: (1, 1)})
    paid = trial.status().spent
    trial.cancel(again.id, reason="x")
    assert trial.status().spent == paid == cost_of(trial) > 0.0


def test_the_best_arm_is_deployed_when_the_money_is_spent(store: Store) -> None:
    problem = problem_of(1.0, horizon=6, terminal=Terminal(deploy=10.0))
    trial = create_trial(problem, policy="greedy", db=store)
    for _ in range(2):
        trial.tell(trial.ask().id, 1)
    status = trial.status()
    assert (status.finished, status.deployment, status.stage) == (True, "b", 2)
    assert status.bound_from_here == pytest.approx(10.0 * 2 / 3)


def test_arms_join_and_leave_with_costs(store: Store) -> None:
    trial = create_trial(problem_of(6.0), policy="deco", db=store, seed=1)
    for outcome in (1, 0):
        trial.tell(trial.ask().id, outcome)
    left, before = trial.status().left, trial.status().bound_from_here
    with refused("bad_request", "arm"):
        trial.add_arm(Arm(name="late"), reason="no cost")
    trial.add_arm(Arm(name="late", prior=BetaBernoulli(9, 1), cost=0.25), reason="ready")
    status = trial.status()
    assert (status.left, status.next_arm) == (left, "late")
    assert status.bound_from_here is not None
    assert before is not None
    assert status.bound_from_here > before
    trial.ask()
    assert trial.status().left == pytest.approx((left or 0.0) - 0.25)
    trial.close_arm("late", reason="unsafe")
    assert played(trial) in ("budget_spent", "no_free_slot")
    assert trial.verify().ok
    assert trial.replay().findings == ()


def test_a_log_that_overspends_is_found_out(store: Store) -> None:
    trial = create_trial(problem_of(1.0), policy="greedy", db=store)
    trial.ask()
    check, previous = LogCheck(trial.id), "0" * 64
    for event in trial.events():
        data = event.data
        if event.kind == "asked":
            data = data | {"arm": "b", "pulls": {"b": 1}}
        about = (event.trial, event.seq, event.kind, data)
        later = new_event(*about, previous=previous, at=event.at, by=event.by, key=event.key)
        previous = later.hash
        check.add(StoredEvent(later.seq, later.kind, later.key, later.body, later.hash))
    assert "more than is left of the budget" in check.problems[0]


def test_rules_of_a_design_do_not_know_money(store: Store) -> None:
    with refused("unsupported", "budget"):
        create_trial(problem_of(), design=Rules(burn_in=1), db=store)


def test_measurements_within_a_budget(store: Store) -> None:
    arms = [
        Arm(name=n, prior=NormalNormal(1, 1), noise_sd=1.0, cost=c)
        for n, c in zip("ab", (1.0, 0.4), strict=True)
    ]
    trial = create_trial(Problem(horizon=6, arms=arms, budget=2.5), db=store, seed=2)
    while trial.status().next_pulls is not None:
        slot = trial.ask()
        if slot.pulls:
            trial.tell(slot.id, 0.5)
    assert 2.0 < (trial.status().spent or 0.0) <= 2.5
    assert trial.replay().ok


def test_pages_and_answers_show_the_money(tmp_path: Path) -> None:
    site = Site(tmp_path)
    try:
        arms = [{"name": "a", "cost": 1.0}, {"name": "b", "cost": 0.5}]
        problem = {"horizon": 4, "budget": 1.0, "arms": arms}
        made = site.post("/trials", {"problem": problem, "name": "shop", "policy": "greedy"})
        assert made.status == 201
        first = site.post("/trials/shop/ask").json
        assert first["arm"] == "b"
        status = site.get("/trials/shop").json
        assert (status["spent"], status["left"]) == (0.5, 0.5)
        assert "spent" not in site.get("/trials/shop", "operator").json
        site.post("/trials/shop/ask")
        assert site.post("/trials/shop/ask").code == "budget_spent"
        browser = Browser(site, "viewer")
        for tab in ("", "/results", "/why", "/allocations", "/audit"):
            assert "Budget: 1 spent, 0 left." in browser.get(f"/trials/{made.json['id']}{tab}").text
        blinded = Browser(site, "operator").get(f"/trials/{made.json['id']}").text
        assert "Budget" not in blinded
    finally:
        site.close()
