"""Options that several commands share are declared once, by the function that reads them.

`@taking(make)` hands a command what `make` makes of its options as first argument, open while the
command runs if it is a context manager; the options of `make` join those of the command, as if the
command had declared them:

    def problem_from(problem: ProblemFile = None, arms: Arms = None) -> Problem: ...

    @taking(problem_from)
    def optimum(problem: Problem, as_json: AsJson = False) -> None: ...

is a command with a file, `--arms` and `--json`. `make` may be built in the same way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from inspect import Parameter
from typing import Any, Concatenate, TypeVar

R = TypeVar("R")
Command = Callable[..., R]
# options that close the list of every command, in this order
LAST = ("ties", "tol", "workers", "key", "by", "allow_policy", "db", "as_json")


def taking(make: Callable[..., Any]) -> Callable[[Callable[Concatenate[Any, ...], R]], Command[R]]:
    """Give a command what `make` makes of its own options."""
    parameters = options_of(make)

    def decorate(command: Callable[Concatenate[Any, ...], R]) -> Command[R]:
        def run(**options: Any) -> R:
            value = make(**{one.name: options.pop(one.name) for one in parameters})
            is_open = isinstance(value, AbstractContextManager)
            with value if is_open else nullcontext(value) as opened:
                return command(opened, **options)

        return standing_for(command, run, [*parameters, *options_of(command, after=1)])

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


def standing_for(
    command: Callable[..., object], run: Command[R], options: Iterable[Parameter]
) -> Command[R]:
    """Give `run` the name and help of a command, and other options."""
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__module__ = command.__module__
    return with_options(run, options)
