"""The base of the model: frozen tables, and the error that says in one line what they refuse.

Fields are described where they are declared; docstrings, JSON schemas and the documents of the API
read these descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails

from ..support import (
    DecoError,
    Naming,
    dotted,
    init_details,
    one_line,
    refuse_many_keys,
    shown,
    without_defaults,
)
from ..support.records import with_section

Init = TypeVar("Init", bound=Callable[..., None])


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
