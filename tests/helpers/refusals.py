"""Refusals: tests state the code and the field; `tests/wording.txt` holds the texts.

To accept new wording, run the tests with DECO_WORDING=accept and review the changed lines; to drop
lines that no test produces any more, empty the file and run the whole suite once.
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from decobandit import DecoError
from decobandit.problem import Problem

WORDING = Path(__file__).parents[1] / "wording.txt"


@contextmanager
def refused(
    code: str, field: str | None = None, kind: type[Exception] = DecoError
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect a refusal with this code and field, in one line of accepted wording."""
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert (getattr(error, "code", None), getattr(error, "field", None)) == (code, field), error
    check_wording(code, field, str(error))


def check_wording(code: str, field: str | None, message: str) -> None:
    """Compare a message with the accepted wording; numbers, ids and paths may differ."""
    assert "\n" not in message, message
    line = f"{code} {field or '-'}: {_masked(message)}"
    if os.environ.get("DECO_WORDING") == "accept":
        _accept(line)
    assert line in WORDING.read_text().splitlines(), f"not in {WORDING.name}: {line}"


def _masked(message: str) -> str:
    message = re.sub(r"/[\w./-]*/", "", message)
    message = re.sub(r"(?<!\.)\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8,}\b", "#", message)
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", message)


def _accept(line: str) -> None:
    with WORDING.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        lines = sorted({*file.read().splitlines(), line})
        file.truncate(0)
        file.write("\n".join(lines) + "\n")


class RefusedError(Exception):
    """A policy refused a problem that it does not serve."""


def check_refusal(name: str, problem: Problem, error: ValueError) -> RefusedError:
    """Check that a policy may refuse this problem: sets of arms or unequal rewards only."""
    rewards = {arm.reward for arm in problem.arms}
    changing = any(
        isinstance(side, tuple) for reward in rewards for side in (reward.good, reward.bad)
    )
    assert problem.pulls_per_stage > 1 or len(rewards) > 1 or changing, str(error)
    assert repr(name) in str(error)
    return RefusedError(str(error))


def unless_refused(test: Callable[..., None]) -> Callable[..., None]:
    """Decorate a test of a policy: it ends where the policy refuses the problem as it may."""

    @wraps(test)
    def until_refused(*arguments: Any, **named: Any) -> None:
        try:
            test(*arguments, **named)
        except RefusedError:
            return

    return until_refused
