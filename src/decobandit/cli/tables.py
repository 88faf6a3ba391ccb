"""Tables for people. No number is ever cut, however narrow the terminal is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

MOST_ROWS = 30  # arms shown to a person
NARROW: dict[str, Any] = {"pad_edge": False, "padding": (0, 1, 0, 0)}
LAYOUTS = [(True, False), (True, True)]  # without frames, titles folded
LONGEST_WORDS = 24  # cells of a column of words that are not folded


def print_table(
    title: str,
    titles: Sequence[str],
    rows: Iterable[Sequence[str] | None],
    *,
    text: Collection[str] = (),
    narrow: bool = False,
    **settings: Any,
) -> None:
    """Print rows under titles; those of `text` are words, all others numbers, to the right.

    None among the rows draws a line. A table that does not fit is set without frames, then with
    titles on several lines and, where that is not enough, wider than the terminal.
    """
    from rich.console import Console

    cells = list(rows)
    console = Console()
    layouts = LAYOUTS if narrow else [(False, False), *LAYOUTS]
    for without_frames, folded in layouts:
        table = _table(title, titles, cells, text, without_frames, folded, settings)
        room = console.width - _width(table)
        if room >= 0:
            table = _table(title, titles, cells, text, without_frames, folded, settings, room)
            break
    else:
        console = Console(width=_width(table))
    console.print(table)


def print_stages(
    title: str,
    titles: Sequence[str],
    row: Callable[[int], list[str]],
    *,
    stages: int,
    most: int,
    dots: bool = False,
    **settings: Any,
) -> None:
    """Print one row per stage: `most` from either end, a line or dots between."""
    skipped = stages > 2 * most
    first = range(most if skipped else stages)
    last = range(stages - most, stages) if skipped else range(0)
    rows: list[list[str] | None] = [row(t) for t in first]
    if skipped:
        rows.append(["..."] * len(titles) if dots else None)
    print_table(title, titles, [*rows, *(row(t) for t in last)], **settings)
    if skipped:
        print(f"stages {first.stop} to {last.start - 1} are left out; --json has all of them")


def _table(
    title: str,
    titles: Sequence[str],
    rows: Sequence[Sequence[str] | None],
    text: Collection[str],
    narrow: bool,
    folded: bool,
    settings: dict[str, Any],
    room: int = 0,
) -> Table:
    """Build the table; columns of long text shrink to their longest word and share `room`.

    Rich gets their widths: by default it narrows columns that must not be cut.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    layout = {"box": SIMPLE_HEAD, **NARROW, **settings} if narrow else settings
    table = Table(title=Text(title) if title else None, **layout)
    for number, name in enumerate(titles):
        widest = max((len(row[number]) for row in rows if row is not None), default=0)
        above = _folded(name, widest) if folded else name
        width = max(widest, *map(len, above.split("\n")))
        words = name in text
        long = words and widest > LONGEST_WORDS
        if long:
            longest = max(
                len(word) for row in rows if row is not None for word in row[number].split()
            )
            width = min(width, max(longest, len(above)) + room)
            room -= width - max(longest, len(above))
        table.add_column(
            Text(above),
            justify="left" if words else "right",
            # rich cuts what is wider than its least width, titles too
            min_width=width,
            max_width=width if long else None,
            overflow="fold",
        )
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*map(Text, row))
    return table


def _folded(name: str, width: int) -> str:
    longest = max((len(word) for word in name.split()), default=0)
    return "\n".join(wrap(name, max(width, longest, 1)))


def _width(table: Table) -> int:
    from rich.console import Console
    from rich.measure import Measurement

    wide = Console(width=1000)
    return Measurement.get(wide, wide.options, table).minimum
