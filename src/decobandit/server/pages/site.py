"""List of trials, access log, login, logout, the API page, and static files.

The form for a new trial is in `plan.py`, the pages of a trial in `trial.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import as_file, files
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from markupsafe import Markup, escape
from starlette.convertors import PathConvertor, register_url_convertor

from ...trials import Event, people_log
from ...trials.lists import page_of_trials
from ..auth import COOKIE, EVERYBODY, allow, cookie_of
from ..errors import ApiError
from ..tokens import list_tokens
from . import plan as plan_pages
from . import trial as trial_pages
from .rendering import PageRoute, Sent, error_page, go, page, page_of, templates
from .trial import PLOTLY

KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
TRIALS_PER_PAGE = 100
FIRST_BADGES = ("damaged", "running")  # then those that are over
IMMUTABLE = "public, max-age=31536000, immutable"  # addresses change with the content

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
@allow(*EVERYBODY)
def trials(
    request: Request,
    archived: bool = False,
    after: Annotated[str | None, Query(max_length=100)] = None,
    state: Literal["running", "over"] | None = None,
    find: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """List the trials of the token: pages go from old to new, running ones first on each.

    An operator sees their names only, the oldest first.
    """
    caller, limits = request.state.principal, request.app.state.limits
    listing = page_of_trials(
        request.app.state.store,
        limit=TRIALS_PER_PAGE,
        after=after,
        only=caller.only_trials,
        archived=archived,
        stale_after=limits.stale_after,
        running=None if state is None or caller.blinded else state == "running",
        find=find,
    )
    ranks = {} if caller.blinded else {name: rank for rank, name in enumerate(FIRST_BADGES)}
    return page(
        request,
        "trials.html.j2",
        trials=sorted(listing.items, key=lambda one: ranks.get(one.badge, len(ranks))),
        next=listing.next,
        first=after is None,
        find=find,
        archived=archived,
        state=None if caller.blinded else state,
        hidden=0 if caller.blinded else listing.hidden,
    )


# -- access log ---------------------------------------------------------------------------------

EVENTS_PER_PAGE = 100
WORDS = {  # labels of entries; the rest are shown by name
    "token": "{}",
    "name": "{}",
    "what": "{}",
    "form": "as {}",
    "via": "via {}",
    "address": "from {}",
    "expires_at": "until {:.10}",
}
LAST = {"repeated": "and {} more times"}


@router.get("/people")
@allow("admin", all_trials=True)
def people(request: Request, number: Annotated[int, Query(alias="page", ge=1)] = 1) -> Response:
    """Show the access log, latest first, and whether it is intact."""
    request.state.recorder.flush()
    log = people_log(request.app.state.store)
    number, pages, latest = page_of(log.events[::-1], number, EVENTS_PER_PAGE)
    logins = {event.by: event.at for event in log.events if event.kind == "login"}
    return page(
        request,
        "people.html.j2",
        log=log,
        tokens=sorted(list_tokens(request.app.state.store), key=lambda one: not one.valid),
        logins=logins,
        rows=[(event, summary_of(event)) for event in latest],
        pages=pages,
        number=number,
    )


def summary_of(event: Event) -> str:
    """Describe an event in one line."""
    data = event.data
    first, words = ("trial", "masked", "row", *WORDS, *LAST), WORDS | LAST
    order = [*WORDS, *(name for name in data if name not in first), *LAST]
    values = {name: data[name] for name in order if data.get(name) is not None}
    texts = {
        name: " ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in values.items()
    }
    return ", ".join(words.get(name, f"{name} {{}}").format(text) for name, text in texts.items())


# -- login and logout ---------------------------------------------------------------------------


def _local(address: str) -> str:
    """Tell whether an address is on this site, so that a login cannot redirect elsewhere."""
    is_path = address.startswith("/") and not address.startswith("//")
    return address if is_path and address.isprintable() and "\\" not in address else "/"


@router.get("/login")
@allow()
def login(request: Request, next: Annotated[str, Query()] = "/") -> Response:
    """Show a form for a token."""
    if request.state.principal is not None:
        return go(_local(next))
    return page(request, "login.html.j2", next=_local(next), wrong="")


@router.post("/login")
@allow()
def log_in(request: Request, form: Sent) -> Response:
    """Exchange a token for a session cookie."""
    wanted = _local(form.one("next", "/"))
    try:
        session = request.app.state.guard.log_in(request.scope, form.one("token"))
    except ApiError as error:
        wrong = "This token is not valid." if error.status_code == 401 else f"{error.detail}."
        answer = page(request, "login.html.j2", error.status_code, next=wanted, wrong=wrong)
        answer.headers.update(error.headers or {})
        return answer
    entered = go(wanted)
    # a proxy may speak TLS with the browser, and plainly with this server
    safe = "https" in (request.url.scheme, request.headers.get("origin", "").partition(":")[0])
    entered.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=safe, path="/")
    return entered


@router.post("/logout")
@allow()
def log_out(request: Request) -> Response:
    """Log out: end the session."""
    session = cookie_of(request.headers)
    if session is not None:
        request.app.state.guard.sessions.end(session)
    left = go("/login")
    left.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return left


# -- the API for people: one page made from its OpenAPI document --------------------------------

CHAPTERS = {  # by how a path begins, the longest first; what begins otherwise is of the server
    "/api/v1/trials/{trial}/allocations": "Allocations",
    "/api/v1/trials/{trial}/ask": "Allocations",
    "/api/v1/trials": "Trials",
    "/api/v1/plan": "Planning",
    "/api/v1/design": "Planning",
    "/api/v1/tokens": "People",
    "/api/v1/people": "People",
    "/ofrep": "Flags",
}
OTHERS = "The server"

Tree = Mapping[str, Any]


@router.get("/api/docs")
@allow()
def api_docs(request: Request) -> Response:
    """Show the API page."""
    document = request.app.openapi()
    chapters: dict[str, list[tuple[str, str, Tree]]] = {
        name: [] for name in [*CHAPTERS.values(), OTHERS]
    }
    for path, methods in document["paths"].items():
        name = next((CHAPTERS[start] for start in CHAPTERS if path.startswith(start)), OTHERS)
        chapters[name] += [(method.upper(), path, one) for method, one in methods.items()]
    schemas, url = document["components"]["schemas"], str(request.base_url)[:-1]
    return page(request, "api_docs.html.j2", chapters=chapters, schemas=schemas, url=url)


def kind(schema: Tree, link: Callable[[str], str], code: Callable[[object], str]) -> str:
    """Describe the type of a value; `link`: how a model is named, `code`: a value."""
    if "$ref" in schema:
        return link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema or "oneOf" in schema:
        parts = schema.get("anyOf") or schema["oneOf"]
        return " or ".join(dict.fromkeys(kind(part, link, code) for part in parts))
    if "enum" in schema or "const" in schema:
        return ", ".join(code(value) for value in schema.get("enum") or [schema["const"]])
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}), link, code)}"
    return str(schema.get("type", "anything"))


def _linked(schema: Tree) -> Markup:
    link = Markup('<a href="#model-{0}">{0}</a>').format
    return Markup(kind(schema, link, lambda value: escape(json.dumps(value))))


templates.filters["linked"] = _linked


# -- files --------------------------------------------------------------------------------------


@router.get("/static/{name}")
@allow()
def static(request: Request, name: str) -> Response:
    """Return a static file, or plotly's script from the installed package."""
    if name == PLOTLY:
        headers = {"Cache-Control": IMMUTABLE}
        try:
            with as_file(files("plotly") / "package_data" / PLOTLY) as script:
                return FileResponse(script, media_type=KINDS[".js"], headers=headers)
        except ModuleNotFoundError:
            text = "figures need plotly, which is not installed"
            raise ApiError(404, "not_found", text) from None
    folder = files("decobandit.server.pages") / "static"
    static_files = {entry.name: entry for entry in folder.iterdir()}
    if name not in static_files:
        raise ApiError(404, "not_found", "there is no such file")
    kind = KINDS[f".{name.rpartition('.')[2]}"]
    headers = {"Cache-Control": IMMUTABLE if "v" in request.query_params else "no-cache"}
    return Response(static_files[name].read_bytes(), media_type=kind, headers=headers)


router.include_router(plan_pages.router)
router.include_router(trial_pages.router)


# -- everything else ----------------------------------------------------------------------------


class _Elsewhere(PathConvertor):
    """Any path that is not of an API, which answers for itself."""

    regex = "(?!(api|ofrep)(/|$)).*"


register_url_convertor("elsewhere", _Elsewhere())


@router.get("/{path:elsewhere}")
@allow()
def nowhere(request: Request) -> Response:
    """No page has this address."""
    return error_page(request, 404, "there is no such page")
