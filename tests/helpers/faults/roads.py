"""Three roads to a trial: HTTP, the program, the library; and what is kept of an answer."""

import hashlib
import http.client
import inspect
import json
import random
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

from helpers.faults.history import INTERNAL, OK, REFUSED, UNKNOWN, WRITES, Answer, Request
from helpers.faults.zygote import Process, Zygote

BY = "loopback"  # as a server without tokens calls its clients: keys are the same by all roads
REASON = "history"


class Road(Protocol):
    """How a request gets to its trial."""

    def send(self, request: Request) -> Answer: ...


# -- what is kept of an answer --------------------------------------------------------------------


def kept(request: Request, told: dict[str, Any]) -> Any:
    """As much of an answer as the checker needs."""
    if request.kind in WRITES:
        return {name: told[name] for name in ("id", "arm", "state", "outcome")}
    if request.kind == "list":
        return [[one["name"], one["allocated"], one["told"], one["open"]] for one in told["trials"]]
    status = told["status"] if request.kind == "export" else told
    arms = [[arm["name"], arm["good"], arm["bad"], arm["open"]] for arm in status["arms"]]
    answer = {name: status[name] for name in ("head", "told", "allocated")}
    answer |= {"arms": arms, "open": [slot["id"] for slot in status["open"]]}
    if request.kind == "export":
        bodies = [event["body"] for event in told["events"]]
        answer["hashes"] = [hashlib.sha256(body.encode()).hexdigest() for body in bodies]
        fields = ("id", "arm", "state", "outcome")
        answer["slots"] = [[slot[name] for name in fields] for slot in told["allocations"]]
    return answer


# -- HTTP -----------------------------------------------------------------------------------------


class Http:
    """To one of several servers, with a patience that may be too short."""

    def __init__(self, ports: Callable[[], Sequence[int]], rng: random.Random) -> None:
        self._ports, self._rng = ports, rng

    def send(self, request: Request) -> Answer:
        patience = self._rng.choice([0.2, 1.0, 5.0, 30.0])
        port = self._rng.choice(self._ports())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
        try:
            connection.request(*_http(request), {"Content-Type": "application/json"})
            response = connection.getresponse()
            status, told = response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Answer(UNKNOWN, code=type(error).__name__)
        finally:
            connection.close()
        if status == 200:
            return Answer(OK, kept(request, told))
        code = told["error"]["code"]
        return Answer(REFUSED if 400 <= status < 500 else UNKNOWN, told["error"]["message"], code)


def _http(request: Request) -> tuple[str, str, str | None]:
    """Method, path and body."""
    if request.kind == "list":
        return "GET", "/api/v1/trials", None
    path = f"/api/v1/trials/{request.trial}"
    if request.kind not in WRITES:
        return "GET", path + ("/export" if request.kind == "export" else ""), None
    body: dict[str, Any] = {"key": request.key}
    if request.outcome is not None:
        body["outcome"] = request.outcome
    if request.kind in ("cancel", "correct") and reasons_are_given():
        body["reason"] = REASON
    where = "ask" if request.kind == "ask" else f"allocations/{request.allocation}/{request.kind}"
    return "POST", f"{path}/{where}", json.dumps(body)


@cache
def reasons_are_given() -> bool:
    """Whether cancellations and corrections take a reason."""
    from decobandit.trials import Trial

    return "reason" in inspect.signature(Trial.cancel).parameters


# -- the program ----------------------------------------------------------------------------------

REFUSALS = {  # by what the program prints
    "every slot of the trial is in use": "no_free_slot",
    "the allocation was cancelled": "conflict",
    "the allocation has no outcome to correct": "conflict",
    "the allocation has an outcome and cannot": "conflict",
    "another outcome is recorded": "conflict",
    "no such allocation": "not_found",
    "no trial is called": "not_found",
}


class Program:
    """`deco trial`, one run per request."""

    def __init__(self, zygote: Zygote, db: str) -> None:
        self._zygote, self._db = zygote, db
        self.running: Process | None = None  # whoever wants to kill it

    def send(self, request: Request) -> Answer:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            self.running = self._zygote.program(self._command(request), out.fileno(), err.fileno())
            code = self.running.wait()
            out.seek(0)
            err.seek(0)
            printed, said = out.read().decode(), " ".join(err.read().decode().split())
        if code == 0:
            return Answer(OK, kept(request, json.loads(printed)))
        refusal = next((code for text, code in REFUSALS.items() if text in said), None)
        if refusal:
            return Answer(REFUSED, said, refusal)
        if "Traceback" in said:
            return Answer(UNKNOWN, said, INTERNAL)
        return Answer(UNKNOWN, said, "damaged" if "damaged" in said else str(code))

    def _command(self, request: Request) -> list[str]:
        words = ["trial", request.kind, "--db", self._db]
        words += [] if request.kind == "export" else ["--json"]
        if request.kind in WRITES:
            words += ["--key", str(request.key), "--by", BY]
        if request.kind in ("cancel", "correct") and reasons_are_given():
            words += ["--reason", REASON]
        given = (request.trial or None, request.allocation, request.outcome)
        return [*words, *(str(word) for word in given if word is not None)]


# -- the library ----------------------------------------------------------------------------------


class Library:
    """The package itself, in this process; after an error its store is sometimes opened again."""

    def __init__(self, db: str, rng: random.Random) -> None:
        self._db, self._rng = db, rng
        self._store: Any = None
        self._lock = threading.Lock()

    def send(self, request: Request) -> Answer:
        from decobandit.trials import open_store
        from decobandit.trials.errors import Conflict, Damaged, NoFreeSlot, NotFound, StoreError

        try:
            with self._lock:
                store = self._store = self._store or open_store(self._db)
            return Answer(OK, kept(request, _call(store, request)))
        except NoFreeSlot as error:
            return Answer(REFUSED, str(error), "no_free_slot")
        except (Conflict, NotFound) as error:
            code = "conflict" if isinstance(error, Conflict) else "not_found"
            return Answer(REFUSED, str(error), code)
        except StoreError as error:
            code = "damaged" if isinstance(error, Damaged) else "unavailable"
            if self._rng.random() < 0.2:
                with self._lock:
                    self._store = None  # not closed: other threads may be using it
            return Answer(UNKNOWN, str(error), code)


def _call(store: Any, request: Request) -> dict[str, Any]:
    from decobandit.trials import list_trials, open_trial

    if request.kind == "list":
        return {"trials": [one.to_dict() for one in list_trials(db=store)]}
    trial = open_trial(request.trial, db=store)
    if request.kind == "status":
        return trial.status().to_dict()
    if request.kind == "export":
        return trial.export()
    given = [word for word in (request.allocation, request.outcome) if word is not None]
    more: dict[str, Any] = {"key": request.key, "by": BY}
    if request.kind in ("cancel", "correct") and reasons_are_given():
        more["reason"] = REASON
    return getattr(trial, request.kind)(*given, **more).to_dict()
