"""Old spellings that work for one more release, with a warning."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_PACKAGE = __name__.partition(".")[0]


def warn_deprecated(old: str, new: str) -> None:
    """Say what to write instead, at the line outside this package that has the old spelling."""
    warnings.warn(
        f"{old} is deprecated and goes in the next release; use {new}",
        DeprecationWarning,
        stacklevel=_level_outside(),
    )


def _level_outside() -> int:
    """`stacklevel` of the first frame outside this package, as `warnings.warn` counts frames."""
    frame, level = sys._getframe(1), 1
    while frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        if frame.f_back is None:
            break
        frame, level = frame.f_back, level + 1
        while "importlib" in frame.f_code.co_filename and frame.f_back is not None:
            frame = frame.f_back  # not counted by warnings.warn either
    return level


def renamed_keyword(old: str, new: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function whose keyword `new` was called `old` before."""
    return former_spellings(**{old: new})


def former_spellings(
    *positional: str, **keywords: str
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function some of whose arguments were written in another way before.

    positional: keyword-only parameters that could be given by position, in that order. keywords:
    new names by former ones.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        name = function.__qualname__.removesuffix(".__init__")
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(function).parameters.values()
        most = sum(each.kind in kinds for each in parameters)

        @functools.wraps(function)
        def renamed(*args: P.args, **kwargs: P.kwargs) -> T:
            given: dict[str, Any] = dict(kwargs)
            for old in keywords.keys() & given.keys():
                new = keywords[old]
                if new in given:
                    raise TypeError(
                        f"{name}: {old!r} is the old name of {new!r}; give {new!r} alone"
                    )
                warn_deprecated(f"{name}({old}=)", f"{name}({new}=)")
                given[new] = given.pop(old)
            former = dict(zip(positional, args[most:], strict=False))
            if not former or len(args) > most + len(positional) or former.keys() & given.keys():
                return function(*args, **given)  # all is well, or Python says what is not
            for new in former:
                warn_deprecated(f"{name}: {new!r} by position", f"{name}({new}=)")
            return function(*args[:most], **former, **given)  # type: ignore[arg-type]

        return renamed

    return decorate


def former_attribute(old: str, new: str, value: Callable[[Any], Any] | None = None) -> Any:
    """A property of the former name: reads `new`, or what `value` makes of the object, and warns.

    `new` is an attribute, or where `value` is given the words that say what to use.
    """

    def read(self: object) -> Any:
        name = type(self).__name__
        warn_deprecated(f"{name}.{old}", f"{name}.{new}" if value is None else new)
        return getattr(self, new) if value is None else value(self)

    return property(read)  # without a docstring: the reference does not list it
