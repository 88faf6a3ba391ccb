"""Smallest threshold that keeps the type I error at or below alpha in all null scenarios.

With a test of its own, the threshold of the final test, or its alpha: all are compared on the same
endings. Where the test is but the last look, that of superiority, which changes when trials stop:
by bisection, on the same draws.

Where trials are simulated, the threshold is fitted on draws of its own, none of which is used for
reported numbers. It is the smallest at which no more trials declare an arm than would, with
probability 1 - CONFIDENCE, if the type I error were alpha: an upper confidence limit of the error
is then at most alpha. Several null scenarios share 1 - CONFIDENCE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..policies import SAME, RuledPolicy, at_least
from ..problem import EXACT_TESTS, Design, Scenario
from ..support import Floats, InvalidArgument
from .endings import Endings
from .final_tests import final_test

Ends = Callable[[Design, Scenario], tuple[RuledPolicy, Endings, bool]]
CONFIDENCE = 0.95  # that the type I error is at most alpha, where trials are simulated
HALVINGS = 14
ROOM = 1e-12  # of probabilities that are sums
_NEVER = "--calibrate: the type I error is above {} at every threshold"


class NoThreshold(InvalidArgument):
    """The type I error is too large at every threshold."""


class Fit(NamedTuple):
    """A threshold, and the null scenario in which it declares an arm most often."""

    what: str  # key of the design that is set
    threshold: float
    scenario: Scenario
    design: Design  # with the threshold


def calibrate(design: Design, nulls: Sequence[Scenario], alpha: float, ends: Ends) -> Fit:
    """Fit the threshold of a policy; `ends`: how trials of a changed design end in a scenario."""
    if not 0.0 < alpha < 1.0:
        raise InvalidArgument(f"--calibrate: {alpha} is not allowed; must be above 0 and below 1")
    if not nulls:
        raise InvalidArgument("--calibrate: no scenario is a null scenario; add one to the design")
    if design.final_test.kind in EXACT_TESTS:
        raise InvalidArgument(
            f"--calibrate: the test {design.final_test.kind} keeps its alpha: there is nothing to"
        )
    key = design.threshold_key
    fit = _by_bisection if key == "stop.superiority" else _by_quantile
    level, scenario = fit(design, nulls, alpha, ends)
    return Fit(key, level, scenario, design.at_threshold(level))


def largest_share(alpha: float, draws: int, scenarios: int) -> float:
    """Largest share of simulated trials with an error that shows a type I error of at most alpha.

    The upper confidence limit of Clopper and Pearson of such a share is at most alpha.
    """
    from scipy.stats import binom  # late: scipy takes half a second to load

    tail = (1.0 - CONFIDENCE) / scenarios
    most = int(binom.ppf(tail, draws, alpha))
    most -= int(binom.cdf(most, draws, alpha) > tail)
    if most < 0:
        least = int(np.ceil(np.log(tail) / np.log1p(-alpha)))
        raise InvalidArgument(
            f"--calibrate: {draws} simulated trials are too few to show a type I error of at most "
            f"{alpha}; must be at least {least}, better many more"
        )
    return most / draws


def _room(alpha: float, design: Design, scenarios: int, exact: bool) -> float:
    """Probability, or share of simulated trials, that may declare an arm."""
    return alpha if exact else largest_share(alpha, design.draws, scenarios)


def _by_quantile(
    design: Design, nulls: Sequence[Scenario], alpha: float, ends: Ends
) -> tuple[float, Scenario]:
    """Return the final test's threshold, from the distribution of its largest statistic.

    Of p-values, one minus them.
    """
    test, laws, room = design.final_test, [], alpha
    by_p = test.kind != "posterior"
    for scenario in nulls:
        ruled, endings, exact = ends(design, scenario)
        room = _room(alpha, design, len(nulls), exact)
        tested = final_test(ruled, test, endings)
        rivals = endings.allowed.copy()
        if ruled.control is not None:
            rivals[:, ruled.control] = False
        statistic = 1.0 - tested.statistic if by_p else tested.statistic
        largest = np.where(rivals, statistic, 0.0).max(axis=1)
        early = tested.decided & endings.declared.any(axis=1)
        largest[tested.decided] = -np.inf
        largest[early] = np.inf  # declared at a look, whatever the threshold
        share = float(endings.weight[early].sum())
        if share > room + ROOM:
            raise NoThreshold(
                f"--calibrate: in scenario {scenario.name!r} looks alone declare an arm with "
                f"probability {share:.4f}; raise stop.superiority"
            )
        laws.append((largest, endings.weight))
    level = max(_quantile(*law, room) for law in laws)
    errors = [float(weight[at_least(x, level)].sum()) for x, weight in laws]
    if max(errors) > room + ROOM:
        raise NoThreshold(_NEVER.format(alpha))
    return 1.0 - level if by_p else level, nulls[int(np.argmax(errors))]


def _quantile(values: Floats, weights: Floats, room: float) -> float:
    """Return the smallest threshold that at most `room` of the weight reaches."""
    order = np.argsort(values)[::-1]
    ordered, reached = values[order], np.cumsum(weights[order])
    over = np.flatnonzero(reached > room + ROOM)
    if over.size == 0 or ordered[over[0]] == -np.inf:
        return float(np.nextafter(0.0, 1.0))
    # just above the value at which too many reach it
    return float(min(ordered[over[0]] + 2.0 * SAME, 1.0 - ROOM))


def _by_bisection(
    design: Design, nulls: Sequence[Scenario], alpha: float, ends: Ends
) -> tuple[float, Scenario]:
    """Return the threshold of superiority at looks and at the end."""

    def largest_error_at(level: float) -> Scenario | None:
        """Return the null scenario of the largest error, or None where that is too large."""
        changed = design.at_threshold(level)
        errors, room = [], alpha
        for scenario in nulls:
            ruled, endings, exact = ends(changed, scenario)
            room = _room(alpha, design, len(nulls), exact)
            declared = final_test(ruled, changed.final_test, endings).declared.any(axis=1)
            errors.append(float(endings.weight[declared].sum()))
        return nulls[int(np.argmax(errors))] if max(errors) <= room + ROOM else None

    low, high = 0.0, 1.0 - ROOM
    scenario = largest_error_at(high)
    if scenario is None:
        raise NoThreshold(_NEVER.format(alpha))
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        at_middle = largest_error_at(middle)
        if at_middle is None:
            low = middle
        else:
            high, scenario = middle, at_middle
    return high, scenario
