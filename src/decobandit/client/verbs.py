"""The verbs of a trial, and of a server as a whole, over HTTP.

Names and arguments are those of `decobandit.trials`, `decobandit.designs` and `decobandit.server`.

`One` is what a verb gives, `Many` a list of such: for `Client` an answer and a list of answers, for
`AsyncClient` both to be awaited.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np

from ..policies import COMPARED_POLICIES, DEFAULT_POLICY
from ..problem import DEFAULT_TIES, Design, Problem, Rules, designed_to_dict
from ..trials.events import event_from
from ..trials.export import TrialTables
from ..trials.recording import GivenOutcomes
from .answers import Answer
from .exchange import Fetches, Request, for_header

One = TypeVar("One")
Many = TypeVar("Many")
Handle = TypeVar("Handle")
Asked = Problem | Mapping[str, Any]


class Verbs(Generic[One, Many]):
    """What requests are made from: reading, changes, lists."""

    def __init__(self, sender: Fetches, *place: str) -> None:
        self._sender, self._place = sender, place

    def _get(self, *path: str, slow: bool = False, **query: Any) -> One:
        given = {name: value for name, value in query.items() if value is not None}
        return self._sent(Request("GET", (*self._place, *path), given, slow=slow))

    def _all(self, key: str, *path: str, **query: Any) -> Many:
        given = {name: value for name, value in query.items() if value is not None}
        request = Request("GET", (*self._place, *path), given, entries=key)
        entries: Many = self._sender.fetch(request)
        return entries

    def _sent(self, request: Request) -> One:
        answer: One = self._sender.fetch(request)
        return answer

    def _change(self, *path: str, key: str | None, **body: Any) -> One:
        """A change has a key, so that it can be sent again: one of its own where none is given."""
        given = {name: value for name, value in body.items() if value is not None}
        key = secrets.token_urlsafe(12) if key is None else for_header("key", key)
        return self._sent(Request("POST", (*self._place, *path), body=given, key=key))


class RemoteTrial(Verbs[One, Many]):
    """A trial of a server, by `open_trial` or `create_trial` of a client.

    Its methods are those of `decobandit.trials.Trial`, and give the same keys as `Answer`; a
    refusal is the same exception. `key` is made here where none is given. Who does it, `by` in the
    log, is the name of the token.

    Attributes
    ----------
    name : str
        Its name or id, as it was asked for.

    Examples
    --------
    >>> from decobandit.client import Client
    >>> with Client(url, token) as client:
    ...     trial = client.open_trial("pilot")
    ...     allocation = trial.ask(subject="S-001")
    ...     trial.tell(allocation.id, "good").outcome
    1
    """

    def __init__(self, sender: Fetches, name: str) -> None:
        super().__init__(sender, "trials", name)
        self.name = name

    def __repr__(self) -> str:
        return f"RemoteTrial({self.name!r})"

    # -- allocations --------------------------------------------------------------------------

    def ask(
        self, *, subject: str | None = None, note: str | None = None, key: str | None = None
    ) -> One:
        """Allocate the next stage: one arm, or pulls by arm; the same subject gets the same."""
        return self._change("ask", subject=subject, note=note, key=key)

    def tell(
        self,
        allocation_id: str,
        outcome: GivenOutcomes,
        *,
        key: str | None = None,
        confirm_range: bool = False,
    ) -> One:
        """Record outcomes, as `Trial.tell` takes them; those of several requests add up.

        Of a single pull 1, True or "good"; 0, False or "bad"; others as the arm has them. Of
        several, counts by arm, or rows of arm and outcome; operators call arms by their codes.
        `confirm_range`: those outside the plausible range of the arm are meant.
        """
        path, confirm = ("allocations", allocation_id, "tell"), confirm_range or None
        return self._change(*path, **_outcomes(outcome), key=key, confirm_range=confirm)

    def cancel(self, allocation_id: str, *, reason: str, key: str | None = None) -> One:
        """Cancel what is pending, and say why; without outcomes, the slots are free again."""
        return self._change("allocations", allocation_id, "cancel", reason=reason, key=key)

    def correct(
        self,
        allocation_id: str,
        outcome: GivenOutcomes,
        *,
        reason: str,
        key: str | None = None,
        confirm_range: bool = False,
    ) -> One:
        """Replace recorded outcomes, and say why; the old ones stay in the log."""
        return self._change(
            "allocations",
            allocation_id,
            "correct",
            **_outcomes(outcome),
            reason=reason,
            key=key,
            confirm_range=confirm_range or None,
        )

    def unmask(self, allocation_id: str, *, reason: str, key: str | None = None) -> One:
        """The name of the arm of one allocation; who asked and why is on record."""
        return self._change("allocations", allocation_id, "unmask", reason=reason, key=key)

    def allocation(self, allocation_id: str) -> One:
        """One allocation: what every arm has of it, and what is pending."""
        return self._get("allocations", allocation_id)

    def allocations(self, *, state: str | None = None) -> Many:
        """Allocations in the order in which they were made; `state`: open, told or cancelled."""
        return self._all("allocations", "allocations", state=state)

    # -- the trial ----------------------------------------------------------------------------

    def status(self) -> One:
        """The state of the trial; to an operator, the pending allocations."""
        return self._get()

    def why(self) -> One:
        """The numbers that the next decision comes from."""
        return self._get("why")

    def events(self) -> Many:
        """The log, in order."""
        return self._all("events", "events")

    def to_frame(self, table: str | None = None, *, kind: object = None) -> Any:
        """A table of the trial as a data frame: `Trial.to_frame`, from the log of the server.

        `table`: allocations, the usual one; arms; events. `kind`: pyarrow, pandas or
        polars.
        """
        requests = [Request("GET", (*self._place, "events"), entries="events")]
        if table == "arms":
            requests.append(Request("GET", self._place))

        def frame(log: list[Answer], status: Mapping[str, Any] = MappingProxyType({})) -> Any:
            events = [event_from(event.to_dict()) for event in log]
            arms = [arm.to_dict() for arm in status.get("arms", ())]
            return TrialTables(events, arms).to_frame(table, kind=kind)

        return self._sender.fetch(*requests, read=frame)

    def report(self, *, control: str | None = None) -> One:
        """Rates with intervals, chances of being best, shares over time, deviations, the log."""
        return self._get("report", control=control)

    def episode(self) -> One:
        """The recorded outcomes, compared with the prices."""
        return self._get("path")

    def export(self) -> One:
        """The whole trial; `verify_export` and `replay_export` check its `to_dict()`."""
        return self._get("export", slow=True)

    def verify(self, *, head: str | None = None) -> One:
        """Whether the log is as it was written."""
        return self._get("verify", head=head, slow=True)

    def replay(self) -> One:
        """Every decision computed again, and compared."""
        return self._get("replay", slow=True)

    def close(self, *, reason: str | None = None, key: str | None = None) -> One:
        """Make no more allocations; outcomes of pending ones can still be recorded."""
        return self._change("close", reason=reason, key=key)

    def reopen(self, *, reason: str, key: str | None = None) -> One:
        """Make allocations again, and say why."""
        return self._change("reopen", reason=reason, key=key)

    def archive(self, *, reason: str | None = None, key: str | None = None) -> One:
        """Close the trial and hide it from lists."""
        return self._change("archive", reason=reason, key=key)

    def set_limits(
        self,
        *,
        reason: str,
        max_open: int | None = None,
        max_cancelled: int | None = None,
        max_unmasked: int | None = None,
        key: str | None = None,
    ) -> One:
        """Change how many allocations may be pending, cancelled or unmasked, and say why."""
        return self._change(
            "limits",
            reason=reason,
            max_open=max_open,
            max_cancelled=max_cancelled,
            max_unmasked=max_unmasked,
            key=key,
        )


class ServerVerbs(Verbs[One, Many], Generic[One, Many, Handle]):
    """What is asked of a server; `Handle`: what `create_trial` gives."""

    def health(self) -> One:
        """The server is running: `status` and `version`. Needs no token."""
        return self._get("health")

    # -- trials -------------------------------------------------------------------------------

    def list_trials(self, *, archived: bool = False) -> Many:
        """The trials that the token is for, the oldest first."""
        return self._all("trials", "trials", archived=archived)

    def open_trial(self, trial: str) -> RemoteTrial[One, Many]:
        """A trial by its name or id; nothing is asked of the server yet."""
        return RemoteTrial(self._sender, trial)

    def create_trial(
        self,
        problem: Asked,
        *,
        policy: str = DEFAULT_POLICY,
        name: str | None = None,
        seed: int | None = None,
        tol: float = 1e-4,
        ties: str = DEFAULT_TIES,
        bound: bool | None = None,
        design: Rules | None = None,
        max_open: int | None = None,
        max_cancelled: int | None = None,
    ) -> Handle:
        """Start a trial, as `decobandit.trials.create_trial`; `design`: whose rules it obeys.

        `problem` may be a table as problem files hold it, with a design in it.
        """
        body = {
            "problem": _table(problem, design),
            "policy": policy,
            "name": name,
            "seed": seed,
            "tol": tol,
            "ties": ties,
            "bound": bound,
            "max_open": max_open,
            "max_cancelled": max_cancelled,
        }
        given = {key: value for key, value in body.items() if value is not None}
        request = Request("POST", ("trials",), body=given, slow=True)
        trial: Handle = self._sender.fetch(
            request, read=lambda answer: self.open_trial(answer["name"])
        )
        return trial

    def make_checkpoint(self) -> One:
        """A signed note of the heads of all trials: `note`; the same if nothing has changed."""
        return self._sent(Request("POST", ("checkpoints",), alike=True))

    # -- before a trial -----------------------------------------------------------------------

    def forecast(self, problem: Asked, policies: Sequence[str] = COMPARED_POLICIES) -> One:
        """What policies are expected to earn, and bounds for all: the plan of the server."""
        return self._computed("plan", problem=_table(problem), policies=list(policies))

    def operating_characteristics(
        self,
        problem: Asked,
        design: Design | None = None,
        *,
        calibrate_to: float | None = None,
        ties: str = DEFAULT_TIES,
        tol: float = 1e-4,
    ) -> One:
        """What each policy of a design does in each scenario, as `deco design --json`."""
        return self._computed("design", **_designed(problem, design, calibrate_to, ties, tol))

    def design_report(
        self,
        problem: Asked,
        design: Design | None = None,
        *,
        calibrate_to: float | None = None,
        ties: str = DEFAULT_TIES,
        tol: float = 1e-4,
    ) -> One:
        """The report of a design: `html`, one page that needs no other, to save and to print."""
        body = _designed(problem, design, calibrate_to, ties, tol)
        return self._computed("design", "report", page=True, **body)

    def _computed(self, *path: str, page: bool = False, **body: Any) -> One:
        given = {name: value for name, value in body.items() if value is not None}
        return self._sent(Request("POST", path, body=given, slow=True, alike=True, page=page))

    # -- people -------------------------------------------------------------------------------

    def list_tokens(self) -> Many:
        """All tokens, without their secrets."""
        return self._all("tokens", "tokens")

    def new_token(
        self, name: str, role: str, *, days: int | None = None, trials: Sequence[str] = ()
    ) -> One:
        """A token for somebody; its secret is the key `token`, and is shown this once.

        `role`: admin, operator or viewer; `days`: until it expires, 90 by default; `trials`: names
        of those that it is for, none: all.
        """
        body = {"name": name, "role": role, "trials": list(trials)}
        given = body if days is None else body | {"days": days}
        return self._sent(Request("POST", ("tokens",), body=given))

    def revoke_token(self, name: str) -> One:
        """End a token and its sessions; the last administrator's is refused."""
        return self._sent(Request("DELETE", ("tokens", name), alike=True))

    def people_log(self) -> One:
        """Who logged in, made tokens, exported, saw results or unmasked; checked by the server."""
        return self._get("people", slow=True)


def _plain(outcome: Any) -> Any:
    """As JSON has it: numbers of NumPy are numbers."""
    return outcome.item() if isinstance(outcome, np.generic) else outcome


def _outcomes(given: GivenOutcomes) -> dict[str, Any]:
    """The key of the request that these outcomes have, and its value as JSON has it."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        return {"outcome": _plain(given)}
    if not isinstance(given, Mapping):
        return {"rows": [{"arm": arm, "outcome": _plain(outcome)} for arm, outcome in given]}
    return {
        "counts": {
            arm: tally if isinstance(tally, str) else [_plain(part) for part in tally]
            for arm, tally in given.items()
        }
    }


def _table(problem: Asked, design: Rules | None = None) -> Mapping[str, Any]:
    return designed_to_dict(problem, design) if isinstance(problem, Problem) else problem


def _designed(
    problem: Asked, design: Design | None, calibrate_to: float | None, ties: str, tol: float
) -> dict[str, Any]:
    table = _table(problem, design)
    return {"problem": table, "calibrate": calibrate_to, "ties": ties, "tol": tol}
