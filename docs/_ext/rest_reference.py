"""Generate the page on the REST API from the OpenAPI document of the server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Tree = dict[str, Any]

INTRODUCTION = """\
# REST API

Generated from the OpenAPI document of the server, which a running server provides at
`/api/v1/openapi.json` and displays at `/api/docs`. [The server](/server.md) describes how to start
it, its roles and its limits. Every request except health, live and ready needs
`Authorization: Bearer TOKEN`. For Python, see [the client](/server.md#the-client).
"""


def openapi() -> Tree:
    """The document of a server over an empty database."""
    from decobandit.server.app import create_app
    from decobandit.trials import open_store

    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "empty.db") as store:
        document: Tree = create_app(store).openapi()
    return document


def routes(document: Tree) -> Iterator[tuple[str, str, Tree]]:
    """Method, path and description of every route."""
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            yield method.upper(), path, route


def page(document: Tree) -> str:
    """The whole page, in Markdown."""
    lines = [INTRODUCTION, "| request | what it does |", "|---|---|"]
    for method, path, route in routes(document):
        lines.append(f"| [`{method} {path}`](#{label(method, path)}) | {_text(route)} |")
    lines += ["", "## Requests", ""]
    for method, path, route in routes(document):
        lines += _route(method, path, route)
    lines += ["## Bodies and answers", ""]
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        lines += _schema(name, schema)
    return "\n".join(lines)


def label(method: str, path: str) -> str:
    words = path.removeprefix("/api/v1").strip("/").replace("{", "").replace("}", "")
    return "-".join(["rest", method.lower(), *words.split("/")])


def _route(method: str, path: str, route: Tree) -> list[str]:
    lines = [f"({label(method, path)})=", f"### {method} {path}", "", _text(route), ""]
    for parameter in route.get("parameters", []):
        if parameter["in"] != "path":
            lines.append(f"- {parameter['in']} `{parameter['name']}`: {_text(parameter)}")
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    if body:
        lines.append(f"- body: {kind(body['schema'])}")
    for status, answer in route["responses"].items():
        content = answer.get("content", {}).get("application/json", {})
        if status.startswith("2"):
            lines.append(f"- answer {status}: {kind(content.get('schema', {}))}")
    return [*lines, ""]


def _schema(name: str, schema: Tree) -> list[str]:
    lines = [f"(schema-{name.lower()})=", f"### {name}", "", _text(schema), ""]
    fields = schema.get("properties", {})
    if fields:
        required = set(schema.get("required", ()))
        lines += ["| field | type | meaning |", "|---|---|---|"]
        for field, about in fields.items():
            mark = "" if field in required else ", optional"
            lines.append(f"| `{field}` | {kind(about)}{mark} | {_text(about)} |")
    return [*lines, ""]


def kind(schema: Tree) -> str:
    """The type of a value in words, with links to the tables below."""
    from decobandit.server.pages import site

    return site.kind(
        schema, lambda name: f"[{name}](#schema-{name.lower()})", lambda value: f"`{value}`"
    )


def _text(tree: Tree) -> str:
    words = " ".join(str(tree.get("description") or "").split())
    return words.replace("|", "\\|").replace("<", "\\<")
