"""A process that is killed while it writes loses nothing that it has acknowledged.

12 lives of a worker end by SIGKILL at random moments, and 6 of the program and the server, whose
starts take seconds; DECO_KILLS=200 asks for more, and `make test-faults` strikes a thousand times.
"""

import json
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from decobandit.prices import solve
from decobandit.problem import Arm, BetaBernoulli, Problem
from decobandit.trials import create_trial, list_trials, open_store, open_trial
from helpers.nursery import Life, Nursery
from helpers.program import DECO, PATIENCE, deco_installed
from helpers.served import Client, serving
from helpers.trial_worker import send

pytest_plugins = ["helpers.databases"]

KILLS = int(os.environ.get("DECO_KILLS", "12"))
STARTED = max(3, KILLS // 4)  # of those, of the program and of the server
POLICY = "deco"  # its tables are made at once, in every process anew
PROBLEM = Problem(
    arms=(
        Arm(name="a", prior=BetaBernoulli(good=1, bad=1)),
        Arm(name="b", prior=BetaBernoulli(good=2, bad=1)),
    ),
    horizon=150,
)


def check_and_repeat(db: str, life: Life, events_before: int) -> int:
    """All that was acknowledged is there; what was not can be sent again. Events now."""
    with open_store(db) as store:
        trial = open_trial("wheat", db=store)
        found = trial.verify()
        assert found.problems == ()
        by_key = {event.key: event for event in trial.events() if event.key}
        for key, said in life.done.items():
            event, asked = by_key[key], life.about[key]
            assert event.kind == asked["kind"]
            assert event.data["allocation"] == said["made"]
            assert event.data.get("outcome") == asked["outcome"]
        in_flight = life.about.keys() - life.done.keys()
        assert len(in_flight) <= 1
        assert found.events - events_before - len(life.done) in (0, len(in_flight))
        for key in in_flight:
            said = life.about[key]
            send(trial, key, said["kind"], said["slot"], said["outcome"])
        events = trial.verify().events
        assert events == events_before + len(life.about)  # got through or not, it counts once
        return events


def outlive(db: str, nursery: Nursery, kills: int) -> list[float]:
    """Kill and check, again and again; the seconds from each start to the first answer."""
    with open_store(db) as store:
        create_trial(PROBLEM, name="wheat", db=store, policy=POLICY, seed=1, max_cancelled=10**6)
    rng, events, seconds = random.Random(kills), 1, []
    for number in range(kills):
        acks, delay = rng.randrange(1, 12), rng.uniform(0.0, 0.03)
        life = nursery.life("write_for_ever", db, "wheat", number, acks=acks, delay=delay)
        assert life.code == -signal.SIGKILL
        events = check_and_repeat(db, life, events)
        seconds.append(life.seconds_to_first)
    with open_store(db) as store:
        assert open_trial("wheat", db=store).replay().ok
    return seconds


def test_killed_writers_lose_nothing_on_sqlite(
    sqlite: str, nursery: Nursery, record_property: Any
) -> None:
    seconds = outlive(sqlite, nursery, KILLS)
    record_property("slowest_next_start_seconds", max(seconds))
    print(f"{KILLS} kills; slowest next start: {max(seconds):.2f} s")


def test_killed_writers_lose_nothing_on_postgresql(postgresql: str, nursery: Nursery) -> None:
    outlive(postgresql, nursery, max(3, KILLS // 10))


def test_a_database_whose_making_was_killed_can_be_used(tmp_path: Path, nursery: Nursery) -> None:
    source, rng = str(tmp_path / "source.db"), random.Random(3)
    create_trial(PROBLEM, name="source", db=source, policy=POLICY).store.close()
    for number in range(max(6, KILLS // 4)):
        db = str(tmp_path / f"{number}.db")
        # the first half die while the tables are made, the others in the second trial or later
        acks, delay = (0, rng.uniform(0.0, 0.3)) if number % 2 else (1, rng.uniform(0.0, 0.03))
        life = nursery.life("create_for_ever", db, source, number, acks=acks, delay=delay)
        assert life.code == -signal.SIGKILL
        with open_store(db) as store:
            names = {one.name for one in list_trials(db=store)}
            assert life.done.keys() <= names <= life.about.keys()
            assert all(open_trial(name, db=store).verify().ok for name in names)
            assert create_trial(PROBLEM, name="next", db=store, policy=POLICY).ask().stage == 0


def test_a_full_disk_loses_nothing(sqlite: str, nursery: Nursery) -> None:
    with open_store(sqlite) as store:
        create_trial(PROBLEM, name="wheat", db=store, policy=POLICY, seed=1, max_cancelled=10**6)
    events = 1
    for number, more in enumerate((0, 4096, 20_000)):
        said = nursery.side_by_side([("write_until_full", sqlite, "wheat", number, more)])
        (refusal,) = (line["refused"] for line in said if "refused" in line)
        assert sqlite in refusal
        life = Life(
            {line["about"]: line for line in said if "about" in line},
            {line["done"]: line for line in said if "done" in line},
        )
        assert len(life.about) == len(life.done) + 1
        events = check_and_repeat(sqlite, life, events)


# -- the program and the server -----------------------------------------------------------------


def test_a_killed_program_has_written_all_or_nothing(sqlite: str) -> None:
    with open_store(sqlite) as store:
        trial = create_trial(
            PROBLEM, name="wheat", db=store, policy=POLICY, seed=1, max_cancelled=10**6
        )
        began = time.monotonic()
        asking = ["trial", "ask", "wheat", "--db", sqlite, "--by", "library", "--json", "--key"]
        first = deco_installed(*asking, "0").json["id"]
        usual, rng = time.monotonic() - began, random.Random(4)
        for number in range(1, 1 + STARTED):
            out = killed_after([DECO, *asking, str(number)], usual * rng.uniform(0.5, 1.1))
            kept = {event.key: event.data["allocation"] for event in trial.events() if event.key}
            assert trial.verify().ok
            assert kept["0"] == first
            if out.endswith("}\n"):
                assert kept[str(number)] == json.loads(out)["id"]
            again = trial.ask(key=str(number))
            assert kept.get(str(number), again.id) == again.id
        assert trial.verify().events == 2 + STARTED


def killed_after(command: list[Any], seconds: float) -> str:
    """What a program has printed until it is killed."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, text=True) as process:
        try:
            return process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0]


def test_a_killed_server_has_kept_every_answer(sqlite: str) -> None:
    lives, clients = STARTED, 4
    large = PROBLEM.model_copy(update={"horizon": clients * Client.PAIRS})
    solution, rng = solve(large, tol=0.01), random.Random(6)
    unanswered: dict[str, tuple[str, dict[str, Any]]] = {}
    for life in range(lives):
        with open_store(sqlite) as store:
            create_trial(large, name=str(life), db=store, policy=POLICY, solution=solution)
        with serving(sqlite) as served:
            for path, body in unanswered.values():  # what the last life left open
                served.post(path, body)
            asking = [Client(f"{life}-{k}", served.port, str(life)) for k in range(clients)]
            threads = [threading.Thread(target=client.run) for client in asking]
            for thread in threads:
                thread.start()
            give_up = time.monotonic() + PATIENCE
            while not all(client.answered for client in asking) and time.monotonic() < give_up:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.4))
            served.process.kill()
            for thread in threads:
                thread.join()
        with open_store(sqlite) as store:
            trials = [open_trial(str(number), db=store) for number in range(life + 1)]
            assert all(trial.verify().ok for trial in trials)
            events = trials[-1].events()
        kept = {event.key: event.data["allocation"] for event in events if event.key}
        answered = {key: slot for client in asking for key, slot in client.answered.items()}
        sent = {key: request for client in asking for key, request in client.sent.items()}
        unanswered = {key: request for key, request in sent.items() if key not in answered}
        assert answered
        assert answered.items() <= kept.items()
        assert kept.keys() <= sent.keys()
        assert len(events) == 1 + len(kept)
        assert len(unanswered) <= clients
