"""The page of the access log, for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from ...trials import Event, people_log
from ..auth import allow
from .rendering import PageRoute, page

EVENTS_PER_PAGE = 100
WORDS = {  # what is said of an entry; others with their names
    "token": "{}",
    "name": "{}",
    "what": "{}",
    "form": "as {}",
    "via": "via {}",
    "address": "from {}",
    "expires_at": "until {:.10}",
}
LAST = {"repeated": "and {} more times"}

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/people")
@allow("admin", all_trials=True)
def people(request: Request, number: Annotated[int, Query(alias="page", ge=1)] = 1) -> Response:
    """Show the access log, latest first, and whether it is intact."""
    request.state.recorder.flush()
    log = people_log(request.app.state.store)
    pages = max(1, -(-len(log.events) // EVENTS_PER_PAGE))
    number = min(number, pages)
    latest = log.events[::-1][(number - 1) * EVENTS_PER_PAGE : number * EVENTS_PER_PAGE]
    return page(
        request,
        "people.html.j2",
        log=log,
        rows=[(event, summary_of(event)) for event in latest],
        pages=pages,
        number=number,
    )


def summary_of(event: Event) -> str:
    """Describe an event in one line."""
    data = event.data
    first, words = ("trial", "masked", "row", *WORDS, *LAST), WORDS | LAST
    order = [*WORDS, *(name for name in data if name not in first), *LAST]
    texts = {name: _text(data[name]) for name in order if data.get(name) is not None}
    return ", ".join(words.get(name, f"{name} {{}}").format(texts[name]) for name in texts)


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
