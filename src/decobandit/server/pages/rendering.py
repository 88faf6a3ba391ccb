"""Shared parts of pages: templates, forms, and the route class that turns errors into pages."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool

from ..._version import __version__
from ...figures import marked_policy
from ...figures.report_page import coded
from ...problem.models.base import rounded
from ...trials import report_text
from ..auth import access_of
from ..errors import ApiError, api_error

T = TypeVar("T")
MAX_FIELDS = 2000  # of a form
FORM_TYPE = "application/x-www-form-urlencoded"
TITLES = {
    401: "Log in first",
    403: "Not allowed",
    404: "Not found",
    409: "Conflict",
    422: "Invalid input",
    429: "Too many requests",
    500: "Internal error",
    503: "Not available",
}

templates = Environment(
    loader=PackageLoader("decobandit.server.pages"),
    autoescape=True,  # names of arms and trials come from users
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _digits(number: float, places: int) -> str:
    """Format a number for a table; zero has no sign."""
    return f"{round(number, places) + 0.0:.{places}f}"


templates.filters |= {
    "coded": coded,
    "digits": _digits,
    "marked": marked_policy,
    "rounded": rounded,
}
templates.globals |= {
    "ON_RECORD": report_text.ON_RECORD,
    "declared": report_text.declared,
    "looks": report_text.looks,
    "result_table": report_text.results,
    "rules": report_text.rules_of_trial,
    "segment_results": report_text.segment_results,
    "shares": report_text.shares,
    "state_of": report_text.state_of,
}


class Form:
    """The fields of a form that was sent."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs

    def one(self, name: str, default: str = "") -> str:
        return next((value for key, value in self.pairs if key == name), default)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def text(self, name: str) -> str | None:
        """Return the stripped text of a field; None if it is empty."""
        return self.one(name).strip() or None

    @property
    def reason(self) -> str:
        """Why, in a form that has to say so."""
        reason = self.text("reason")
        if reason is None:
            raise ApiError(422, "invalid", "give a reason; it is kept in the log")
        return reason

    @property
    def key(self) -> str | None:
        return self.one("key") or None


async def _form(request: Request) -> Form:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_TYPE:
        raise ApiError(415, "not_a_form", f"a form must be sent as {FORM_TYPE}")
    return await run_in_threadpool(_parsed, await request.body())


def _parsed(body: bytes) -> Form:
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:  # not ASCII, not UTF-8 behind the percent signs, or too many fields
        raise ApiError(422, "invalid", "the form is malformed") from None
    return Form(pairs)


Sent = Annotated[Form, Depends(_form)]


def new_key() -> str:
    """Return a new idempotency key for a hidden field."""
    return secrets.token_urlsafe(12)


@cache
def asset(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    content = (files("decobandit.server.pages") / "static" / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


def page(request: Request, template: str, code: int = 200, /, **values: Any) -> HTMLResponse:
    """Render a template with the values that every page needs."""
    text = templates.get_template(template).render(
        caller=request.state.principal,
        version=__version__,
        asset=asset,
        new_key=new_key,
        here=request.url.path,
        **values,
    )
    # with "no-referrer", a browser would send our own forms with "Origin: null"
    return HTMLResponse(text, status_code=code, headers={"Referrer-Policy": "same-origin"})


def page_of(entries: Sequence[T], number: int, most: int) -> tuple[int, int, Sequence[T]]:
    """Return the number of a page, at most that of the last, how many there are, its entries."""
    pages = max(1, -(-len(entries) // most))
    number = min(number, pages)
    return number, pages, entries[(number - 1) * most : number * most]


def go(address: str) -> RedirectResponse:
    """After a change: a page that may be loaded again (POST, redirect, GET)."""
    return RedirectResponse(address, status_code=303)


def error_page(
    request: Request, status: int, message: str, headers: dict[str, str] | None = None
) -> Response:
    """Show an error as a page, with links back."""
    trial = request.path_params.get("trial")
    answer = page(
        request,
        "error.html.j2",
        status,
        title=TITLES.get(status, "Error"),
        message=message[:1].upper() + message[1:],
        trial=trial if status != 404 else None,
    )
    answer.headers.update(headers or {})
    return answer


class PageRoute(APIRoute):
    """Checks the role; without authentication redirects to the login. Errors become pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        access = access_of(self.endpoint)

        async def checked(request: Request) -> Response:
            if access.roles and request.state.principal is None:
                wanted = request.url.path if request.method == "GET" else "/"
                return go("/login" if wanted == "/" else f"/login?next={quote(wanted)}")
            try:
                await access.check(request)
                return await handler(request)
            except RequestValidationError:
                return error_page(request, 404, "there is no such page")
            except Exception as error:
                refusal = api_error(error, request.scope)
                headers = dict(refusal.headers or {})
                return error_page(request, refusal.status_code, str(refusal), headers)

        return checked
