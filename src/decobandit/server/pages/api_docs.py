"""The API for people: one page made from its OpenAPI document, without scripts from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup, escape

from ..auth import allow
from .rendering import PageRoute, page, templates

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

router = APIRouter(route_class=PageRoute, include_in_schema=False)
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
