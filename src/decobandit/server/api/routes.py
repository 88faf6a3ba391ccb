"""Routes of the API: parse, call one function, render."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Body, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from ..._version import __version__
from ...trials import Allocation, Summary, people_log
from ...trials.checkpoints import make_checkpoint
from ...trials.lists import (
    MAX_PAGE,
    page_of_allocations,
    page_of_events,
    page_of_trials,
    stale_ids,
)
from ...trials.report import TrialReport
from ...trials.status import status_of
from ...trials.verification import check_trial, replayed
from ..auth import EVERYBODY, Caller, allow
from ..errors import ApiError
from ..long_work import refusals
from ..tokens import list_tokens, new_token, revoke_token
from . import responses as out
from . import schemas as sent
from .routing import (
    After,
    AfterEvent,
    ArmName,
    ControlArm,
    GivenHead,
    Key,
    Limit,
    OfSegment,
    OfState,
    Opened,
    Seen,
    SlotId,
    TokenName,
    TrialId,
    answer,
    blind,
    key_of,
    made,
    next_key,
    reasoned,
    router,
    shown_to,
)

_TRIAL = "/trials/{trial}"
_ALLOCATION = f"{_TRIAL}/allocations/{{allocation}}"
_SHOWN = Allocation | out.BlindAllocation

# -- allocations: the routes used most come first, for routes are tried in order -----------------


@router.post(f"{_TRIAL}/ask", response_model=_SHOWN)
@allow("admin", "operator", "app")
async def trial_ask(
    caller: Caller, trial: Opened, body: sent.AskIn | None = None, key: Key = None
) -> Response:
    """Allocate the next stage; the same subject gets the same allocation."""
    settings = body or sent.AskIn()
    change = trial.asking(
        subject=settings.subject,
        segment=settings.segment,
        note=settings.note,
        key=key_of(key, settings),
        by=caller.name,
    )
    return shown_to(caller, await made(change), trial)


@router.post(f"{_ALLOCATION}/tell", response_model=_SHOWN)
@allow("admin", "operator", "app")
async def trial_tell(
    caller: Caller, trial: Opened, allocation: SlotId, body: sent.OutcomesIn, key: Key = None
) -> Response:
    """Record outcomes: of a single pull, or counts or rows by arm, which add up."""
    change = trial.telling(
        allocation,
        body.given(),
        key=key_of(key, body),
        by=caller.name,
        by_code=caller.blinded,
        confirm_range=body.confirm_range,
    )
    return shown_to(caller, await made(change), trial)


@router.post(f"{_ALLOCATION}/cancel", response_model=_SHOWN)
@allow("admin", "operator")
def trial_cancel(
    caller: Caller, trial: Opened, allocation: SlotId, body: sent.ReasonIn, key: Key = None
) -> Response:
    """Cancel pending pulls, with a reason; without outcomes, the slots are free again."""
    return shown_to(caller, trial.cancel(allocation, **reasoned(caller, body, key)), trial)


@router.post(f"{_ALLOCATION}/correct", response_model=Allocation)
@allow("admin")
def trial_correct(
    caller: Caller, trial: Opened, allocation: SlotId, body: sent.CorrectIn, key: Key = None
) -> Response:
    """Replace recorded outcomes, with a reason; the old ones stay in the log."""
    settings = reasoned(caller, body, key) | {"confirm_range": body.confirm_range}
    return answer(trial.correct(allocation, body.given(), **settings))


@router.get(_ALLOCATION, response_model=_SHOWN)
@allow(*EVERYBODY)
def trial_allocation(caller: Caller, trial: Seen, allocation: SlotId) -> Response:
    """Show one allocation: pulls and pending outcomes of every arm."""
    return shown_to(caller, trial.allocation(allocation), trial)


@router.post(f"{_ALLOCATION}/unmask", response_model=out.UnmaskedOut)
@allow("admin", "operator")
def trial_unmask(
    caller: Caller, trial: Opened, allocation: SlotId, body: sent.UnmaskIn, key: Key = None
) -> Response:
    """Show the name of the arm of one allocation; caller, category and reason are recorded."""
    said = reasoned(caller, body, key)
    slot = trial.unmask(allocation, category=body.category, role=caller.role, **said)
    arm = str(slot.arm)
    return answer({"id": slot.id, "arm": arm, "code": trial.codes[arm]})


# -- trials -------------------------------------------------------------------------------------


@router.get("/health", response_model=out.HealthOut)
@router.head("/health", include_in_schema=False)
@allow()
async def health() -> Response:  # not in a thread: it only waits for a place among requests
    """Report that the server is running. Needs no token."""
    return answer({"status": "ok", "version": __version__})


@router.get("/live", response_model=out.ProbeOut)
@router.head("/live", include_in_schema=False)
@allow()
async def live() -> Response:
    """Report that the process answers; nothing else is checked. Needs no token."""
    raise NotImplementedError  # the middleware `Probes` answers


@router.get("/ready", response_model=out.ProbeOut)
@router.head("/ready", include_in_schema=False)
@allow()
async def ready() -> Response:
    """Report that the database answers within two seconds; 503 otherwise. Needs no token."""
    raise NotImplementedError  # the middleware `Probes` answers


@router.get("/trials", response_model=out.TrialsOut | out.BlindTrials)
@allow(*EVERYBODY)
def trial_list(
    request: Request,
    caller: Caller,
    archived: Annotated[bool, Query(description="Archived trials, too.")] = False,
    limit: Limit = MAX_PAGE,
    after: After = None,
) -> Response:
    """List the trials of the token, oldest first; an operator sees their names only."""
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
        trials = [{"id": one.id, "name": one.name} for one in page.items]
    else:
        trials = [one.to_dict() for one in page.items]
    return answer({"trials": trials, **next_key(page)})


@router.get("/trials/{trial}", response_model=out.StatusOut | out.BlindStatus)
@allow(*EVERYBODY)
def trial_status(request: Request, caller: Caller, trial: Seen) -> Response:
    """Return the state of a trial; an operator sees pending allocations, with codes for arms."""
    ledger = trial.read()
    full = status_of(ledger)
    if caller.blinded:
        slots = [blind(slot, trial) for slot in full.open]
        names = {"id": trial.id, "name": trial.name}
        return answer(names | {"finished": full.is_over, "state": full.state, "open": slots})
    stale = stale_ids(ledger.since, request.app.state.limits.stale_after)
    return answer(full.to_dict() | {"stale": stale})


# -- records ------------------------------------------------------------------------------------


@router.get("/trials/{trial}/why", response_model=out.WhyOut)
@allow("admin", "viewer")
def trial_why(_: Caller, trial: Seen, segment: OfSegment = None) -> Response:
    """Return the numbers behind the next decision; in a trial with segments, that of one."""
    part = trial.read().of(segment)
    full = status_of(part).to_dict()
    return answer({name: full[name] for name in out.WhyOut.model_fields})


@router.get("/trials/{trial}/allocations", response_model=out.AllocationsOut)
@allow("admin", "viewer")
def trial_allocations(
    _: Caller, trial: Seen, limit: Limit = MAX_PAGE, after: After = None, state: OfState = None
) -> Response:
    """Allocations in the order in which they were made."""
    slots = trial.read().allocations
    page = page_of_allocations(slots, limit=limit, after=after, state=state)
    return answer({"allocations": [slot.to_dict() for slot in page.items], **next_key(page)})


@router.get("/trials/{trial}/events", response_model=out.EventsOut)
@allow("admin", "viewer")
def trial_events(
    request: Request, caller: Caller, trial: Seen, limit: Limit = MAX_PAGE, after: AfterEvent = -1
) -> Response:
    """Return the log, in order."""
    with request.app.state.record_readers.one(caller.name):
        ledger = trial.read()
        page = page_of_events(trial.store, ledger, after=after, limit=limit)
        return answer({"events": [event.to_dict() for event in page.items], **next_key(page)})


@router.get("/trials/{trial}/verify", response_model=out.VerifyOut)
@allow("admin", "viewer")
def trial_verify(
    request: Request, caller: Caller, trial: TrialId, head: GivenHead = None
) -> Response:
    """Whether the log is as it was written."""
    with request.app.state.record_readers.one(caller.name):
        result = check_trial(trial, db=request.app.state.store, head=head).to_dict()
    result["remarks"] = result["remarks"] or None
    names = out.VerifyOut.model_fields
    return answer({name: result[name] for name in names if result[name] is not None})


@router.get("/trials/{trial}/replay", response_model=out.ReplayOut)
@allow("admin", "viewer")
async def trial_replay(request: Request, _: Caller, trial: Opened) -> Response:
    """Compute every decision again, and compare."""
    events = await run_in_threadpool(trial.events)
    replay = await request.app.state.long_work.run(request, "replay", replayed, events)
    return answer({name: replay.to_dict()[name] for name in out.ReplayOut.model_fields})


@router.get("/trials/{trial}/export", response_model=dict[str, Any])
@allow("admin", "viewer")
def trial_export(request: Request, caller: Caller, trial: Opened) -> StreamingResponse:
    """Export a trial as one JSON object; the access log names the caller."""
    request.state.recorder.exported(caller, trial, "json")
    text = request.app.state.record_readers.text(caller.name, trial.export_text)
    return StreamingResponse(text, media_type="application/json")


@router.get("/trials/{trial}/path", response_model=dict[str, Any])
@allow("admin", "viewer")
def trial_path(_: Caller, trial: Seen, segment: OfSegment = None) -> Response:
    """Compare the recorded outcomes with the prices; in a trial with segments, those of one."""
    return answer(trial.episode(segment=segment))


@router.get("/trials/{trial}/report", response_model=TrialReport)
@allow("admin", "viewer")
def trial_report(
    request: Request, caller: Caller, trial: Seen, control: ControlArm = None
) -> Response:
    """Return rates with intervals, P(best), shares over time, deviations and the log."""
    with request.app.state.record_readers.one(caller.name):
        report = trial.report(control=control, late_after=request.app.state.limits.stale_after)
    return answer(report)


@router.post("/checkpoints", status_code=201, response_model=out.CheckpointOut)
@allow("admin", all_trials=True)
def checkpoint_make(request: Request, _: Caller) -> Response:
    """Make a signed note of the heads of all trials, to be stored elsewhere."""
    state = request.app.state
    if state.signing_key is None:
        raise ApiError(409, "no_key", "the server has no key to sign with: deco serve --key FILE")
    return answer(make_checkpoint(state.store, state.signing_key), 201)


# -- lifecycle ----------------------------------------------------------------------------------


@router.post(f"{_TRIAL}/limits", response_model=Summary)
@allow("admin")
def trial_limits(caller: Caller, trial: Opened, body: sent.LimitsIn, key: Key = None) -> Response:
    """Change how many allocations may be pending, cancelled or unmasked, and say why."""
    limits = body.model_dump(include={"max_open", "max_cancelled", "max_unmasked", "unmask_role"})
    return answer(trial.set_limits(**reasoned(caller, body, key), **limits))


@router.post(f"{_TRIAL}/arms", response_model=Summary)
@allow("admin")
def trial_arm_add(
    request: Request, caller: Caller, trial: Opened, body: sent.AddArmIn, key: Key = None
) -> Response:
    """Let an arm join from the next stage on; prices of the stages left are solved again."""
    request.app.state.limits.check_arms(trial.problem.n_arms + 1)
    said = reasoned(caller, body, key)
    with refusals(own_code=True):
        return answer(trial.add_arm(body.arm, policy=body.policy, **said))


@router.post(f"{_TRIAL}/arms/{{arm}}/close", response_model=Summary)
@allow("admin")
def trial_arm_close(
    caller: Caller, trial: Opened, arm: ArmName, body: sent.CloseArmIn, key: Key = None
) -> Response:
    """Stop allocating an arm from the next stage on; pending outcomes can still be recorded."""
    said = reasoned(caller, body, key)
    with refusals(own_code=True):
        return answer(trial.close_arm(arm, policy=body.policy, **said))


MaybeReason = Annotated[sent.MaybeReasonIn | None, Body()]


def _change(verb: str, needs_reason: bool) -> Callable[..., Response]:
    """Return the endpoint of a change that needs a reason at most."""

    def changed(
        caller: Caller, trial: Opened, body: MaybeReason = None, key: Key = None
    ) -> Response:
        body = body or sent.MaybeReasonIn()
        return answer(getattr(trial, verb)(**reasoned(caller, body, key)))

    def explained(caller: Caller, trial: Opened, body: sent.ReasonIn, key: Key = None) -> Response:
        return answer(getattr(trial, verb)(**reasoned(caller, body, key)))

    return allow("admin")(explained if needs_reason else changed)


_CHANGES = (  # verb, whether it needs a reason, description
    ("close", False, "Make no more allocations; outcomes of pending ones can still be recorded."),
    ("reopen", True, "Make allocations again, and say why; an archived trial is listed again."),
    ("archive", False, "Close a trial and hide it from lists."),
    ("lock", False, "Refuse every change of a closed trial until another person unlocks it."),
    (
        "unlock",
        True,
        "Permit changes of a locked trial again, and say why; not by who locked it.",
    ),
)
for _verb, _needs_reason, _text in _CHANGES:
    router.add_api_route(
        f"{_TRIAL}/{_verb}",
        _change(_verb, _needs_reason),
        methods=["POST"],
        response_model=Summary,
        name=f"trial_{_verb}",
        description=_text,
    )


@router.post(f"{_TRIAL}/review", response_model=Summary)
@allow("admin", "viewer")
def trial_review(caller: Caller, trial: Opened, body: sent.ReviewIn, key: Key = None) -> Response:
    """Record that the caller has reviewed the audit trail up to an event."""
    key, by = key_of(key, body), caller.name
    return answer(trial.review(up_to=body.up_to, note=body.note, key=key, by=by))


# -- people -------------------------------------------------------------------------------------


@router.get("/people", response_model=out.PeopleOut)
@allow("admin", all_trials=True)
def people_read(request: Request, _: Caller) -> Response:
    """List logins, tokens, exports, views of results and unmaskings; checked as it is read."""
    request.state.recorder.flush()
    return answer(people_log(request.app.state.store))


@router.get("/tokens", response_model=out.TokensOut)
@allow("admin", all_trials=True)
def token_list(request: Request, _: Caller) -> Response:
    """All tokens, without their secrets."""
    tokens = list_tokens(request.app.state.store)
    return answer({"tokens": [token.to_dict() for token in tokens]})


@router.post("/tokens", status_code=201, response_model=out.TokenMade)
@allow("admin", all_trials=True)
def token_create(request: Request, caller: Caller, body: sent.TokenIn) -> Response:
    """Create a token; only this response has the secret."""
    token, secret = new_token(request.app.state.store, **body.model_dump(), by=caller.name)
    request.app.state.guard.tokens_changed()
    return answer(token.to_dict() | {"token": secret}, 201)


@router.delete("/tokens/{name}", response_model=out.TokenOut)
@allow("admin", all_trials=True)
def token_revoke(request: Request, caller: Caller, name: TokenName) -> Response:
    """Revoke a token, and end its sessions; the last administrator's is refused."""
    token = revoke_token(request.app.state.store, name, by=caller.name)
    request.app.state.guard.tokens_changed()
    return answer(token)
