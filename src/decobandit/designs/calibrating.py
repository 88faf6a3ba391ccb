"""Thresholds by the type I error: the smallest one that errs at most so often where nothing works.

With a test of its own, the threshold of the final test, or its alpha: all are compared on the same
endings. Where the test is but the last look, that of superiority, which changes when trials stop:
by bisection, on the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..policies import SAME, RuledPolicy, at_least
from ..problem import Design, Scenario, Stop
from ..support import Floats
from .endings import Endings, chance_se
from .final_tests import final_test
from .results import Calibrated

Ends = Callable[[Design, Scenario], tuple[RuledPolicy, Endings, bool]]
HALVINGS = 14
ROOM = 1e-12  # of probabilities that are sums
_NEVER = "--calibrate: the type I error is above {} at every threshold"


class _Error(NamedTuple):
    """The largest type I error over the null scenarios."""

    value: float
    se: float
    scenario: str
    exact: bool
    policy: str


def calibrate(
    design: Design, nulls: Sequence[Scenario], alpha: float, ends: Ends
) -> tuple[Calibrated, Design]:
    """The threshold of a policy, and the design with it."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"--calibrate: {alpha} is not allowed; must be above 0 and below 1")
    if not nulls:
        raise ValueError("--calibrate: no scenario is a null scenario; add one to the design")
    test = design.final_test
    if test.kind == "conditional":
        raise ValueError("--calibrate: the test conditional keeps its alpha: there is nothing to")
    by_looks = design.test is None and design.stop.superiority is not None
    if by_looks:
        what, (level, error) = "stop.superiority", _by_bisection(design, nulls, alpha, ends)
        changed = design.model_copy(update={"stop": _stop_at(design, level)})
    else:
        level, error = _by_quantile(design, nulls, alpha, ends)
        named = "threshold" if test.kind == "posterior" else "alpha"
        what = f"test.{named}"
        changed = design.model_copy(update={"test": test.model_copy(update={named: level})})
    found = Calibrated(
        error.policy, alpha, what, level, error.value, error.se, error.scenario, error.exact
    )
    return found, changed


def _error(value: float, design: Design, scenario: Scenario, exact: bool, policy: str) -> _Error:
    se = 0.0 if exact else float(chance_se(np.asarray(value), design.draws))
    return _Error(value, se, scenario.name, exact, policy)


def _stop_at(design: Design, level: float) -> Stop:
    return design.stop.model_copy(update={"superiority": level})


def _by_quantile(
    design: Design, nulls: Sequence[Scenario], alpha: float, ends: Ends
) -> tuple[float, _Error]:
    """The final test's threshold, from the distribution of its largest statistic.

    Of p-values, one minus them.
    """
    test, seen = design.final_test, []
    by_p = test.kind != "posterior"
    for scenario in nulls:
        ruled, own, exact = ends(design, scenario)
        tested = final_test(ruled, test, own)
        rivals = own.allowed.copy()
        if ruled.control is not None:
            rivals[:, ruled.control] = False
        statistic = 1.0 - tested.statistic if by_p else tested.statistic
        largest = np.where(rivals, statistic, 0.0).max(axis=1)
        early = float(own.weight[tested.decided & own.declared.any(axis=1)].sum())
        if early > alpha:
            raise ValueError(
                f"--calibrate: in scenario {scenario.name!r} looks alone declare an arm with "
                f"probability {early:.4f}; raise stop.superiority"
            )
        open_ends = ~tested.decided
        seen.append((scenario, early, largest[open_ends], own.weight[open_ends], exact, ruled.name))
    level = max(_quantile(x, w, alpha - early) for _, early, x, w, _, _ in seen)
    errors = []
    for scenario, early, x, w, exact, name in seen:
        value = early + float(w[at_least(x, level)].sum())
        errors.append(_error(value, design, scenario, exact, name))
    found = max(errors)
    if found.value > alpha + ROOM:
        raise ValueError(_NEVER.format(alpha))
    return 1.0 - level if by_p else level, found


def _quantile(values: Floats, weights: Floats, room: float) -> float:
    """The smallest threshold that at most `room` of the weight reaches."""
    order = np.argsort(values)[::-1]
    ordered, reached = values[order], np.cumsum(weights[order])
    over = np.flatnonzero(reached > room + ROOM)
    if over.size == 0:
        return float(np.nextafter(0.0, 1.0))
    # just above the value at which too many reach it
    return float(min(ordered[over[0]] + 2.0 * SAME, 1.0 - ROOM))


def _by_bisection(
    design: Design, nulls: Sequence[Scenario], alpha: float, ends: Ends
) -> tuple[float, _Error]:
    """The threshold of superiority at looks and at the end."""

    def error_at(level: float) -> _Error:
        changed = design.model_copy(update={"stop": _stop_at(design, level)})
        errors = []
        for scenario in nulls:
            ruled, own, exact = ends(changed, scenario)
            declared = final_test(ruled, changed.final_test, own).declared.any(axis=1)
            value = float(own.weight[declared].sum())
            errors.append(_error(value, design, scenario, exact, ruled.name))
        return max(errors)

    low, high = 0.0, 1.0 - ROOM
    best = error_at(high)
    if best.value > alpha + ROOM:
        raise ValueError(_NEVER.format(alpha))
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        error = error_at(middle)
        if error.value <= alpha + ROOM:
            high, best = middle, error
        else:
            low = middle
    return high, best
