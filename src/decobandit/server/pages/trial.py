"""Pages of one trial: run, why, audit, results, report; and the actions of their buttons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from ... import trials
from ...figures.episodes import points_text
from ...problem import ArmModel, Outcome
from ...problem.problem_files import parse_tree
from ...support import Cache, Floats, is_count
from ...trials.allocations import AllocationState, counts_from, told_text
from ...trials.arm_changes import ARM_KINDS
from ...trials.ledger import Ledger
from ...trials.lists import matching, numbers_of, page_of_allocations, stale_ids
from ...trials.report import posteriors_of
from ...trials.report_text import (
    ON_RECORD,
    declared,
    segment_results,
    shares,
    state_of,
    trial_page,
)
from ...trials.report_text import results as result_table
from ...trials.requests import MAX_KEY
from ...trials.settings import in_order
from ...trials.status import has_episode
from ...trials.verification import check_trial, replayed
from ..auth import EVERYBODY, allow
from ..errors import ApiError, trial_error
from ..long_work import LongWork, refusals
from ..middleware.browsers import INLINE_STYLES
from ..request_context import Principal
from . import figures
from .rendering import Form, PageRoute, Sent, go, page, page_of

PLOTLY = "plotly.min.js"
LATEST_OUTCOMES = 5  # that can be corrected where the trial is run; others on their own page
MAX_WAITING = 10  # pending allocations where the trial is run, the oldest first, page by page
EVENTS_PER_PAGE = 100
ALLOCATIONS_PER_PAGE = 100

router = APIRouter(prefix="/trials/{trial}", route_class=PageRoute, include_in_schema=False)
_expected_losses = Cache[str, Floats | None](64)  # by the hash of the tables of a trial


def _trial(request: Request, trial: Annotated[str, Path(max_length=100)]) -> trials.Trial:
    return trials.open_trial(trial, db=request.app.state.store)


Opened = Annotated[trials.Trial, Depends(_trial)]
AllocationId = Annotated[str, Path(max_length=100)]
Control = Annotated[str, Query(max_length=100)]
OfSegment = Annotated[str, Query(max_length=100)]


# -- run ----------------------------------------------------------------------------------------


@router.get("")
@allow(*EVERYBODY)
def run(
    request: Request,
    trial: Opened,
    now: str = "",
    done: str = "",
    find: Annotated[str, Query(max_length=100)] = "",
    number: Annotated[int, Query(alias="page", ge=1)] = 1,
) -> Response:
    """Show the next allocation. `now`: the pending one; `done`: the one before.

    `find`, `page`: which of the pending allocations are shown.
    """
    return _run_page(request, trial, now, done, find, number)


@dataclass(frozen=True)
class Refused:
    """A form with counts that was refused: which one, why, and what was typed into it."""

    form: str  # tell or correct
    allocation: str
    why: str
    status: int
    typed: dict[str, tuple[str, str]]  # by arm: good outcomes and all, or others and nothing
    reason: str


def _run_page(
    request: Request,
    trial: trials.Trial,
    now: str = "",
    done: str = "",
    find: str = "",
    number: int = 1,
    refused: Refused | None = None,
) -> Response:
    caller, ledger = request.state.principal, trial.read()
    full, numbers, codes = trial.status_at(ledger), _numbers(caller, ledger), trial.codes
    saw(request, trial)
    first = "" if refused is None else refused.allocation
    pending = [_shown_to(caller, slot, trial) for slot in full.open]
    alone = not done and not find and len(pending) == 1
    current = next((slot for slot in pending if alone or slot.id == now), None)
    waiting = matching([slot for slot in pending if slot is not current], numbers, find)
    slots, kinds = ledger.allocations, models_of_slots(ledger)
    recent = [slot for slot in reversed(slots.values()) if slot.told][:LATEST_OUTCOMES]
    for listed in (waiting, recent):  # a form that was refused comes first
        listed.sort(key=lambda slot: slot.id != first)
    before = None if done not in slots else _shown_to(caller, slots[done], trial)
    number, pages, shown = page_of(waiting, number, MAX_WAITING)
    forms = [("tell", slot.id) for slot in (*shown, current) if slot is not None]
    forms += [("correct", slot.id) for slot in recent]
    ended = full.finished or full.stopped is not None
    over = (ended or full.state != "running") and not caller.blinded
    stale = stale_ids(ledger.since, request.app.state.limits.stale_after)
    return page(
        request,
        "run.html.j2",
        200 if refused is None else refused.status,
        refused=refused,
        models={(codes[arm] if caller.blinded else arm): ledger.kinds[arm] for arm in ledger.kinds},
        upcoming=_upcoming(full),
        trial=trial,
        finished=ended,
        state=full.state,
        now=current,
        numbers=numbers,
        any_waiting=len(pending) > (current is not None),
        find=find,
        browsing="find" in request.query_params or "page" in request.query_params,
        over=over,
        **(result_cards(report_for(request, trial)) if over else {}),
        stale={allocation: ledger.since[allocation] for allocation in stale},
        kinds=kinds,
        said=_confirmation(before, numbers.get(done, ""), kinds, blinded=caller.blinded),
        status=None if caller.blinded else full,
        told=[] if caller.blinded else recent,
        waiting=shown,
        number=number,
        pages=pages,
        others=len(waiting) - len(shown),
        elsewhere=refused is not None and (refused.form, refused.allocation) not in forms,
    )


def _numbers(caller: Principal, ledger: Ledger) -> Mapping[str, int | str]:
    """Return labels of allocations; blinded users must not count them, and see their ids."""
    return {name: name for name in ledger.allocations} if caller.blinded else numbers_of(ledger)


def _upcoming(status: trials.Status) -> str:
    """Return the arm, or pulls by arm, that an ask would allocate now."""
    if status.next_pulls == {}:
        return "no pull"
    pulls = (status.next_pulls or {}).items()
    return status.next_arm or ", ".join(f"{arm} {number}" for arm, number in pulls)


def _shown_to(caller: Principal, slot: trials.Allocation, trial: trials.Trial) -> trials.Allocation:
    """Return an allocation; blinded users see codes in their order, and no reason."""
    if not caller.blinded:
        return slot
    codes = trial.codes
    parts = [
        replace(part, arm=codes[part.arm], good=None, bad=None, seen=None) for part in slot.arms
    ]
    parts.sort(key=lambda part: in_order(part.arm))
    return replace(
        slot,
        arm=None if slot.arm is None else codes[slot.arm],
        pulls={part.arm: part.pulls for part in parts if part.pulls},
        arms=tuple(parts),
        reason="",
        change_reason=None,
    )


def saw(request: Request, trial: trials.Trial) -> None:
    """Record in the access log who saw results."""
    what = request.scope["route"].name
    request.state.recorder.saw(request.state.principal, trial, what)


def _confirmation(
    slot: trials.Allocation | None,
    number: int | str,
    kinds: Mapping[str, ArmModel],
    *,
    blinded: bool,
) -> str:
    """Confirm the last action; blinded: without the outcome, which may not be their own."""
    if slot is None or (slot.state == "open" and not slot.told):
        return ""
    if not slot.pulls:
        return f"No pull at this stage, within the budget: allocation {number}."
    arm = slot.arm or f"{slot.size} pulls"
    if slot.state == "cancelled":
        return f"Allocation cancelled: {arm}, allocation {number}."
    if blinded or slot.outcome is None:
        return f"Outcome recorded for {arm}, allocation {number}."
    outcome = _outcome(kinds[slot.id], slot.outcome)
    return f"Recorded: {outcome} for {slot.arm}, allocation {number}."


def models_of_slots(ledger: Ledger) -> dict[str, ArmModel]:
    """Return the outcome models of single pulls, by id."""
    slots = ledger.allocations.values()
    return {slot.id: ledger.kinds[slot.arm] for slot in slots if slot.arm is not None}


def _done(trial: trials.Trial, slot: trials.Allocation) -> Response:
    return go(f"/trials/{trial.id}?done={quote(slot.id)}")


@router.post("/ask")
@allow("admin", "operator")
def ask(request: Request, trial: Opened, form: Sent) -> Response:
    """Allocate the next slot."""
    slot = trial.ask(
        subject=form.text("subject"),
        segment=form.text("segment"),
        note=form.text("note"),
        key=form.key,
        by=request.state.principal.name,
    )
    return go(f"/trials/{trial.id}?now={quote(slot.id)}") if slot.pulls else _done(trial, slot)


@router.post("/allocations/{allocation}/tell")
@allow("admin", "operator")
def tell(request: Request, trial: Opened, allocation: AllocationId, form: Sent) -> Response:
    """Record outcomes: of a single pull, or counts by arm."""
    by_code = request.state.principal.blinded and not form.all("outcome")
    return _recorded(request, trial, allocation, form, partial(trial.tell, by_code=by_code))


@router.post("/allocations/{allocation}/correct")
@allow("admin")
def correct(request: Request, trial: Opened, allocation: AllocationId, form: Sent) -> Response:
    """Correct recorded outcomes, with a reason."""

    def change(*outcomes: Any, **more: Any) -> trials.Allocation:
        return trial.correct(*outcomes, reason=form.reason, **more)

    return _recorded(request, trial, allocation, form, change)


def _recorded(
    request: Request,
    trial: trials.Trial,
    allocation: str,
    form: Form,
    change: Callable[..., trials.Allocation],
) -> Response:
    by = request.state.principal.name
    if form.all("outcome"):
        outcome = trial.typed(allocation, form.one("outcome"))
        # a form may give any outcome: another one is another request, with another key
        key = None if form.key is None else f"{form.key}-{form.one('outcome')}"[:MAX_KEY]
        return _done(trial, change(allocation, outcome, key=key, by=by))
    try:
        return _done(trial, change(allocation, _counts(form), key=form.key, by=by))
    except (trials.TrialError, ApiError) as error:
        return _refused(request, trial, error, allocation, form)


@router.post("/allocations/{allocation}/cancel")
@allow("admin", "operator")
def cancel(request: Request, trial: Opened, allocation: AllocationId, form: Sent) -> Response:
    """Cancel an allocation, with a reason."""
    by = request.state.principal.name
    slot = trial.cancel(allocation, reason=form.reason, key=form.key, by=by)
    return _done(trial, slot)


def _refused(
    request: Request,
    trial: trials.Trial,
    error: trials.TrialError | ApiError,
    allocation: str,
    form: Form,
) -> Response:
    """Show the page with the refused form, or without it if it is gone."""
    if isinstance(error, trials.TrialError):
        error = trial_error(error, blinded=request.state.principal.blinded)
    if error.status_code == 404:
        raise error
    typed = {arm: (text, "") for arm, text in _fields(form, "other", "seen")}
    typed |= {arm: (good, all_) for arm, good, all_ in _fields(form, "arm", "good", "pulls")}
    why = str(error.detail).removeprefix("counts: ")
    what = request.scope["route"].name
    fields = (what, allocation, why, error.status_code, typed, form.one("reason"))
    return _run_page(request, trial, refused=Refused(*fields))


def _counts(form: Form) -> dict[str, str]:
    """Outcomes of the arms whose fields were filled in: good ones and all, or others as text."""
    fields = _fields(form, "other", "seen")
    counts = {arm: text.strip() for arm, text in fields if text.strip()}
    for arm, *texts in _fields(form, "arm", "good", "pulls"):
        good, pulls = map(str.strip, texts)
        if bool(good) != bool(pulls):
            raise ApiError(422, "invalid", f"{arm}: give good outcomes and all outcomes")
        if good:
            counts[arm] = f"{good}/{pulls}"
    if not counts:
        raise ApiError(422, "invalid", "give the outcomes of an arm at least")
    return counts


def _fields(form: Form, *names: str) -> list[tuple[str, ...]]:
    fields = [form.all(name) for name in names]
    if len({len(values) for values in fields}) > 1:
        raise ApiError(422, "invalid", "the form is malformed")
    return list(zip(*fields, strict=True))


def _outcome(kind: ArmModel, outcome: Outcome) -> str:
    named = kind.format.named(outcome)
    return f"{named} outcome" if kind.counts_good else f"outcome {named}"


# -- allocations --------------------------------------------------------------------------------


@router.get("/allocations")
@allow("admin", "viewer")
def allocations(
    request: Request,
    trial: Opened,
    after: Annotated[str | None, Query(max_length=100)] = None,
    state: AllocationState | None = None,
    find: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Allocations in the order in which they were made; administrators correct outcomes here."""
    settings = request.app.state
    saw(request, trial)
    ledger = trial.read()
    numbers = numbers_of(ledger)
    listed = {slot.id: slot for slot in matching(ledger.allocations.values(), numbers, find)}
    listing = page_of_allocations(listed, after=after, limit=ALLOCATIONS_PER_PAGE, state=state)
    return page(
        request,
        "allocations.html.j2",
        trial=trial,
        allocations=listing.items,
        next=listing.next,
        first=after is None,
        state=state or "",
        find=find,
        numbers=numbers,
        kinds=models_of_slots(ledger),
        models=ledger.kinds,
        since=ledger.since,
        stale=set(stale_ids(ledger.since, settings.limits.stale_after)),
    )


# -- why ----------------------------------------------------------------------------------------


@router.get("/why")
@allow("admin", "viewer")
def why(request: Request, trial: Opened, segment: OfSegment = "") -> Response:
    """Show the numbers behind the next decision, and the bounds; of one segment at a time."""
    saw(request, trial)
    ledger = _part(trial.read(), segment)
    status = trial.status_at(ledger)
    try:
        query = f"?v={version_of('plotly')}"
    except PackageNotFoundError:
        query = ""
    answer = page(
        request,
        "why.html.j2",
        trial=trial,
        status=status,
        binary=trial.problem.is_binary,
        segment=ledger.segment,
        posteriors=posteriors_of(ledger),
        what=figures.describe_decision(status) if status.next_arm else "",
        terms=figures.shown_terms(status),
        tighter=figures.tighter_bound(status),
        on_record=ON_RECORD,
        points=points_text(trial.problem),
        stages=trial.episode(segment=ledger.segment).stages if has_episode(ledger.settings) else 0,
        plotly=f"/static/{PLOTLY}{query}",
    )
    answer.headers["Content-Security-Policy"] = INLINE_STYLES  # plotly writes its own styles
    return answer


def _part(ledger: Ledger, segment: str) -> Ledger:
    """Return the ledger of a segment, by default the first; the whole one where there are none."""
    return ledger.of(segment) if segment else ledger.parts[0]


@router.get("/why.json")
@allow("admin", "viewer")
async def why_figures(
    request: Request,
    trial: Opened,
    dark: bool = False,
    expected: bool = False,
    segment: OfSegment = "",
) -> Response:
    """Show the figures; `expected` adds the expected loss of the policy, which is slower."""
    saw(request, trial)
    ledger = _part(await run_in_threadpool(trial.read), segment)
    settings = ledger.settings
    if expected and has_episode(settings) and settings.tables_hash not in _expected_losses:
        long_work: LongWork = request.app.state.long_work
        line = await long_work.run(request, "plan", figures.expected_loss, settings)
        _expected_losses.put(settings.tables_hash, line)
    return await run_in_threadpool(_figures, trial, ledger, dark, expected)


def _figures(trial: trials.Trial, ledger: Ledger, dark: bool, expected: bool) -> Response:
    line = _expected_losses.get(ledger.settings.tables_hash) if expected else None
    shown = {"decision": figures.decision_figure(trial.status_at(ledger), dark=dark), "path": None}
    if has_episode(ledger.settings):
        episode = trial.episode(segment=ledger.segment)
        shown["path"] = figures.path_figure(episode, line, dark=dark)
    return JSONResponse(shown)


# -- audit --------------------------------------------------------------------------------------


@router.get("/audit")
@allow("admin", "viewer")
async def audit(
    request: Request,
    name: Annotated[str, Path(alias="trial", max_length=100)],
    check: str = "",
    number: Annotated[int, Query(alias="page", ge=1)] = 1,
) -> Response:
    """Show the log and its checks."""
    state = request.app.state
    try:
        trial, values, log = await run_in_threadpool(_log, request, name, number, check)
    except trials.Damaged:
        return await run_in_threadpool(_damaged, request, name)
    saw(request, trial)
    if log:
        values["replayed"] = await state.long_work.run(request, "replay", replayed, log)
    return await run_in_threadpool(page, request, "audit.html.j2", **values)


def _log(
    request: Request, name: str, number: int, check: str
) -> tuple[trials.Trial, dict[str, Any], Sequence[trials.Event]]:
    """Return a trial, what its page shows, and the log where all decisions are checked."""
    with request.app.state.record_readers.one(request.state.principal.name):
        trial = _trial(request, name)
        ledger = trial.read()
        latest = range(ledger.seq, -1, -1)
        number, pages, listed = page_of(latest, number, EVENTS_PER_PAGE)
        events = trial.each_event(ledger)
        log = list(events) if check == "decisions" else []
        # all are read and checked; those of the page are kept
        shown = [event for event in log or events if event.seq in listed]
        values = {
            "trial": trial,
            "rows": [(event, _summary(event, ledger), _body(event)) for event in shown[::-1]],
            "cancellations": trial.cancellations(),
            "pages": pages,
            "number": number,
            "verified": trial.verify() if check == "chain" else None,
            "replayed": None,
        }
        return trial, values, log


def _damaged(request: Request, trial: str) -> Response:
    with request.app.state.record_readers.one(request.state.principal.name):
        verified = check_trial(trial, db=request.app.state.store)
    return page(request, "damaged.html.j2", verified=verified)


def _body(event: trials.Event) -> str:
    return json.dumps(event.to_dict(), indent=1, ensure_ascii=False)


def _summary(event: trials.Event, ledger: Ledger) -> str:
    data = event.data
    if event.kind == "asked":
        pulls = ", ".join(f"{arm} {number}" for arm, number in data["pulls"].items())
        arm = " in ".join(filter(None, (data["arm"] or pulls, data.get("segment"))))
        return " for ".join(filter(None, (arm, data.get("subject"))))
    if event.kind == "assigned":
        return ", ".join(data["subjects"].values())
    if event.kind == "refused":
        return str(data["why"])
    if event.kind == "created":
        return f"policy {data['plan']['policy']}"
    if event.kind in ARM_KINDS:
        return f"{data['arm']} ({data['reason']})"
    slot, reason = ledger.allocations.get(data.get("allocation", "")), data.get("reason", "")
    subject = "" if slot is None or slot.subject is None else f" for {slot.subject}"
    if "counts" in data:
        counts = counts_from(data["counts"])
        return ", ".join(f"{arm} {told_text(outcome)}" for arm, outcome in counts) + subject
    arm = "" if slot is None else slot.arm or f"{slot.size} pulls"
    if slot is not None and "outcome" in data:
        arm = f"{arm}: {ledger.kinds[str(slot.arm)].format.named(data['outcome'])}"
    arm += subject
    return f"{arm} ({reason})" if arm and reason else arm or str(reason)


@router.get("/export.json")
@router.get("/export.csv")
@allow("admin", "viewer")
def export(request: Request, trial: Opened) -> Response:
    """Export the whole trial as JSON, or one row per allocation as CSV."""
    kind = request.url.path.rpartition(".")[2]
    caller, readers = request.state.principal, request.app.state.record_readers
    request.state.recorder.exported(caller, trial, kind)
    text = readers.text(caller.name, trial.export_text if kind == "json" else trial.outcomes_text)
    media = "application/json" if kind == "json" else "text/csv; charset=utf-8"
    headers = {"Content-Disposition": f'attachment; filename="trial-{trial.id}.{kind}"'}
    return StreamingResponse(text, media_type=media, headers=headers)


# -- results -------------------------------------------------------------------------------------


def report_for(request: Request, trial: trials.Trial, control: str = "") -> trials.TrialReport:
    """Return the report; few requests at a time read a whole log."""
    state = request.app.state
    with state.record_readers.one(request.state.principal.name):
        return trial.report(control=control or None, late_after=state.limits.stale_after)


def result_cards(report: trials.TrialReport) -> dict[str, Any]:
    """Return the values of the template `result_cards.html.j2`."""
    return {
        "report": report,
        "summary": " ".join(filter(None, [state_of(report), declared(report)])),
        "results": result_table(report),
        "segments": [(one.name, segment_results(report, one)) for one in report.segments],
        "shares": shares(report),
    }


@router.get("/results")
@allow("admin", "viewer")
def results(request: Request, trial: Opened, control: Control = "") -> Response:
    """Rates, intervals, P(best), shares over time."""
    saw(request, trial)
    cards = result_cards(report_for(request, trial, control))
    return page(request, "results.html.j2", trial=trial, **cards)


@router.get("/report")
@allow("admin", "viewer")
def report(request: Request, trial: Opened, control: Control = "") -> Response:
    """Return the report as one self-contained page."""
    saw(request, trial)
    text = trial_page(report_for(request, trial, control))
    # its styles are in its text, so that it can be saved
    return HTMLResponse(text, headers={"Content-Security-Policy": INLINE_STYLES})


# -- lifecycle -----------------------------------------------------------------------------------


def _changed(
    request: Request,
    trial: trials.Trial,
    change: Callable[..., object],
    form: Form,
    reason: str | None,
) -> Response:
    change(reason=reason, key=form.key, by=request.state.principal.name)
    return go(f"/trials/{trial.id}")


def _lifecycle(verb: str, needs_reason: bool) -> Callable[..., Response]:
    def change(request: Request, trial: Opened, form: Sent) -> Response:
        reason = form.reason if needs_reason else form.text("reason")
        return _changed(request, trial, getattr(trial, verb), form, reason)

    return allow("admin")(change)


_NEED_REASONS = {"close": False, "reopen": True, "archive": False, "lock": False, "unlock": True}
for _verb, _needs_reason in _NEED_REASONS.items():
    router.add_api_route(
        f"/{_verb}", _lifecycle(_verb, _needs_reason), methods=["POST"], name=_verb
    )


@router.post("/review")
@allow("admin", "viewer")
def review(request: Request, trial: Opened, form: Sent) -> Response:
    """Record that the audit trail was reviewed up to an event."""
    number = form.one("up_to")
    up_to = int(number) if is_count(number) else -1  # refused by the trial
    trial.review(up_to=up_to, note=form.text("note"), key=form.key, by=request.state.principal.name)
    return go(f"/trials/{trial.id}/audit")


@router.post("/arms")
@allow("admin")
def arms(request: Request, trial: Opened, form: Sent) -> Response:
    """Let an arm, as in a problem file, join from the next stage on."""
    request.app.state.limits.check_arms(trial.problem.n_arms + 1)
    with refusals(own_code=True):
        table = parse_tree(form.one("arm"), "toml", "arm")
        change = partial(trial.add_arm, table, policy=form.text("policy"))
        return _changed(request, trial, change, form, form.reason)


@router.post("/arms/close")
@allow("admin")
def close_arm(request: Request, trial: Opened, form: Sent) -> Response:
    """Stop allocating an arm from the next stage on."""
    with refusals(own_code=True):
        change = partial(trial.close_arm, form.one("arm"), policy=form.text("policy"))
        return _changed(request, trial, change, form, form.reason)


@router.post("/allocations/{allocation}/unmask")
@allow("admin", "operator")
def unmask(request: Request, trial: Opened, allocation: AllocationId, form: Sent) -> Response:
    """Show the name of the arm of one allocation, on this page only."""
    caller = request.state.principal
    said = {"reason": form.reason, "category": form.one("category"), "role": caller.role}
    slot = trial.unmask(allocation, key=form.key, by=caller.name, **said)
    return page(
        request, "unmasked.html.j2", trial=trial, slot=slot, code=trial.codes[str(slot.arm)]
    )
