"""Clients that keep asking, and record what they ask and are told.

Every request that changes a trial has a key. Where a client does not learn what became of it, it
mostly sends it again under the same key, as clients should.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from helpers.faults.history import OK, UNKNOWN, WRITES, Answer, Recorder, Request
from helpers.faults.roads import Library, Road

# what is sent, by weight
KINDS = {"ask": 34, "tell": 26, "cancel": 10, "correct": 8, "status": 14, "list": 4, "export": 3}
ATTEMPTS = 4  # at most, at one request
PAUSE = 0.03  # seconds between two requests of a client, at most
WAIT = 0.3  # seconds until a request is sent again, at most


class Client:
    """One request after the other, recorded."""

    def __init__(
        self, name: str, road: Road, recorder: Recorder, rng: random.Random, trials: Sequence[str]
    ) -> None:
        self.name, self._road, self._recorder, self._rng = name, road, recorder, rng
        self._trials = trials
        self._open: dict[str, list[str]] = {trial: [] for trial in trials}
        self._told: dict[str, list[str]] = {trial: [] for trial in trials}
        self._number = 0
        self.error: BaseException | None = None

    def run(self, stopped: Callable[[], bool]) -> None:
        """Until it is told to stop."""
        try:
            while not stopped():
                self.step()
                time.sleep(self._rng.uniform(0, PAUSE))
        except BaseException as error:
            self.error = error
            raise

    def step(self) -> None:
        """One request; mostly again, as long as its fate is unknown."""
        request = self._choose()
        for _ in range(ATTEMPTS):
            answer = self.attempt(request)
            if answer.outcome != UNKNOWN or request.key is None or self._rng.random() < 0.3:
                break
            time.sleep(self._rng.uniform(0, WAIT))
        if answer.outcome == OK:
            self._learn(request, answer)
            if request.key is not None and self._rng.random() < 0.05:
                self.attempt(request)  # a client that does not trust its own memory

    def attempt(self, request: Request) -> Answer:
        """Send it once."""
        name = self._recorder.begin(self.name, request)
        answer = self._road.send(request)
        self._recorder.end(name, answer)
        return answer

    def _choose(self) -> Request:
        kind = self._rng.choices(list(KINDS), list(KINDS.values()))[0]
        trial = self._rng.choice(self._trials)
        if kind not in WRITES:
            return Request(kind, "" if kind == "list" else trial)
        self._number += 1
        key = f"{self.name}-{self._number}"
        known = (self._told if kind == "correct" else self._open)[trial]
        if kind == "ask" or not known:
            return Request("ask", trial, key)
        slot = self._rng.choice(known)
        outcome = None if kind == "cancel" else self._rng.randrange(2)
        return Request(kind, trial, key, slot, outcome)

    def _learn(self, request: Request, answer: Answer) -> None:
        trial = request.trial
        if request.kind == "ask":
            self._open[trial].append(answer.told["id"])
        elif request.kind in ("tell", "cancel"):
            if request.allocation in self._open[trial]:
                self._open[trial].remove(request.allocation)
            if request.kind == "tell":
                self._told[trial] = [*self._told[trial][-9:], str(request.allocation)]
        elif request.kind == "status":
            # slots of others too: two clients may want different things of one
            self._open[trial] = answer.told["open"][-20:]


def library_process(
    db: str, history: str, name: str, seed: str, trials: list[str], threads: int, stop: str
) -> None:
    """What such a process does: until the file `stop` is there, or it is killed."""
    road, recorder = Library(db, random.Random(seed)), Recorder(Path(history))
    clients = [
        Client(f"{name}.{n}", road, recorder, random.Random(f"{seed} {n}"), trials)
        for n in range(threads)
    ]
    workers = [
        threading.Thread(target=client.run, args=(partial(os.path.exists, stop),))
        for client in clients
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
