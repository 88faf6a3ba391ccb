"""The optimality gap of a policy, stage by stage: Theorems 1 and 2.

For any admissible policy and any prices mu, with index I_t^a of each arm alone at these prices,

    upper bound - value = E sum_t [ sum over pulled arms of (mu_t - I_t^a)^+     shortfall
                                  + sum over the others of (I_t^a - mu_t)^+ ]    congestion

which is Theorem 1 with its terms sorted by sign: a pulled arm is not worth the price, or an arm
that is worth it is not pulled. For DeCo, which pulls the largest index, the first happens only
where no arm is worth the price, the second where several are: Theorem 2.

Exact where the states that the policy reaches can be enumerated: the terms only need the
distribution of each arm's own state, and of the states in which it is pulled. Simulated otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .._version import __version__
from ..arm import BatchRelaxation, Relaxation
from ..evaluation import Occupied, TooManyStates, evaluate
from ..policies import DEFAULT_POLICY, Context, Policy, in_order, make_policies
from ..prices import DualSolution
from ..problem import DEFAULT_TIES, Problem, TieRule, refuse_kinds, tie_rule
from ..simulation import (
    Dual,
    Estimate,
    Played,
    Player,
    World,
    check_sizes,
    estimate,
    play,
    play_batches,
)  # fmt: skip
from ..support import (
    Columns,
    Report,
    Rng,
    Tables,
    Tabular,
    columns_of,
    former_attribute,
    former_spellings,
    obeys_workers,
    seed_of,
)

Floats = npt.NDArray[np.float64]
EXACT_STATES = 2_000_000
ASKED_STATES = 4_000  # if the policy has to be called in each, a millisecond or more


@dataclass(frozen=True)
class StageGap:
    """Expected loss at one stage; errors are 0 where it is exact."""

    stage: int
    shortfall: float
    congestion: float
    shortfall_se: float = 0.0
    congestion_se: float = 0.0


@dataclass(frozen=True, eq=False)
class Gap(Tabular):
    """What a policy earns less than the upper bound, and where.

    Tables of `to_frame`: `stages`; `arms`, where the gap is exact.

    Attributes
    ----------
    policy : str
        Its name.
    upper_bound : float
        On what any policy earns: the dual function at the prices.
    value, value_se : float
        What the policy earns, and the standard error of it; 0 where it is exact.
    shortfall : float
        Expected loss by pulled arms that were not worth the price.
    congestion : float
        Expected loss by arms worth the price that were not pulled.
    stages : tuple of StageGap
        Shortfall, congestion and their errors, stage by stage, as files and tables show them.
    by_arm : array or None
        (arms, 2) shortfall and congestion by arm, where the gap is exact; equal arms share theirs.
    method : str
        "exact" or "simulated".
    settings : dict
        Draws and seed of a simulation.

    Examples
    --------
    >>> from decobandit import Problem, gap
    >>> found = gap(Problem.uniform(arms=2, horizon=4), "greedy")
    >>> found.shortfall_by_stage.shape
    (4,)
    >>> round(float(found.running_loss[-1] - found.gap), 9)
    0.0
    """

    policy: str
    upper_bound: float
    value: float
    value_se: float
    shortfall: float
    congestion: float
    stages: tuple[StageGap, ...]
    by_arm: Floats | None
    method: str
    settings: dict[str, Any]

    running = former_attribute("running", "running_loss")

    @property
    def gap(self) -> float:
        """Upper bound minus value."""
        return self.upper_bound - self.value

    @property
    def gap_se(self) -> float:
        """Standard error of the gap, which is that of the value, for the bound is exact."""
        return self.value_se

    @cached_property
    def shortfall_by_stage(self) -> Floats:
        """Expected shortfall of each stage, (stages,)."""
        return self._by_stage("shortfall")

    @cached_property
    def shortfall_by_stage_se(self) -> Floats:
        """Its standard errors, (stages,)."""
        return self._by_stage("shortfall_se")

    @cached_property
    def congestion_by_stage(self) -> Floats:
        """Expected congestion of each stage, (stages,)."""
        return self._by_stage("congestion")

    @cached_property
    def congestion_by_stage_se(self) -> Floats:
        """Its standard errors, (stages,)."""
        return self._by_stage("congestion_se")

    @cached_property
    def running_loss(self) -> Floats:
        """Expected shortfall and congestion up to and including each stage, (stages,)."""
        return np.cumsum(self.shortfall_by_stage + self.congestion_by_stage)

    def _by_stage(self, name: str) -> Floats:
        found = np.array([getattr(each, name) for each in self.stages])
        found.flags.writeable = False
        return found

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

    def tables(self) -> Tables:
        """Columns by the name of the table."""
        return {"stages": self._stages, "arms": self._arms}

    def _stages(self) -> Columns:
        running = zip(self.stages, self.running_loss.tolist(), strict=True)
        return columns_of(
            {"policy": self.policy, **vars(each), "running_loss": loss} for each, loss in running
        )

    def _arms(self) -> Columns:
        if self.by_arm is None:
            raise ValueError("arms: only of an exact gap; gap(..., method='exact')")
        shortfall, congestion = self.by_arm.T
        arms = len(shortfall)
        return {
            "policy": [self.policy] * arms, "arm": range(arms), "shortfall": shortfall,
            "congestion": congestion,
        }  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"Gap({self.policy}, {self.method}: upper bound {self.upper_bound:.6f} - value "
            f"{self.value:.6f} = shortfall {self.shortfall:.6f} + congestion {self.congestion:.6f})"
        )


@former_spellings(threads="workers", seed="rng")
@obeys_workers
def gap(
    problem: Problem,
    policy: Policy | str = DEFAULT_POLICY,
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    ties: TieRule = DEFAULT_TIES,
    method: str | None = None,
    draws: int = 1000,
    per_draw: int = 10,
    rng: Rng = 1,
    workers: int | None = None,
    progress: Report | None = None,
) -> Gap:
    """The gap between a policy and the bound of a solution, stage by stage.

    Parameters
    ----------
    problem, policy, tol, ties
        As in `evaluate`.
    solution : DualSolution, optional
        Any prices are valid; the dual is solved here by default, to `tol`.
    method : {"exact", "simulated"}, optional
        By default exact where that is possible.
    draws, per_draw, rng, workers
        As in `simulate`, where the gap is simulated.
    progress : callable, optional
        Told how far a simulation is.

    Returns
    -------
    Gap

    Raises
    ------
    TooManyStates
        If `method="exact"` and the policy reaches too many states.
    ValueError, TypeError
        As `evaluate`.

    Examples
    --------
    >>> from decobandit import Problem, gap
    >>> found = gap(Problem.uniform(arms=2, horizon=4), "greedy")
    >>> abs(found.gap - found.shortfall - found.congestion) < 1e-9
    True
    """
    problem, policy = in_order(problem, policy, "gap")
    refuse_kinds(problem, "gap")
    check_method(method)
    seed = seed_of(rng)
    check_sizes(draws, per_draw)
    context = Context(problem, tol=tol, ties=tie_rule(ties), given=solution)
    (policy,) = make_policies(context, [policy])
    solution = context.solution
    world = World(problem, draws=draws, per_draw=per_draw, seed=seed)
    if problem.repeat:
        return _of_batches(policy, solution, method, world, workers, progress)
    relaxation = Relaxation(solution.problem, solution.prices)
    if method != "simulated":
        try:
            return _exact(policy, relaxation, progress)
        except TooManyStates:
            if method == "exact":
                raise
        except ValueError:  # draws arms with unknown probabilities
            if method == "exact" or not policy.draws_arms:
                raise
    player = Player(policy, problem.horizon)
    played = play([player], world, relaxation, workers, progress, by_stage=True)
    return _simulated(policy, relaxation, world, played)


def _of_batches(
    policy: Policy, solution: DualSolution, method: str | None, world: World,
    workers: int | None, progress: Report | None,
) -> Gap:  # fmt: skip
    if method == "exact":
        raise ValueError("method: in batches the gap is simulated, not exact")
    tables = BatchRelaxation(solution.problem, solution.prices, grid=0)
    turns = [(policy, world.problem.horizon)]
    played = play_batches(turns, world, tables, workers, progress, by_stage=True)
    return _simulated(policy, tables, world, played)


def check_method(method: str | None) -> None:
    """Refuse a method that there is not."""
    if method not in (None, "exact", "simulated"):
        raise ValueError(f"method: {method!r} is not allowed; must be exact or simulated")


def _exact(policy: Policy, relaxation: Relaxation, progress: Report | None) -> Gap:
    problem = relaxation.problem
    arms = np.zeros((problem.number_of_arms, 2))
    stages: dict[int, StageGap] = {}

    def watch(t: int, occupied: Occupied) -> None:
        if t == 0:  # started again, because merged arms had to be separated
            arms[:] = 0.0
        excess = (relaxation.stage_index(t) - relaxation.prices[t])[occupied.group]
        short = (occupied.pulls * np.maximum(-excess, 0.0)).sum(axis=1)
        resting = np.maximum(occupied.masses - occupied.pulls, 0.0)  # below zero only by rounding
        crowd = (resting * np.maximum(excess, 0.0)).sum(axis=1)
        for c, members in enumerate(occupied.members):
            arms[members] += np.array([short[c], crowd[c]]) / len(members)
        stages[t] = StageGap(t, float(short.sum()), float(crowd.sum()))

    limit = EXACT_STATES if policy.has_table else ASKED_STATES
    found = evaluate(problem, policy, limit_states=limit, progress=progress, watch=watch)
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


def _simulated(policy: Policy, relaxation: Dual, world: World, played: Played) -> Gap:
    assert played.gap_terms is not None
    sums = played.gap_terms.sum(axis=0)  # (stages, 2, 2)
    terms = [[_mean(sums[t, i], world.draws) for i in range(2)] for t in range(len(sums))]
    # the estimate that the terms add up to; `simulate` has more accurate ones
    value = estimate(played.sample(world, relaxation)).by_method["gap"]
    return Gap(
        policy=policy.name,
        upper_bound=relaxation.value(),
        value=value.value,
        value_se=value.value_se,
        shortfall=math.fsum(short.value for short, _ in terms),
        congestion=math.fsum(crowd.value for _, crowd in terms),
        stages=tuple(
            StageGap(t, short.value, crowd.value, short.value_se, crowd.value_se)
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
