"""The optimality gap of a policy, stage by stage: Theorems 1 and 2.

For any admissible policy and any prices mu, with index I_t^a of each arm alone at these prices,

    upper bound - value = E sum_t [ sum over pulled arms of (mu_t - I_t^a)^+     shortfall
                                  + sum over the others of (I_t^a - mu_t)^+ ]    congestion

which is Theorem 1 with its terms sorted by sign: a pulled arm is not worth the price, or an arm
that is worth it is not pulled. For DeCo, which pulls the largest index, the first happens only
where no arm is worth the price, the second where several are: Theorem 2.

Exact where the states that the policy reaches can be followed: the terms need no more than the
distribution of each arm's own state, and of the states in which it is pulled. Simulated otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._version import __version__
from .dual import DualSolution, solve
from .estimators import Estimate, estimate
from .evaluation import Occupied, TooManyStates, evaluate
from .playing import Player, Progress, play
from .policies.base import IndexPolicy, Policy, draws_arms
from .problem import Problem
from .relaxation import Relaxation
from .simulation import check_sizes
from .worlds import World

Floats = npt.NDArray[np.float64]
EXACT_STATES = 2_000_000
ASKED_STATES = 4_000  # of a policy that has to be asked in each, a millisecond or more


@dataclass(frozen=True)
class StageGap:
    """Expected loss at one stage; errors are 0 where it is exact."""

    stage: int
    shortfall: float
    congestion: float
    shortfall_se: float = 0.0
    congestion_se: float = 0.0


@dataclass(frozen=True, eq=False)
class Gap:
    """What a policy earns less than the upper bound, and where."""

    policy: str
    upper_bound: float
    value: float
    value_se: float
    shortfall: float
    congestion: float
    stages: tuple[StageGap, ...]
    by_arm: Floats | None  # (arms, 2) shortfall and congestion by arm, exact only; equal arms share
    method: str  # exact or simulated
    settings: dict[str, Any]

    @property
    def gap(self) -> float:
        """Upper bound minus value."""
        return self.upper_bound - self.value

    @property
    def running(self) -> Floats:
        """Expected loss up to and including each stage, (stages,)."""
        return np.cumsum([each.shortfall + each.congestion for each in self.stages])

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "policy": self.policy,
            "upper_bound": self.upper_bound,
            "value": self.value,
            "value_se": self.value_se,
            "gap": self.gap,
            "shortfall": self.shortfall,
            "congestion": self.congestion,
            "method": self.method,
            "version": __version__,
            **self.settings,
            "by_arm": None if self.by_arm is None else self.by_arm.tolist(),
            "stages": [vars(each) for each in self.stages],
        }

    def __repr__(self) -> str:
        return (
            f"Gap({self.policy}, {self.method}: upper bound {self.upper_bound:.6f} - value "
            f"{self.value:.6f} = shortfall {self.shortfall:.6f} + congestion {self.congestion:.6f})"
        )


def gap(
    policy: Policy,
    problem: Problem | None = None,
    solution: DualSolution | None = None,
    *,
    method: str | None = None,
    draws: int = 1000,
    per_draw: int = 10,
    seed: int = 1,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Gap:
    """The gap between a policy and the bound of a solution, any prices.

    `problem`: that of the policy by default; `solution`: of its dual, solved here by default.
    `method`: exact or simulated; by default exact where that is possible. The other settings are
    those of a simulation.
    """
    check_method(method)
    check_sizes(draws, per_draw, seed)
    problem = policy.problem if problem is None else problem
    if problem != policy.problem:
        raise ValueError("problem: not the one that the policy was made for; leave it out")
    solution = solve(problem) if solution is None else solution
    if solution.problem != problem:
        raise ValueError("solution: not one of the problem that the policy was made for")
    relaxation = Relaxation(solution.problem, solution.prices)
    if method != "simulated":
        try:
            return _exact(policy, relaxation)
        except TooManyStates:
            if method == "exact":
                raise
        except ValueError:  # draws arms with unknown probabilities
            if method == "exact" or not draws_arms(policy):
                raise
    world = World(solution.problem, draws=draws, per_draw=per_draw, seed=seed)
    return _simulated(policy, relaxation, world, threads, progress)


def check_method(method: str | None) -> None:
    """Refuse a method that there is not."""
    if method not in (None, "exact", "simulated"):
        raise ValueError(f"method: {method!r} is not allowed; must be exact or simulated")


def _exact(policy: Policy, relaxation: Relaxation) -> Gap:
    problem = relaxation.problem
    arms = np.zeros((problem.number_of_arms, 2))
    stages: dict[int, StageGap] = {}

    def watch(t: int, occupied: Occupied) -> None:
        if t == 0:  # from the beginning again, where merged arms had to be told apart
            arms[:] = 0.0
        excess = (relaxation.stage_index(t) - relaxation.prices[t])[occupied.group]
        short = (occupied.pulls * np.maximum(-excess, 0.0)).sum(axis=1)
        resting = np.maximum(occupied.masses - occupied.pulls, 0.0)  # below zero only by rounding
        crowd = (resting * np.maximum(excess, 0.0)).sum(axis=1)
        for c, members in enumerate(occupied.members):
            arms[members] += np.array([short[c], crowd[c]]) / len(members)
        stages[t] = StageGap(t, float(short.sum()), float(crowd.sum()))

    tabled = isinstance(policy, IndexPolicy) and hasattr(policy, "stage_index")
    limit = EXACT_STATES if tabled else ASKED_STATES
    found = evaluate(policy, limit_states=limit, watch=watch)
    ordered = tuple(stages[t] for t in range(problem.stages))
    return Gap(
        policy=found.policy,
        upper_bound=relaxation.value(),
        value=found.value,
        value_se=0.0,
        shortfall=math.fsum(each.shortfall for each in ordered),
        congestion=math.fsum(each.congestion for each in ordered),
        stages=ordered,
        by_arm=arms,
        method="exact",
        settings={},
    )


def _simulated(
    policy: Policy, relaxation: Relaxation, world: World, threads: int | None,
    progress: Callable[[Progress], None] | None,
) -> Gap:  # fmt: skip
    player = Player(policy, world.problem.horizon)
    played = play([player], world, relaxation, threads, progress, by_stage=True)
    assert played.gap_terms is not None
    sums = played.gap_terms.sum(axis=0)  # (stages, 2, 2)
    terms = [[_mean(sums[t, i], world.draws) for i in range(2)] for t in range(len(sums))]
    # the estimate that the terms add up to; `simulate` has more accurate ones
    value = estimate(played.sample(world, relaxation)).by_method["gap"]
    return Gap(
        policy=policy.name,
        upper_bound=relaxation.value(),
        value=value.value,
        value_se=value.standard_error,
        shortfall=math.fsum(short.value for short, _ in terms),
        congestion=math.fsum(crowd.value for _, crowd in terms),
        stages=tuple(
            StageGap(t, short.value, crowd.value, short.standard_error, crowd.standard_error)
            for t, (short, crowd) in enumerate(terms)
        ),
        by_arm=None,
        method="simulated",
        settings={"draws": world.draws, "per_draw": world.per_draw, "seed": world.seed},
    )


def _mean(sums: Floats, draws: int) -> Estimate:
    mean = float(sums[0]) / draws
    variance = max(float(sums[1]) / draws - mean**2, 0.0)
    return Estimate(mean, math.sqrt(variance / max(draws - 1, 1)))
