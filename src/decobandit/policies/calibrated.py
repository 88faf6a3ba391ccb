"""Calibrated index policies: pull the arm that is worth a pull at the largest surcharge.

`FhGittinsPolicy` calibrates against a flat price: the finite-horizon Gittins index (Kaufmann 2018;
Nino-Mora 2011). `CalibratedPolicy` calibrates against any price path of the family in
`arm.PricePath`, which contains the flat one. Single pulls of every outcome model; non-binary
outcomes only against the flat path.

`choose_path` takes the path whose policy has the largest value. No candidate needs prices, so that
the choice does not depend on how well a dual was solved. If a
stage that is played has the same rewards as any other, paths are a premium c sqrt((T-s)/T) /
sqrt(T), with ticks d / sqrt(T). If rewards change over the stages, paths follow what the best arm
earns, with ticks of FINE_TICK. Small problems: by exact evaluation. The flat path of FH-Gittins is
among the candidates; with a random end, or rewards that change, in ticks of FINE_TICK, since exact
indices take a hundred times as long there. Larger problems: c and d are those of DEFAULT, unless
the flat path earns more on common draws; horizons beyond SIMULATED_STAGES are cut there for this
comparison. If it is not possible, DEFAULT. Beyond TABLE_STAGES, if all stages are alike: the flat
path, whose indices can be computed at any horizon (`arm/gittins.py`).
`docs/decisions/0004-default-path.md` has the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np

from ..arm import (
    FLAT_STAGES,
    Calibration,
    KnotCalibration,
    PricePath,
    RowGittins,
    TickCalibration,
    calibrated,
    is_steady,
)
from ..problem import DEFAULT_TIES, Problem, Stats, TieRule, check_problem, true_problem
from ..support import Floats, InvalidArgument, TooLarge, obeys_workers
from ..support.frames import Shown
from ..support.records import doc, record_class
from .allocation import ArmIndex, Cost
from .base import Context, Policy
from .index_policy import IndexPolicy
from .requirements import known_variances, no_windows, single_pulls, steady_rewards

if TYPE_CHECKING:
    from ..evaluation import Evaluation

TABLE_STAGES = 200  # up to here tables of all stages take a second or less
FLAT_PATH = PricePath()
DEFAULT = (0.9, 0.2)  # premium and tick, both over sqrt(T)
# the most useful first: where there are many states, the last are left out
CANDIDATES = (
    (0.8, 0.15),
    (0.6, 0.2),
    (0.6, 0.3),
    (0.8, 0.1),
    (0.9, 0.15),
    (0.7, 0.4),
    DEFAULT,
    (1.0, 0.3),
)
FINE_TICK = 0.01  # about as good as none, and a hundred times as fast
FLAT = PricePath(tick=FINE_TICK)
# if rewards change over the stages
CHANGING_CANDIDATES = (
    FLAT,
    *(replace(FLAT, best=best) for best in (0.2, 0.4, 0.6, 0.8)),
    *(replace(FLAT, kappa=kappa) for kappa in (0.1, 0.2, 0.3)),
    *(replace(FLAT, best=best, kappa=0.1) for best in (0.2, 0.4, 0.6)),
)
EQUAL_VALUE = 1e-12  # values that differ by this part are equal: the first is taken
SIMULATED_STAGES = 100
SIMULATED_GROUPS = 5  # kinds of arms: each has a table of its own
DRAWS, PER_DRAW = 2000, 2
COMPARED_SWEEPS = 512  # of a table that is only used to compare candidates
MIN_Z = 2.0  # standard errors by which the flat path must earn more to be taken
MOST_STAGES = 48  # beyond this evaluations are long
MOST_STATES = 2_000_000  # reached by one candidate
MOST_STATES_IN_ALL = 4_000_000


class CalibratedPolicy(IndexPolicy):
    """Pulls the largest calibrated index under a price path.

    By name, under the path that `choose_path` finds, or one that was found before.

    Parameters
    ----------
    problem : Problem
        Problem to play.
    path : PricePath, optional
        Prices that the index is calibrated against; flat by default.
    prices : array, optional
        Those of a solved dual, (stages,), where the path needs them.
    name : str, optional
        What tables call it.
    start : int
        Stage from which the path's premium fades.
    sweeps : int, optional
        As in `Calibration`.
    ties : TieRule
        How ties are broken.

    Examples
    --------
    >>> from decobandit import Problem, State
    >>> from decobandit.arm import PricePath
    >>> from decobandit.policies import CalibratedPolicy
    >>> policy = CalibratedPolicy(Problem.uniform(arms=3, horizon=10), PricePath(kappa=0.1))
    >>> policy.choose(State.parse("0/1,0/0,1/1"))
    (2,)
    """

    name = "deco-calibrated"
    symmetric = True
    cost: Cost = "tables"
    requires = (single_pulls, no_windows, known_variances)
    knots_beyond = TABLE_STAGES  # as in `calibrated`
    is_tuned = True

    def __init__(
        self,
        problem: Problem,
        path: PricePath = FLAT_PATH,
        prices: Floats | None = None,
        *,
        name: str | None = None,
        start: int = 0,
        sweeps: int | None = None,
        ties: TieRule = DEFAULT_TIES,
    ) -> None:
        super().__init__(problem, ties=ties)
        self.name = name or self.name
        self.path, self.survival = path, problem.survival
        self._rows: list[RowGittins] = []  # of non-binary outcomes
        if not problem.single_binary:
            if not path.flat:
                raise InvalidArgument(
                    f"policy {self.name!r}: other than good and bad outcomes need the flat path"
                )
            self._rows = [RowGittins(problem, k) for k in range(len(problem.groups))]
            self.cost = "decision"
            return
        self.calibration: Calibration = calibrated(
            problem, path, prices, start=start, sweeps=sweeps, knots_beyond=self.knots_beyond
        )
        # single decisions by tables of all stages would wait for these
        self._one_by_one = isinstance(self.calibration, TickCalibration) and (
            problem.stages > TABLE_STAGES
        )

    @classmethod
    def make(cls, context: Context) -> Self:
        problem, ties = context.problem, context.ties
        cls.check_serves(problem)
        if context.parameters is not None:
            path = PricePath(**dict(context.parameters))
        elif problem.single_binary:
            limit = MOST_STATES if context.path_states is None else context.path_states
            path = choose_path(problem, ties=ties, limit_states=limit).path
        else:
            path = FLAT_PATH
        # the dual is solved only for a path that is built from its prices
        return cls(problem, path, context.solution.prices if path.theta else None, ties=ties)

    @classmethod
    def successor(cls, context: Context, planned: int) -> Policy:
        """Let the premium fade again over the remaining stages, without tuning."""
        path = default_path(context.problem, context.problem.horizon - planned)
        return cls(context.problem, path, start=planned, ties=context.ties)

    def record(self) -> Mapping[str, float] | None:
        return self.path.to_dict()

    def stage_index(self, stage: int) -> Floats:
        table = self.calibration.stage_index(stage)
        played = self.survival[stage]  # surcharges are those of stages that are played
        return table if played == 1.0 else played * table

    def refuse_large(self) -> None:
        if not self._rows:
            self.calibration.refuse_large()

    def has_tables(self, stage: int) -> bool:
        return bool(self._rows) or (not self._one_by_one and self.calibration.is_made(stage))

    def index(self, stage: int, group: int, stats: Floats) -> Floats:
        if self._rows:
            return np.asarray(self.survival[stage] * self._rows[group].index(stage, stats))
        counts = stats.reshape(-1, 2).astype(np.int64)
        if isinstance(self.calibration, KnotCalibration):
            index = self.calibration.indices(stage, group, counts)
        elif self._one_by_one:  # the same number
            single = [self.calibration.index(stage, group, int(g), int(b)) for g, b in counts]
            index = self.survival[stage] * np.array(single)
        else:
            n = counts.sum(axis=1)
            index = self.stage_index(stage)[group, n * (n + 1) // 2 + counts[:, 0]]
        return np.asarray(index).reshape(stats.shape[:-1])

    def exact_index(self, stage: int, group: int, stats: Floats) -> float:
        if self._rows:
            return float(self.survival[stage]) * self._rows[group].root(stage, stats)
        return super().exact_index(stage, group, stats)

    def arm_index(self, stage: int, group: int, stats: Stats) -> ArmIndex:
        if self._rows:
            return super().arm_index(stage, group, stats)
        single, crossings = self.calibration.crossings(stage, group, int(stats[0]), int(stats[1]))
        return ArmIndex(crossings[-1], indexable=single, path=str(self.path))


class FhGittinsPolicy(CalibratedPolicy):
    """The finite-horizon Gittins index; with rewards that change over the stages, its extension."""

    name = "fh-gittins"
    symmetric = True
    knots_beyond = FLAT_STAGES
    is_tuned = False

    @classmethod
    def make(cls, context: Context) -> Self:
        return cls(context.problem, ties=context.ties)

    @classmethod
    def successor(cls, context: Context, planned: int) -> Policy:
        return cls.make(context)

    def record(self) -> None:
        """Return None: the flat path is not tuned."""


# -- the price path -------------------------------------------------------------------------------


@record_class()
class ChosenPath(Shown):
    """A price path, and how it was chosen.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.policies import choose_path
    >>> chosen = choose_path(Problem.uniform(arms=2, horizon=4))
    >>> chosen.method, round(chosen.value, 6)
    ('exact', 2.277778)
    """

    path: PricePath = doc("The one that earns most.")
    value: float | None = doc("What its policy earns, where that is known exactly.")
    evaluations: int = doc("Paths that were compared.")
    method: str = doc('"exact", "simulated" or "default".')


def ticked_path(premium: float, tick: float, horizon: int) -> PricePath:
    """Return the premium that fades over `horizon` stages, with its tick."""
    root = math.sqrt(horizon)
    return PricePath(kappa=round(premium / root, 6), tick=round(tick / root, 6))


def default_path(problem: Problem, horizon: int | None = None) -> PricePath:
    """Return the path to use without comparison; `horizon`: stages over which it fades."""
    if is_long(problem):
        return PricePath()
    path = ticked_path(*DEFAULT, problem.horizon if horizon is None else horizon)
    return path if _is_lasting(problem) else replace(path, tick=FINE_TICK)


def is_long(problem: Problem) -> bool:
    """Whether the path is flat because only then indices can be had in time for every stage."""
    return problem.stages > CalibratedPolicy.knots_beyond and is_steady(problem)


def _is_lasting(problem: Problem) -> bool:
    """Whether all stages that are played have the same rewards, without terminal ones."""
    ends = [problem.terminal, *(group.terminal for group in problem.groups)]
    return all(end is None for end in ends) and steady_rewards(problem) is None


def _flat_path(problem: Problem) -> PricePath:
    return PricePath() if is_steady(problem) else FLAT


@obeys_workers
def choose_path(
    problem: Problem,
    *,
    ties: TieRule = DEFAULT_TIES,
    limit_states: int = MOST_STATES,
    workers: int | None = None,
) -> ChosenPath:
    """Choose the price path whose calibrated index earns most on a problem.

    Parameters
    ----------
    problem : Problem
        What the index is for.
    ties : TieRule
        How the policies break ties.
    limit_states : int
        States that a policy may reach for paths to be compared exactly; beyond, by simulation.
    workers : int, optional
        Threads that share the work; all processors by default.

    Returns
    -------
    ChosenPath

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.policies import CalibratedPolicy, choose_path
    >>> problem = Problem.uniform(arms=2, horizon=4)
    >>> policy = CalibratedPolicy(problem, choose_path(problem).path)
    """
    if check_problem(problem).stages > MOST_STAGES:
        return _simulated(problem, ties)
    try:
        exact = _exact_values(problem, ties, limit_states)
    except TooLarge:
        return _simulated(problem, ties)
    most = max(exact.values())
    best = next(path for path in exact if exact[path] >= most - EQUAL_VALUE * abs(most))
    return ChosenPath(best, exact[best], len(exact), "exact")


def _exact_values(problem: Problem, ties: TieRule, limit: int) -> dict[PricePath, float]:
    """Return the value of each candidate, the flat path first, up to a total number of states."""
    ticked = (ticked_path(*candidate, problem.horizon) for candidate in CANDIDATES)
    lasting = (_flat_path(problem), *ticked)
    values, states = dict[PricePath, float](), 0
    for path in lasting if _is_lasting(problem) else CHANGING_CANDIDATES:
        policy = CalibratedPolicy(problem, path, ties=ties)
        result = exact_value(policy, limit)
        values[path] = result.value
        states += result.states
        if states > MOST_STATES_IN_ALL:
            break
    return values


def exact_value(policy: Policy, limit_states: int) -> Evaluation:
    """Evaluate a policy exactly; `TooLarge` where it reaches more states than the limit."""
    from ..evaluation import evaluate  # imports policies: late, see LATE in test_architecture

    return evaluate(policy.problem, policy, limit_states=limit_states)


def best_on_draws(policies: Sequence[Policy], draws: int, per_draw: int, least_z: float) -> int:
    """Position of the policy that earns most on common draws.

    The first unless another earns more by some standard errors.
    """
    from ..simulation import simulate

    sample = simulate(policies[0].problem, policies, draws=draws, per_draw=per_draw)
    if sample.interrupted:
        raise KeyboardInterrupt
    gains = [sample.difference(rival.name, policies[0].name) for rival in policies[1:]]
    largest = max(range(len(gains)), key=lambda i: gains[i].value)
    return largest + 1 if gains[largest].value > least_z * gains[largest].value_se else 0


def _simulated(problem: Problem, ties: TieRule) -> ChosenPath:
    horizon = min(problem.horizon, SIMULATED_STAGES)
    default = ChosenPath(default_path(problem), None, 0, "default")
    if is_long(problem) or len(problem.groups) > SIMULATED_GROUPS:
        return default
    try:
        short = true_problem(problem, None, horizon)
        policies = [
            CalibratedPolicy(short, path, name=str(path), sweeps=COMPARED_SWEEPS, ties=ties)
            for path in (default_path(short), _flat_path(short))
        ]
        flat_earns_more = best_on_draws(policies, DRAWS, PER_DRAW, MIN_Z) == 1
    except ValueError:  # rewards that do not define a shorter problem, or have no tables
        return default
    path = _flat_path(problem) if flat_earns_more else default.path
    return ChosenPath(path, None, len(policies), "simulated")
