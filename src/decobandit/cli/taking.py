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
    parameters = options_of(make)

    def decorate(command: Callable[Concatenate[T, ...], R]) -> Command[R]:
        def run(**options: Any) -> R:
            value = make(**{one.name: options.pop(one.name) for one in parameters})
            return command(value, **options)

        return _joined(run, parameters, command)

    return decorate


def taking_open(
    make: Callable[..., AbstractContextManager[T]],
) -> Callable[[Callable[Concatenate[T, ...], R]], Command[R]]:
    """Give a command a context manager's value, open while the command runs."""
    parameters = options_of(make)

    def decorate(command: Callable[Concatenate[T, ...], R]) -> Command[R]:
        def run(**options: Any) -> R:
            with make(**{one.name: options.pop(one.name) for one in parameters}) as value:
                return command(value, **options)

        return _joined(run, parameters, command)

    return decorate


def options_of(function: Callable[..., object], *, after: int = 0) -> list[Parameter]:
    """Parameters with their types, without the first `after`, which need not be known here."""
    parameters = list(inspect.signature(function).parameters.values())[after:]
    names = getattr(inspect.unwrap(function), "__globals__", {})
    return [
        parameter.replace(annotation=eval(parameter.annotation, names))
        if isinstance(parameter.annotation, str)
        else parameter
        for parameter in parameters
        if parameter.kind is not Parameter.VAR_KEYWORD
    ]


def option(name: str, kind: Any, default: Any = None) -> Parameter:
    """Return an option whose declaration depends on the command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def with_options(function: Command[R], options: Iterable[Parameter]) -> Command[R]:
    """Give a function the signature that typer reads."""
    named = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in options]
    named.sort(key=lambda one: LAST.index(one.name) if one.name in LAST else -1)
    function.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in named}
    return function


def _joined(run: Command[R], parameters: list[Parameter], command: Callable[..., R]) -> Command[R]:
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__module__ = command.__module__
    return with_options(run, [*parameters, *options_of(command, after=1)])
