"""Arms of any kind while outcomes are pending: values averaged over what they may be, and states
in which they are as expected.

Notations
    E, J      states; what may be known of an arm after so many more outcomes
    stats     (E, width), as the kind has them
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, singledispatch
from itertools import combinations
from math import comb

import numpy as np

from ..problem import ArmModel, BernoulliModel, CategoricalModel, NormalModel, PoissonModel, States
from ..support import Floats
from .allocation import Counts

NODES = 16  # of a quadrature over sums of measurements
FAINT = 1e-12  # chance of all counts that are left out
MOST = 20_000  # possibilities of one arm
CHUNK = 2_000_000  # numbers at a time


def mean_values(
    kind: ArmModel, values: Callable[[Floats], Floats], stats: Floats, pending: Counts
) -> Floats:
    """`values` (..., width) -> (...), on average once all pending outcomes (E,) are known; (E,)."""
    both = np.column_stack([pending, stats])
    rows, place = np.unique(both, axis=0, return_inverse=True)
    found, known = np.empty(len(rows)), rows[:, 1:]
    for count in np.unique(rows[:, 0]).astype(int):
        own = np.flatnonzero(rows[:, 0] == count)
        if count == 0:
            found[own] = values(known[own])
            continue
        size = max(1, CHUNK // (kind.width * _ways(kind, count)))
        for begin in range(0, len(own), size):
            part = own[begin : begin + size]
            chances, later = ahead_many(kind, known[part], count)
            found[part] = (chances * values(later)).sum(axis=-1)
    return np.asarray(found[place.reshape(-1)])


def as_expected(states: States) -> States:
    """Nothing pending: as if pending outcomes had come as expected, in whole numbers."""
    if states.pending is None:
        return states
    stats, problem = states.stats.copy(), states.problem
    for arm, group in enumerate(problem.group_of_arm):
        model = problem.groups[group].model
        statistics = stats[:, arm, : model.width]
        statistics[:] = model.expected(statistics, states.pending[:, arm])
    return States(problem, stats, allowed=states.allowed)


def _ways(kind: ArmModel, count: int) -> int:
    """Possibilities, about; a ValueError where they are too many."""
    number = comb(count + kind.width - 1, count) if kind.finite else 100
    if number > MOST:
        raise ValueError(
            f"{kind.word} arms: {count} pending outcomes may be {number:,} things, more than "
            f"{MOST:,}; a shorter delay, or fewer classes"
        )
    return number


@singledispatch
def ahead_many(kind: ArmModel, stats: Floats, count: int) -> tuple[Floats, Floats]:
    """Chances (E, J) of what may be known after so many more outcomes, (E, J, width)."""
    raise ValueError(f"{kind.word} arms: what is pending there depends on its order")


@ahead_many.register
def _(kind: NormalModel, stats: Floats, count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    spread = np.sqrt(count * kind.noise_sd**2 + (count * kind.sd(stats)) ** 2)
    sums = (stats[:, 1] + count * kind.mean(stats))[:, None] + spread[:, None] * nodes
    chances = np.broadcast_to(weights / weights.sum(), sums.shape)
    return chances, _summed(stats, count, sums)


@ahead_many.register
def _(kind: PoissonModel, stats: Floats, count: int) -> tuple[Floats, Floats]:
    """The sum of the counts is negative binomial."""
    from scipy.stats import nbinom  # late: scipy takes half a second to load

    r, weight = kind.shape + stats[:, 1], kind.rate + stats[:, 0]
    chance = weight / (weight + count)
    first = nbinom.ppf(FAINT / 2.0, r, chance)[:, None]
    last = nbinom.ppf(1.0 - FAINT / 2.0, r, chance)[:, None]
    more = np.arange(first.min(), last.max() + 1.0)
    chances = nbinom.pmf(more, r[:, None], chance[:, None])
    chances[(more < first) | (more > last)] = 0.0  # whatever other states need
    chances /= chances.sum(axis=1, keepdims=True)
    return chances, _summed(stats, count, stats[:, 1:] + more)


def _summed(stats: Floats, count: int, sums: Floats) -> Floats:
    return np.stack([np.broadcast_to(stats[:, :1] + count, sums.shape), sums], axis=-1)


@ahead_many.register
def _(kind: BernoulliModel, stats: Floats, count: int) -> tuple[Floats, Floats]:
    return _counted(np.array([kind.good, kind.bad]), stats, count)


@ahead_many.register
def _(kind: CategoricalModel, stats: Floats, count: int) -> tuple[Floats, Floats]:
    return _counted(np.array(kind.counts, dtype=float), stats, count)


def _counted(prior: Floats, stats: Floats, count: int) -> tuple[Floats, Floats]:
    """Counts of classes are Dirichlet and multinomial."""
    from scipy.special import gammaln

    more, known = compositions(count, stats.shape[1]), (prior + stats)[:, None, :]
    logs = (gammaln(known + more) - gammaln(known) - gammaln(more + 1.0)).sum(axis=-1)
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True), stats[:, None, :] + more


@lru_cache(maxsize=64)
def compositions(count: int, classes: int) -> Floats:
    """All ways of so many outcomes of these classes, (J, classes)."""
    bars = np.array(list(combinations(range(count + classes - 1), classes - 1)), dtype=float)
    bars = bars.reshape(-1, classes - 1)
    ends = np.full((len(bars), 1), float(count + classes - 1))
    found = np.diff(np.hstack([-np.ones((len(bars), 1)), bars, ends]), axis=1) - 1.0
    found.flags.writeable = False
    return found
