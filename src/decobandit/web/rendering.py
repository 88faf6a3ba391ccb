"""What pages share: templates, forms, the route class that answers errors with pages."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Coroutine
from functools import cache
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from .._version import __version__
from ..trials import StoreError, TrialError
from .auth import check_role
from .errors import ApiError, is_blinded

MOST_FIELDS = 2000  # of a form
FORM_TYPE = "application/x-www-form-urlencoded"
TITLES = {
    401: "Please log in",
    403: "Not allowed",
    404: "Not found",
    409: "That did not go through",
    422: "That cannot be used",
    429: "Too many requests",
    503: "Not available right now",
}

templates = Environment(
    loader=PackageLoader("decobandit.web"),
    autoescape=True,  # names of arms and trials come from users
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _digits(number: float, places: int) -> str:
    """A number for a table; what is rounded to nothing has no sign."""
    return f"{round(number, places) + 0.0:.{places}f}"


templates.filters["digits"] = _digits


class Form:
    """The fields of a form that was sent."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs

    def one(self, name: str, default: str = "") -> str:
        """The first field of that name."""
        return next((value for key, value in self.pairs if key == name), default)

    def all(self, name: str) -> list[str]:
        """Every field of that name, in order."""
        return [value for key, value in self.pairs if key == name]

    @property
    def key(self) -> str | None:
        """What makes the form safe to send twice."""
        return self.one("key") or None


async def _form(request: Request) -> Form:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_TYPE:
        raise ApiError(415, "not_a_form", f"a form must be sent as {FORM_TYPE}")
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:  # not ASCII, not UTF-8 behind the percent signs, or too many fields
        raise ApiError(422, "invalid", "the form cannot be read") from None
    return Form(pairs)


Sent = Annotated[Form, Depends(_form)]


def new_key() -> str:
    """For a hidden field: a form that is sent twice is recognised by it."""
    return secrets.token_urlsafe(12)


@cache
def asset(name: str) -> str:
    """The address of a file of ours; it changes with the file, so that browsers may keep it."""
    content = (files("decobandit.web") / "static" / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


def page(request: Request, template: str, code: int = 200, /, **values: Any) -> HTMLResponse:
    """A template with what every page needs."""
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


def go(address: str) -> RedirectResponse:
    """After a change: a page that may be loaded again (POST, redirect, GET)."""
    return RedirectResponse(address, status_code=303)


def error_page(
    request: Request, status: int, message: str, headers: dict[str, str] | None = None
) -> Response:
    """An error in the design of the other pages, with the way back."""
    trial = request.path_params.get("trial")
    answer = page(
        request,
        "error.html.j2",
        status,
        title=TITLES.get(status, "Something went wrong"),
        message=message[:1].upper() + message[1:],
        trial=trial if status != 404 else None,
    )
    answer.headers.update(headers or {})
    return answer


def _to_login(request: Request) -> Response:
    wanted = request.url.path if request.method == "GET" else "/"
    return go("/login" if wanted == "/" else f"/login?next={quote(wanted)}")


class PageRoute(APIRoute):
    """Checks the role of whoever asks; strangers are sent to the login, errors become pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        roles: tuple[str, ...] = self.endpoint.roles  # type: ignore[attr-defined]

        async def checked(request: Request) -> Response:
            if roles and request.state.principal is None:
                return _to_login(request)
            try:
                check_role(request.state.principal, roles)
                return await handler(request)
            except StoreError as error:
                blind = is_blinded(request.scope)
                told = "the database of trials cannot be used" if blind else str(error)
                return error_page(request, error.status, told, {"Retry-After": "5"})
            except TrialError as error:
                return error_page(request, error.status, str(error))
            except HTTPException as error:
                headers = dict(error.headers or {})
                return error_page(request, error.status_code, str(error.detail), headers)
            except RequestValidationError:
                return error_page(request, 404, "there is no such page")

        return checked
