"""A table of one of several classes, chosen by what it holds; errors have the places of one class.

pydantic's own unions tell the errors of every member, or put a tag into the place of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ..support import refuse


@dataclass(frozen=True, eq=False)
class OneOf:
    """Annotation of a type: a member, or a table that `choose` gives a member for."""

    members: tuple[type[BaseModel], ...]
    choose: Callable[[Mapping[str, Any]], tuple[type[BaseModel], Mapping[str, Any]]]
    usual: type[BaseModel]  # its errors are worded as anywhere else

    def _check(self, value: object) -> BaseModel:
        # tables of files first: whether a dict is a model, or a Mapping, takes long to find out
        if type(value) is not dict:
            if isinstance(value, self.members):
                return value
            if not isinstance(value, Mapping):
                return self.usual.model_validate(value)
        member, table = self.choose(value)
        if member is not self.usual:
            unknown = [key for key in table if key not in member.model_fields]
            if unknown:
                rule = f"must be left out: the keys are {', '.join(member.model_fields)}"
                refuse(rule, found=table[unknown[0]], at=(unknown[0],))
        return member.model_validate(table)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        union = handler.generate_schema(Union[self.members])  # noqa: UP007
        return core_schema.no_info_plain_validator_function(self._check, metadata={"union": union})

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(core["metadata"]["union"])
