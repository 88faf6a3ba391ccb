"""DeCo, Gittins, greedy, equal, Thompson sampling, quantiles, knowledge gradient: of any kind."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...arm import OneArmValues, RowGittins
from ...problem import DEFAULT_TIES, Problem, State, States, TieRule
from ...support import Floats
from ..fixed_prices import FixedPricePolicy
from ..names import own_state_policies
from ..refusals import refuse_several_pulls
from .base import KindPolicy


class KindDecoPolicy(FixedPricePolicy, KindPolicy):
    """DeCo at fixed prices: the largest index of the one-arm problems."""

    name = "deco"
    symmetric = True
    splits_index = True
    by_arm = True
    relaxation: OneArmValues

    def __init__(
        self, problem: Problem, prices: npt.ArrayLike, *, ties: TieRule = DEFAULT_TIES
    ) -> None:
        super().__init__(problem, ties=ties)
        self.relaxation = OneArmValues(problem, prices)

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        return self.relaxation.index(stage, group, stats)


class KindGittinsPolicy(KindPolicy):
    """The finite-horizon Gittins index."""

    name = "fh-gittins"
    symmetric = True
    cost = "decision"
    by_arm = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        self._tables = [RowGittins(problem, k) for k in range(len(problem.groups))]

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        return self._tables[group].index(stage, stats)

    def exact_index(self, stage: int, group: int, stats: Floats) -> float:
        return self._tables[group].root(stage, stats)


class KindCalibratedPolicy(KindGittinsPolicy):
    """The calibrated index; of arms of other kinds, against a flat price path."""

    name = "deco-calibrated"
    symmetric = True


class KindGreedyPolicy(KindPolicy):
    """The largest expected reward."""

    name = "greedy"
    symmetric = True
    by_arm = True

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        own = self.problem.groups[group]
        return np.asarray(own.reward_base[stage] + own.reward_factor[stage] * own.model.mean(stats))


class KindEqualPolicy(KindPolicy):
    """The arm with the fewest pulls."""

    name = "equal"
    symmetric = True
    by_arm = True

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        return -self.problem.groups[group].model.pulls(stats)


def refuse_own_arms(problem: Problem, policy: str) -> None:
    """A ValueError where an arm has no unknown mean."""
    for group in problem.groups:
        if not group.model.has_law:
            raise ValueError(
                f"policy {policy!r}: own arms have states and no unknown mean; use "
                f"{own_state_policies()}"
            )


class KindThompsonPolicy(KindPolicy):
    """Thompson sampling: the largest reward at means drawn from what is known."""

    name = "thompson"
    symmetric = True
    randomised = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        refuse_own_arms(problem, self.name)

    def values(self, stage: int, states: States, rng: np.random.Generator | None = None) -> Floats:
        if rng is None:
            raise ValueError("this policy draws at random: pass a random generator as rng")
        kinds = [group.model for group in self.problem.groups]
        drawn = self.by_group(states, lambda k, own: kinds[k].mean_at(kinds[k].sample(own, rng)))
        return self.rewards(stage, drawn)

    def select(
        self, stage: int, state: State, rng: np.random.Generator | None = None
    ) -> tuple[int, ...]:
        values = self.values_at(stage, States.of(self.problem, [state]), rng)[0]
        number = round(self.problem.pulls[stage])
        return self.pick(values, state.pulls, rng=rng, number=number)


class KindQuantilePolicy(KindPolicy):
    """The largest upper quantile of the mean, at 1 - 1 / (t + 1).

    At t = 0 that is the least reward of an arm; where some arm has none, the expected one.
    """

    name = "bayes-ucb"
    symmetric = True
    by_arm = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        refuse_own_arms(problem, self.name)

    def values_of(self, stage: int, group: int, stats: Floats) -> Floats:
        own = self.problem.groups[group]
        factor, chance = own.reward_factor[stage], 1.0 / (stage + 1.0)
        if stage == 0:
            ends = [g.model.mean_range[int(g.reward_factor[0] < 0.0)] for g in self.problem.groups]
            mean = own.model.mean(stats)
            mean = np.full_like(mean, ends[group]) if np.all(np.isfinite(ends)) else mean
        else:
            mean = own.model.quantile(stats, 1.0 - chance if factor >= 0.0 else chance)
        return np.asarray(own.reward_base[stage] + factor * mean)


class KindGradientPolicy(KindPolicy):
    """Online knowledge gradient: reward, and what a pull adds to the best choice afterwards."""

    name = "knowledge-gradient"
    symmetric = True
    cost = "decision"

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        refuse_several_pulls(problem, self.name)
        super().__init__(problem, ties=ties)

    def values(self, stage: int, states: States, rng: np.random.Generator | None = None) -> Floats:
        means = self.means(states)
        found = self.rewards(stage, means)
        for later in self._choices(stage):
            found = found + self._rise(later, means, states)
        return found

    def _choices(self, stage: int) -> list[tuple[float, int]]:
        """Stages to come, with what they count: equal ones together."""
        T, counted = self.problem.horizon, dict[bytes, tuple[float, int]]()
        for t in range(stage + 1, self.problem.stages):
            key = self._base[:, t].tobytes() + self._factor[:, t].tobytes()
            key += b"" if t < T else b"deployed"
            counted[key] = (counted.get(key, (0.0, t))[0] + 1.0, t)
        return list(counted.values())

    def _rise(self, later: tuple[float, int], means: Floats, states: States) -> Floats:
        """What a pull of each arm adds to the best expected reward of a later stage, (E, K)."""
        count, t = later
        r = self.rewards(t, means)
        order = np.sort(r, axis=-1)
        best = order[:, -1]
        found = np.zeros_like(r)
        for k, (group, own) in enumerate(zip(self.groups, self.arm_stats(states), strict=True)):
            second = order[:, -2] if r.shape[1] > 1 else np.full(len(r), -np.inf)
            others = np.where(r[:, k] >= best, second, best)
            base, factor = float(self._base[k, t]), float(self._factor[k, t])
            if factor == 0.0 or r.shape[1] == 1:
                continue
            c = (others - base) / factor
            above = group.model.excess(own, c)
            if factor < 0.0:  # E(c - m)^+ = E(m - c)^+ - (mean - c)
                above = above - (means[:, k] - c)
            found[:, k] = count * (others + abs(factor) * above - best)
        return found
