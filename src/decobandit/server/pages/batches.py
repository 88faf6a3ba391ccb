"""The page of a trial's batches: allot the next stage, record counts, give up the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from ...trials import Batch, Trial, TrialError
from ...trials.codes import in_order
from ...trials.log_pages import ledger_of, page_of_allocations
from ...trials.staleness import stale_ids
from ..auth import EVERYBODY, allow
from ..errors import ApiError, trial_error
from ..principal import Principal
from .rendering import Form, PageRoute, Sent, go, page
from .trial import Opened, saw

BATCHES_PER_PAGE = 50
MAX_OPEN = 20  # with forms on one page, the oldest first


@dataclass(frozen=True)
class Refused:
    """A form that was refused: which one, why, and what was typed into it."""

    form: str  # tell or correct
    batch: str
    why: str
    status: int
    typed: dict[str, tuple[str, str]]  # by arm: good outcomes and all, or others and nothing
    reason: str = ""


router = APIRouter(prefix="/trials/{trial}/batches", route_class=PageRoute, include_in_schema=False)
BatchId = Annotated[str, Path(max_length=100)]


@router.get("")
@allow(*EVERYBODY)
def batches(
    request: Request,
    trial: Opened,
    after: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """Batches with pending outcomes, and all of them in the order in which they were made."""
    return _page(request, trial, after=after)


def _page(
    request: Request, trial: Trial, *, after: str | None = None, refused: Refused | None = None
) -> Response:
    caller, ledger = request.state.principal, ledger_of(trial.store, trial.id)
    full = trial.status_at(ledger)
    saw(request, trial)
    waiting = [batch for batch in ledger.batches.values() if batch.state == "open"]
    forms = [("tell", batch.id) for batch in waiting[:MAX_OPEN]]
    found = page_of_allocations(ledger.batches, after=after, limit=BATCHES_PER_PAGE)
    forms += [("correct", batch.id) for batch in found.items if batch.told]
    return page(
        request,
        "batches.html.j2",
        200 if refused is None else refused.status,
        refused=refused,
        elsewhere=refused is not None and (refused.form, refused.batch) not in forms,
        trial=trial,
        state=ledger.state,
        free=ledger.used < ledger.slots,
        finished=full.finished or full.stopped is not None,
        single=bool(ledger.allocations),
        status=None if caller.blinded else full,
        waiting=[_shown_to(caller, batch, trial) for batch in waiting[:MAX_OPEN]],
        others=max(0, len(waiting) - MAX_OPEN),
        batches=[_shown_to(caller, batch, trial) for batch in found.items],
        next=found.next,
        first=after is None,
        stale=set(stale_ids(ledger.since, request.app.state.limits.stale_after)),
        binary=trial.problem.is_binary,
        kinds={_called(caller, arm, trial): kind for arm, kind in ledger.kinds.items()},
    )


def _called(caller: Principal, arm: str, trial: Trial) -> str:
    """What somebody reads for an arm: its name, or its code."""
    return trial.codes[arm] if caller.blinded else arm


def _shown_to(caller: Principal, batch: Batch, trial: Trial) -> Batch:
    """A batch; blinded people see codes of its arms in their order, and no outcomes or reasons."""
    if not caller.blinded:
        return batch
    arms = [
        replace(one, arm=trial.codes[one.arm], good=None, bad=None, seen=None) for one in batch.arms
    ]
    ordered = tuple(sorted(arms, key=lambda one: in_order(one.arm)))
    return replace(batch, arms=ordered, reason="", change_reason=None)


@router.post("")
@allow("admin", "operator")
def ask(request: Request, trial: Opened, form: Sent) -> Response:
    """Allot the next stage."""
    trial.ask_batch(
        subject=form.text("subject"), note=form.text("note"), key=form.key,
        by=request.state.principal.name,
    )  # fmt: skip
    return _back(trial)


@router.post("/{batch}/outcomes")
@allow("admin", "operator")
def tell(request: Request, trial: Opened, batch: BatchId, form: Sent) -> Response:
    """Record outcomes as counts."""
    caller = request.state.principal
    try:
        trial.tell_batch(batch, _counts(form), key=form.key, by=caller.name, by_code=caller.blinded)
    except (TrialError, ApiError) as error:
        return _page(request, trial, refused=_refusal(request, error, "tell", batch, form))
    return _back(trial)


@router.post("/{batch}/cancel")
@allow("admin", "operator")
def cancel(request: Request, trial: Opened, batch: BatchId, form: Sent) -> Response:
    """Cancel what is pending."""
    by = request.state.principal.name
    trial.cancel_batch(batch, reason=form.reason, key=form.key, by=by)
    return _back(trial)


@router.post("/{batch}/correct")
@allow("admin")
def correct(request: Request, trial: Opened, batch: BatchId, form: Sent) -> Response:
    """Replace recorded outcomes."""
    by = request.state.principal.name
    try:
        trial.correct_batch(batch, _counts(form), reason=form.reason, key=form.key, by=by)
    except (TrialError, ApiError) as error:
        return _page(request, trial, refused=_refusal(request, error, "correct", batch, form))
    return _back(trial)


def _refusal(
    request: Request, error: TrialError | ApiError, what: str, batch: str, form: Form
) -> Refused:
    """What to say at a form that was refused; one that is not there any more has a page."""
    if isinstance(error, TrialError):
        error = trial_error(error, blinded=request.state.principal.blinded)
    if error.status_code == 404:
        raise error
    typed = {arm: (seen, "") for arm, seen in _fields(form, "other", "seen")}
    typed |= {arm: (good, all_) for arm, good, all_ in _fields(form, "arm", "good", "pulls")}
    why = str(error.detail).removeprefix("counts: ")
    return Refused(what, batch, why, error.status_code, typed, form.one("reason"))


def _back(trial: Trial) -> Response:
    return go(f"/trials/{trial.id}/batches")


def _counts(form: Form) -> dict[str, str]:
    """Outcomes of the arms whose fields were filled in: good ones and all, or others as text."""
    others = _fields(form, "other", "seen")
    found = {arm: seen.strip() for arm, seen in others if seen.strip()}
    for arm, good, pulls in _fields(form, "arm", "good", "pulls"):
        if good.strip() or pulls.strip():
            if not (good.strip() and pulls.strip()):
                raise ApiError(422, "invalid", f"{arm}: give good outcomes and all outcomes")
            found[arm] = f"{good.strip()}/{pulls.strip()}"
    if not found:
        raise ApiError(422, "invalid", "give the outcomes of an arm at least")
    return found


def _fields(form: Form, *names: str) -> list[tuple[str, ...]]:
    """Rows of fields that stand together."""
    fields = [form.all(name) for name in names]
    if len({len(each) for each in fields}) > 1:
        raise ApiError(422, "invalid", "the form is malformed")
    return list(zip(*fields, strict=True))
