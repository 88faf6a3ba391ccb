"""The calibrated index with the best price path for its problem, or what earns more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from ...arm import PricePath
from ..base import Policy
from ..batches.repriced import RepricedDecoPolicy
from ..calibrated import TABLE_STAGES, CalibratedPolicy
from ..context import Context
from ..knowledge_gradient import KnowledgeGradientPolicy
from ..records import ArmIndex
from .path_search import MOST_STATES, choose_path, default_path

GRADIENT = "gradient"  # key of a record that says that the knowledge gradient earns more


class TunedPolicy(CalibratedPolicy):
    """Calibrated against the path that `choose_path` finds, or one that was found before."""

    name = "deco-calibrated"
    knots_beyond = TABLE_STAGES
    # in batches no price path does better than prices taken anew; other kinds: a flat path, and in
    # batches the prices of the dual
    batch_place = f"{__name__}:TunedBatchPolicy"
    kind_place = "decobandit.policies.kinds.rules:KindCalibratedPolicy"
    kind_batch_place = "decobandit.policies.kinds.batches:KindBatchCalibratedPolicy"

    @classmethod
    def make(cls, context: Context) -> Policy:  # type: ignore[override]
        """One of this class, or where it earns more the knowledge gradient under its name."""
        ties = context.ties
        if context.parameters is not None:
            found = dict(context.parameters)
            gradient = bool(found.pop(GRADIENT, 0.0))
            path = PricePath(**found)
        else:
            limit = MOST_STATES if context.path_states is None else context.path_states
            chosen = choose_path(context.problem, ties=ties, limit_states=limit)
            path, gradient = chosen.path, chosen.gradient
        # the dual is solved only for a path of an older record that is built from its prices
        made = cls(
            context.problem, path, context.solution.prices if path.theta else None, ties=ties
        )
        return TunedGradientPolicy.beside(made) if gradient else made

    @classmethod
    def successor(cls, context: Context, planned: int) -> TunedPolicy:
        """The premium fades anew over the stages left: nothing is tuned at the planned end."""
        path = default_path(context.problem, context.problem.horizon - planned)
        return cls(context.problem, path, start=planned, ties=context.ties)

    def record(self) -> Mapping[str, float]:
        return self.path.to_dict()


class TunedBatchPolicy(RepricedDecoPolicy):
    """Prices taken anew at every stage; prices above or below them earn no more."""

    name = TunedPolicy.name


class TunedGradientPolicy(KnowledgeGradientPolicy):
    """The knowledge gradient, where a deployment makes it earn more than any price path tried."""

    name = TunedPolicy.name
    symmetric = True
    calibrated: TunedPolicy  # the best of the paths, which has indices of single arms

    @classmethod
    def beside(cls, calibrated: TunedPolicy) -> Self:
        """The policy that is chosen instead of this one."""
        made = cls(calibrated.problem, ties=calibrated.ties)
        made.calibrated = calibrated
        return made

    def arm_index(self, stage: int, group: int, good: int, bad: int) -> ArmIndex:
        return self.calibrated.arm_index(stage, group, good, bad)

    def record(self) -> Mapping[str, float]:
        return {**self.calibrated.record(), GRADIENT: 1.0}
