"""The routes of the API: parse, call one function, render."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from .._version import __version__
from ..planning import plan
from ..trials import Allocation, Trial, create_trial, list_trials
from ..trials.service import check_trial
from . import answers as out
from . import schemas as sent
from .auth import EVERYBODY, Caller, Principal, allow
from .errors import CODES, ApiError
from .handles import Handles
from .problems import checked_problem
from .routes import ApiRoute
from .tokens import list_tokens, new_token, revoke_token

_DOCUMENTED = {
    400: "The request cannot be served.",
    401: "No valid token.",
    403: "The role may not do this, or another site asks.",
    404: "No such trial, allocation or token.",
    405: "The path has other methods.",
    408: "The body came too slowly.",
    409: "The request contradicts what is on record, or no slot is free.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "The request is malformed.",
    429: "Too many requests; see Retry-After.",
    503: "Busy, or the database cannot be used; see Retry-After.",
}
assert set(_DOCUMENTED) < set(CODES)

_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorOut"}}}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": _ERROR} for status, text in _DOCUMENTED.items()
}
# one model is enough to have it in the document: each takes time to make, for every route
_ERRORS[400] = {"description": _DOCUMENTED[400], "model": out.ErrorOut}

router = APIRouter(
    prefix="/api/v1",
    route_class=ApiRoute,
    responses=_ERRORS,
    generate_unique_id_function=lambda route: route.name,
)

_ID = r"^[^\x00-\x1f\x7f]{1,100}$"
TrialId = Annotated[str, Path(pattern=_ID, description="Id or name of the trial.")]
AllocationId = Annotated[str, Path(pattern=_ID, description="Id of the allocation.")]
TokenName = Annotated[str, Path(pattern=_ID, description="Name of the token.")]
KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=sent.KEY_PATTERN,
        description="Makes the request safe to repeat: the same key gives the same answer.",
    ),
]


async def _trial(request: Request, trial: TrialId) -> Trial:
    handles: Handles = request.app.state.handles
    known = handles.known(trial)
    return await run_in_threadpool(handles.open, trial) if known is None else known


Opened = Annotated[Trial, Depends(_trial)]


def _key(header: str | None, body: sent.KeyIn | sent.OutcomeIn | None) -> str | None:
    inside = None if body is None else body.key
    if header is not None and inside is not None and header != inside:
        raise ApiError(422, "invalid", "the key in the header is not the key in the body")
    return inside if header is None else header


def _shown(slot: Allocation, caller: Principal) -> out.AllocationOut | out.BlindAllocation:
    if caller.blinded:
        return out.BlindAllocation(id=slot.id, arm=slot.arm)
    return out.AllocationOut.model_validate(slot)


# -- trials -------------------------------------------------------------------------------------


@router.get("/health")
@allow()
def health() -> out.HealthOut:
    """The server is there. Needs no token."""
    return out.HealthOut(status="ok", version=__version__)


@router.post("/trials", status_code=201)
@allow("admin")
def trial_create(request: Request, caller: Caller, body: sent.CreateIn) -> out.StatusOut:
    """Solve a problem and begin a trial of it."""
    state = request.app.state
    with state.heavy.solving():
        problem = checked_problem(body.problem, state.limits)
        trial = create_trial(
            problem,
            policy=body.policy,
            name=body.name,
            db=state.store,
            seed=body.seed,
            tol=body.tol,
            ties=body.ties,
            by=caller.name,
        )
        return out.StatusOut.model_validate(trial.status().to_dict())


@router.get("/trials")
@allow(*EVERYBODY)
def trial_list(request: Request, caller: Caller) -> out.TrialsOut | out.BlindTrials:
    """All trials; an operator sees their names only."""
    found = list_trials(db=request.app.state.store)
    if caller.blinded:
        return out.BlindTrials(trials=[out.BlindTrial(id=one.id, name=one.name) for one in found])
    return out.TrialsOut(trials=[out.SummaryOut.model_validate(one.to_dict()) for one in found])


@router.get("/trials/{trial}")
@allow(*EVERYBODY)
def trial_status(caller: Caller, trial: Opened) -> out.StatusOut | out.BlindStatus:
    """How a trial stands; an operator sees what waits for an outcome."""
    full = trial.status()
    if caller.blinded:
        waiting = [out.BlindAllocation(id=slot.id, arm=slot.arm) for slot in full.open]
        return out.BlindStatus(id=trial.id, name=trial.name, finished=full.finished, open=waiting)
    return out.StatusOut.model_validate(full.to_dict())


@router.post("/trials/{trial}/ask")
@allow("admin", "operator")
def trial_ask(
    caller: Caller, trial: Opened, body: sent.KeyIn | None = None, key: KeyHeader = None
) -> out.AllocationOut | out.BlindAllocation:
    """The arm of the next slot."""
    return _shown(trial.ask(key=_key(key, body), by=caller.name), caller)


@router.post("/trials/{trial}/allocations/{allocation}/tell")
@allow("admin", "operator")
def trial_tell(
    caller: Caller,
    trial: Opened,
    allocation: AllocationId,
    body: sent.OutcomeIn,
    key: KeyHeader = None,
) -> out.AllocationOut | out.BlindAllocation:
    """Record an outcome."""
    told = trial.tell(allocation, body.outcome, key=_key(key, body), by=caller.name)
    return _shown(told, caller)


@router.post("/trials/{trial}/allocations/{allocation}/cancel")
@allow("admin", "operator")
def trial_cancel(
    caller: Caller,
    trial: Opened,
    allocation: AllocationId,
    body: sent.KeyIn | None = None,
    key: KeyHeader = None,
) -> out.AllocationOut | out.BlindAllocation:
    """Give up an allocation; its slot is free again."""
    return _shown(trial.cancel(allocation, key=_key(key, body), by=caller.name), caller)


@router.post("/trials/{trial}/allocations/{allocation}/correct")
@allow("admin")
def trial_correct(
    caller: Caller,
    trial: Opened,
    allocation: AllocationId,
    body: sent.OutcomeIn,
    key: KeyHeader = None,
) -> out.AllocationOut:
    """Replace a recorded outcome; the old one stays in the log."""
    fixed = trial.correct(allocation, body.outcome, key=_key(key, body), by=caller.name)
    return out.AllocationOut.model_validate(fixed)


# -- records ------------------------------------------------------------------------------------


@router.get("/trials/{trial}/why")
@allow("admin", "viewer")
def trial_why(_: Caller, trial: Opened) -> out.WhyOut:
    """What speaks for the next arm."""
    full = trial.status().to_dict()
    return out.WhyOut.model_validate({name: full[name] for name in out.WhyOut.model_fields})


@router.get("/trials/{trial}/events")
@allow("admin", "viewer")
def trial_events(_: Caller, trial: Opened) -> out.EventsOut:
    """The log."""
    return out.EventsOut.model_validate({"events": [event.to_dict() for event in trial.events()]})


@router.get("/trials/{trial}/verify")
@allow("admin", "viewer")
def trial_verify(request: Request, _: Caller, trial: TrialId) -> out.VerifyOut:
    """Whether the log is as it was written."""
    return out.VerifyOut.model_validate(check_trial(trial, db=request.app.state.store))


@router.get("/trials/{trial}/replay")
@allow("admin", "viewer")
def trial_replay(request: Request, _: Caller, trial: Opened) -> out.ReplayOut:
    """Whether every decision comes out the same again."""
    with request.app.state.heavy.turn():
        return out.ReplayOut.model_validate(trial.replay())


@router.get("/trials/{trial}/export", response_model=dict[str, Any])
@allow("admin", "viewer")
def trial_export(_: Caller, trial: Opened) -> JSONResponse:
    """Everything there is to know, as one JSON object."""
    return JSONResponse(trial.export())


@router.get("/trials/{trial}/path", response_model=dict[str, Any])
@allow("admin", "viewer")
def trial_path(_: Caller, trial: Opened) -> JSONResponse:
    """The told outcomes, seen from the prices."""
    return JSONResponse(trial.path().to_dict())


@router.post("/plan")
@allow("admin", "viewer")
def plan_make(request: Request, _: Caller, body: sent.PlanIn) -> out.PlanOut:
    """What a trial would earn by several policies, and what none can exceed."""
    with request.app.state.heavy.solving():
        problem = checked_problem(body.problem, request.app.state.limits)
        return out.PlanOut.model_validate(plan(problem, body.policies).to_dict())


# -- tokens -------------------------------------------------------------------------------------


@router.get("/tokens")
@allow("admin")
def token_list(request: Request, _: Caller) -> out.TokensOut:
    """All tokens, without what opens the server."""
    found = list_tokens(request.app.state.store)
    return out.TokensOut.model_validate({"tokens": [token.to_dict() for token in found]})


@router.post("/tokens", status_code=201)
@allow("admin")
def token_create(request: Request, _: Caller, body: sent.TokenIn) -> out.TokenMade:
    """A new token; the answer is the only place where it is ever shown."""
    token, secret = new_token(request.app.state.store, body.name, body.role)
    request.app.state.guard.tokens_changed()
    return out.TokenMade.model_validate(token.to_dict() | {"token": secret})


@router.delete("/tokens/{name}")
@allow("admin")
def token_revoke(request: Request, _: Caller, name: TokenName) -> out.TokenOut:
    """Revoke a token: it opens nothing any more, and its sessions end."""
    token = revoke_token(request.app.state.store, name)
    request.app.state.guard.tokens_changed()
    return out.TokenOut.model_validate(token.to_dict())
