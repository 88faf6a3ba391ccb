"""The pages: list of trials, login, logout, and the files that pages need.

Planning is in `plan_pages.py`, a trial's own pages in `trial_pages.py`.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from starlette.convertors import Convertor, register_url_convertor

from ..trials import list_trials
from . import plan_pages, trial_pages
from .auth import EVERYBODY, allow
from .errors import ApiError
from .rendering import PageRoute, Sent, error_page, go, page
from .sessions import COOKIE, cookie_of
from .trial_pages import PLOTLY

KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"  # addresses change with what they give

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
@allow(*EVERYBODY)
def trials(request: Request) -> Response:
    """All trials; an operator sees their names only."""
    return page(request, "trials.html.j2", trials=list_trials(db=request.app.state.store))


# -- coming and going ---------------------------------------------------------------------------


def _local(address: str) -> str:
    """An address on this site: what follows a login must not lead elsewhere."""
    plain = address.startswith("/") and not address.startswith("//")
    return address if plain and address.isprintable() and "\\" not in address else "/"


@router.get("/login")
@allow()
def login(request: Request, next: Annotated[str, Query()] = "/") -> Response:
    """A form for a token."""
    if request.state.principal is not None:
        return go(_local(next))
    return page(request, "login.html.j2", next=_local(next), wrong="")


@router.post("/login")
@allow()
def log_in(request: Request, form: Sent) -> Response:
    """Exchange a token for a session cookie."""
    wanted = _local(form.one("next", "/"))
    try:
        _, session = request.app.state.guard.log_in(request.scope, form.one("token"))
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
    """End the session."""
    session = cookie_of(request.headers)
    if session is not None:
        request.app.state.guard.sessions.end(session)
    left = go("/login")
    left.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return left


# -- files --------------------------------------------------------------------------------------


@router.get("/static/{name}")
@allow()
def static(request: Request, name: str) -> Response:
    """A file of ours, or plotly's script from where plotly is installed."""
    if name == PLOTLY:
        try:
            with as_file(files("plotly") / "package_data" / PLOTLY) as script:
                return FileResponse(
                    script, media_type="text/javascript", headers={"Cache-Control": FOREVER}
                )
        except ModuleNotFoundError:
            raise ApiError(
                404, "not_found", "figures need plotly, which is not installed"
            ) from None
    folder = files("decobandit.web") / "static"
    known = {entry.name: entry for entry in folder.iterdir()}
    if name not in known:
        raise ApiError(404, "not_found", "there is no such file")
    kind = KINDS[f".{name.rpartition('.')[2]}"]
    headers = {"Cache-Control": FOREVER if "v" in request.query_params else "no-cache"}
    return Response(known[name].read_bytes(), media_type=kind, headers=headers)


router.include_router(plan_pages.router)
router.include_router(trial_pages.router)


# -- everything else ----------------------------------------------------------------------------


class _Elsewhere(Convertor[str]):
    """Any path that is not the API's, which answers for itself."""

    regex = "(?!api(/|$)).*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("elsewhere", _Elsewhere())


@router.get("/{path:elsewhere}")
@allow()
def nowhere(request: Request) -> Response:
    """No page has this address."""
    return error_page(request, 404, "there is no such page")
