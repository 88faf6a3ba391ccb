"""Forward-looking Gittins index: units drawn with the chances that the index takes each arm.

    p_k = 1/b sum_{i=1..b} P(the Gittins rule takes arm k for the i-th unit of the block)

The rule is fully sequential, discounted for ever by DISCOUNT for each pull, and breaks ties at
random; the outcomes of the block are drawn from the posteriors at its begin, which then move with
them. Each unit is drawn with these chances, by itself: its position i evenly, then the rule up to
there. Villar, Wason and Bowden, Response-adaptive randomization for multi-arm clinical trials using
the forward looking Gittins index rule, Biometrics 2015.
"""

from __future__ import annotations

import numpy as np

from ...arm.gittins_tables import MOST_PULLS, discounted_table
from ...problem import DEFAULT_TIES, Problem, States, TieRule
from ...support import Floats, Ints, Once
from ..chances import allowed_in
from ..kernels.forward_units import forward_units
from ..names import batch_policies
from ..refusals import refuse_changing_rewards
from .base import BatchPolicy, as_compared

DISCOUNT = 0.99


def refuse_many_pulls(problem: Problem, policy: str, others: str) -> None:
    """A ValueError where indices of so many pulls would take too long."""
    if problem.most_pulls > MOST_PULLS:
        raise ValueError(
            f"policy {policy!r} has indices of up to {MOST_PULLS} pulls; the problem has "
            f"{problem.most_pulls}; use {others}"
        )


class ForwardGittinsPolicy(BatchPolicy):
    """Draws every unit of a batch by the forward-looking Gittins index."""

    name = "flgi"
    kind_batch_place = "decobandit.policies.kinds.forward_gittins:KindForwardGittinsPolicy"
    randomised = True

    def __init__(self, problem: Problem, *, ties: TieRule = DEFAULT_TIES) -> None:
        super().__init__(problem, ties=ties)
        self.seen = as_compared(problem)
        refuse_changing_rewards(self.seen, self.name)
        refuse_many_pulls(problem, self.name, batch_policies())
        self._index = Once(self._tables)

    def share_units(self, stage: int, states: States, rng: np.random.Generator | None) -> Ints:
        assert rng is not None
        given = np.empty(states.pulls.shape, dtype=np.int64)
        forward_units(
            self._index(), self.problem.group_of_arm, self.arms.alpha, self.arms.beta,
            states.pulls, states.good, allowed_in(states), self.problem.unit,
            self.problem.units, self.tolerance, rng, given,
        )  # fmt: skip
        return given

    def _tables(self) -> Floats:
        """Indices of all states of every group, (groups, states)."""
        return np.stack(
            [
                discounted_table(
                    alpha=group.alpha,
                    beta=group.beta,
                    reward_good=float(group.reward_good[0]),
                    reward_bad=float(group.reward_bad[0]),
                    discount=DISCOUNT,
                    pulls=self.problem.most_pulls,
                )
                for group in self.seen.groups
            ]
        )
