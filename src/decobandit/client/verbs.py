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
from ..problem import DEFAULT_TIES, Design, Outcome, Problem, Rules, designed_to_dict
from ..trials.events import event_from
from ..trials.export_tables import TrialTables
from .answers import Answer
from .exchange import Fetches, Request, for_header

One = TypeVar("One")
Many = TypeVar("Many")
Handle = TypeVar("Handle")
Asked = Problem | Mapping[str, Any]
Counts = Mapping[str, "str | Sequence[Outcome]"]  # by arm, as `Trial.tell_batch` has them


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

    # -- single pulls -------------------------------------------------------------------------

    def ask(
        self, *, subject: str | None = None, note: str | None = None, key: str | None = None
    ) -> One:
        """Allocate the next slot; the same subject gets the same allocation."""
        return self._change("ask", subject=subject, note=note, key=key)

    def tell(
        self,
        allocation_id: str,
        outcome: Outcome,
        *,
        key: str | None = None,
        confirm_range: bool = False,
    ) -> One:
        """Record an outcome: 1, True or "good"; 0, False or "bad"; others as the arm has them.

        `confirm_range`: one outside the plausible range of the arm is meant.
        """
        told, path = _plain(outcome), ("allocations", allocation_id, "tell")
        return self._change(*path, outcome=told, key=key, confirm_range=confirm_range or None)

    def cancel(self, allocation_id: str, *, reason: str, key: str | None = None) -> One:
        """Cancel a pending allocation, and say why; its slot is free again."""
        return self._change("allocations", allocation_id, "cancel", reason=reason, key=key)

    def correct(
        self,
        allocation_id: str,
        outcome: Outcome,
        *,
        reason: str,
        key: str | None = None,
        confirm_range: bool = False,
    ) -> One:
        """Replace a recorded outcome, and say why; the old one stays in the log."""
        told, path = _plain(outcome), ("allocations", allocation_id, "correct")
        return self._change(
            *path, outcome=told, reason=reason, key=key, confirm_range=confirm_range or None
        )

    def unmask(self, allocation_id: str, *, reason: str, key: str | None = None) -> One:
        """The name of the arm of one allocation; who asked and why is on record."""
        return self._change("allocations", allocation_id, "unmask", reason=reason, key=key)

    # -- whole stages -------------------------------------------------------------------------

    def ask_batch(
        self, *, subject: str | None = None, note: str | None = None, key: str | None = None
    ) -> One:
        """Allot the next stage: so many pulls of every arm."""
        return self._change("batches", subject=subject, note=note, key=key)

    def tell_batch(
        self,
        batch_id: str,
        counts: Counts | None = None,
        *,
        rows: Iterable[tuple[str, Outcome]] | None = None,
        key: str | None = None,
        confirm_range: bool = False,
    ) -> One:
        """Record outcomes: counts by arm, (good, pulls) or "good/pulls"; or rows, (arm, outcome).

        Of arms with other outcomes as `Trial.tell_batch` has them: "2+0+1" of classes, "12.5/4" sum
        and number. Those of several requests add up. Operators call arms by their codes.
        """
        told = None
        if rows is not None:
            told = [{"arm": arm, "outcome": _plain(outcome)} for arm, outcome in rows]
        return self._change(
            "batches",
            batch_id,
            "outcomes",
            counts=_counted(counts),
            rows=told,
            key=key,
            confirm_range=confirm_range or None,
        )

    def cancel_batch(self, batch_id: str, *, reason: str, key: str | None = None) -> One:
        """Cancel what is pending, and say why; a batch without outcomes frees its stage."""
        return self._change("batches", batch_id, "cancel", reason=reason, key=key)

    def correct_batch(
        self,
        batch_id: str,
        counts: Counts,
        *,
        reason: str,
        key: str | None = None,
        confirm_range: bool = False,
    ) -> One:
        """Replace all recorded outcomes of some arms, and say why."""
        path = ("batches", batch_id, "correct")
        return self._change(
            *path,
            counts=_counted(counts),
            reason=reason,
            key=key,
            confirm_range=confirm_range or None,
        )

    def batch(self, batch_id: str) -> One:
        """One batch: what every arm has of it, and what is pending."""
        return self._get("batches", batch_id)

    def batches(self, *, state: str | None = None) -> Many:
        """Batches in the order in which they were made; `state`: open, told or cancelled."""
        return self._all("batches", "batches", state=state)

    # -- the trial ----------------------------------------------------------------------------

    def status(self) -> One:
        """The state of the trial; to an operator, the pending allocations."""
        return self._get()

    def why(self) -> One:
        """The numbers that the next decision comes from."""
        return self._get("why")

    def allocations(self, *, state: str | None = None) -> Many:
        """Allocations in the order in which they were made; `state`: as of batches."""
        return self._all("allocations", "allocations", state=state)

    def events(self) -> Many:
        """The log, in order."""
        return self._all("events", "events")

    def to_frame(self, table: str | None = None, *, kind: object = None) -> Any:
        """A table of the trial as a data frame: `Trial.to_frame`, from the log of the server.

        `table`: allocations, or batches, the usual one; arms; events. `kind`: pyarrow, pandas or
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


def _plain(outcome: Outcome) -> Any:
    """As JSON has it: numbers of NumPy are numbers."""
    return outcome.item() if isinstance(outcome, np.generic) else outcome


def _counted(counts: Counts | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    return {
        arm: own if isinstance(own, str) else [_plain(part) for part in own]
        for arm, own in counts.items()
    }


def _table(problem: Asked, design: Rules | None = None) -> Mapping[str, Any]:
    return designed_to_dict(problem, design) if isinstance(problem, Problem) else problem


def _designed(
    problem: Asked, design: Design | None, calibrate_to: float | None, ties: str, tol: float
) -> dict[str, Any]:
    table = _table(problem, design)
    return {"problem": table, "calibrate": calibrate_to, "ties": ties, "tol": tol}
