"""What commands print: one JSON object for programs, or lines and tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from ..bounds import BestBound
    from ..problem import Problem


class Result(Protocol):
    """What a command has found."""

    def to_dict(self) -> dict[str, Any]: ...


Found = TypeVar("Found", bound=Result)


def print_result(result: Found, as_json: bool, show: Callable[[Found], None]) -> None:
    """A result as JSON, or as `show` prints it."""
    if as_json:
        print_json(result.to_dict())
    else:
        show(result)


def print_results(
    results: Sequence[Found], as_json: bool, show: Callable[[Found], None], **more: object
) -> None:
    """Results one after the other; as JSON the one, or {"results": [...]}. `more` joins each."""
    if as_json:
        trees = [each.to_dict() | more for each in results]
        print_json(trees[0] if len(trees) == 1 else {"results": trees})
        return
    for number, each in enumerate(results):
        if number:
            print()
        show(each)


def print_json(tree: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    print(json.dumps(tree, allow_nan=False))


def say(line: str) -> None:
    """A line for people, where it does not mix with results."""
    print(line, file=sys.stderr)


def note(line: str) -> None:
    """A line for people who sit at a terminal; programs are not told."""
    if sys.stderr.isatty():
        say(line)


def percent(value: float | None) -> str:
    """A share for people."""
    return "" if value is None else f"{value:.2f}%"


def fixed(value: float | None, digits: int) -> str:
    """A number with so many digits after the point, where there is one."""
    return "" if value is None else f"{value:.{digits}f}"


NO_BOUND = "bound: not computed, as it takes long here and no policy needs it; --bound computes it"


def said_of(bound: BestBound) -> str:
    """What a bound means."""
    from ..bounds import MEANINGS

    return f"no policy can earn more than {bound.value:.6f} ({MEANINGS[bound.kind]})"


def title_of(problem: Problem) -> str:
    """What a table is about."""
    return problem.described()
