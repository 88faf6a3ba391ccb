"""The calibrated index with the best price path for its problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from ...arm import PricePath
from ..calibrated import TABLE_STAGES, CalibratedPolicy
from ..context import Context
from .path_search import MOST_STATES, choose_path, default_path


class TunedPolicy(CalibratedPolicy):
    """Calibrated against the path that `choose_path` finds, or one that was found before.

    Other than binary outcomes: against the flat path.
    """

    name = "deco-calibrated"
    symmetric = True
    knots_beyond = TABLE_STAGES

    @classmethod
    def make(cls, context: Context) -> Self:
        problem, ties = context.problem, context.ties
        if (refusal := cls.refusal(problem)) is not None:
            raise ValueError(refusal)
        if context.parameters is not None:
            path = PricePath(**dict(context.parameters))
        elif problem.is_binary:
            limit = MOST_STATES if context.path_states is None else context.path_states
            path = choose_path(problem, ties=ties, limit_states=limit).path
        else:
            path = PricePath()
        # the dual is solved only for a path that is built from its prices
        return cls(problem, path, context.solution.prices if path.theta else None, ties=ties)

    @classmethod
    def successor(cls, context: Context, planned: int) -> TunedPolicy:
        """The premium fades anew over the stages left: nothing is tuned at the planned end."""
        path = default_path(context.problem, context.problem.horizon - planned)
        return cls(context.problem, path, start=planned, ties=context.ties)

    def record(self) -> Mapping[str, float]:
        return self.path.to_dict()
