"""The pages of one trial: run, why, audit; and what their buttons do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from ..trials import Allocation, Damaged, Event, Trial, open_trial, outcomes_csv
from ..trials.service import check_trial
from .auth import EVERYBODY, allow
from .errors import ApiError
from .figures import Expectations, decision_figure, describe_decision, path_figure
from .headers import INLINE_STYLES
from .rendering import PageRoute, Sent, go, page

PLOTLY = "plotly.min.js"
MOST_TOLD = 50  # outcomes that are offered for correction
EVENTS_PER_PAGE = 100
OUTCOMES = {"good": 1, "bad": 0}

router = APIRouter(prefix="/trials/{trial}", route_class=PageRoute, include_in_schema=False)
_expectations = Expectations()


def _trial(request: Request, trial: Annotated[str, Path(max_length=100)]) -> Trial:
    return open_trial(trial, db=request.app.state.store)


Opened = Annotated[Trial, Depends(_trial)]
AllocationId = Annotated[str, Path(max_length=100)]


# -- run ----------------------------------------------------------------------------------------


@router.get("")
@allow(*EVERYBODY)
def run(request: Request, trial: Opened, now: str = "", done: str = "") -> Response:
    """The next arm and its outcome. `now`: the allocation under way; `done`: the one before."""
    caller, full = request.state.principal, trial.status()
    current = next((slot for slot in full.open if slot.id == now), None)
    if current is None and not done and len(full.open) == 1:
        current = full.open[0]
    slots = {slot.id: slot for slot in trial.allocations()}
    recent = [slot for slot in reversed(slots.values()) if slot.state == "told"][:MOST_TOLD]
    return page(
        request,
        "run.html.j2",
        trial=trial,
        finished=full.finished,
        now=current,
        waiting=[slot for slot in full.open if slot is not current],
        said=_said(slots.get(done), blinded=caller.blinded),
        status=None if caller.blinded else full,
        told=[] if caller.blinded else recent,
    )


def _said(slot: Allocation | None, *, blinded: bool) -> str:
    """What the last button did. An outcome is not shown to operators: it may not be their own."""
    if slot is None or slot.state == "open":
        return ""
    if slot.state == "cancelled":
        return f"Cancelled: {slot.arm}."
    if blinded:
        return f"Recorded for {slot.arm}."
    return f"Recorded: {'good' if slot.outcome else 'bad'} outcome for {slot.arm}."


@router.post("/ask")
@allow("admin", "operator")
def ask(request: Request, trial: Opened, form: Sent) -> Response:
    """Allocate the next slot."""
    slot = trial.ask(key=form.key, by=request.state.principal.name)
    return go(f"/trials/{trial.id}?now={quote(slot.id)}")


@router.post("/allocations/{allocation}/tell")
@allow("admin", "operator")
def tell(request: Request, trial: Opened, allocation: AllocationId, form: Sent) -> Response:
    """Record an outcome."""
    by = request.state.principal.name
    slot = trial.tell(allocation, _outcome(form.one("outcome")), key=_key(form.key, form), by=by)
    return go(f"/trials/{trial.id}?done={quote(slot.id)}")


@router.post("/allocations/{allocation}/cancel")
@allow("admin", "operator")
def cancel(request: Request, trial: Opened, allocation: AllocationId, form: Sent) -> Response:
    """Give up an allocation."""
    key = None if form.key is None else f"{form.key}-cancel"
    slot = trial.cancel(allocation, key=key, by=request.state.principal.name)
    return go(f"/trials/{trial.id}?done={quote(slot.id)}")


@router.post("/allocations/{allocation}/correct")
@allow("admin")
def correct(request: Request, trial: Opened, allocation: AllocationId, form: Sent) -> Response:
    """Replace a recorded outcome."""
    by = request.state.principal.name
    slot = trial.correct(allocation, _outcome(form.one("outcome")), key=_key(form.key, form), by=by)
    return go(f"/trials/{trial.id}?done={quote(slot.id)}")


def _outcome(text: str) -> int:
    if text not in OUTCOMES:
        raise ApiError(422, "invalid", "the outcome must be good or bad")
    return OUTCOMES[text]


def _key(key: str | None, form: Any) -> str | None:
    """A form has two buttons: the other one is another request, refused for what it says."""
    return None if key is None else f"{key}-{form.one('outcome')}"


# -- why ----------------------------------------------------------------------------------------


def _plotly_address() -> str:
    try:
        return f"/static/{PLOTLY}?v={version_of('plotly')}"
    except PackageNotFoundError:
        return f"/static/{PLOTLY}"


@router.get("/why")
@allow("admin", "viewer")
def why(request: Request, trial: Opened) -> Response:
    """What speaks for the next arm, and how far from optimal the trial can be."""
    status = trial.status()
    answer = page(
        request,
        "why.html.j2",
        trial=trial,
        status=status,
        what=describe_decision(status) if status.next_arm else "",
        stages=trial.path().stages,
        plotly=_plotly_address(),
    )
    answer.headers["Content-Security-Policy"] = INLINE_STYLES  # plotly writes its own styles
    return answer


@router.get("/why.json")
@allow("admin", "viewer")
def why_figures(
    request: Request, trial: Opened, dark: bool = False, expected: bool = False
) -> Response:
    """The figures; `expected` adds what was to be expected of the policy, which may take longer."""
    line = None
    if expected:
        if not _expectations.known(trial):
            with request.app.state.heavy.turn():
                _expectations.of(trial)
        line = _expectations.of(trial)
    return JSONResponse(
        {
            "decision": decision_figure(trial.status(), dark=dark),
            "path": path_figure(trial.path(), line, dark=dark),
        }
    )


# -- audit --------------------------------------------------------------------------------------


@router.get("/audit")
@allow("admin", "viewer")
def audit(
    request: Request,
    name: Annotated[str, Path(alias="trial", max_length=100)],
    check: str = "",
    number: Annotated[int, Query(alias="page", ge=1)] = 1,
) -> Response:
    """The log, and whether it is whole."""
    try:
        trial = _trial(request, name)
        events = trial.events()
    except Damaged:
        return _damaged(request, name)
    verified = trial.verify() if check == "chain" else None
    replayed = None
    if check == "decisions" and events:
        with request.app.state.heavy.turn():
            replayed = trial.replay()
    pages = max(1, -(-len(events) // EVENTS_PER_PAGE))
    number = min(number, pages)
    shown = events[(number - 1) * EVENTS_PER_PAGE : number * EVENTS_PER_PAGE]
    return page(
        request,
        "audit.html.j2",
        trial=trial,
        rows=_rows(events, shown),
        pages=pages,
        number=number,
        verified=verified,
        replayed=replayed,
    )


def _damaged(request: Request, trial: str) -> Response:
    """What is wrong with a trial that cannot be opened."""
    verified = check_trial(trial, db=request.app.state.store)
    return page(request, "damaged.html.j2", verified=verified)


def _rows(events: Sequence[Event], shown: Sequence[Event]) -> list[tuple[Event, str, str]]:
    """Events with a summary and their body."""
    arms = {e.data["allocation"]: e.data["arm"] for e in events if e.kind == "asked"}
    return [
        (event, _summary(event, arms), json.dumps(event.to_dict(), indent=1, ensure_ascii=False))
        for event in shown
    ]


def _summary(event: Event, arms: dict[str, str]) -> str:
    data = event.data
    if event.kind == "asked":
        return str(data["arm"])
    if event.kind == "refused":
        return str(data["why"])
    if event.kind == "created":
        return f"by the policy {data['plan']['policy']}"
    arm = arms.get(data.get("allocation", ""), "")
    if "outcome" in data:
        return f"{arm}: {'good' if data['outcome'] else 'bad'}"
    return arm


@router.get("/export.json")
@allow("admin", "viewer")
def export_json(trial: Opened) -> Response:
    """Everything, to be checked elsewhere."""
    text = json.dumps(trial.export(), ensure_ascii=False, indent=1)
    return Response(text, media_type="application/json", headers=_download(trial, "json"))


@router.get("/export.csv")
@allow("admin", "viewer")
def export_csv(trial: Opened) -> Response:
    """One row per allocation."""
    text = outcomes_csv(trial.events())
    return Response(text, media_type="text/csv; charset=utf-8", headers=_download(trial, "csv"))


def _download(trial: Trial, kind: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="trial-{trial.id}.{kind}"'}
