"""Frozen tables and the types of their fields: limits, rules, errors, JSON schema.

Every type has one rule, a sentence that begins with "must". Fields are described where they are
declared; docstrings, JSON schemas and the documents of the API read these descriptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from ..support import (
    DecoError,
    Naming,
    dotted,
    init_details,
    one_line,
    refuse,
    refuse_many_keys,
    shown,
    without_defaults,
)
from ..support.records import with_section

MAX_ARMS = 100_000
MAX_HORIZON = 100_000
MAX_PULLS = 1_000_000  # that one arm may take
MAX_NAME = 100
MIN_PRIOR = 1e-12  # weight of an outcome: smaller ones overflow where they divide
MAX_SIZE = 1e12  # of any number: sums over stages and arms then stay far from overflow
NAME_RULE = f"must be 1 to {MAX_NAME} printable characters, no blank at either end"
WORD_RULE = f"must be 1 to {MAX_NAME} printable characters, no comma, blank, slash, plus or @"

# what JSON schemas exclude from text that must be printable: the blocks that matter, not all
UNPRINTABLE = (
    r"\x00-\x1f\x7f-\xa0\xad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\ue000-\uf8ff\ufeff\ufff0-\ufffb\ufffe\uffff"
)


def line_pattern(without: str = "", *, before: str = "") -> str:
    """Return the pattern of one printable line without outer blanks and some characters.

    `before` is a part of the pattern that comes first, such as what must not follow.
    """
    return f"^(?! ){before}[^{UNPRINTABLE}{without}]+(?<! )$"


Init = TypeVar("Init", bound=Callable[..., None])
Table = tuple[tuple[float, ...], ...]
FloatArray = NDArray[np.float64]
Schema = dict[str, Any]


class FirstError(FailFast):
    """Annotation of a list whose check stops at the first error."""

    __hash__ = object.__hash__  # a member of unions has to have one


def at_most(entries: int) -> BeforeValidator:
    """Annotation of a list or a table whose length is checked before its entries."""

    def check(value: object) -> object:
        if isinstance(value, list | tuple | dict) and len(value) > entries:
            refuse(f"must have at most {entries} entries", found=value)
        return value

    return BeforeValidator(check)


@dataclass(frozen=True, eq=False)
class Checked:
    """Annotation of a type: `check` gives the value or refuses it, `schema` describes it."""

    check: Callable[[object], object] = field(repr=False)
    schema: Schema

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> Schema:
        return dict(self.schema)


@dataclass(frozen=True, eq=False)
class CheckedAs:
    """Annotation of a union: `check` gives the value or refuses it, in the words of one member."""

    check: Callable[[Any], object] = field(repr=False)
    union: Any

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        union = handler.generate_schema(self.union)
        return core_schema.no_info_plain_validator_function(self.check, metadata={"union": union})

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> Schema:
        return handler(core["metadata"]["union"])


def is_name(value: object) -> bool:
    """Whether `value` can name an arm: see NAME_RULE."""
    return is_title(value) and value == str(value).strip()


def is_title(value: object) -> bool:
    """Whether `value` is a line of printable text that is not too long."""
    return isinstance(value, str) and 1 <= len(value) <= MAX_NAME and value.isprintable()


def allowed_if(rule: str, is_allowed: Callable[[Any], bool], **schema: Any) -> Checked:
    """Annotation of values that a test allows."""
    return Checked(lambda value: value if is_allowed(value) else refuse(rule, found=value), schema)


def _real(rule: str, allowed: Callable[[float], bool]) -> Callable[[object], float]:
    def check(value: object) -> float:
        # numbers.Real covers numpy scalars; it also covers bool, which is no number here
        if isinstance(value, bool) or not isinstance(value, Real):
            refuse(rule, found=value)
        try:
            number = float(value) + 0.0  # -0.0 becomes 0.0: equal numbers have equal bytes
        except OverflowError:
            number = math.inf
        if MAX_SIZE < abs(number) < math.inf:
            refuse(f"must not exceed {MAX_SIZE:g} in size", found=value)
        return number if math.isfinite(number) and allowed(number) else refuse(rule, found=value)

    return check


def finite_array(value: object, dimensions: int, rule: str) -> FloatArray:
    """Return lists of numbers as an array of so many dimensions; refuse anything else."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        refuse(rule, found=value)
    if array.dtype.kind not in "iuf" or array.ndim != dimensions or not np.isfinite(array).all():
        refuse(rule, found=value)
    if array.size and float(np.abs(array).max()) > MAX_SIZE:
        refuse(f"must not exceed {MAX_SIZE:g} in size", found=value)
    return np.asarray(array, dtype=float) + 0.0  # -0.0 becomes 0.0


def whole_number(low: int, high: int) -> Checked:
    """Annotation of a whole number from `low` to `high`."""
    rule = f"must be a whole number from {low} to {high}"

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            refuse(rule, found=value)
        return int(value) if low <= int(value) <= high else refuse(rule, found=value)

    return Checked(check, {"type": "integer", "minimum": low, "maximum": high})


def fraction(rule: str, low: float, high: float, *, open_ends: bool = False) -> Checked:
    """Annotation of a number from `low` to `high`, or between them."""
    if open_ends:
        schema = {"exclusiveMinimum": low, "exclusiveMaximum": high}
        return Checked(_real(rule, lambda x: low < x < high), {"type": "number", **schema})
    schema = {"minimum": low, "maximum": high}
    return Checked(_real(rule, lambda x: low <= x <= high), {"type": "number", **schema})


def choice(*names: str) -> Checked:
    """Annotation of a text that is one of these names."""
    rule = f"must be one of {', '.join(names)}"
    return allowed_if(rule, lambda value: value in names, type="string", enum=list(names))


def _from_numpy(value: object) -> object:
    """Numpy arrays, and lists of them, as plain lists."""
    if isinstance(value, list | tuple):
        return [row.tolist() if isinstance(row, np.ndarray) else row for row in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _triangular(table: Table) -> Table:
    for n, row in enumerate(table):
        if len(row) != n + 1:
            rule = f"must have {n + 1} numbers: one for each of 0 to {n} good outcomes"
            refuse(rule, found=row, at=(n,))
    return table


def _entry_by_entry(value: object, handler: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(value, dict):
        return handler(value)
    checked: dict[Any, Any] = {}
    for key, entry in value.items():
        checked |= handler({key: entry})
    return checked


def _per_stage(value: object) -> float | tuple[float, ...]:
    value = _from_numpy(value)
    if isinstance(value, list):
        return _NUMBERS.validate_python(value)
    return _one_number(value)


_NUMBER: Schema = {"type": "number", "minimum": -MAX_SIZE, "maximum": MAX_SIZE}
_one_number = _real("must be a finite number, or a list with one per stage", lambda x: True)

TEXT_SCHEMA: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
Name = Annotated[str, allowed_if(NAME_RULE, is_name, **TEXT_SCHEMA, pattern=line_pattern())]
Number = Annotated[float, Checked(_real("must be a finite number", lambda x: True), _NUMBER)]


def _prior_weight(value: object) -> float:
    weight = _positive(value)
    return weight if weight >= MIN_PRIOR else refuse(f"must be at least {MIN_PRIOR:g}", found=value)


_positive = _real("must be a positive number", lambda x: x > 0)
PriorWeight = Annotated[
    float,
    Checked(_prior_weight, {"type": "number", "minimum": MIN_PRIOR, "maximum": MAX_SIZE}),
]
PositiveNumber = Annotated[
    float, Checked(_positive, {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SIZE})
]
Chance = Annotated[float, fraction("must be a positive number, at most 1", 5e-324, 1.0)]
Probability = Annotated[float, fraction("must be a number from 0 to 1", 0.0, 1.0)]
Word = Annotated[
    str,
    allowed_if(
        WORD_RULE,
        lambda value: is_name(value) and not set(value) & set("/@+, "),
        **TEXT_SCHEMA,
        pattern=line_pattern(", /@+"),
    ),
]
NotNegative = Annotated[
    float,
    Checked(
        _real("must be a finite number, zero or more", lambda x: x >= 0),
        _NUMBER | {"minimum": 0},
    ),
]
PerStage = Annotated[
    float | tuple[float, ...],
    Checked(_per_stage, {"anyOf": [_NUMBER, {"type": "array", "items": _NUMBER}]}),
]
# annotation of a table of names whose check stops at the first error
FirstErrorOfTable = WrapValidator(_entry_by_entry)
MAX_RESOURCES = 20
Uses = Annotated[dict[Word, NotNegative], FirstErrorOfTable, at_most(MAX_RESOURCES)]
Resources = Annotated[dict[Word, PerStage], FirstErrorOfTable, at_most(MAX_RESOURCES)]
TerminalTable = Annotated[
    tuple[Annotated[tuple[Number, ...], FirstError()], ...],
    FirstError(),
    BeforeValidator(_from_numpy),
    AfterValidator(_triangular),
]


def _windows(value: object) -> tuple[tuple[int, int], ...]:
    """Check pairs of stages; one pair may stand by itself."""
    rule = "must be a window [from, to] of stages, from 0 and `to` above `from`, or several"
    rows = _from_numpy(value)
    if isinstance(rows, list) and len(rows) == 2 and not isinstance(rows[0], list | tuple):
        rows = [rows]
    if not isinstance(rows, list):
        refuse(rule, found=value)
    windows: list[tuple[int, int]] = []
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != 2:
            refuse(rule, found=row)
        if any(isinstance(x, bool) or not isinstance(x, Integral) for x in row):
            refuse(rule, found=row)
        first, end = map(int, row)
        if not 0 <= first < end or (windows and first < windows[-1][1]):
            refuse(rule + ", in order and apart", found=row)
        windows.append((first, end))
    return tuple(windows)


_WINDOW: Schema = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0},
    "minItems": 2,
    "maxItems": 2,
}
Windows = Annotated[
    tuple[tuple[int, int], ...],
    Checked(_windows, {"anyOf": [_WINDOW, {"type": "array", "items": _WINDOW}]}),
]
Flag = Annotated[
    bool, allowed_if("must be true or false", lambda x: isinstance(x, bool), type="boolean")
]
STAGE_COUNT = whole_number(1, MAX_HORIZON)
StageCount = Annotated[int, STAGE_COUNT]
ArmCount = Annotated[int, whole_number(1, MAX_ARMS)]

_NUMBERS = TypeAdapter[tuple[float, ...]](Annotated[tuple[Number, ...], FirstError()])


# -- tables -----------------------------------------------------------------------------------


class ProblemError(DecoError, code="invalid_problem"):
    """An invalid problem or problem file; the message has the key, the value and the rule.

    See Also
    --------
    InvalidProblem : values that the model refuses.
    """


class InvalidProblem(ProblemError, ValidationError):
    """Values that the model refuses. `errors()` has them one by one, as pydantic tells them.

    Examples
    --------
    >>> from decobandit import BetaBernoulli
    >>> from decobandit.problem import InvalidProblem
    >>> try:
    ...     BetaBernoulli(good=-1, bad=1)
    ... except InvalidProblem as error:
    ...     print(error)
    good: -1 is not allowed; must be a positive number
    """

    __init__ = ValueError.__init__  # called by pydantic, with its own arguments
    _model: type[BaseModel] | None = None

    @classmethod
    def of(cls, details: Sequence[ErrorDetails], model: type[BaseModel]) -> Self:
        """Return the error of a model with these details."""
        error = cls.from_exception_data(model.__name__, init_details(details))
        error._model = model
        return error

    @property
    def field(self) -> str | None:  # type: ignore[override]
        """Place of the first error, such as `arms.0.good`."""
        return dotted(self.errors(include_url=False)[0]["loc"]) or None

    def line(self, where: Naming | None = None) -> str:
        """Return the first error in one line; `where` names its place."""
        return one_line(self, self._model, where=where)

    def __str__(self) -> str:
        return self.line()

    def __reduce__(self) -> tuple[Any, ...]:
        # the values that were refused need not survive the way to another process
        return ProblemError, (str(self),), {"field": self.field}


def plain_init(init: Init) -> Init:
    """Mark an `__init__` that does nothing but pass its arguments on.

    pydantic then makes nested tables without it, as it does for models that have none.
    """
    init.__dict__["__pydantic_base_init__"] = True
    return init


class Frozen(BaseModel):
    """Immutable, no unknown fields, keyword arguments only; raises `InvalidProblem`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        entries = [
            (name, _words_of(field.annotation), field.description)
            for name, field in cls.model_fields.items()
            if field.description
        ]
        if "__doc__" in vars(cls) and entries:
            cls.__doc__ = with_section(cls.__doc__, "Parameters", entries)

    @plain_init
    def __init__(self, /, *values: Any, **fields: Any) -> None:
        if values:
            names = ", ".join(type(self).model_fields)
            raise TypeError(
                f"{type(self).__name__}: {shown(values[0])} is given by position; "
                f"fields are given by name: {names}"
            )
        try:
            super().__init__(**fields)
        except ValidationError as error:
            details = [_in_python(detail) for detail in error.errors(include_url=False)]
            raise InvalidProblem.of(details, type(self)) from None

    @model_validator(mode="before")
    @classmethod
    def _refuse_many_keys(cls, tree: Any) -> Any:
        refuse_many_keys(tree, cls)
        return tree

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core)
        table = handler.resolve_ref_schema(schema)
        if "description" in table:  # the docstring: its sections are for readers of Python
            table["description"] = table["description"].partition("\n\n")[0]
        fields = table.get("properties", {})
        tags = [name for name, field in fields.items() if "const" in field]  # tell tables apart
        for name in tags:
            fields[name].pop("default", None)
        without_defaults(fields)
        if tags:
            table["required"] = [*tags, *table.get("required", ())]
        return schema

    @classmethod
    def from_tree(cls, tree: object) -> Self:
        """Read a table from a tree of tables, lists and numbers."""
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise InvalidProblem.of(error.errors(include_url=False), cls) from None


def _words_of(annotation: Any) -> str:
    """Return a type in the words of docstrings."""
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return _words_of(parts[0])
    if kind is Literal:
        return f"{{{', '.join(map(repr, parts))}}}"
    if kind in (Union, UnionType):
        words = " or ".join(_words_of(part) for part in parts if part is not type(None))
        return f"{words}, optional" if type(None) in parts else words
    if kind is tuple:
        several = parts[-1] is ...
        return f"{'sequence' if several else 'tuple'} of {_words_of(parts[0])}"
    if kind is dict:
        return f"dict of str to {_words_of(parts[1])}"
    return "object" if annotation is Any else str(annotation.__name__)


def _in_python(detail: ErrorDetails) -> ErrorDetails:
    """Replace the word for a table in files by the word for an object in Python."""
    if detail["type"] == "model_type":
        rule = f"must be of class {detail['ctx']['class_name']}"
        return {**detail, "type": "not_allowed", "msg": rule}
    return detail
