"""Posterior probabilities that compare arms of any kind: best, better than control, all alike.

With X_k = base_k + factor_k m_k, the mean reward of arm k, and F_k its distribution function,

    P(X_k is the largest)     = integral of prod_{j != k} F_j(x) dF_k(x)
    P(X_k > X_c + margin)     = integral of F_c(x - margin) dF_k(x)
    P(all within the margin)  = sum_k integral of prod_{j != k} (F_j(x + margin) - F_j(x)) dF_k(x)

Each F_k is a table with knots where it bends (`law_tables`), and integrals are taken between the
knots of all arms: to about 1e-5, however skew laws are and however different their scales. Where
laws are too steep for numbers to tell means apart, equal means share P(best).

Notations
    E, K      states, arms
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..problem import Problem, Rules, States
from ..support import Floats, Ints
from .chances import allowed_in
from .kernels.law_tables import largest_each, within_each
from .law_tables import Tables, law_tables, slopes

SMALLEST_STEP = 1e-290  # in which a distribution function rises from 0 to 1


class KindChances:
    """Compares the arms of a problem by what is known of their mean rewards.

    Parameters
    ----------
    problem, margin
        As of `PosteriorChances`.
    rewards : bool
        Whether arms are compared by the reward of a pull; otherwise by their mean outcome.
    stage : int, optional
        The only stage whose rewards count.
    """

    def __init__(
        self,
        problem: Problem,
        margin: float = 0.0,
        *,
        rewards: bool = False,
        stage: int | None = None,
    ) -> None:
        self.margin = margin
        self.groups = [problem.groups[k] for k in problem.group_of_arm]
        if stage is None:
            rules = Rules(compare="reward" if rewards else "outcome")
            self._base, self._factor = rules.pull_values(problem)
        else:
            self._base = np.array([group.reward_base[stage] for group in self.groups])
            self._factor = np.array([group.reward_factor[stage] for group in self.groups])

    def best(self, states: States) -> Floats:
        """P(best) of every arm among those allowed, (E, K); 0 for the others."""
        tables, where = self._tables(states, [0.0])
        found = np.zeros(where.shape[1:])
        largest_each(*tables, np.where(allowed_in(states), where[0], -1), found)
        return found

    def better(self, states: States, control: int) -> Floats:
        """P(better than control by the margin), (E, K); 0 for control and arms not allowed."""
        tables, where = self._tables(states, [0.0, self.margin])
        found = np.zeros(where.shape[1:])
        known = [self._is_known(k) for k in range(len(self.groups))]
        for k in range(len(self.groups)):
            if k == control:
                continue
            if known[k] and known[control]:  # of equal ones, none is better
                x = tables.x[tables.start[1:] - 1]
                found[:, k] = x[where[0, :, k]] > x[where[1, :, control]]
                continue
            pair = np.stack([where[0, :, k], where[1, :, control]], axis=1)
            both = np.empty(pair.shape)
            largest_each(*tables, pair, both)
            found[:, k] = both[:, 0]
        return np.where(allowed_in(states), found, 0.0)

    def alike(self, states: States) -> Floats:
        """P(all arms allowed differ by less than the margin), (E,)."""
        tables, where = self._tables(states, [0.0, -self.margin])
        where = np.where(allowed_in(states), where, -1)
        chance = np.zeros(len(states))
        within_each(*tables, where[0], where[1], chance)
        return chance

    def _is_known(self, arm: int) -> bool:
        least, most = self.groups[arm].model.mean_range
        return bool(self._factor[arm] == 0.0 or least == most)

    def _tables(self, states: States, shifts: Sequence[float]) -> tuple[Tables, Ints]:
        """Tables of mean rewards, moved by each of the shifts; those of arms, (shifts, E, K)."""
        parts: list[tuple[Floats, Floats, Floats]] = []
        where = np.empty((len(shifts), len(states), len(self.groups)), np.int64)
        for k, group in enumerate(self.groups):
            base, factor = float(self._base[k]), float(self._factor[k])
            stats = states.stats[:, k, : group.model.width]
            unique, place = np.unique(stats, axis=0, return_inverse=True)
            made = law_tables(group.model).of(unique) if factor else []
            for i, shift in enumerate(shifts):
                where[i, :, k] = len(parts) + (place.reshape(-1) if factor else 0)
                if factor:
                    parts += [_as_reward(table, base + shift, factor) for table in made]
                else:
                    parts.append(_step(base + shift))
        return Tables.joined(parts), where


def _as_reward(
    table: tuple[Floats, Floats, Floats], base: float, factor: float
) -> tuple[Floats, Floats, Floats]:
    """The table of base + factor times the mean."""
    x, f, m = table
    if x.size == 2:
        return _step(base + factor * float(x[1]))
    if factor < 0.0:
        x, f, m = x[::-1], 1.0 - f[::-1], m[::-1]
    x, m = base + factor * x, m / abs(factor)
    new = np.append(True, np.diff(x) > 0.0)
    if new.all():
        return x, f, m
    x, f = x[new], np.append(f[new][:-1], f[-1])  # rounding has made some knots equal
    return x, f, slopes(np.zeros(x.size, np.int64), x, f)


def _step(x: float) -> tuple[Floats, Floats, Floats]:
    """The table of a mean reward that is known: a line as steep as numbers allow."""
    low = min(float(np.nextafter(x, -np.inf)), x - SMALLEST_STEP)
    return np.array([low, x]), np.array([0.0, 1.0]), np.full(2, 1.0 / (x - low))
