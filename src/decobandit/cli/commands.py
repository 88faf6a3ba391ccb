"""How all commands of the program parse and show their options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])
# an argument such as -0.5 is no option
SIGNED_ARGUMENTS = {"ignore_unknown_options": True}


class Command(TyperCommand):
    """A command whose help shows no type beside flags."""

    def get_params(self, ctx: Any) -> Any:
        return _flags_without_a_type(super().get_params(ctx))


class Group(TyperGroup):
    """A command with commands, in the same way."""

    def get_params(self, ctx: Any) -> Any:
        return _flags_without_a_type(super().get_params(ctx))


class Commands(typer.Typer):
    """A program, or a part of one, whose commands are of this kind."""

    def __init__(self, *, cls: type[TyperGroup] | None = Group, **settings: Any) -> None:
        super().__init__(cls=cls, **settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **settings: Any
    ) -> Callable[[F], F]:
        return super().command(name, cls=cls, **settings)


def _flags_without_a_type(parameters: Any) -> Any:
    """A flag takes no value: help is not to show a type beside it."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters
