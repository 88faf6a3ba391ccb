"""Cards of results in notebooks, and data frames of pandas, polars or pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral, Real
from textwrap import shorten
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from .errors import InvalidArgument

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 10
REPR_WIDTH = 90  # characters of the fields in a repr
CARD = """\
{% set line = "border-bottom:1px solid rgba(128,128,128,.4)" %}
{% set cell = "padding:.15em .6em;" ~ line ~ ";white-space:nowrap;background:transparent" %}
{% macro row(tag, cells) %}
<tr style="background:transparent">{% for value in cells %}\
<{{ tag }} style="text-align:{{ aligned[loop.index0] }};{{ cell }}">{{ value }}</{{ tag }}>\
{% endfor %}</tr>{% endmacro %}
<div style="display:inline-block;max-width:100%;overflow-x:auto;font-size:.92em;line-height:1.4">\
<div><strong>{{ title }}</strong></div>
{%- if facts %}<div>{{ facts }}</div>{% endif %}
{%- if names %}<div><table style="border-collapse:collapse;margin:.3em 0;color:inherit">\
<thead>{{ row("th", names) }}</thead><tbody>\
{% for cells in rows %}{{ row("td", cells) }}{% endfor %}</tbody></table></div>
{%- endif %}
{%- for text in below if text %}<div>{{ text }}</div>{% endfor %}
</div>"""


@dataclass(frozen=True)
class Card:
    """Title, facts, table columns and footer of a notebook card."""

    title: str
    facts: Mapping[str, object] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]] = field(default_factory=dict)
    below: str = ""


class Shown:
    """Object that prints as one short line, and that notebooks show as a card."""

    def __repr__(self) -> str:
        """Return the fields of a dataclass that fit into a line: numbers, names, sizes."""
        pairs = ((one.name, getattr(self, one.name)) for one in fields(cast("Any", self)))
        line = ", ".join(f"{name}={brief}" for name, value in pairs if (brief := _brief(value)))
        return f"{type(self).__name__}({shorten(line, REPR_WIDTH, placeholder=' ...')})"

    def _card(self) -> Card:
        return Card(repr(self))

    def _repr_html_(self) -> str:
        return card_html(self._card())


def _brief(value: object) -> str:
    """Return a value in few characters; nothing for arrays, records and empty values."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str | int):
        return repr(value)
    return f"[{len(value)}]" if isinstance(value, tuple | dict) and value else ""


def card_html(card: Card) -> str:
    """Render a card as HTML."""
    facts = [f"{name} {text(value)}" for name, value in card.facts.items() if value is not None]
    total = len(next(iter(card.columns.values()), ()))
    more = f"… {total - MOST_ROWS:,} more rows: to_frame()" if total > MOST_ROWS else ""
    shown = [list(column[:MOST_ROWS]) for column in card.columns.values()]
    return _template().render(
        title=card.title,
        facts=" · ".join(facts),
        names=[name.replace("_", " ") for name in card.columns],
        aligned=["left" if any(isinstance(x, str) for x in cells) else "right" for cells in shown],
        rows=[list(map(text, row)) for row in zip(*shown, strict=True)],
        below=[more, card.below],
    )


@cache
def _template() -> Template:
    from jinja2 import Environment

    return Environment(autoescape=True, trim_blocks=True).from_string(CARD)


def text(value: object) -> str:
    """Format a value: six digits, thousands separated."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return f"{round(float(value), 12) + 0.0:.6g}"
    return "" if value is None else str(value)


Column = Sequence[Any] | npt.NDArray[Any]
Columns = Mapping[str, Column]
Tables = Mapping[str, Callable[[], Columns]]
FRAME_KINDS = ("pyarrow", "pandas", "polars")
DEFAULT_KIND = FRAME_KINDS[0]


class Words(list[Any]):
    """A column of text, also where every value is missing."""


class Tabular(Shown):
    """Result with one or more tables; `to_frame` returns data frames.

    Attributes
    ----------
    frame_kind : str
        The kind of frame that is made unless another is asked for.

    Examples
    --------
    >>> from decobandit import Problem, gap
    >>> result = gap(Problem.uniform(arms=2, horizon=4), "greedy")
    >>> list(result.tables())
    ['stages', 'arms']
    >>> result.to_frame(kind="pandas").columns.tolist()[:3]
    ['policy', 'stage', 'shortfall']
    """

    @property
    def frame_kind(self) -> str:
        """The kind of frame that `to_frame` makes unless it is asked for another."""
        return DEFAULT_KIND

    def _card(self) -> Card:
        return Card(type(self).__name__, columns=self.columns())

    def tables(self) -> Tables:
        """Return a function for the columns of each table, by name; the first is the default."""
        raise NotImplementedError

    def absent_tables(self) -> dict[str, str]:
        """Return tables that are missing, by name, with the way to get them."""
        return {}

    def columns(self, table: str | None = None) -> Columns:
        """Return the columns of a table, by default the first."""
        tables = self.tables()
        name = next(iter(tables)) if table is None else table
        if name in (absent := self.absent_tables()):
            raise InvalidArgument(f"{name}: {absent[name]}", field="table")
        if name not in tables:
            names = ", ".join(tables)
            raise InvalidArgument(f"table: no {name!r}; there are {names}", field="table")
        return tables[name]()

    def to_frame(self, table: str | None = None, *, kind: object = None) -> Any:
        """Return one of the tables as a data frame.

        Parameters
        ----------
        table : str, optional
            Its name; the first of `tables()` by default.
        kind : {"pyarrow", "pandas", "polars"} or a data frame, optional
            What to make, or a frame to make another one like. By default the kind of the data that
            the result was computed from, and pyarrow where there were none.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame or polars.DataFrame

        Raises
        ------
        ValueError
            If there is no such table, or no such kind.
        ImportError
            If the package of the kind is not installed.
        """
        wanted = self.frame_kind if kind is None else kind
        wanted = wanted if isinstance(wanted, str) else kind_of(wanted)
        check_kind(wanted)
        return frame_of(self.columns(table), kind=wanted)


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of frame, or one whose package is not installed."""
    if kind not in FRAME_KINDS:
        allowed = ", ".join(FRAME_KINDS)
        raise InvalidArgument(f"kind: {kind!r} is not allowed; must be {allowed}", field="kind")
    try:
        import_module(kind)
    except ImportError:
        how = '"decobandit[tables]"' if kind == DEFAULT_KIND else kind
        packages = [package for package in FRAME_KINDS if find_spec(package) is not None]
        instead = f'; or ask for kind="{packages[0]}"' if packages else ""
        raise ImportError(
            f"this table needs {kind}; install it with: pip install {how}{instead}"
        ) from None


def frame_of(columns: Columns, *, kind: str = DEFAULT_KIND) -> Any:
    """Build a data frame."""
    import narwhals as nw

    check_kind(kind)
    data, types = {}, {}
    for name, column in columns.items():
        data[name] = _python_values(column)
        if not isinstance(column, np.ndarray) and all(value is None for value in column):
            # nothing says what the column holds: then, numbers
            types[name] = nw.String if isinstance(column, Words) else nw.Float64
    frame = nw.from_dict(data, backend=kind)
    return frame.with_columns(nw.col(name).cast(types[name]) for name in types).to_native()


def _python_values(column: Column) -> list[Any] | npt.NDArray[Any]:
    """Return values of one type; integers mixed with floats become floats."""
    if isinstance(column, np.ndarray):
        return column
    values = [value.item() if isinstance(value, np.generic) else value for value in column]
    types = {type(value) for value in values if value is not None}
    if types == {int, float}:
        return [None if value is None else float(value) for value in values]
    return values


def kind_of(frame: object) -> str:
    """Return the kind of a data frame."""
    kind = str(_native(frame).implementation)
    return kind if kind in FRAME_KINDS else DEFAULT_KIND


def columns_of(
    records: Iterable[Mapping[str, Any]], names: Iterable[str] = (), *, words: Container[str] = ()
) -> dict[str, list[Any]]:
    """Return columns of records, those of `names` first; those of `words` always hold text."""
    rows = list(records)
    keys = dict.fromkeys([*names, *(name for row in rows for name in row)])
    return {
        name: (Words if name in words else list)(row.get(name) for row in rows) for name in keys
    }


def constant(rows: int, **values: object) -> dict[str, list[Any]]:
    """Return columns that repeat one value."""
    return {name: [value] * rows for name, value in values.items()}


def frame_rows(frame: object) -> tuple[list[str], Iterator[dict[str, str]]]:
    """Return column names and rows of a data frame, with cells as CSV text."""
    native = _native(frame)
    rows = native.iter_rows(named=True)
    return native.columns, ({name: _cell(value) for name, value in row.items()} for row in rows)


def _native(frame: object) -> Any:
    import narwhals as nw

    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError:
        rule = "no data frame; must be one of pandas, polars or pyarrow, and not a lazy one"
        raise TypeError(f"{type(frame).__name__}: {rule}") from None


def _cell(value: Any) -> str:
    """Format a cell: empty for missing, 1 and 0 for booleans, 1 for 1.0."""
    # NaN, NaT and NA are not equal to themselves; NA does not even say so
    if value is None or str(value == value) != "True":  # noqa: PLR0124
        return ""
    if isinstance(value, bool | np.bool_):
        return "1" if value else "0"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
