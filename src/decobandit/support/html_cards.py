"""What notebooks show of an object: a title, some facts and a table, as a small piece of HTML.

No colours but those of the page around it, light or dark, and greys that are seen on both. All text
is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from markupsafe import Markup

MOST_ROWS = 10
LINE = "1px solid rgba(128,128,128,.4)"
_BOX = "display:inline-block;max-width:100%;overflow-x:auto;font-size:.92em;line-height:1.4"
_CELL = f"padding:.15em .6em;border-bottom:{LINE};white-space:nowrap;background:transparent"


@dataclass(frozen=True)
class Card:
    """What is shown: a title, facts by their names, columns of a table, a line below."""

    title: str
    facts: Mapping[str, object] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]] = field(default_factory=dict)
    below: str = ""


class Shown:
    """An object that notebooks show as a card."""

    def _card(self) -> Card:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return card_html(self._card())


def card_html(card: Card) -> str:
    """The card as HTML.

    Examples
    --------
    >>> from decobandit.support.html_cards import Card, card_html
    >>> page = card_html(Card("a < b", {"arms": 3}, {"arm": ["x & y"], "value": [0.5]}))
    >>> "a &lt; b" in page, "x &amp; y" in page, page.count("<tr")
    (True, True, 2)
    """
    said = [f"{name} {text(value)}" for name, value in card.facts.items() if value is not None]
    rows = len(next(iter(card.columns.values()), ()))
    left = f"… {rows - MOST_ROWS:,} more rows: to_frame()" if rows > MOST_ROWS else ""
    lines = [" · ".join(said), _table(card.columns), left, card.below]
    inside = Markup("").join(Markup("<div>{}</div>").format(line) for line in lines if line)
    return str(
        Markup('<div style="{}"><div><strong>{}</strong></div>{}</div>').format(
            _BOX, card.title, inside
        )
    )


def text(value: object) -> str:
    """A value for people: six digits, thousands apart, no rounding errors."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    return f"{round(float(value), 12) + 0.0:.6g}" if isinstance(value, Real) else str(value)


def _table(columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]) -> Markup:
    if not columns:
        return Markup("")
    shown = [list(column[:MOST_ROWS]) for column in columns.values()]
    aligned = ["left" if any(isinstance(x, str) for x in column) else "right" for column in shown]
    rows = list(zip(*shown, strict=True))
    head = _row("th", aligned, [name.replace("_", " ") for name in columns])
    body = Markup("").join(_row("td", aligned, list(map(text, row))) for row in rows)
    return Markup(
        '<table style="border-collapse:collapse;margin:.3em 0;color:inherit">'
        "<thead>{}</thead><tbody>{}</tbody></table>"
    ).format(head, body)


def _row(tag: str, aligned: Sequence[str], cells: Sequence[str]) -> Markup:
    style = Markup(f'<{tag} style="text-align:{{}};{_CELL}">{{}}</{tag}>')
    return Markup('<tr style="background:transparent">{}</tr>').format(
        Markup("").join(style.format(*pair) for pair in zip(aligned, cells, strict=True))
    )
