"""Requests that are plainly right go to their endpoint without FastAPI between.

FastAPI resolves parameters and serialises answers for any signature; that takes longer than to
record an outcome. An asynchronous endpoint whose parameters are all of the kinds below is called
directly with them. Whatever is not plain, a missing body or a trial that is not open yet, goes the
ordinary way, which knows all errors: answers are the same on both.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, get_args, get_type_hints

from fastapi import Request, Response
from fastapi.routing import APIRoute

from ..auth import Caller
from .arguments import ID_PATTERN, AllocationId, Key, Opened
from .record_models import Out
from .schemas import KEY_PATTERN, In

PlainCall = Callable[[Request, In | None], Awaitable[Response | None]]

_ID, _KEY = re.compile(ID_PATTERN), re.compile(KEY_PATTERN)


class _NotPlain(Exception):
    """FastAPI has to look at the request."""


def plain_call(route: APIRoute) -> PlainCall | None:
    """A call of the endpoint that gives None where a request is not plain; None: there is none."""
    endpoint: Callable[..., Any] = route.endpoint
    chosen = route.response_model_exclude_unset or route.response_model_exclude_none
    if not inspect.iscoroutinefunction(endpoint) or chosen or route.status_code not in (None, 200):
        return None
    hints = get_type_hints(endpoint, include_extras=True)
    readers = {name: _reader(hints[name]) for name in inspect.signature(endpoint).parameters}
    if not readers or not all(readers.values()):
        return None

    async def call(request: Request, body: In | None) -> Response | None:
        try:
            values = {name: read(request, body) for name, read in readers.items() if read}
        except _NotPlain:
            return None
        answer: Out = await endpoint(**values)
        return Response(answer.model_dump_json(), media_type="application/json")

    return call


def _reader(kind: Any) -> Callable[[Request, In | None], Any] | None:
    """How a parameter of this kind is read; None for one that only FastAPI knows."""
    known: dict[Any, Callable[[Request, In | None], Any]] = {
        Caller: _caller,
        Opened: _opened,
        AllocationId: _allocation,
        Key: _key,
    }
    if kind in known:
        return known[kind]
    model, *optional = get_args(kind) or (kind,)
    if not (inspect.isclass(model) and issubclass(model, In)):
        return None
    return (lambda _, body: body) if optional else (lambda _, body: _there(body))


def _caller(request: Request, _: In | None) -> Any:
    return _there(request.state.principal)


def _opened(request: Request, _: In | None) -> Any:
    return _there(request.app.state.trial_cache.cached(request.path_params["trial"]))


def _allocation(request: Request, _: In | None) -> str:
    found: str = request.path_params["allocation"]
    if not _ID.search(found):
        raise _NotPlain
    return found


def _key(request: Request, _: In | None) -> str | None:
    found = request.headers.getlist("idempotency-key")
    if found and (len(found) > 1 or not _KEY.search(found[0])):
        raise _NotPlain
    return found[0] if found else None


def _there(value: Any) -> Any:
    if value is None:
        raise _NotPlain
    return value
