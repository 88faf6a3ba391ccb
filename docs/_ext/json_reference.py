"""Generate the page on the JSON of every command from `reference/json_fields.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import command_reference

FIELDS = Path(__file__).parents[1] / "reference" / "json_fields.toml"
INTRODUCTION = """\
# JSON of the commands

Every command with `--json` prints one JSON object with these keys. A dot denotes a key of an
object, `[]` an entry of a list, `{}` a value of an object whose keys are names. Keys described with
a condition ("with ...", "if ...") are otherwise absent, unless null is mentioned. Later versions
may add keys; existing keys keep their name and meaning. Integers may be written without a decimal
point. An outcome is a number, or a name for Markov arms. A test runs all commands and compares
their output with this page.
"""


def fields() -> dict[str, dict[str, dict[str, Any]]]:
    """Tables `shape` and `command`: fields by key path, beside `about` and `prints`."""
    return tomllib.loads(FIELDS.read_text(encoding="utf-8"))


def keys_of(table: dict[str, Any]) -> dict[str, list[str]]:
    """Type, unit and meaning by key path."""
    return {key: value for key, value in table.items() if key not in ("about", "prints")}


def with_json(root: Any) -> list[str]:
    """Names of all commands that have `--json`, in the order of `--help`."""
    return [
        name
        for name, command in command_reference.commands(root)
        if any("--json" in parameter.opts for parameter in command.params)
    ]


def page(root: Any) -> str:
    """The whole page, in Markdown."""
    described = fields()
    lines = [INTRODUCTION]
    for name in with_json(root):
        table = described["command"][name]
        lines += [f"(json-{command_reference.label(name)})=", f"## {name}", ""]
        lines += _table(table, described["shape"])
    lines += ["## Shared objects", "", "Objects that several commands print.", ""]
    for name, table in described["shape"].items():
        lines += [
            f"({_place(name)})=",
            f"### {_words(name)}",
            "",
            *_table(table, described["shape"]),
        ]
    return "\n".join(lines)


def _table(table: dict[str, Any], shapes: dict[str, Any]) -> list[str]:
    lines, keys = [table["about"]] if "about" in table else [], keys_of(table)
    linked = [f"[{_words(name)}](#{_place(name)})" for name in table.get("prints", [])]
    if linked:
        lines.append(f"Prints the keys of {' or '.join(linked)}{', and these:' if keys else '.'}")
    lines.append("")
    if keys:
        lines += ["| key | type | unit | meaning |", "|---|---|---|---|"]
    for key, (kind, unit, meaning) in keys.items():
        lines.append(f"| `{key}` | {_type(kind, shapes)} | {unit} | {meaning} |")
    return [*lines, ""]


def _type(text: str, shapes: dict[str, Any]) -> str:
    """A type with links to shapes."""
    words = [
        f"[{_words(word)}](#{_place(word)})" if word in shapes else word for word in text.split()
    ]
    return " ".join(words).replace("file", "object")


def _words(shape: str) -> str:
    return shape.replace("_", " ")


def _place(shape: str) -> str:
    return f"json-of-{shape.replace('_', '-')}"
