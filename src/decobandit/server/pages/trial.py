"""Pages of one trial: run, why, audit, results, report; and the actions of their buttons."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from ... import trials
from ...bounds import MEANINGS, Episode
from ...figures import DARK_VARIANTS, draw_chart, episode_chart
from ...figures.episodes import pull_labels
from ...policies import policy_class
from ...problem.problem_files import parse_tree
from ...support import is_count
from ...trials.allocations import AllocationState, counts_from, told_text
from ...trials.events import MAX_KEY
from ...trials.ledger import Ledger
from ...trials.lists import matching, numbers_of, page_of_allocations, stale_ids
from ...trials.report import posteriors_of
from ...trials.report_text import trial_page
from ...trials.settings import ARM_KINDS
from ...trials.status import has_episode, status_of
from ...trials.verification import check_trial, replayed
from ..api.routing import masked
from ..auth import EVERYBODY, INLINE_STYLES, allow
from ..errors import ApiError, trial_error
from ..long_work import refusals
from ..request_context import Principal
from .rendering import Form, PageRoute, Sent, go, page, page_of

T = TypeVar("T")
PLOTLY = "plotly.min.js"
LATEST_OUTCOMES = 5  # that can be corrected where the trial is run; others on their own page
MAX_WAITING = 10  # pending allocations where the trial is run, the oldest first, page by page
EVENTS_PER_PAGE = 100
ALLOCATIONS_PER_PAGE = 100

router = APIRouter(prefix="/trials/{trial}", route_class=PageRoute, include_in_schema=False)
ShortText = Annotated[str, Query(max_length=100)]
PageNumber = Annotated[int, Query(alias="page", ge=1)]
TrialName = Annotated[str, Path(alias="trial", max_length=100)]
AllocationId = Annotated[str, Path(max_length=100)]


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

    def stale(self, ledger: Ledger) -> dict[str, str]:
        """Return since when allocations are pending that are older than the server's limit."""
        names = stale_ids(ledger.since, self.request.app.state.limits.stale_after)
        return {name: ledger.since[name] for name in names}

    def go(self, address: str = "", **query: str) -> Response:
        """Return a redirection to a page of the trial."""
        return go(f"/trials/{self.trial.id}{address}{'?' if query else ''}{urlencode(query)}")


def _visit(request: Request, name: TrialName) -> Visit:
    return Visit(request, trials.open_trial(name, db=request.app.state.store))


Visited = Annotated[Visit, Depends(_visit)]


def _visit_of_results(visit: Visited) -> Visit:
    visit.saw()
    return visit


Seen = Annotated[Visit, Depends(_visit_of_results)]

# -- run ----------------------------------------------------------------------------------------


@router.get("")
@allow(*EVERYBODY)
def run(
    visit: Visited, now: str = "", done: str = "", find: ShortText = "", number: PageNumber = 1
) -> Response:
    """Show the next allocation. `now`: the pending one; `done`: the one before.

    `find`, `page`: which of the pending allocations are shown.
    """
    return _run_page(visit, now, done, find, number)


@dataclass(frozen=True)
class Refused:
    """A refused form with counts: the form, the reason, and the typed values."""

    form: str  # tell or correct
    allocation: str
    why: str
    typed: dict[str, tuple[str, str]]  # by arm: good outcomes and all, or others and nothing
    reason: str


def _run_page(
    visit: Visit,
    now: str = "",
    done: str = "",
    find: str = "",
    number: int = 1,
    refused: Refused | None = None,
    code: int = 200,
) -> Response:
    trial, query = visit.trial, visit.request.query_params
    ledger = trial.read()
    full, slots, models = status_of(ledger), ledger.allocations, ledger.kinds
    visit.saw()
    blinded = visit.caller.blinded
    pending, numbers, recent = list(full.open), numbers_of(ledger), list[trials.Allocation]()
    before = slots.get(done)
    if blinded:  # they must not count allocations, and see their ids
        pending, numbers = [masked(slot, trial) for slot in pending], {name: name for name in slots}
        before = None if before is None else masked(before, trial)
        models = {trial.codes[arm]: model for arm, model in models.items()}
    else:
        recent = [slot for slot in reversed(slots.values()) if slot.told][:LATEST_OUTCOMES]
    alone = not done and not find and len(pending) == 1
    current = next((slot for slot in pending if alone or slot.id == now), None)
    waiting = matching([slot for slot in pending if slot is not current], numbers, find)
    for listed in (waiting, recent):  # a form that was refused comes first
        listed.sort(key=lambda slot: refused is None or slot.id != refused.allocation)
    number, pages, shown = page_of(waiting, number, MAX_WAITING)
    finished = full.finished or full.stopped is not None
    over = (finished or full.state != "running") and not blinded
    return visit.page(
        "run.html.j2",
        code,
        refused=refused,
        models=models,
        finished=finished,
        state=full.state,
        now=current,
        before=before,
        numbers=numbers,
        any_waiting=len(pending) > (current is not None),
        find=find,
        browsing="find" in query or "page" in query,
        report=visit.report() if over else None,
        stale=visit.stale(ledger),
        status=None if blinded else full,
        told=recent,
        waiting=shown,
        newest=next(reversed(slots), ""),
        number=number,
        pages=pages,
        others=len(waiting) - len(shown),
    )


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
    typed = {arm: (text, "") for arm, text in _fields(form, "other", "seen")}
    typed |= {arm: (good, pulls) for arm, good, pulls in _fields(form, "arm", "good", "pulls")}
    try:
        return visit.go(done=visit.change(change, form, allocation, _counts(form)).id)
    except (trials.TrialError, ApiError) as error:  # shown with the form, unless that is gone
        if isinstance(error, trials.TrialError):
            error = trial_error(error, blinded=visit.caller.blinded)
        if error.status_code == 404:
            raise error from None
        why, what = str(error).removeprefix("counts: "), visit.request.scope["route"].name
        refused = Refused(what, allocation, why, typed, form.one("reason"))
        return _run_page(visit, refused=refused, code=error.status_code)


def _counts(form: Form) -> dict[str, str]:
    """Outcomes of the arms whose fields were filled in: good ones and all, or others as text."""
    fields = _fields(form, "other", "seen")
    counts = {arm: text.strip() for arm, text in fields if text.strip()}
    for arm, good, pulls in _fields(form, "arm", "good", "pulls"):
        if bool(good.strip()) != bool(pulls.strip()):
            raise ApiError(422, "invalid", f"{arm}: give good outcomes and all outcomes")
        if good.strip():
            counts[arm] = f"{good.strip()}/{pulls.strip()}"
    if not counts:
        raise ApiError(422, "invalid", "give the outcomes of an arm at least")
    return counts


def _fields(form: Form, *names: str) -> list[tuple[str, ...]]:
    fields = [form.all(name) for name in names]
    if len({len(values) for values in fields}) > 1:
        raise ApiError(422, "invalid", "the form is malformed")
    return list(zip(*fields, strict=True))


@router.post("/allocations/{allocation}/cancel")
@allow("admin", "operator")
def cancel(visit: Visited, allocation: AllocationId, form: Sent) -> Response:
    """Cancel an allocation, with a reason."""
    slot = visit.change(visit.trial.cancel, form, allocation, reason=form.reason)
    return visit.go(done=slot.id)


@router.post("/allocations/{allocation}/unmask")
@allow("admin", "operator")
def unmask(visit: Visited, allocation: AllocationId, form: Sent) -> Response:
    """Show the name of the arm of one allocation, on this page only."""
    about = {"reason": form.reason, "category": form.one("category"), "role": visit.caller.role}
    slot = visit.change(visit.trial.unmask, form, allocation, **about)
    return visit.page("unmasked.html.j2", slot=slot, code=visit.trial.codes[str(slot.arm)])


@router.get("/allocations")
@allow("admin", "viewer")
def allocations(
    visit: Seen,
    after: Annotated[str | None, Query(max_length=100)] = None,
    state: AllocationState | None = None,
    find: ShortText = "",
) -> Response:
    """Allocations in the order in which they were made; administrators correct outcomes here."""
    ledger = visit.trial.read()
    numbers = numbers_of(ledger)
    listed = {slot.id: slot for slot in matching(ledger.allocations.values(), numbers, find)}
    return visit.page(
        "allocations.html.j2",
        listing=page_of_allocations(listed, after=after, limit=ALLOCATIONS_PER_PAGE, state=state),
        first=after is None,
        state=state or "",
        find=find,
        numbers=numbers,
        models=ledger.kinds,
        since=ledger.since,
        stale=visit.stale(ledger),
    )


# -- why ----------------------------------------------------------------------------------------

TIGHTER = 5e-4  # less cannot be seen in three digits


@router.get("/why")
@allow("admin", "viewer")
def why(visit: Seen, segment: ShortText = "") -> Response:
    """Show the numbers behind the next decision, and the bounds; of one segment at a time."""
    trial = visit.trial
    ledger = _part(trial.read(), segment)
    status = status_of(ledger)
    try:
        query = f"?v={version_of('plotly')}"
    except PackageNotFoundError:
        query = ""
    best, bound = status.best_bound, status.upper_bound
    is_tighter = best is not None and bound is not None and best < bound - TIGHTER
    answer = visit.page(
        "why.html.j2",
        status=status,
        segment=ledger.segment,
        posteriors=posteriors_of(ledger),
        terms=[key for key in TERMS if any(getattr(arm, key) is not None for arm in status.arms)],
        bars=_bars(status) if status.next_arm else None,
        tighter=MEANINGS[status.best_bound_is] if is_tighter and status.best_bound_is else "",
        points=pull_labels(trial.problem)[2],
        stages=trial.episode(segment=ledger.segment).stages if has_episode(ledger.settings) else 0,
        plotly=f"/static/{PLOTLY}{query}",
    )
    answer.headers["Content-Security-Policy"] = INLINE_STYLES  # plotly writes its own styles
    return answer


def _part(ledger: Ledger, segment: str) -> Ledger:
    """Return the ledger of a segment, by default the first; the whole one where there are none."""
    return ledger.of(segment) if segment else ledger.parts[0]


# of what a pull of an arm is worth
TERMS: tuple[str, ...] = ("expected_reward", "value_of_information", "index")


@dataclass(frozen=True)
class _Bars:
    """What pulls of the arms are worth, as bars; all positions in percent of the width."""

    terms: tuple[str, ...]  # stacked
    arms: list[list[tuple[str, float, float]]]  # of every arm: term, start, width
    price: float | None  # where the policy decides by it


def _bars(status: trials.Status) -> _Bars:
    has_price, terms = False, TERMS[2:] if status.arms[0].index is not None else TERMS[:1]
    if status.arms[0].value_of_information is not None:
        terms = TERMS[:2]
        # other policies do not decide by the prices that the trial began with
        has_price = policy_class(status.policy, places=False).at_fixed_prices
    worth = np.array([[getattr(arm, key) or 0.0 for key in terms] for arm in status.arms])
    ends = np.nan_to_num(worth, posinf=0.0, neginf=0.0).cumsum(axis=1)
    price = status.price if has_price else None
    low, high = min(0.0, float(ends.min())), max(float(ends.max()), price or 0.0)

    def at(value: float) -> float:
        return round(100.0 * (value - low) / ((high - low) or 1.0), 2)

    rows = []
    for row in ends.tolist():
        pieces = zip(terms, [0.0, *row], row, strict=False)
        rows.append([(key, at(min(a, b)), round(abs(at(b) - at(a)), 2)) for key, a, b in pieces])
    return _Bars(terms, rows, None if price is None else at(price))


@router.get("/why.json")
@allow("admin", "viewer")
def why_figures(visit: Seen, dark: bool = False, segment: ShortText = "") -> Response:
    """Return the figure of the trial so far, for plotly."""
    ledger, text = _part(visit.trial.read(), segment), "null"
    if has_episode(ledger.settings):
        text = path_figure(visit.trial.episode(segment=ledger.segment), dark=dark)
    return Response(f'{{"path": {text}}}', media_type="application/json")


def path_figure(path: Episode, *, dark: bool) -> str:
    """Draw the paper's Figure 2 for this trial, as JSON; null before the first recorded stage."""
    if path.stages == 0:
        return "null"
    import plotly.io
    from plotly.utils import PlotlyJSONEncoder

    tree = draw_chart(episode_chart(path), interactive=True).to_plotly_json()
    names = sum(bool(trace.get("showlegend", True)) for trace in tree["data"])
    template = plotly.io.templates["plotly_dark" if dark else "plotly_white"]
    tree["layout"] |= {
        "template": {"layout": template.layout.to_plotly_json()},
        "height": 980,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "margin": {"l": 64, "r": 12, "t": 16, "b": 48},
        "dragmode": False,
        "meta": {"names": names},
        "showlegend": True,
        "legend": {"groupclick": "togglegroup", "tracegroupgap": 0},
    }
    text = json.dumps(tree, cls=PlotlyJSONEncoder)
    for colour, on_dark in DARK_VARIANTS.items() if dark else ():
        text = text.replace(json.dumps(colour), json.dumps(on_dark))
    return text


# -- audit --------------------------------------------------------------------------------------


@router.get("/audit")
@allow("admin", "viewer")
async def audit(
    request: Request, name: TrialName, check: str = "", number: PageNumber = 1
) -> Response:
    """Show the log and its checks."""
    try:
        visit, values, log = await run_in_threadpool(_log, request, name, number, check)
    except trials.Damaged:
        return await run_in_threadpool(_damaged, request, name)
    visit.saw()
    long_work = request.app.state.long_work
    values["replayed"] = await long_work.run(request, "replay", replayed, log) if log else None
    return await run_in_threadpool(partial(visit.page, "audit.html.j2", **values))


def _log(
    request: Request, name: str, number: int, check: str
) -> tuple[Visit, dict[str, Any], Sequence[trials.Event]]:
    """Return a trial, what its page shows, and the log where all decisions are checked."""
    with request.app.state.record_readers.one(request.state.principal.name):
        visit = _visit(request, name)
        trial, ledger = visit.trial, visit.trial.read()
        number, pages, listed = page_of(range(ledger.seq, -1, -1), number, EVENTS_PER_PAGE)
        events: Iterable[trials.Event] = trial.each_event(ledger)
        log = list(events) if check == "decisions" else []
        # all are read and checked; those of the page are kept
        shown = [event for event in log or events if event.seq in listed]
        values = {
            "rows": [(event, _summary(event, ledger), _body(event)) for event in shown[::-1]],
            "cancellations": trial.cancellations(),
            "pages": pages,
            "number": number,
            "verified": trial.verify() if check == "chain" else None,
        }
        return visit, values, log


def _damaged(request: Request, trial: str) -> Response:
    with request.app.state.record_readers.one(request.state.principal.name):
        verified = check_trial(trial, db=request.app.state.store)
    return page(request, "damaged.html.j2", verified=verified)


def _body(event: trials.Event) -> str:
    return json.dumps(event.to_dict(), indent=1, ensure_ascii=False)


def _summary(event: trials.Event, ledger: Ledger) -> str:
    """Describe an event in one line."""
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


@router.get("/results")
@allow("admin", "viewer")
def results(visit: Seen, control: ShortText = "") -> Response:
    """Rates, intervals, P(best), shares over time."""
    return visit.page("results.html.j2", report=visit.report(control))


@router.get("/report")
@allow("admin", "viewer")
def report(visit: Seen, control: ShortText = "") -> Response:
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
