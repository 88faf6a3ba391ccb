"""Many threads and many processes on one trial: nobody overbooks it, nothing is lost.

800 tells by 8 processes of 4 threads; DECO_TELLS=10000 asks for more.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from decobandit.dual import solve
from decobandit.problem import Arm, Beta, Problem
from decobandit.trials import create_trial, open_store, open_trial
from decobandit.trials.errors import Conflict, NoFreeSlot
from nursery import Nursery
from program import PATIENCE

pytest_plugins = ["databases"]

TELLS = int(os.environ.get("DECO_TELLS", "800"))
WRITERS, THREADS = 8, 4
ARMS = (Arm(name="a", prior=Beta(good=1, bad=1)), Arm(name="b", prior=Beta(good=2, bad=1)))


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
        kinds = [event.kind for event in trial.events()]
        assert (kinds.count("told"), kinds.count("refused")) == (1, 16)
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
            create_trial(problem, name=name, db=store, solution=solution)
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
