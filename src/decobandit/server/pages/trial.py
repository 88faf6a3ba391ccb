"""Pages of one trial: run, why, audit, results, report; and the actions of their buttons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

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
    looks,
    rules_of_trial,
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
from ..browsers import INLINE_STYLES
from ..errors import ApiError, trial_error
from ..long_work import LongWork, refusals
from ..request_context import Principal
from . import figures
from .rendering import Form, PageRoute, Sent, go, page, page_of

T = TypeVar("T")
PLOTLY = "plotly.min.js"
LATEST_OUTCOMES = 5  # that can be corrected where the trial is run; others on their own page
MAX_WAITING = 10  # pending allocations where the trial is run, the oldest first, page by page
EVENTS_PER_PAGE = 100
ALLOCATIONS_PER_PAGE = 100

router = APIRouter(prefix="/trials/{trial}", route_class=PageRoute, include_in_schema=False)
_expected_losses = Cache[str, Floats | None](64)  # by the hash of the tables of a trial


def _trial(request: Request, trial: Annotated[str, Path(max_length=100)]) -> trials.Trial:
    return trials.open_trial(trial, db=request.app.state.store)


@dataclass(frozen=True)
class Visit:
    """A request about a trial."""

    request: Request
    trial: trials.Trial

    @property
    def caller(self) -> Principal:
        principal: Principal = self.request.state.principal
        return principal

    def page(self, template: str, code: int = 200, /, **values: Any) -> Response:
        return page(self.request, template, code, trial=self.trial, **values)

    def saw(self) -> None:
        """Record in the access log who saw results."""
        what = self.request.scope["route"].name
        self.request.state.recorder.saw(self.caller, self.trial, what)

    def report(self, control: str = "") -> trials.TrialReport:
        """Return the report; few requests at a time read a whole log."""
        state = self.request.app.state
        with state.record_readers.one(self.caller.name):
            return self.trial.report(control=control or None, late_after=state.limits.stale_after)

    def change(self, change: Callable[..., T], form: Form, *args: Any, **more: Any) -> T:
        """Make a change of the trial that a form asks for."""
        return change(*args, **{"key": form.key} | more, by=self.caller.name)

    def go(self, address: str = "", **query: str) -> Response:
        """Return a redirection to a page of the trial."""
        return go(f"/trials/{self.trial.id}{address}{'?' if query else ''}{urlencode(query)}")


def _visit(request: Request, trial: Annotated[trials.Trial, Depends(_trial)]) -> Visit:
    return Visit(request, trial)


def _visit_of_results(visit: Annotated[Visit, Depends(_visit)]) -> Visit:
    visit.saw()
    return visit


Visited = Annotated[Visit, Depends(_visit)]
Seen = Annotated[Visit, Depends(_visit_of_results)]
AllocationId = Annotated[str, Path(max_length=100)]
Control = Annotated[str, Query(max_length=100)]
OfSegment = Annotated[str, Query(max_length=100)]


# -- run ----------------------------------------------------------------------------------------


@router.get("")
@allow(*EVERYBODY)
def run(
    visit: Visited,
    now: str = "",
    done: str = "",
    find: Annotated[str, Query(max_length=100)] = "",
    number: Annotated[int, Query(alias="page", ge=1)] = 1,
) -> Response:
    """Show the next allocation. `now`: the pending one; `done`: the one before.

    `find`, `page`: which of the pending allocations are shown.
    """
    return _run_page(visit, now, done, find, number)


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
    visit: Visit,
    now: str = "",
    done: str = "",
    find: str = "",
    number: int = 1,
    refused: Refused | None = None,
) -> Response:
    request, trial, caller = visit.request, visit.trial, visit.caller
    ledger = trial.read()
    full, numbers, codes = trial.status_at(ledger), _numbers(caller, ledger), trial.codes
    visit.saw()
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
    return visit.page(
        "run.html.j2",
        200 if refused is None else refused.status,
        refused=refused,
        models={(codes[arm] if caller.blinded else arm): ledger.kinds[arm] for arm in ledger.kinds},
        upcoming=_upcoming(full),
        finished=ended,
        state=full.state,
        now=current,
        numbers=numbers,
        any_waiting=len(pending) > (current is not None),
        find=find,
        browsing="find" in request.query_params or "page" in request.query_params,
        over=over,
        **(result_cards(visit.report()) if over else {}),
        stale={allocation: ledger.since[allocation] for allocation in stale},
        kinds=kinds,
        said=_confirmation(before, numbers.get(done, ""), kinds, blinded=caller.blinded),
        status=None if caller.blinded else full,
        told=[] if caller.blinded else recent,
        waiting=shown,
        newest=next(reversed(slots), ""),
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


@router.post("/ask")
@allow("admin", "operator")
def ask(visit: Visited, form: Sent) -> Response:
    """Allocate the next slot."""
    texts = {name: form.text(name) for name in ("subject", "segment", "note")}
    slot = visit.change(visit.trial.ask, form, **texts)
    return visit.go(now=slot.id) if slot.pulls else visit.go(done=slot.id)


@router.post("/allocations/{allocation}/tell")
@allow("admin", "operator")
def tell(visit: Visited, allocation: AllocationId, form: Sent) -> Response:
    """Record outcomes: of a single pull, or counts by arm."""
    by_code = visit.caller.blinded and not form.all("outcome")
    return _recorded(visit, allocation, form, partial(visit.trial.tell, by_code=by_code))


@router.post("/allocations/{allocation}/correct")
@allow("admin")
def correct(visit: Visited, allocation: AllocationId, form: Sent) -> Response:
    """Correct recorded outcomes, with a reason."""

    def change(*outcomes: Any, **more: Any) -> trials.Allocation:
        return visit.trial.correct(*outcomes, reason=form.reason, **more)

    return _recorded(visit, allocation, form, change)


def _recorded(
    visit: Visit, allocation: str, form: Form, change: Callable[..., trials.Allocation]
) -> Response:
    if form.all("outcome"):
        outcome = visit.trial.typed(allocation, form.one("outcome"))
        # a form may give any outcome: another one is another request, with another key
        key = None if form.key is None else f"{form.key}-{form.one('outcome')}"[:MAX_KEY]
        return visit.go(done=visit.change(change, form, allocation, outcome, key=key).id)
    try:
        return visit.go(done=visit.change(change, form, allocation, _counts(form)).id)
    except (trials.TrialError, ApiError) as error:
        return _refused(visit, error, allocation, form)


@router.post("/allocations/{allocation}/cancel")
@allow("admin", "operator")
def cancel(visit: Visited, allocation: AllocationId, form: Sent) -> Response:
    """Cancel an allocation, with a reason."""
    slot = visit.change(visit.trial.cancel, form, allocation, reason=form.reason)
    return visit.go(done=slot.id)


def _refused(
    visit: Visit, error: trials.TrialError | ApiError, allocation: str, form: Form
) -> Response:
    """Show the page with the refused form, or without it if it is gone."""
    if isinstance(error, trials.TrialError):
        error = trial_error(error, blinded=visit.caller.blinded)
    if error.status_code == 404:
        raise error
    typed = {arm: (text, "") for arm, text in _fields(form, "other", "seen")}
    typed |= {arm: (good, all_) for arm, good, all_ in _fields(form, "arm", "good", "pulls")}
    why = str(error.detail).removeprefix("counts: ")
    what = visit.request.scope["route"].name
    fields = (what, allocation, why, error.status_code, typed, form.one("reason"))
    return _run_page(visit, refused=Refused(*fields))


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
    visit: Seen,
    after: Annotated[str | None, Query(max_length=100)] = None,
    state: AllocationState | None = None,
    find: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Allocations in the order in which they were made; administrators correct outcomes here."""
    limits = visit.request.app.state.limits
    ledger = visit.trial.read()
    numbers = numbers_of(ledger)
    listed = {slot.id: slot for slot in matching(ledger.allocations.values(), numbers, find)}
    listing = page_of_allocations(listed, after=after, limit=ALLOCATIONS_PER_PAGE, state=state)
    return visit.page(
        "allocations.html.j2",
        allocations=listing.items,
        next=listing.next,
        first=after is None,
        state=state or "",
        find=find,
        numbers=numbers,
        kinds=models_of_slots(ledger),
        models=ledger.kinds,
        since=ledger.since,
        stale=set(stale_ids(ledger.since, limits.stale_after)),
    )


# -- why ----------------------------------------------------------------------------------------


@router.get("/why")
@allow("admin", "viewer")
def why(visit: Seen, segment: OfSegment = "") -> Response:
    """Show the numbers behind the next decision, and the bounds; of one segment at a time."""
    trial = visit.trial
    ledger = _part(trial.read(), segment)
    status = trial.status_at(ledger)
    try:
        query = f"?v={version_of('plotly')}"
    except PackageNotFoundError:
        query = ""
    answer = visit.page(
        "why.html.j2",
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
    visit: Seen, dark: bool = False, expected: bool = False, segment: OfSegment = ""
) -> Response:
    """Show the figures; `expected` adds the expected loss of the policy, which is slower."""
    request, trial = visit.request, visit.trial
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
    Visit(request, trial).saw()
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
def export(visit: Visited) -> Response:
    """Export the whole trial as JSON, or one row per allocation as CSV."""
    request, trial, caller = visit.request, visit.trial, visit.caller
    kind, readers = request.url.path.rpartition(".")[2], request.app.state.record_readers
    request.state.recorder.exported(caller, trial, kind)
    text = readers.text(caller.name, trial.export_text if kind == "json" else trial.outcomes_text)
    media = "application/json" if kind == "json" else "text/csv; charset=utf-8"
    headers = {"Content-Disposition": f'attachment; filename="trial-{trial.id}.{kind}"'}
    return StreamingResponse(text, media_type=media, headers=headers)


# -- results -------------------------------------------------------------------------------------


def result_cards(report: trials.TrialReport) -> dict[str, Any]:
    """Return the values of the template `result_cards.html.j2`."""
    return {
        "report": report,
        "summary": " ".join(filter(None, [state_of(report), declared(report)])),
        "results": result_table(report),
        "segments": [(one.name, segment_results(report, one)) for one in report.segments],
        "looks": looks(report),
        "rules": rules_of_trial(report),
        "shares": shares(report),
    }


@router.get("/results")
@allow("admin", "viewer")
def results(visit: Seen, control: Control = "") -> Response:
    """Rates, intervals, P(best), shares over time."""
    return visit.page("results.html.j2", **result_cards(visit.report(control)))


@router.get("/report")
@allow("admin", "viewer")
def report(visit: Seen, control: Control = "") -> Response:
    """Return the report as one self-contained page."""
    text = trial_page(visit.report(control))
    # its styles are in its text, so that it can be saved
    return HTMLResponse(text, headers={"Content-Security-Policy": INLINE_STYLES})


# -- lifecycle -----------------------------------------------------------------------------------


def _lifecycle(verb: str, needs_reason: bool) -> Callable[..., Response]:
    def change(visit: Visited, form: Sent) -> Response:
        reason = form.reason if needs_reason else form.text("reason")
        visit.change(getattr(visit.trial, verb), form, reason=reason)
        return visit.go()

    return allow("admin")(change)


_NEED_REASONS = {"close": False, "reopen": True, "archive": False, "lock": False, "unlock": True}
for _verb, _needs_reason in _NEED_REASONS.items():
    _endpoint = _lifecycle(_verb, _needs_reason)
    router.add_api_route(f"/{_verb}", _endpoint, methods=["POST"], name=_verb)


@router.post("/review")
@allow("admin", "viewer")
def review(visit: Visited, form: Sent) -> Response:
    """Record that the audit trail was reviewed up to an event."""
    number = form.one("up_to")
    up_to = int(number) if is_count(number) else -1  # refused by the trial
    visit.change(visit.trial.review, form, up_to=up_to, note=form.text("note"))
    return visit.go("/audit")


@router.post("/arms")
@allow("admin")
def arms(visit: Visited, form: Sent) -> Response:
    """Let an arm, as in a problem file, join from the next stage on."""
    visit.request.app.state.limits.check_arms(visit.trial.problem.n_arms + 1)
    with refusals(own_code=True):
        table, policy = parse_tree(form.one("arm"), "toml", "arm"), form.text("policy")
        visit.change(visit.trial.add_arm, form, table, policy=policy, reason=form.reason)
    return visit.go()


@router.post("/arms/close")
@allow("admin")
def close_arm(visit: Visited, form: Sent) -> Response:
    """Stop allocating an arm from the next stage on."""
    arm, policy = form.one("arm"), form.text("policy")
    with refusals(own_code=True):
        visit.change(visit.trial.close_arm, form, arm, policy=policy, reason=form.reason)
    return visit.go()


@router.post("/allocations/{allocation}/unmask")
@allow("admin", "operator")
def unmask(visit: Visited, allocation: AllocationId, form: Sent) -> Response:
    """Show the name of the arm of one allocation, on this page only."""
    about = {"reason": form.reason, "category": form.one("category"), "role": visit.caller.role}
    slot = visit.change(visit.trial.unmask, form, allocation, **about)
    return visit.page("unmasked.html.j2", slot=slot, code=visit.trial.codes[str(slot.arm)])
