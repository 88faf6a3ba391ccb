"""The router of the API, which all its routes are on, and the errors that all of them have."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from ..errors import CODES
from . import responses as out
from .api_route import ApiRoute

_DOCUMENTED = {
    400: "The request cannot be served.",
    401: "No valid token.",
    403: "The role does not permit this, or the request comes from another site.",
    404: "No such trial, allocation or token.",
    405: "The path has other methods.",
    408: "The body came too slowly.",
    409: "The request contradicts what is on record, or no slot is free.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "The request is malformed.",
    429: "Too many requests; see Retry-After.",
    503: "Busy, or the database cannot be used; see Retry-After.",
}
assert set(_DOCUMENTED) < set(CODES)

_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorOut"}}}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": _ERROR} for status, text in _DOCUMENTED.items()
}
# one model puts it into the document; a model per status and route would slow the start
_ERRORS[400] = {"description": _DOCUMENTED[400], "model": out.ErrorOut}

router = APIRouter(
    prefix="/api/v1",
    route_class=ApiRoute,
    responses=_ERRORS,
    generate_unique_id_function=lambda route: route.name,
)
