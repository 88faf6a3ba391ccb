"""Synchronous and asynchronous clients, and the methods that they share.

Names and arguments are those of `decobandit.trials`, `decobandit.designs` and `decobandit.server`.
`One` is the result of a method, `Many` a list: for `Client` an answer and a list of answers, for
`AsyncClient` awaitables of these.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

import httpx
import numpy as np

from .._version import __version__
from ..policies import COMPARED_POLICIES, DEFAULT_POLICY
from ..problem import DEFAULT_TIES, Design, Problem, Rules, designed_to_dict
from ..trials.errors import TrialError
from ..trials.events import event_from
from ..trials.export import TrialTables
from ..trials.recording import GivenOutcomes
from .exchange import TIMEOUT, Answer, AsyncSender, Exchange, Request, Sender, for_header

One = TypeVar("One")
Many = TypeVar("Many")
Handle = TypeVar("Handle")
Asked = Problem | Mapping[str, Any]


class Verbs(Generic[One, Many]):
    """Requests that read, change and list."""

    def __init__(self, fetch: Callable[..., Any], *place: str) -> None:
        self._fetch, self._place = fetch, place

    def _get(self, *path: str, slow: bool = False, **query: Any) -> One:
        return self._sent(Request("GET", (*self._place, *path), _set(query), slow=slow))

    def _all(self, key: str, *path: str, **query: Any) -> Many:
        request = Request("GET", (*self._place, *path), _set(query), entries=key)
        entries: Many = self._fetch(request)
        return entries

    def _sent(self, request: Request) -> One:
        answer: One = self._fetch(request)
        return answer

    def _change(self, *path: str, key: str | None, **body: Any) -> One:
        """Send a change with a key, random by default, so that it can be sent again."""
        key = secrets.token_urlsafe(12) if key is None else for_header("key", key)
        return self._sent(Request("POST", (*self._place, *path), body=_set(body), key=key))


class RemoteTrial(Verbs[One, Many]):
    """A trial of a server, by `open_trial` or `create_trial` of a client.

    Its methods are those of `decobandit.trials.Trial`, with the same keys in `Answer` and the same
    exceptions. `key` is random by default. The sender, `by` in the log, is the name of the token.

    Attributes
    ----------
    name : str
        Name or id of the trial, as passed to `open_trial`.

    Examples
    --------
    >>> from decobandit.client import Client
    >>> with Client(url, token) as client:
    ...     trial = client.open_trial("pilot")
    ...     allocation = trial.ask(subject="S-001")
    ...     trial.tell(allocation.id, "good").outcome
    1
    """

    def __init__(self, fetch: Callable[..., Any], name: str) -> None:
        super().__init__(fetch, "trials", name)
        self.name = name

    def __repr__(self) -> str:
        return f"RemoteTrial({self.name!r})"

    # -- allocations --------------------------------------------------------------------------

    def ask(
        self,
        *,
        subject: str | None = None,
        segment: str | None = None,
        note: str | None = None,
        key: str | None = None,
    ) -> One:
        """Allocate the next stage: one arm, or pulls by arm; the same subject gets the same.

        `segment`: that of the visitor, needed where the trial has segments.
        """
        return self._change("ask", subject=subject, segment=segment, note=note, key=key)

    def tell(
        self,
        allocation_id: str,
        outcome: GivenOutcomes,
        *,
        key: str | None = None,
        confirm_range: bool = False,
    ) -> One:
        """Record outcomes, as `Trial.tell`; those of several requests add up.

        A single pull: 1, True or "good"; 0, False or "bad"; non-binary outcomes as the arm has
        them. Several pulls: counts by arm, or rows of arm and outcome; operators use codes of arms.
        `confirm_range`: outcomes outside the plausible range of the arm are intended.
        """
        path, confirm = ("allocations", allocation_id, "tell"), confirm_range or None
        return self._change(*path, **_outcomes(outcome), key=key, confirm_range=confirm)

    def cancel(self, allocation_id: str, *, reason: str, key: str | None = None) -> One:
        """Cancel pending pulls, with a reason; without outcomes, their slots are free again."""
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
        """Replace recorded outcomes, with a reason; the old ones stay in the log."""
        path, body = ("allocations", allocation_id, "correct"), _outcomes(outcome)
        confirm = confirm_range or None
        return self._change(*path, **body, reason=reason, key=key, confirm_range=confirm)

    def unmask(
        self, allocation_id: str, *, category: str, reason: str, key: str | None = None
    ) -> One:
        """Return the arm of an allocation; the log has the reader, the category and the reason."""
        path = ("allocations", allocation_id, "unmask")
        return self._change(*path, category=category, reason=reason, key=key)

    def allocation(self, allocation_id: str) -> One:
        """Return an allocation with its pulls by arm."""
        return self._get("allocations", allocation_id)

    def allocations(self, *, state: str | None = None) -> Many:
        """Return allocations in order; `state`: open, told or cancelled."""
        return self._all("allocations", "allocations", state=state)

    # -- the trial ----------------------------------------------------------------------------

    def status(self) -> One:
        """Return the state of the trial; for an operator, the pending allocations."""
        return self._get()

    def why(self, *, segment: str | None = None) -> One:
        """Return the numbers behind the next decision; in a trial with segments, that of one."""
        return self._get("why", segment=segment)

    def events(self) -> Many:
        """Return all events of the log."""
        return self._all("events", "events")

    def to_frame(self, table: str | None = None, *, kind: object = None) -> Any:
        """Return a table of the trial as a data frame, as `Trial.to_frame`.

        `table`: allocations (default), arms, events, obp, inference or results. `kind`: pyarrow,
        pandas or polars.
        """
        requests = [Request("GET", (*self._place, "events"), entries="events")]
        if table in ("arms", "inference", "results"):
            record = ("report",) * (table != "arms")
            requests.append(Request("GET", (*self._place, *record)))

        def frame(log: list[Answer], *records: Answer) -> Any:
            events = [event_from(event.to_dict()) for event in log]
            tree = records[0].to_dict() if records else {}
            return TrialTables(events, tree).to_frame(table, kind=kind)

        return self._fetch(*requests, read=frame)

    def report(self, *, control: str | None = None) -> One:
        """Return rates with intervals, P(best), shares over time, deviations, the log check."""
        return self._get("report", control=control)

    def episode(self, *, segment: str | None = None) -> One:
        """Compare the recorded outcomes with the prices; in a trial with segments, those of one."""
        return self._get("path", segment=segment)

    def export(self) -> One:
        """Export the trial; `verify_export` and `replay_export` check its `to_dict()`."""
        return self._get("export", slow=True)

    def verify(self, *, head: str | None = None) -> One:
        """Check the integrity of the log."""
        return self._get("verify", head=head, slow=True)

    def replay(self) -> One:
        """Recompute every decision, and compare it with the log."""
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

    def lock(self, *, reason: str | None = None, key: str | None = None) -> One:
        """Refuse every change of a closed trial until another person unlocks it."""
        return self._change("lock", reason=reason, key=key)

    def unlock(self, *, reason: str, key: str | None = None) -> One:
        """Permit changes of a locked trial again, and say why."""
        return self._change("unlock", reason=reason, key=key)

    def review(self, *, up_to: int, note: str | None = None, key: str | None = None) -> One:
        """Record that the audit trail was reviewed up to an event."""
        return self._change("review", up_to=up_to, note=note, key=key)

    def set_limits(
        self,
        *,
        reason: str,
        max_open: int | None = None,
        max_cancelled: int | None = None,
        max_unmasked: int | None = None,
        unmask_role: str | None = None,
        key: str | None = None,
    ) -> One:
        """Change how many allocations may be pending, cancelled or unmasked, and say why."""
        limits = {"max_open": max_open, "max_cancelled": max_cancelled}
        limits |= {"max_unmasked": max_unmasked}
        return self._change("limits", key=key, reason=reason, unmask_role=unmask_role, **limits)

    def add_arm(
        self,
        arm: Mapping[str, Any],
        *,
        reason: str,
        policy: str | None = None,
        key: str | None = None,
    ) -> One:
        """Let an arm, a table as in a problem, join from the next stage on, and give the reason."""
        return self._change("arms", arm=dict(arm), reason=reason, policy=policy, key=key)

    def close_arm(
        self, arm: str, *, reason: str, policy: str | None = None, key: str | None = None
    ) -> One:
        """Stop allocating an arm from the next stage on, and give the reason."""
        return self._change("arms", arm, "close", reason=reason, policy=policy, key=key)


class ServerVerbs(Verbs[One, Many], Generic[One, Many, Handle]):
    """Methods of a server; `Handle`: result of `create_trial`."""

    def health(self) -> One:
        """Return `status` and `version` of the server. Needs no token."""
        return self._get("health")

    # -- trials -------------------------------------------------------------------------------

    def list_trials(self, *, archived: bool = False) -> Many:
        """List the trials of the token, the oldest first."""
        return self._all("trials", "trials", archived=archived)

    def open_trial(self, trial: str) -> RemoteTrial[One, Many]:
        """Return a handle on a trial by name or id, without a request."""
        return RemoteTrial(self._fetch, trial)

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
        body: dict[str, Any] = {"problem": _table(problem, design)}
        body |= {"policy": policy, "name": name, "seed": seed}
        body |= {"tol": tol, "ties": ties, "bound": bound}
        body |= {"max_open": max_open, "max_cancelled": max_cancelled}
        request = Request("POST", ("trials",), body=_set(body), slow=True)
        trial: Handle = self._fetch(request, read=lambda one: self.open_trial(one["name"]))
        return trial

    def make_checkpoint(self) -> One:
        """Return a signed note of the heads of all trials; the same if nothing has changed."""
        return self._sent(Request("POST", ("checkpoints",), alike=True))

    # -- before a trial -----------------------------------------------------------------------

    def forecast(self, problem: Asked, policies: Sequence[str] = COMPARED_POLICIES) -> One:
        """Return the expected reward of policies, and bounds: the plan of the server."""
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
        """Return the operating characteristics of a design, as `deco design --json`."""
        body: dict[str, Any] = {"problem": _table(problem, design), "calibrate": calibrate_to}
        return self._computed("design", **body, ties=ties, tol=tol)

    def design_report(
        self,
        problem: Asked,
        design: Design | None = None,
        *,
        calibrate_to: float | None = None,
        ties: str = DEFAULT_TIES,
        tol: float = 1e-4,
    ) -> One:
        """Return the report of a design: `html`, one self-contained page."""
        body = {"problem": _table(problem, design), "calibrate": calibrate_to}
        return self._computed("design", "report", page=True, **body, ties=ties, tol=tol)

    def _computed(self, *path: str, page: bool = False, **body: Any) -> One:
        request = Request("POST", path, body=_set(body), slow=True, alike=True, page=page)
        return self._sent(request)

    # -- people -------------------------------------------------------------------------------

    def list_tokens(self) -> Many:
        """List all tokens, without their secrets."""
        return self._all("tokens", "tokens")

    def new_token(
        self, name: str, role: str, *, days: int | None = None, trials: Sequence[str] = ()
    ) -> One:
        """Create a token; its secret is the key `token`, and is shown only once.

        `role`: admin, operator or viewer; `days`: until it expires, 90 by default; `trials`: names
        of its trials, all by default.
        """
        body = _set({"name": name, "role": role, "trials": list(trials), "days": days})
        return self._sent(Request("POST", ("tokens",), body=body))

    def revoke_token(self, name: str) -> One:
        """End a token and its sessions; the last administrator's token cannot be revoked."""
        return self._sent(Request("DELETE", ("tokens", name), alike=True))

    def people_log(self) -> One:
        """Return the access log, checked by the server."""
        return self._get("people", slow=True)


def _set(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _json_number(outcome: Any) -> Any:
    return outcome.item() if isinstance(outcome, np.generic) else outcome


def _outcomes(outcomes: GivenOutcomes) -> dict[str, Any]:
    """Return the outcomes as a field of the request."""
    if isinstance(outcomes, str | bytes) or not isinstance(outcomes, Iterable):
        return {"outcome": _json_number(outcomes)}
    if not isinstance(outcomes, Mapping):
        rows = [{"arm": arm, "outcome": _json_number(outcome)} for arm, outcome in outcomes]
        return {"rows": rows}
    counts = {
        arm: tally if isinstance(tally, str) else [_json_number(part) for part in tally]
        for arm, tally in outcomes.items()
    }
    return {"counts": counts}


def _table(problem: Asked, design: Rules | None = None) -> Mapping[str, Any]:
    return designed_to_dict(problem, design) if isinstance(problem, Problem) else problem


# -- clients -------------------------------------------------------------------------------------

Trial = RemoteTrial[Answer, list[Answer]]
AsyncTrial = RemoteTrial[Awaitable[Answer], Awaitable[list[Answer]]]
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)


def _addressed(http: Http, url: str, token: str | None) -> Http:
    if not url.startswith(("http://", "https://")):
        raise TrialError(f"url: {url!r}; must begin with http:// or https://", field="url")
    http.base_url = httpx.URL(url)
    http.headers["User-Agent"] = f"decobandit/{__version__}"
    if token is not None:
        http.headers["Authorization"] = f"Bearer {for_header('token', token)}"
    return http


class Client(ServerVerbs[Answer, list[Answer], Trial]):
    """A client of a trial server.

    Parameters
    ----------
    url : str
        Address of the server, as `deco serve` prints it.
    token : str, optional
        Output of `deco token new`; none for a server without tokens.
    retries : int
        Attempts after the first, if the connection failed or the server is busy or restarts behind
        a proxy. Changes carry an idempotency key, so that a repeated one is not made twice.
    timeout : float
        Seconds without an answer; 900 for computations and exports.
    http : httpx.Client, optional
        For custom certificates and proxies; its headers and address are set here.

    Raises
    ------
    TrialError
        The refusals of the library, with the server's message: `NotFound`, `NoFreeSlot`,
        `Conflict`, ...; `Refused` for a token that is not valid or has another role,
        `Unreachable` if no server answers.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.client import Client
    >>> with Client(url, token) as client:
    ...     trial = client.create_trial(Problem.uniform(arms=2, horizon=5), name="visits")
    ...     allocation = trial.ask(subject="S-001")
    ...     slot = trial.tell(allocation.id, "good")
    ...     trial.status().told
    1
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: int = 4,
        timeout: float = TIMEOUT,
        http: httpx.Client | None = None,
    ) -> None:
        self._http = _addressed(http or httpx.Client(), url, token)
        super().__init__(Sender(self._http, Exchange(url, retries, timeout)).fetch)

    def close(self) -> None:
        """Close the connections to the server."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(ServerVerbs[Awaitable[Answer], Awaitable[list[Answer]], Awaitable[AsyncTrial]]):
    """An asynchronous client of a trial server: all methods but `open_trial` are awaited.

    Parameters
    ----------
    url, token, retries, timeout
        As of `Client`.
    http : httpx.AsyncClient, optional
        As of `Client`.

    Raises
    ------
    TrialError
        As `Client`.

    Examples
    --------
    >>> import asyncio
    >>> from decobandit.client import AsyncClient
    >>> async def visits(number):
    ...     async with AsyncClient(url, token) as client:
    ...         trial = client.open_trial("pilot")
    ...         asks = [trial.ask(subject=f"V-{i}") for i in range(number)]
    ...         return [allocation.state for allocation in await asyncio.gather(*asks)]
    >>> asyncio.run(visits(2))
    ['open', 'open']
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: int = 4,
        timeout: float = TIMEOUT,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._http = _addressed(http or httpx.AsyncClient(), url, token)
        super().__init__(AsyncSender(self._http, Exchange(url, retries, timeout)).fetch)

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
