"""How all commands of the program parse and show their options."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])
NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class Command(TyperCommand):
    """A command whose arguments may be negative numbers."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._numbers_last(args))

    def _numbers_last(self, words: list[str]) -> list[str]:
        """Negative numbers that are arguments at the end, where none is taken for an option."""
        valued = {
            name
            for each in self.params
            if not getattr(each, "is_flag", False)
            for name in each.opts
        }
        end = words.index("--") if "--" in words else len(words)
        before = ["", *words]
        moved = [i for i in range(end) if NEGATIVE.fullmatch(words[i]) and before[i] not in valued]
        if not moved:
            return words
        kept = [word for i, word in enumerate(words[:end]) if i not in moved]
        return [*kept, "--", *(words[i] for i in moved), *words[end + 1 :]]

    def get_params(self, ctx: Any) -> Any:
        return _flags_without_a_type(super().get_params(ctx))


class Group(TyperGroup):
    """A command with commands."""

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
