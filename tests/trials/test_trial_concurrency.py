"""Many threads and many processes on one trial: nobody overbooks it, nothing is lost.

800 tells by 8 processes of 4 threads; DECO_TELLS=10000 asks for more.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event, Thread, local
from typing import Any

import pytest
from sqlalchemy import Connection

from decobandit.arm import Calibration, KnotCalibration, calibration
from decobandit.arm.calibration import TickCalibration
from decobandit.policies import CalibratedPolicy, calibrated
from decobandit.prices import solve
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward
from decobandit.trials import Store, create_trial, open_store, open_trial, recording
from decobandit.trials import decisions as deciders
from decobandit.trials.database import MAX_SHARED
from decobandit.trials.decisions import Decider, Decision, decider_of
from decobandit.trials.errors import Conflict, NoFreeSlot, StoreError
from decobandit.trials.ledger import Ledger
from helpers.nursery import Nursery
from helpers.program import PATIENCE

pytest_plugins = ["helpers.databases"]

TELLS = int(os.environ.get("DECO_TELLS", "800"))
WRITERS, THREADS = 8, 4
ARMS = (
    Arm(name="a", prior=BetaBernoulli(good=1, bad=1)),
    Arm(name="b", prior=BetaBernoulli(good=2, bad=1)),
)


def at_once(threads: int, act: Any) -> list[Any]:
    """act(number) in that many threads, which all begin together; results or errors."""
    start = Barrier(threads)

    def run(number: int) -> Any:
        start.wait()
        try:
            return act(number)
        except Conflict as error:
            return error

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def test_one_of_64_gets_the_last_slot(db: str) -> None:
    with open_store(db) as store:
        trial = create_trial(Problem(arms=ARMS, horizon=3), db=store)
        for _ in range(2):
            trial.ask()
        answers = at_once(64, lambda number: trial.ask())
        won = [answer for answer in answers if not isinstance(answer, Conflict)]
        assert len(won) == 1
        assert sum(isinstance(answer, NoFreeSlot) for answer in answers) == 63
        assert [slot.id for slot in trial.allocations()][2:] == [won[0].id]
        assert trial.verify().ok


def test_stores_of_their_own_do_not_overbook_either(db: str) -> None:
    with open_store(db) as store:
        trial = create_trial(Problem(arms=ARMS, horizon=5), name="wheat", db=store)

        def act(number: int) -> Any:
            with open_store(db) as own:
                return open_trial("wheat", db=own).ask()

        answers = at_once(12, act)
        assert sum(isinstance(answer, NoFreeSlot) for answer in answers) == 7
        assert len({slot.id for slot in trial.allocations()}) == 5
        assert trial.verify().ok


def test_one_key_from_many_threads_is_one_request(db: str) -> None:
    with open_store(db) as store:
        trial = create_trial(Problem(arms=ARMS, horizon=9), db=store)
        answers = at_once(32, lambda number: trial.ask(key="the same"))
        assert len({answer.id for answer in answers}) == 1
        assert trial.status().allocated == 1


def test_contradicting_tells_from_many_threads_leave_one_outcome(db: str) -> None:
    with open_store(db) as store:
        trial = create_trial(Problem(arms=ARMS, horizon=9), db=store)
        slot = trial.ask()
        answers = at_once(32, lambda number: trial.tell(slot.id, number % 2))
        outcomes = {answer.outcome for answer in answers if not isinstance(answer, Conflict)}
        assert len(outcomes) == 1
        assert sum(isinstance(answer, Conflict) for answer in answers) == 16
        events = trial.events()
        assert [event.kind for event in events].count("told") == 1
        refused = [event.data["times"] for event in events if event.kind == "refused"]
        assert refused == list(range(1, 17))  # one by one up to MAX_SINGLE_REFUSALS, then counted
        assert trial.verify().ok


def test_names_are_unique_even_in_a_race(db: str) -> None:
    with open_store(db) as store:
        problem = Problem(arms=ARMS, horizon=2)

        def act(number: int) -> Any:
            return create_trial(problem, name="wheat", db=store)

        answers = at_once(8, act)
        assert sum(isinstance(answer, Conflict) for answer in answers) == 7


def test_writers_in_many_processes_lose_nothing(db: str, nursery: Nursery) -> None:
    # PostgreSQL syncs every commit on its own: fewer will do
    pairs = max(TELLS // 4, WRITERS) if "://" in db else TELLS
    problem = Problem(arms=ARMS, horizon=200)
    names = [f"trial {number}" for number in range(-(-pairs // problem.horizon))]
    with open_store(db) as store:
        solution = solve(problem)
        for name in names:
            create_trial(problem, name=name, policy="deco", db=store, solution=solution)
    each = pairs // WRITERS
    jobs = [("tell_pairs", db, names, each, seed, THREADS) for seed in range(WRITERS)]
    said = nursery.side_by_side(jobs, patience=PATIENCE + pairs)
    assert [line["ended"] for line in said if "ended" in line] == [0] * WRITERS
    acknowledged = {
        (line["trial"], line["slot"]): line["outcome"] for line in said if "done" in line
    }
    assert len(acknowledged) == WRITERS * each
    with open_store(db) as store:
        trials = [open_trial(name, db=store) for name in names]
        kept = {
            (trial.id, slot.id): slot.outcome for trial in trials for slot in trial.allocations()
        }
        assert kept == acknowledged
        assert all(trial.verify().ok for trial in trials)
        assert sum(trial.verify().events for trial in trials) == len(trials) + 2 * len(kept)
        assert all(trial.status().told <= problem.horizon for trial in trials)


def held_when_deciding(db: str, monkeypatch: pytest.MonkeyPatch, policy: str) -> list[bool]:
    """Whether the writers' lock was held at each decision of three asks."""
    held = []
    decide = Decider.decide
    with open_store(db) as store:
        problem = Problem(
            arms=[*ARMS, Arm(name=f"c {policy}", prior=BetaBernoulli(good=1, bad=3))], horizon=7
        )
        trial = create_trial(problem, policy=policy, db=store, seed=1, tol=1e-2)

        def watched(self: Decider, ledger: Ledger) -> Decision:
            held.append(store._commit_lock.locked())
            return decide(self, ledger)

        monkeypatch.setattr(Decider, "decide", watched)
        for _ in range(3):
            trial.ask()
        assert trial.replay().ok
        return held[:3]


@pytest.mark.parametrize("policy", ["deco", "fh-gittins"])
def test_tables_are_made_before_the_writers_lock_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    held = held_when_deciding(str(tmp_path / "t.db"), monkeypatch, policy)
    assert held == [False, True, True]


@pytest.mark.parametrize("policy", ["ids", "deco-rolling"])
def test_no_writer_waits_for_a_policy_that_searches_or_solves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    held = held_when_deciding(str(tmp_path / "t.db"), monkeypatch, policy)
    assert held == [False, False, False]


@pytest.mark.parametrize("policy", ["fh-gittins", "ids"])
def test_asks_at_once_of_policies_of_every_cost_get_slots_of_their_own(
    db: str, policy: str
) -> None:
    with open_store(db) as store:
        trial = create_trial(Problem(arms=ARMS, horizon=12), policy=policy, db=store, seed=4)
        answers = at_once(12, lambda number: trial.ask())
        assert len({answer.id for answer in answers}) == 12
        assert trial.verify().ok
        assert trial.replay().ok


@contextmanager
def computing_watched(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether a transaction of the thread was open, each time that indices are computed."""
    inside, computed = local(), list[bool]()
    run = Store._run

    def running(self: Store, connection: Connection, jobs: list[Any]) -> None:
        inside.open = self is store
        try:
            run(self, connection, jobs)
        finally:
            inside.open = False

    def watched(make: Callable[..., Any]) -> Callable[..., Any]:
        def making(*args: Any) -> Any:
            computed.append(getattr(inside, "open", False))
            return make(*args)

        return making

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_run", running)
        patch.setattr(KnotCalibration, "_solved", watched(KnotCalibration._solved))
        patch.setattr(Calibration, "_span_of", watched(Calibration._span_of))
        patch.setattr(TickCalibration, "index", watched(TickCalibration.index))
        yield computed


@pytest.mark.parametrize("case", ["knots", "spans of tables", "one state at a time"])
def test_no_index_is_computed_while_a_transaction_is_open(
    db: str, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """16 threads ask and tell; decisions made ahead are those that a new policy makes."""
    rewards = [Reward(good=1.0, bad=0.0), Reward(good=0.8, bad=0.1)]
    arms = [Arm(name=f"arm {k}", reward=reward) for k, reward in enumerate(rewards)]
    problem = Problem(arms=arms, horizon=48)
    computations = 1
    if case == "knots":
        monkeypatch.setattr(CalibratedPolicy, "knots_beyond", 20)
    elif case == "spans of tables":
        monkeypatch.setattr(calibration, "SPAN_BYTES", 2 * 8 * 7_000)
        problem, computations = Problem(arms=arms, horizon=60), 3
    else:
        monkeypatch.setattr(calibrated, "TABLE_STAGES", 20)
        problem, computations = Problem.uniform(arms=2, horizon=48), 48  # a path with ticks
    deciders._DECIDERS.clear()
    calibration._SHARED.clear()
    with open_store(db) as store:
        trial = create_trial(problem, policy="deco-calibrated", db=store, seed=3)
        with computing_watched(store, monkeypatch) as computed:

            def ask_and_tell(number: int) -> None:
                for _ in range(3):
                    trial.tell(trial.ask().id, number % 2)

            at_once(16, ask_and_tell)
            for _ in range(problem.horizon - 48):
                trial.tell(trial.ask().id, 1)
        assert len(computed) >= computations
        assert not any(computed)
        assert trial.status().finished
        assert trial.replay().ok
        ledger, new = Ledger(trial.id), Decider(trial.settings)  # nothing is kept from before
        for event in trial.events():
            if event.kind == "asked":
                again = new.decide(ledger)
                assert event.data["decision"]["index"] == list(again.index or ())
                assert event.data["arm"] == problem.arms[again.arm].name
            ledger = ledger.extended([event])


def test_a_transaction_does_not_wait_for_a_thread_that_decides(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem(arms=ARMS, horizon=9), db=store, seed=1, policy="deco")
        trial.ask()
        decider = decider_of(trial.settings)
        asked, free = Event(), Event()

        def decide_for_long() -> None:
            with decider._lock:
                asked.set()
                free.wait(PATIENCE)

        with ThreadPoolExecutor(2) as pool:
            long = pool.submit(decide_for_long)
            asked.wait(PATIENCE)
            waiting = pool.submit(trial.ask)
            store.write(lambda connection: None)  # nobody holds the writers' lock
            assert not waiting.done()
            free.set()
            long.result()
            assert waiting.result().state == "open"


def test_turns_come_in_the_order_of_those_who_wait() -> None:
    lock, order = recording.FairLock(), list[int]()
    threads = []

    def wait(number: int) -> None:
        with lock.held(PATIENCE):
            order.append(number)

    with lock.held():
        with pytest.raises(StoreError), lock.held(0.01):
            pass  # one that gave up leaves no gap
        for number in range(8):
            threads.append(Thread(target=wait, args=[number]))
            threads[-1].start()
            while len(lock._turns) <= number + 1:
                time.sleep(0.001)
    for thread in threads:
        thread.join(PATIENCE)
    assert order == list(range(8))
    assert not lock.locked()


def test_an_earlier_stage_than_any_before_is_prepared_before_the_lock_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(
        arms=[*ARMS, Arm(name="late first", prior=BetaBernoulli(good=1, bad=1))], horizon=9
    )
    held = []
    with open_store(tmp_path / "t.db") as store:
        first = create_trial(problem, db=store, policy="deco", seed=1)
        for _ in range(6):
            first.ask()
        decider_of(first.settings)._prepared_from = 6  # as if only late stages had been asked for
        second = create_trial(problem, db=store, policy="deco", seed=2)
        decide = Decider.decide

        def watched(self: Decider, ledger: Ledger) -> Decision:
            held.append((ledger.stage, store._commit_lock.locked()))
            return decide(self, ledger)

        monkeypatch.setattr(Decider, "decide", watched)
        first.ask()
        second.ask()
        second.ask()
    assert held == [(6, True), (0, False), (1, True)]


def test_asks_and_tells_at_once_of_a_policy_that_solves_are_all_answered(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions take many times as long as the tells that outrun them."""
    decide = Decider.decide

    def slowly(self: Decider, ledger: Ledger) -> Decision:
        time.sleep(0.05)
        return decide(self, ledger)

    monkeypatch.setattr(Decider, "decide", slowly)
    threads, pairs = 8, 3
    with open_store(db) as store:
        problem = Problem(arms=ARMS, horizon=threads * pairs)
        made = create_trial(problem, policy="deco-rolling", db=store, seed=4, tol=1e-2)

        def ask_and_tell(number: int) -> int:
            trial = open_trial(made.id, db=store)  # handles of their own share the turns
            for pair in range(pairs):
                trial.tell(trial.ask().id, (number + pair) % 2)
            return pairs

        assert at_once(threads, ask_and_tell) == [pairs] * threads
        assert made.status().finished
        assert made.verify().ok
        assert made.replay().ok


def test_a_change_waits_for_an_ask_that_was_outrun_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "TURN_SECONDS", 0.05)
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem(arms=ARMS, horizon=5), policy="ids", db=store, seed=4)
        slot = trial.ask()
        with (
            recording.turns_of(store, trial.id).changes.held(),
            pytest.raises(StoreError, match="wait"),
        ):
            trial.tell(slot.id, 1)
        assert trial.tell(slot.id, 1).outcome == 1


def test_a_busy_trial_does_not_delay_another(tmp_path: Path) -> None:
    """Forty changes of one trial wait; one of another trial is in the next commit all the same."""
    with open_store(tmp_path / "t.db") as store:
        order, began, free = list[str](), Event(), Event()

        def hold(connection: Connection) -> None:
            began.set()
            free.wait(PATIENCE)

        first = store.submit(hold)
        began.wait(PATIENCE)
        busy = [store.submit(lambda _, n=n: order.append(f"busy {n}"), "busy") for n in range(40)]
        other = store.submit(lambda _: order.append("other"), "other")
        free.set()
        for job in (first, other, *busy):
            job.result(PATIENCE)
    assert order.index("other") < MAX_SHARED
    assert [name for name in order if name != "other"] == [f"busy {n}" for n in range(40)]
