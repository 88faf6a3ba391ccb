"""What comes of a refused request that is repeated, and of reading while others write."""

import copy
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection

from decobandit import Problem, solve
from decobandit.problem import State
from decobandit.problem.model import Terminal
from decobandit.trials import (
    Conflict,
    NoFreeSlot,
    create_trial,
    list_trials,
    open_store,
    open_trial,
    verify_export,
)
from helpers.policies import Bench
from helpers.refusals import refused


def test_a_refusal_with_a_key_is_repeated_without_a_second_event(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=6), db=store)
        slot = trial.ask()
        trial.tell(slot.id, 1)
        said = []
        for _ in range(3):
            with pytest.raises(Conflict) as refusal:
                trial.tell(slot.id, 0, key="r")
            said.append(str(refusal.value))
        assert len(set(said)) == 1
        assert [event.kind for event in trial.events()].count("refused") == 1
        with refused("conflict", "key"):
            trial.ask(key="r")
        assert trial.status().allocated == 1


def test_an_export_is_of_one_moment(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=500), db=store)
        stop = threading.Event()

        def write() -> None:
            with suppress(NoFreeSlot):  # the exports may take longer than the trial
                while not stop.is_set():
                    trial.tell(trial.ask().id, 1)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            exports = [trial.export() for _ in range(10)]
        finally:
            stop.set()
            writer.join()
    assert len({tree["head"] for tree in exports}) > 1  # there was something to get wrong
    for tree in exports:
        assert tree["head"] == tree["status"]["head"]
        assert sum(slot["state"] == "told" for slot in tree["allocations"]) == (
            sum(event["kind"] == "told" for event in tree["events"])
        )
        assert verify_export(tree).ok


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be listed here")
def test_a_list_leaves_no_connection_behind(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        create_trial(Problem.uniform(arms=2, horizon=6), db=store, name="only")
    assert [one.name for one in list_trials(db=tmp_path / "t.db")] == ["only"]
    with pytest.raises(Conflict):
        create_trial(Problem.uniform(arms=2, horizon=6), db=tmp_path / "t.db", name="only")
    open_files = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [fd for fd in open_files if str(fd.resolve()).startswith(str(tmp_path / "t.db"))]


def test_a_disk_that_fills_up_under_a_shared_commit_loses_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=3, horizon=400), db=store)
        trial.ask()
        run = store._run
        full: list[bool] = []

        def tight(connection: Connection, jobs: list[Any]) -> None:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            room = pages + 2 if len(jobs) > 1 else 10**6
            connection.exec_driver_sql(f"PRAGMA max_page_count={room}")
            full.append(len(jobs) > 1)
            run(connection, jobs)

        store._run = tight  # type: ignore[method-assign]
        acknowledged: list[str] = []
        asking = [
            threading.Thread(target=lambda: acknowledged.append(trial.ask().id)) for _ in range(20)
        ]
        with store._commit_lock:  # nobody can lead: the works queue up and share one commit
            for thread in asking:
                thread.start()
            while len(store._queue) < len(asking):
                time.sleep(0.01)
        for thread in asking:
            thread.join()
        assert any(full)
        kept = {slot.id for slot in trial.allocations()}
        assert len(acknowledged) == 20
        assert set(acknowledged) <= kept
        assert len(kept) == 21
        assert trial.verify().ok


def test_a_key_belongs_to_a_person_and_nobody_else_can_use_it_up(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=6), db=store)
        first = trial.ask(key="visit-1", by="ann")
        assert trial.ask(key="visit-1", by="ann") == first
        second = trial.ask(key="visit-1", by="bob")
        assert second.id != first.id
        trial.tell(first.id, 1, key="visit-2", by="bob")  # bob was first with this one
        assert trial.tell(second.id, 0, key="visit-2", by="ann").outcome == 0
        with refused("conflict", "key"):
            trial.tell(second.id, 0, key="visit-1", by="ann")
        assert trial.verify().ok
    with open_store(tmp_path / "t.db") as store:  # and when all is read again
        again = open_trial(trial.id, db=store)
        assert [again.ask(key="visit-1", by=by) for by in ("ann", "bob")] == [first, second]


def test_identical_refusals_are_counted_not_logged_without_end(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=6), db=store)
        slot, other = trial.ask(), trial.ask()
        trial.tell(slot.id, 1)
        trial.tell(other.id, 1)
        for number in range(300):
            with refused("conflict", "outcome"):
                trial.tell(slot.id, 0, key=f"try {number}" if number % 2 else None)
        with refused("conflict", "outcome"):  # another one is another one
            trial.tell(other.id, 0)
        with refused("conflict", "outcome"):
            trial.tell(slot.id, 0, by="bob")
        refusals = [event for event in trial.events() if event.kind == "refused"]
        times = [event.data["times"] for event in refusals]
        assert times == [*range(1, 17), 32, 64, 128, 256, 1, 1]
        assert trial.verify().ok
        assert trial.replay().ok


def test_different_refusals_of_one_person_are_logged_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decobandit.trials.event_log.MAX_REFUSALS", 5)
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=20), db=store)
        slots = [trial.ask() for _ in range(10)]
        for slot in slots:
            trial.tell(slot.id, 1)
        for by in ("ann", "bob"):
            for slot in slots:
                with pytest.raises(Conflict):
                    trial.tell(slot.id, 0, by=by)
        people = [event.by for event in trial.events() if event.kind == "refused"]
        assert people == ["ann"] * 5 + ["bob"] * 5


def test_the_pulls_of_a_stage_come_from_one_draw_and_cancelling_draws_nothing_new(
    tmp_path: Path,
) -> None:
    problem = Problem.uniform(arms=4, horizon=30, pulls_per_stage=2)
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(problem, policy="thompson", db=store, seed=11, max_cancelled=180)
        policy = Bench(problem).policy("thompson")
        state = State.fresh(4)
        for stage in range(30):
            drawn = policy.select(stage, state, np.random.default_rng([11, stage]))
            again = [trial.cancel(trial.ask().id, reason="gone").pulls for _ in range(3)]
            slot = trial.ask()
            arms = [int(name.removeprefix("arm-")) - 1 for name in slot.pulls]
            assert again == [slot.pulls] * 3
            assert set(arms) == set(drawn)
            trial.tell(slot.id, [(f"arm-{arm + 1}", (stage + arm) % 2) for arm in arms])
            for arm in arms:
                state = state.after(arm, bool((stage + arm) % 2))
        assert trial.replay().ok


def test_a_trial_is_never_stuck_by_cancellations(tmp_path: Path) -> None:
    problem = Problem.uniform(arms=2, horizon=5, pulls_per_stage=2)
    for policy in ("deco", "thompson", "optimal", "deco-rolling", "equal"):
        with open_store(tmp_path / f"{policy}.db") as store:
            trial = create_trial(problem, policy=policy, db=store)
            a, b, c = trial.ask(), trial.ask(), trial.ask()
            for slot in (a, c):
                trial.tell(slot.id, dict.fromkeys(slot.pulls, "1/1"))
            trial.cancel(b.id, reason="gone")
            for _ in range(3):
                slot = trial.ask()
                trial.tell(slot.id, dict.fromkeys(slot.pulls, "0/1"))
            assert trial.status().finished
            assert trial.replay().ok


def test_a_solution_is_not_believed(tmp_path: Path) -> None:
    problem, other = Problem.uniform(arms=3, horizon=10), Problem.uniform(arms=5, horizon=20)
    with open_store(tmp_path / "t.db") as store:
        with refused("bad_request", "solution"):
            create_trial(problem, solution=solve(other), db=store)
        halved = replace(solve(problem), upper_bound=3.0, lower_bound=2.0)
        with refused("bad_request", "solution"):
            create_trial(problem, solution=halved, db=store)
        assert list_trials(db=store) == []


@pytest.mark.parametrize("name", ["", "a/b", "-x", "0123456789abcdef", "a\tb", "x" * 101])
def test_names_by_which_a_trial_could_not_be_found_are_refused(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path / "t.db") as store, refused("bad_request", "name"):
        create_trial(Problem.uniform(arms=2, horizon=3), db=store, name=name)


def test_what_an_export_shows_is_checked_too(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=6), db=store)
        trial.tell(trial.ask().id, 1)
        assert verify_export(trial.export()).ok

        def forged(change: Callable[[dict[str, Any]], object]) -> bool:
            tree = copy.deepcopy(trial.export())
            change(tree)
            return verify_export(tree).ok

        assert not forged(lambda tree: tree["events"][2]["data"].update(outcome=0))
        assert not forged(lambda tree: tree["events"][2].update(by="mallory"))
        assert not forged(lambda tree: tree["allocations"][0].update(outcome=0))
        assert not forged(lambda tree: tree["status"]["arms"][0].update(good=99))
        assert not forged(lambda tree: tree.update(name="other"))
        assert not forged(lambda tree: tree["events"][1].update(body=None))
        assert not forged(lambda tree: tree["events"][1].update(body="\ud800"))


def test_the_worth_of_the_kept_arm_is_exact_at_the_end(tmp_path: Path) -> None:
    problem = Problem.uniform(arms=2, horizon=3).model_copy(
        update={"terminal": Terminal(deploy=50)}
    )
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(problem, db=store)
        for _ in range(3):
            trial.tell(trial.ask().id, 1)
        status = trial.status()
        means = {
            arm.name: arm.posterior_good / (arm.posterior_good + arm.posterior_bad)
            for arm in status.arms
        }
        assert status.deployment == max(means, key=lambda name: means[name])
        assert status.bound_from_here == pytest.approx(50 * max(means.values()), abs=1e-12)


def test_one_damaged_trial_does_not_hide_the_others(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        for name in ("good", "bad"):
            create_trial(Problem.uniform(arms=2, horizon=3), db=store, name=name).ask()
    with closing(sqlite3.connect(tmp_path / "t.db")) as raw, raw:
        raw.execute(
            "UPDATE events SET body = X'ff00' WHERE seq = 1 AND trial_id = "
            "(SELECT id FROM trials WHERE name = 'bad')"
        )
    listed = {one.name: one.intact for one in list_trials(db=tmp_path / "t.db")}
    assert listed == {"good": True, "bad": False}
