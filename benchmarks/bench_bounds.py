"""How near the best bound is to the best policy, as commands print both.

The rows of the paper's Table 1 by `deco evaluate`, exactly; longer problems by `deco simulate`,
whose values have standard errors.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from .bench_answers import DECO
from .rows import Row, at_most

POLICIES = "deco-calibrated,fh-gittins"
TABLE1 = ((3, 10), (3, 20), (5, 10), (5, 20), (5, 40), (15, 20), (15, 40))
LONGER = ((5, 100), (2, 500))
DIGITS = 9  # beyond them it is rounding
LIMIT = 1.0  # percent of the bound


def run() -> list[Row]:
    """One row for each problem."""
    exact = [_row("evaluate", "policies", size) for size in TABLE1]
    return [*exact, *(_row("simulate", "results", size) for size in LONGER)]


def _row(command: str, results: str, size: tuple[int, int]) -> Row:
    """The distance of the best of the policies from the best bound."""
    printed = _printed(command, size)
    distance = min(each["certified_gap_percent"] for each in printed[results])
    what = f"deco {command} {size}: best bound ({printed['best_bound_is']}) above the best policy"
    return at_most(what, round(distance, DIGITS), "%", LIMIT)


def _printed(command: str, size: tuple[int, int]) -> dict[str, Any]:
    arms, horizon = map(str, size)
    asked = [DECO, command, "--arms", arms, "--horizon", horizon, "--policy", POLICIES, "--json"]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed
