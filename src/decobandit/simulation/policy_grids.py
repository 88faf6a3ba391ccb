"""Policies side by side: a number for every problem and policy, averaged over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .estimators import Estimate


class Compared(Protocol):
    """What is known of a row of a table of results."""

    @property
    def line(self) -> str:
        """The problem, and the scenario where there is one."""

    @property
    def policy(self) -> str: ...

    @property
    def measure(self) -> str:
        """What is compared: the same for all rows of a table."""

    @property
    def compared(self) -> tuple[float, float] | None:
        """The number and its standard error, where there are any."""


@dataclass(frozen=True)
class PolicyGrid:
    """Policies side by side; a pair that has no number is left out."""

    measure: str
    lines: tuple[str, ...]  # problems
    policies: tuple[str, ...]
    found: dict[tuple[str, str], Estimate]  # by line and policy, averaged over all seeds


def policy_grid(rows: Sequence[Compared]) -> PolicyGrid:
    """Problems, policies, and the number of each pair, averaged over seeds."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if row.compared is not None:
            found.setdefault((row.line, row.policy), []).append(row.compared)
    return PolicyGrid(
        rows[0].measure if rows else "",
        tuple(dict.fromkeys(row.line for row in rows)),
        tuple(dict.fromkeys(row.policy for row in rows)),
        {pair: _mean(numbers) for pair, numbers in found.items()},
    )


def _mean(numbers: Sequence[tuple[float, float]]) -> Estimate:
    value = sum(number for number, _ in numbers) / len(numbers)
    error = math.sqrt(sum(error**2 for _, error in numbers)) / len(numbers)
    return Estimate(value, error)
