"""The routes of the API: parse, call one function, render.

Those of `allocations.py`, `designs.py`, `lifecycle.py`, `people.py` and `reports.py`
are on the same router.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from ..._version import __version__
from ...designs import forecast
from ...policies import check_policies
from ...trials.checkpoints import make_checkpoint
from ...trials.lists import MAX_PAGE, ledger_of, page_of_events, page_of_trials, stale_ids
from ...trials.verification import check_trial, replayed
from ..auth import EVERYBODY, Caller, allow
from ..errors import ApiError
from ..long_work import refusals
from ..middleware.probes import Probe
from ..new_trials import start_trial
from . import allocations, designs, lifecycle, people, reports  # noqa: F401  # routes
from . import responses as out
from . import schemas as sent
from .api_router import router
from .arguments import (
    GivenHead,
    Opened,
    Seen,
    TrialId,
    masked,
)
from .list_parameters import AfterEvent, AfterTrial, Limit, PageOfMade, next_key
from .problems import checked_design, checked_problem, most_stages
from .record_models import Out

__all__ = ["router"]

# -- trials -------------------------------------------------------------------------------------


@router.get("/health", response_model=out.HealthOut)
@router.head("/health", include_in_schema=False)
@allow()
async def health() -> Out:  # not in a thread: it only waits for a place among requests
    """The server is running. Needs no token."""
    return out.HealthOut(status="ok", version=__version__)


def _probe(request: Request) -> Probe:
    found: Probe = request.app.state.probes[request.url.path]
    return found


@router.get("/live", response_model=out.ProbeOut)
@router.head("/live", include_in_schema=False)
@allow()
async def live(request: Request) -> Response:
    """The process answers: nothing else is asked. Needs no token."""
    return await _probe(request).response()


@router.get("/ready", response_model=out.ProbeOut)
@router.head("/ready", include_in_schema=False)
@allow()
async def ready(request: Request) -> Response:
    """The database answers, within two seconds; 503 otherwise. Needs no token."""
    return await _probe(request).response()


@router.post("/trials", status_code=201, response_model=out.StatusOut)
@allow("admin", all_trials=True)
async def trial_create(request: Request, _: Caller, body: sent.CreateIn) -> Out:
    """Solve a problem and start a trial of it."""
    with refusals():
        check_policies([body.policy], places=False)
        limits = request.app.state.limits
        most = most_stages(body.policy, limits, bound=body.bound)
        problem, design = await run_in_threadpool(
            checked_design, body.problem, limits, most_stages=most
        )
        trial = await start_trial(
            request,
            problem,
            policy=body.policy,
            name=body.name,
            seed=body.seed,
            tol=body.tol,
            ties=body.ties,
            bound=body.bound,
            rules=None if design is None else design.rules,
            max_open=body.max_open,
            max_cancelled=body.max_cancelled,
        )
        status = await run_in_threadpool(trial.status)
        return out.StatusOut.model_validate(status.to_dict() | {"stale": []})


@router.get(
    "/trials",
    response_model=out.TrialsOut | out.BlindTrials,
    response_model_exclude_unset=True,
)
@allow(*EVERYBODY)
def trial_list(
    request: Request,
    caller: Caller,
    archived: Annotated[bool, Query(description="Archived trials, too.")] = False,
    limit: Limit = MAX_PAGE,
    after: AfterTrial = None,
) -> Out:
    """The trials that the token is for, the oldest first; an operator sees their names only."""
    state = request.app.state
    page = page_of_trials(
        state.store,
        limit=limit,
        after=after,
        only=caller.only_trials,
        archived=archived,
        stale_after=state.limits.stale_after,
    )
    if caller.blinded:
        names = [out.BlindTrial(id=one.id, name=one.name) for one in page.items]
        return out.BlindTrials(trials=names, **next_key(page))
    shown = [out.SummaryOut.model_validate(one.to_dict()) for one in page.items]
    return out.TrialsOut(trials=shown, **next_key(page))


@router.get(
    "/trials/{trial}",
    response_model=out.StatusOut | out.BlindStatus,
    response_model_exclude_unset=True,
)
@allow(*EVERYBODY)
def trial_status(request: Request, caller: Caller, trial: Seen) -> Out:
    """The state of a trial; an operator sees the pending allocations, with codes for the arms."""
    ledger = ledger_of(trial.store, trial.id)
    full = trial.status_at(ledger)
    if caller.blinded:
        return out.BlindStatus(
            id=trial.id,
            name=trial.name,
            finished=full.is_over,
            state=full.state,
            open=[masked(slot, trial) for slot in full.open],
        )
    stale = stale_ids(ledger.since, request.app.state.limits.stale_after)
    return out.StatusOut.model_validate(full.to_dict() | {"stale": stale})


# -- records ------------------------------------------------------------------------------------


@router.get("/trials/{trial}/why", response_model=out.WhyOut)
@allow("admin", "viewer")
def trial_why(_: Caller, trial: Seen) -> Out:
    """The numbers that the next decision comes from."""
    full = trial.status().to_dict()
    return out.WhyOut.model_validate({name: full[name] for name in out.WhyOut.model_fields})


@router.get(
    "/trials/{trial}/allocations",
    response_model=out.AllocationsOut,
    response_model_exclude_unset=True,
)
@allow("admin", "viewer")
def trial_allocations(_: Caller, trial: Seen, asked: PageOfMade) -> Out:
    """Allocations in the order in which they were made."""
    page = asked.of(ledger_of(trial.store, trial.id).allocations)
    shown = [out.AllocationOut.model_validate(slot) for slot in page.items]
    return out.AllocationsOut(allocations=shown, **next_key(page))


@router.get(
    "/trials/{trial}/events", response_model=out.EventsOut, response_model_exclude_unset=True
)
@allow("admin", "viewer")
def trial_events(
    request: Request, caller: Caller, trial: Seen, limit: Limit = MAX_PAGE, after: AfterEvent = -1
) -> Out:
    """The log, in order."""
    with request.app.state.record_readers.one(caller.name):
        ledger = ledger_of(trial.store, trial.id)
        page = page_of_events(trial.store, ledger, after=after, limit=limit)
        events = [event.to_dict() for event in page.items]
        return out.EventsOut.model_validate({"events": events, **next_key(page)})


@router.get(
    "/trials/{trial}/verify", response_model=out.VerifyOut, response_model_exclude_none=True
)
@allow("admin", "viewer")
def trial_verify(request: Request, caller: Caller, trial: TrialId, head: GivenHead = None) -> Out:
    """Whether the log is as it was written."""
    with request.app.state.record_readers.one(caller.name):
        found = check_trial(trial, db=request.app.state.store, head=head)
    said = found.to_dict()
    del said["trial"]
    shown: Out = out.VerifyOut.model_validate(said | {"remarks": said["remarks"] or None})
    return shown


@router.get("/trials/{trial}/replay", response_model=out.ReplayOut)
@allow("admin", "viewer")
async def trial_replay(request: Request, _: Caller, trial: Opened) -> Out:
    """Compute every decision again, and compare."""
    events = await run_in_threadpool(trial.events)
    found = await request.app.state.long_work.run(request, "replay", replayed, events)
    return out.ReplayOut.model_validate(found)


@router.get("/trials/{trial}/export", response_model=dict[str, Any])
@allow("admin", "viewer")
def trial_export(request: Request, caller: Caller, trial: Opened) -> StreamingResponse:
    """The whole trial as one JSON object; the log of people says who got it."""
    request.state.recorder.exported(caller, trial, "json")
    text = request.app.state.record_readers.text(caller.name, trial.export_text)
    return StreamingResponse(text, media_type="application/json")


@router.get("/trials/{trial}/path", response_model=dict[str, Any])
@allow("admin", "viewer")
def trial_path(_: Caller, trial: Seen) -> JSONResponse:
    """The recorded outcomes, compared with the prices."""
    return JSONResponse(trial.episode().to_dict())


@router.post("/plan", response_model=out.PlanOut)
@allow("admin", "viewer")
async def plan_make(request: Request, _: Caller, body: sent.PlanIn) -> Out:
    """What several policies are expected to earn, and an upper bound for all policies."""
    state = request.app.state
    with refusals():
        problem = await run_in_threadpool(checked_problem, body.problem, state.limits)
        check_policies(body.policies, places=False)
        found = await state.long_work.run(request, "plan", forecast, problem, body.policies)
        return out.PlanOut.model_validate(found.to_dict())


@router.post("/checkpoints", status_code=201, response_model=out.CheckpointOut)
@allow("admin", all_trials=True)
def checkpoint_make(request: Request, _: Caller) -> Out:
    """A signed note of the heads of all trials, to be kept elsewhere."""
    state = request.app.state
    if state.signing_key is None:
        raise ApiError(409, "no_key", "the server has no key to sign with: deco serve --key FILE")
    return out.CheckpointOut.model_validate(
        make_checkpoint(state.store, state.signing_key).to_dict()
    )
