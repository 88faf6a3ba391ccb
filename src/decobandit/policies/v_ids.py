"""Variance-based information-directed sampling: least squared regret per variance explained.

    min over distributions q of (sum_a q_a Delta_a)^2 / sum_a q_a v_a
    v_a = sum_i p*(i) (E[p_a | i is best] - E[p_a])^2

Russo and Van Roy, Learning to optimize via information-directed sampling, Operations Research 2018,
section 6.3: v_a bounds the information gain from below, up to a factor. All else as in `ids`.
"""

from __future__ import annotations

from .ids import IdsPolicy


class VarianceIdsPolicy(IdsPolicy):
    """Pulls one of two arms, those of the least squared regret per variance."""

    name = "v-ids"
    symmetric = True
    by_variance = True
    kind_place = "decobandit.policies.kinds.information:KindVarianceIdsPolicy"
