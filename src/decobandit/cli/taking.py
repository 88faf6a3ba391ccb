"""Options that several commands share are declared once, by the function that reads them.

`@taking(make)` hands a command what `make` makes of its options as first argument; the options of
`make` join those of the command, as if the command had declared them:

    def problem_from(problem: ProblemFile = None, arms: Arms = None) -> Problem: ...

    @taking(problem_from)
    def optimum(problem: Problem, as_json: AsJson = False) -> None: ...

is a command with a file, `--arms` and `--json`. `make` may be built in the same way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from inspect import Parameter
from typing import Any, Concatenate, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Command = Callable[..., R]
# options that close the list of every command, in this order
LAST = ("ties", "tol", "workers", "key", "by", "allow_policy", "db", "as_json")


def taking(make: Callable[..., T]) -> Callable[[Callable[Concatenate[T, ...], R]], Command[R]]:
    """Give a command what `make` makes of its own options."""
    own = options_of(make)

    def decorate(command: Callable[Concatenate[T, ...], R]) -> Command[R]:
        def run(**given: Any) -> R:
            made = make(**{each.name: given.pop(each.name) for each in own})
            return command(made, **given)

        return _joined(run, own, command)

    return decorate


def taking_open(
    make: Callable[..., AbstractContextManager[T]],
) -> Callable[[Callable[Concatenate[T, ...], R]], Command[R]]:
    """Give a command a context manager's value, open while the command runs."""
    own = options_of(make)

    def decorate(command: Callable[Concatenate[T, ...], R]) -> Command[R]:
        def run(**given: Any) -> R:
            with make(**{each.name: given.pop(each.name) for each in own}) as made:
                return command(made, **given)

        return _joined(run, own, command)

    return decorate


def options_of(function: Callable[..., object], *, after: int = 0) -> list[Parameter]:
    """Parameters with their types, without the first `after`, which need not be known here."""
    parameters = list(inspect.signature(function).parameters.values())[after:]
    known = getattr(inspect.unwrap(function), "__globals__", {})
    return [
        each.replace(annotation=eval(each.annotation, known))
        if isinstance(each.annotation, str)
        else each
        for each in parameters
        if each.kind is not Parameter.VAR_KEYWORD
    ]


def option(name: str, kind: Any, default: Any = None) -> Parameter:
    """Return an option whose declaration depends on the command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def with_options(function: Command[R], options: Iterable[Parameter]) -> Command[R]:
    """Give a function the signature that typer reads."""
    named = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in options]
    named.sort(key=lambda each: LAST.index(each.name) if each.name in LAST else -1)
    function.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in named}
    return function


def _joined(run: Command[R], own: list[Parameter], command: Callable[..., R]) -> Command[R]:
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__module__ = command.__module__
    return with_options(run, [*own, *options_of(command, after=1)])
