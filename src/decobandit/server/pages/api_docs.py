"""The API for people: one page made from its OpenAPI document, without scripts from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup, escape

from ..auth import allow
from .rendering import PageRoute, page

METHODS = ("get", "post", "put", "delete")
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
    operations = list(_operations(document))
    order = [*dict.fromkeys(CHAPTERS.values()), OTHERS]
    chapters = [(name, [one for one in operations if one["chapter"] == name]) for name in order]
    schemas: Tree = document["components"]["schemas"]
    models = [
        {"name": name, "text": model.get("description", ""), "entries": _keys(model, schemas)}
        for name, model in sorted(schemas.items())
    ]
    url = str(request.base_url)[:-1]
    return page(request, "api_docs.html.j2", chapters=chapters, models=models, url=url)


def _operations(document: Tree) -> Iterator[dict[str, Any]]:
    """List the operations of an OpenAPI document, in its order, as the template shows them."""
    models: Tree = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                operation = item[method]
                yield {
                    "id": operation["operationId"],
                    "method": method.upper(),
                    "path": path,
                    "text": operation["description"],
                    "chapter": _chapter(path),
                    "parameters": [_parameter(one) for one in operation.get("parameters", [])],
                    "sent": _keys(_schema(operation.get("requestBody", {})), models),
                    "answers": list(_answers(operation["responses"], models)),
                }


def _chapter(path: str) -> str:
    fitting = [start for start in CHAPTERS if path.startswith(start)]
    return CHAPTERS[max(fitting, key=len)] if fitting else OTHERS


def _parameter(tree: Tree) -> dict[str, Any]:
    kind = _linked(tree["schema"]) + f", in the {tree['in']}"
    return _entry(tree["name"], kind, tree.get("required", False), tree)


def _entry(name: str, kind: Markup, needed: bool, tree: Tree) -> dict[str, Any]:
    return {"name": name, "kind": kind, "needed": needed, "text": tree.get("description", "")}


def _schema(body: Tree) -> Tree:
    """Return the schema of a JSON body, or an empty one."""
    schema: Tree = body.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _answers(responses: Tree, models: Tree) -> Iterator[dict[str, Any]]:
    for status, response in responses.items():
        if status.startswith("2"):
            schema = _schema(response)
            for part in schema.get("anyOf", [schema]):
                text = _resolved(part, models).get("description", response["description"])
                yield {"name": status, "text": text, "entries": _keys(part, models)}


def _keys(schema: Tree, models: Tree) -> list[dict[str, Any]]:
    """List the keys of an object, also of an optional one."""
    parts = [_resolved(part, models) for part in schema.get("anyOf", [schema])]
    model = next((part for part in parts if "properties" in part), {})
    needed = model.get("required", [])
    properties = model.get("properties", {})
    return [_entry(name, _linked(part), name in needed, part) for name, part in properties.items()]


def _resolved(schema: Tree, models: Tree) -> Tree:
    reference = schema.get("$ref")
    return schema if reference is None else models[reference.rpartition("/")[2]]


def _linked(schema: Tree) -> Markup:
    return Markup(kind(schema, _link, lambda value: escape(json.dumps(value))))


def _link(name: str) -> str:
    return Markup('<a href="#model-{0}">{0}</a>').format(name)


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
