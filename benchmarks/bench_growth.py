"""How time and memory of a solve grow with the horizon and with the number of arms.

Every solve runs in a process of its own. An exponent is the slope of a straight line through the
logarithms, by least squares. Theory: T^3 states per pass, T^2 of them kept at a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .rows import Row, at_most

ALONE = Path(__file__).with_name("solve_alone.py")
HORIZONS, EQUAL_ARMS = (100, 200, 500, 1000, 2000, 5000), 20
ARMS, ARMS_HORIZON = {"equal": (10, 1000, 100_000), "different": (4, 16, 64, 1000)}, 200
TIME, MEMORY, TOLERANCE = 3.0, 2.0, 0.2
MOST_SECONDS, MOST_GIB = 600.0, 4.0  # at the longest horizon
NOISE_MIB = 4.0  # less memory than this is a matter of chance, and enters no exponent

Figures = dict[str, float]


def run() -> list[Row]:
    """Rows over T, then over K."""
    return [*over_horizons(HORIZONS), *(row for kind in ARMS for row in over_arms(kind))]


def over_horizons(horizons: Sequence[int]) -> list[Row]:
    """Seconds and MiB at each horizon, and both exponents."""
    found = [alone(EQUAL_ARMS, horizon, "equal") for horizon in horizons]
    rows = [
        row
        for horizon, figures in zip(horizons, found, strict=True)
        for row in plain_rows(f"solve ({EQUAL_ARMS}, {horizon}) to 1e-3", figures)
    ]
    what = f"solve ({EQUAL_ARMS}, {horizons[-1]}) to 1e-3"
    grown = f"T = {horizons[0]}..{horizons[-1]}, {EQUAL_ARMS} arms: exponent of"
    time, memory = exponents(horizons, found)
    return [
        *(row for row in rows if row.what != what),
        at_most(what, found[-1]["seconds"], "s", MOST_SECONDS),
        at_most(f"{what}, all of the process", found[-1]["peak_mib"] / 2**10, "GiB", MOST_GIB),
        at_most(f"{grown} time", time, "", TIME + TOLERANCE),
        *([at_most(f"{grown} memory", memory, "", MEMORY + TOLERANCE)] if memory else []),
    ]


def over_arms(kind: str, sizes: Sequence[int] = (), horizon: int = ARMS_HORIZON) -> list[Row]:
    """The same over the number of arms, which are all equal or all different."""
    sizes = sizes or ARMS[kind]
    found = [alone(arms, horizon, kind) for arms in sizes]
    rows = [
        row
        for arms, figures in zip(sizes, found, strict=True)
        for row in plain_rows(f"solve ({arms}, {horizon}) to 1e-3, {kind} arms", figures)
    ]
    grown = f"K = {sizes[0]}..{sizes[-1]} {kind} arms, T = {horizon}: exponent of"
    time, memory = exponents(sizes, found)
    rows.append(Row(f"{grown} time", time, "", "", None, None))
    if memory:
        rows.append(Row(f"{grown} memory", memory, "", "", None, None))
    return rows


def plain_rows(what: str, figures: Figures) -> list[Row]:
    calls = f"{figures['calls']:.0f} oracle calls"
    return [
        Row(what, figures["seconds"], "s", calls, None, None),
        Row(f"{what}, the problem is made", figures["made_seconds"], "s", "", None, None),
        Row(f"{what}, memory of the solve", figures["mib"], "MiB", "", None, None),
    ]


def exponents(sizes: Sequence[int], found: Sequence[Figures]) -> tuple[float, float | None]:
    """Of time and of memory; none of memory where fewer than three sizes take any."""
    time = exponent(sizes, [figures["seconds"] for figures in found])
    large = [(size, f["mib"]) for size, f in zip(sizes, found, strict=True) if f["mib"] > NOISE_MIB]
    return time, exponent(*zip(*large, strict=True)) if len(large) > 2 else None


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """b of the power law value = a size^b that is nearest in logarithms."""
    slope, _ = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(slope)


def alone(arms: int, horizon: int, kind: str) -> Figures:
    """The figures of one solve."""
    command = [sys.executable, str(ALONE), str(arms), str(horizon), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures
