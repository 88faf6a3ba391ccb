"""Results by segment and in all: what every function that serves segments returns.

Segments are independent, so expected values and bounds add up, and standard errors are those of
independent sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..support import Tables, Tabular, columns_of
from .model import Problem

SUMS = (
    *("upper_bound", "own_clock_bound", "lower_bound", "best_bound", "trivial"),
    *("value", "own_clock_value", "regret", "difference", "gap", "shortfall", "congestion"),
    *("states", "seconds", "oracle_calls", "budget", "good", "size"),
)
ERRORS = ("value_se", "regret_se", "difference_se", "good_se", "size_se")
ROWS = ("policies", "results", "scenarios")  # lists with an entry per policy or scenario


def add_up(trees: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up plain values of independent segments; what is equal in all of them stays."""
    total: dict[str, Any] = {}
    for key in trees[0]:
        values: list[Any] = [tree.get(key) for tree in trees]
        if key in ROWS:
            total[key] = [add_up(rows) for rows in zip(*values, strict=True)]
        elif key == "reject":  # in some segment: the numbers of their visitors depend on each other
            total["reject_at_most"] = min(1.0, sum(values))
        elif key == "interrupted":
            total[key] = any(values)
        elif key in SUMS:
            total[key] = None if None in values else sum(values)
        elif key in ERRORS:
            total[key] = None if None in values else math.hypot(*values)
        elif all(value == values[0] for value in values) and not isinstance(values[0], list):
            total[key] = values[0]
    return total


@dataclass(frozen=True, eq=False, repr=False)
class BySegment(Tabular):
    """Results of a function for a problem with segments.

    Values in all are attributes; `result["EU"]` is the result for one segment on its own clock.
    Table of `to_frame`: `segments`.
    """

    problem: Problem
    by_name: Mapping[str, Any]  # result for each segment
    trees: Mapping[str, dict[str, Any]]  # plain values for each segment

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name]

    def __getattr__(self, name: str) -> Any:
        """Return a value of `to_dict`."""
        if not name.startswith("_") and name in (tree := self.to_dict()):
            return tree[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of all segments: which results are missing, and why."""
        lines = [line for tree in self.trees.values() for line in tree.get("notes", ())]
        return tuple(dict.fromkeys(lines))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in all and, under `segments`, of every segment."""
        total = add_up(list(self.trees.values()))
        return {
            **{"arms": self.problem.n_arms, "horizon": self.problem.horizon},
            **_with_gaps({key: x for key, x in total.items() if key != "horizon"}),
            "segments": [
                {"name": one.name, "share": one.share, **self.trees[one.name]}
                for one in self.problem.segments
            ],
        }

    def tables(self) -> Tables:
        """Return the table `segments`: numbers and words of every segment, then in all."""
        return {"segments": lambda: columns_of(self.rows())}

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per segment, or per segment and policy, and those in all."""
        tree = self.to_dict()
        parts = [*tree.pop("segments"), {"name": "all", "share": 1.0, **tree}]
        rows = []
        for part in parts:
            for entry in _entries(part):
                rows.append(_flat({"segment": part["name"], **part, **entry}))
        keys = dict.fromkeys(key for row in rows for key in row)
        return [{key: row.get(key) for key in keys} for row in rows]

    def __repr__(self) -> str:
        return f"BySegment({', '.join(self.by_name)}: {self.problem.described()})"


def _entries(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return an entry per policy, in every scenario where there are some."""
    if "scenarios" in part:
        return [
            {"scenario": scenario["name"], **entry}
            for scenario in part["scenarios"]
            for entry in scenario["policies"]
        ]
    entries: list[dict[str, Any]] = next((part[key] for key in ROWS if key in part), [{}])
    return entries


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    hidden = ("name", "version", "interrupted")
    return {
        key: value
        for key, value in row.items()
        if key not in hidden and isinstance(value, str | int | float | None)
    }


def _with_gaps(tree: dict[str, Any]) -> dict[str, Any]:
    """Return plain values whose policies have their gap to the bound on every policy."""
    bound = tree.get("upper_bound")
    for key in ROWS:
        for row in tree.get(key, ()):
            if bound and row.get("value") is not None:
                row["certified_gap_percent"] = 100.0 * (bound - row["value"]) / abs(bound)
    return tree
