"""The command lines that the documentation shows, and the files that it shows beside them.

The convention of a page. Commands stand in blocks of the language `console`, each after `$ `; in
blocks without a language or of the language `sh`, a line that begins with `deco` is one, too. A
block `{code-block} LANGUAGE` with a `:caption:` is a file of that name. The commands of a page run
in their order in one folder, in which its files lie. ALLOCATION stands for what the `ask` before it
answered.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = ("_build", "gallery", "generated")  # folders under docs that are written by the build
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```\s*$", re.M | re.S)


@dataclass(frozen=True)
class Page:
    """One page: its files by name, its commands and its Python examples in their order."""

    name: str
    files: dict[str, str]
    commands: tuple[tuple[str, ...], ...]
    python: tuple[str, ...]


def pages() -> list[Page]:
    """README and all pages under docs that are written by hand."""
    sources = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [read(path) for path in sources if not set(path.parts) & set(MADE)]


def read(path: Path) -> Page:
    return parse(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Page:
    files, commands, python = {}, [], []
    for language, body in FENCE.findall(text):
        caption = re.match(r":caption: (\S+)\n\n?", body)
        if caption:
            files[caption[1]] = body[caption.end() :]
        elif language == "python":
            python.append(body)
        elif language in ("console", "", "sh"):
            commands += _commands(body, prompt="$ " if language == "console" else "")
    return Page(name, files, tuple(commands), tuple(python))


def _commands(body: str, *, prompt: str) -> list[tuple[str, ...]]:
    lines = body.replace("\\\n", " ").splitlines()
    begin = f"{prompt}deco "
    shown = [line.removeprefix(prompt) for line in lines if line.startswith(begin)]
    return [tuple(shlex.split(line, comments=True)[1:]) for line in shown]
