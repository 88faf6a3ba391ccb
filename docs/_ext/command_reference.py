"""Generate the page on the command line from the help of `deco`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

INTRODUCTION = """\
# Command line

Generated from the program; `deco COMMAND --help` shows the same.

`--json` prints one JSON object on standard output and nothing else; progress and messages go to
standard error. Invalid input ends with exit code 2 and a one-line message, Ctrl-C with 130.
[JSON of the commands](json.md) lists every key.
"""


def program() -> Any:
    """The root command of `deco`."""
    from typer.main import get_command

    from decobandit.cli.app import app

    return get_command(app)


def commands(command: Any, path: tuple[str, ...] = ("deco",)) -> Iterator[tuple[str, Any]]:
    """All commands and subcommands by their full names, in the order of `--help`."""
    yield " ".join(path), command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from commands(child, (*path, name))


def label(name: str) -> str:
    """Return the label for links: `deco study run` is (deco-study-run)."""
    return name.replace(" ", "-")


def page(root: Any) -> str:
    """The whole page, in Markdown."""
    all_commands = list(commands(root))
    overview = [
        f"| [`{name}`](#{label(name)}) | {_text(one.help)} |" for name, one in all_commands[1:]
    ]
    table = ["| command | what it does |", "|---|---|", *overview, ""]
    sections = [line for name, one in all_commands for line in _section(name, one)]
    return "\n".join([INTRODUCTION, *table, *sections])


def _section(name: str, command: Any) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = [name, *(_argument(p) for p in arguments)]
    usage += ["COMMAND"] if getattr(command, "commands", None) else []
    usage += ["[OPTIONS]"] if options else []
    lines = [f"({label(name)})=", f"## {name}", "", (command.help or "").strip(), ""]
    lines += ["```text", " ".join(usage), "```", ""]
    if arguments:
        lines += ["| argument | meaning |", "|---|---|"]
        lines += [f"| `{_escaped(_argument(p))}` | {_text(p.help)} |" for p in arguments]
        lines += [""]
    if options:
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| `{_escaped(_option(p))}` | {_text(p.help)}{_default(p)} |" for p in options]
        lines += [""]
    return lines


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    name += "..." if parameter.nargs == -1 else ""
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {parameter.metavar or _kind(parameter)}"


def _kind(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    return {int: "NUMBER", float: "NUMBER", str: "TEXT"}.get(kind, "VALUE")


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return f" Default: {_escaped(parameter.show_default)}."
    if parameter.is_flag or parameter.default in (None, "", ()) or not parameter.show_default:
        return ""
    return f" Default: `{_escaped(str(parameter.default))}`."


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _text(text: str | None) -> str:
    return _escaped(" ".join((text or "").split())).replace("<", "\\<")
