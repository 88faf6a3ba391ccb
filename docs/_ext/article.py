"""The article in `paper/`, written for pandoc, as a page of the site: citations, references, head.

Of BibTeX it reads what the article's file has: one field per line, values in braces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "paper"
_ENTRY = re.compile(r"^@(\w+)\{([\w-]+),\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^\s*(\w+) = \{(.*)\},?$", re.M)
_HEAD = re.compile(r"\A---\n(.*?)^---\n", re.M | re.S)
_CODE = re.compile(r"(`[^`\n]*`)")
_CITED = re.compile(r"\[@([\w-]+)\]|@([\w-]+)")


@dataclass(frozen=True)
class Work:
    """An entry of the bibliography."""

    key: str
    fields: dict[str, str]

    @property
    def authors(self) -> list[tuple[str, str]]:
        """Family names and given names; of a body, its name alone."""
        split = (one.partition(", ") for one in self.fields["author"].split(" and "))
        return [(family, first_name) for family, _, first_name in split]

    @property
    def short(self) -> str:
        """How the text calls it, without the year."""
        first, *coauthors = [family for family, _ in self.authors]
        if len(coauthors) > 1:
            return f"{first} et al."
        return " and ".join([first, *coauthors])

    @property
    def reference(self) -> str:
        """As the list of references has it."""
        entry = self.fields
        names = "; ".join(", ".join(filter(None, author)) for author in self.authors)
        when = f" ({entry['year']})" if "year" in entry else ""
        where = entry.get("journal") or entry.get("booktitle")
        number = f"({entry['number']})" if "number" in entry else ""
        place = [where and f"*{where}*", entry.get("volume", "") + number, entry.get("pages")]
        parts = [names + when, entry["title"], ", ".join(filter(None, place)), entry.get("note")]
        return ". ".join(part.rstrip(".") for part in parts if part) + "."


def bibliography(text: str) -> dict[str, Work]:
    """The entries of a file by their keys, in their order."""
    works = {}
    for _, key, body in _ENTRY.findall(text):
        fields = {name: re.sub(r"[{}]", "", value) for name, value in _FIELD.findall(body)}
        works[key] = Work(key, {name: value.replace("--", "–") for name, value in fields.items()})
    return works


def cited(text: str) -> list[str]:
    """Keys of the works that a text cites; what stands between backticks cites nothing."""
    prose = _CODE.sub("", _HEAD.sub("", text))
    return list(dict.fromkeys(inside or outside for inside, outside in _CITED.findall(prose)))


def page(folder: Path = FOLDER) -> str:
    """The article as MyST reads it: sections one level down, citations as links."""
    text = (folder / "paper.md").read_text(encoding="utf-8")
    works = bibliography((folder / "paper.bib").read_text(encoding="utf-8"))
    head = _HEAD.match(text)
    assert head is not None, "paper.md begins with its head between lines of ---"
    settings = dict(re.findall(r"^(title|date): '?(.*?)'?$", head[1], re.M))
    authors = ", ".join(
        re.findall(r"^  - name: (.*)$", head[1].partition("affiliations:")[0], re.M)
    )
    body = re.sub(r"^# ", "## ", text[head.end() :], flags=re.M)
    parts = _CODE.split(body)
    parts[::2] = [_CITED.sub(lambda match: _link(match, works), part) for part in parts[::2]]
    listed = (
        f"(ref-{key})=\n{works[key].reference}\n"
        for key in sorted(cited(text), key=lambda key: works[key].reference)
    )
    return "\n".join(
        [f"# {settings['title']}\n", f"*{authors}, {settings['date']}*\n", "".join(parts), *listed]
    )


def _link(match: re.Match[str], works: dict[str, Work]) -> str:
    work = works[match[1] or match[2]]
    year = work.fields.get("year")
    inside = match[1] is not None
    shown = work.short + ("" if year is None else f", {year}" if inside else f" ({year})")
    return f"({_to(work, shown)})" if inside else _to(work, shown)


def _to(work: Work, shown: str) -> str:
    return f"[{shown}](#ref-{work.key})"
