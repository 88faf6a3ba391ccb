"""A process that writes to trials until it is killed, and says what was acknowledged.

It reads lives from standard input: each line is a JSON list of [job, argument, ...], which run side
by side, each in a fork. So packages are imported once, and every life begins at once. On standard
output, one JSON object per line:

    {"pid": ...}                  a life has begun
    {"about": key, ...}           a request is about to be sent
    {"done": key, ...}            and was acknowledged
    {"ended": code}               the life is over; negative: killed by that signal
"""

import contextlib
import json
import os
import random
import resource
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from decobandit.trials import (
    Allocation,
    NoFreeSlot,
    StoreError,
    Trial,
    create_trial,
    open_store,
    open_trial,
)


def say(**fields: object) -> None:
    """One line in one write: a pipe takes it whole or not at all, even from a dying process."""
    os.write(1, (json.dumps(fields) + "\n").encode())


def send(trial: Trial, key: str, kind: str, slot: str | None, outcome: int | None) -> str:
    """One request; the id of its allocation."""
    if kind == "asked":
        return trial.ask(key=key).id
    assert slot is not None
    if kind == "cancelled":
        return trial.cancel(slot, reason="did not come", key=key).id
    assert outcome is not None
    if kind == "corrected":
        return trial.correct(slot, outcome, reason="was misread", key=key).id
    return trial.tell(slot, outcome, key=key).id


def choose(trial: Trial, rng: random.Random) -> tuple[str, str | None, int | None]:
    """A request that the trial can serve: kind, allocation, outcome."""
    slots = trial.allocations()
    waiting = [slot.id for slot in slots if slot.state == "open"]
    told = [slot for slot in slots if slot.state == "told"]
    kind = rng.choices(["asked", "told", "cancelled", "corrected"], [4, 4, 1, 1])[0]
    if kind == "asked" and len(waiting) < 5 and len(waiting) + len(told) < trial.problem.horizon:
        return "asked", None, None
    if kind in ("told", "cancelled") and waiting:
        return kind, rng.choice(waiting), rng.randrange(2) if kind == "told" else None
    if told:
        slot = rng.choice(told)
        return "corrected", slot.id, 1 - (slot.outcome or 0)  # the same again would write nothing
    return ("told", waiting[0], 1) if waiting else ("asked", None, None)


def write_for_ever(db: str, name: str, seed: int) -> None:
    """Requests with a key of their own each, one after the other."""
    rng = random.Random(seed)
    with open_store(db) as store:
        trial = open_trial(name, db=store)
        for number in range(10**6):
            kind, slot, outcome = choose(trial, rng)
            request = {"key": f"{seed}-{number}", "kind": kind, "slot": slot, "outcome": outcome}
            say(about=request["key"], **request)
            made = send(trial, **request)  # type: ignore[arg-type]
            say(done=request["key"], made=made)


def write_until_full(db: str, name: str, seed: int, more: int) -> None:
    """The same, on a disk that has so many bytes left; ends with the first refusal."""
    limit = os.path.getsize(db) + more
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # as if the disk ended there
    try:
        write_for_ever(db, name, seed)
    except StoreError as error:
        say(refused=str(error))


def create_for_ever(db: str, source: str, seed: int) -> None:
    """New trials after the plan of one that exists elsewhere; the database may not be there yet."""
    known = open_trial("source", db=source)
    for number in range(10**6):
        name = f"{seed}-{number}"
        say(about=name)
        with open_store(db) as store:
            create_trial(
                known.problem, name=name, db=store, policy=known.policy, solution=known.solution
            )
        say(done=name)


def patiently(request: Callable[[], Allocation]) -> Allocation:
    """Send a request again while the database is too busy; it has a key, and so counts once."""
    for _ in range(10):
        with contextlib.suppress(StoreError):
            return request()
        say(busy=True)
    return request()


def tell_pairs(db: str, names: list[str], pairs: int, seed: int, threads: int) -> None:
    """Asks, each told, by threads that share a store; a trial that is full is left out."""
    with open_store(db) as store:
        trials = [open_trial(name, db=store) for name in names]

        def pair(number: int) -> None:
            key, outcome = f"{seed}-{number}", number % 2
            for trial in trials[seed % len(trials) :] + trials[: seed % len(trials)]:
                with contextlib.suppress(NoFreeSlot):
                    slot = patiently(partial(trial.ask, key=key))
                    patiently(partial(trial.tell, slot.id, outcome, key=f"{key} told"))
                    say(done=number, trial=trial.id, slot=slot.id, outcome=outcome)
                    return

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(pair, range(pairs)))  # the list raises what a thread raised


def open_only(db: str) -> None:
    """Open a database, and say whether that took Alembic."""
    open_store(db).close()
    say(alembic="alembic" in sys.modules)


def read_status(db: str, name: str) -> None:
    """The status of a trial as this process sees it."""
    with open_store(db) as store:
        say(status=open_trial(name, db=store).status().to_dict())


JOBS = {
    "write_for_ever": write_for_ever,
    "write_until_full": write_until_full,
    "create_for_ever": create_for_ever,
    "tell_pairs": tell_pairs,
    "open_only": open_only,
    "read_status": read_status,
}


def main() -> None:
    """Lives, line by line."""
    for line in sys.stdin:
        pids = [begin(job, arguments) for job, *arguments in json.loads(line)]
        for pid in pids:
            say(ended=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def begin(job: str, arguments: list[object]) -> int:
    """A life of its own; never returns there."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            say(pid=os.getpid())
            JOBS[job](*arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


if __name__ == "__main__":
    main()
