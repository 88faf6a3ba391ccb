"""The information bound: what a clairvoyant earns who pays for what he foresees.

A scenario fixes the success probabilities and all outcomes, by pull. With one-arm values at prices
mu, let V^r_t(s) = sum_b V_t^b(s_b) + sum_{u>=t} m_u mu_u: V^r_0 is the Lagrangian bound, V^r_T the
last rewards F. Pulling the arms A at stage t leads from s to s'. The penalty

    pi_t = V^r_{t+1}(s') - E[V^r_{t+1}(s') | s, A]
         = sum over pulled arms of V_{t+1}^a(s'_a) - E[V_{t+1}^a(s'_a) | s_a]

has mean zero for whoever does not foresee s'. So does the outcome's reward minus its posterior
expectation ell, which may therefore stand for it. No policy earns more than the expectation of

    max over allocations of  sum_t (ell_t(A) - w pi_t) + F,      for every w

(Brown, Smith and Sun, Information relaxations and duality in stochastic dynamic programs, 2010.)
V^r telescopes along an allocation: sum_t V^r_{t+1}(s') = sum_t V^r_t(s) + F - V^r_0. By
V_t = V_{t+1} + (d)^+ with d = index - mu_t, what is maximised is then at w = 1

    V^r_0 - sum_t [ sum_b d_b^+ - sum over pulled arms d_a ]

the Lagrangian bound minus the gap terms of Theorem 1, none of which is negative; and for other w,
w times this plus 1 - w times (sum_t ell_t + F). It is convex in w, a maximum of linear functions.

Why ell, and not outcomes or true means: all three are valid, and of the three this leaves the
clairvoyant least to foresee. Measured at (2, 20), w = .4, on common scenarios (a prototype):
12.63; with the true mean in place of a fifth of ell 12.66, with the outcome 12.73.

The allocation is found by `kernels.allocation`: exactly, or from above where a search is stopped.
The weight is chosen on a pilot sample, and the bound reported on a fresh one. Its error is made
small by a regression on controls of mean zero: those of `World`, and two fair games, the penalties
and the true minus posterior rewards of who pulls the arm of largest posterior mean.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._version import __version__
from .dual import DualSolution, solve
from .estimators import MIN_DRAWS, SAME, Estimate, Moments
from .kernels.allocation import MOST_NODES
from .kernels.clairvoyant import Model, Scenarios, best_allocations, fair_games, foresee
from .kernels.clairvoyant import lay_out_surprise as lay_out
from .kernels.layout import slab_size
from .memory import refuse_over
from .problem import Problem
from .relaxation import Relaxation
from .simulation import check_sizes
from .worlds import CHUNK, World

Floats = npt.NDArray[np.float64]
Report = Callable[[int, int, str], None]
WEIGHTS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
POPS = 5000  # nodes of one search
MOST_CHOICES = 1000  # ways to choose the arms of a stage, above which nothing is searched
WAVE_BYTES = 256 * 2**20  # of the tables of scenarios that are under way together
PILOT = "choosing the weight"


@dataclass(frozen=True, eq=False)
class InformationBound:
    """Upper bounds on what any policy earns; `information` is estimated, the others are exact."""

    problem: Problem
    lagrangian: float
    information: float
    information_se: float
    weight: float  # of the penalty
    trivial: float | None  # what the best arms earn; None where that is not defined
    scenarios: int
    seed: int
    stopped_early: float  # share of the scenarios with a bound on the maximum instead of it
    seconds: float

    @property
    def best_is(self) -> str:
        """The name of the smallest bound."""
        bounds = {"lagrangian": self.lagrangian, "information": self.information}
        if self.trivial is not None:
            bounds["trivial"] = self.trivial
        return min(bounds, key=lambda name: bounds[name])

    @property
    def best(self) -> float:
        """The smallest bound; `information_se` is its error where that is `information`."""
        return float(getattr(self, self.best_is))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `deco bound --json` prints them."""
        return {
            "arms": self.problem.number_of_arms,
            "horizon": self.problem.horizon,
            "version": __version__,
            "lagrangian": self.lagrangian,
            "information": self.information,
            "information_se": self.information_se,
            "trivial": self.trivial,
            "best": self.best,
            "best_is": self.best_is,
            "weight": self.weight,
            "draws": self.scenarios,
            "seed": self.seed,
            "stopped_early": self.stopped_early,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        return (
            f"InformationBound(lagrangian {self.lagrangian:.4f}, information "
            f"{self.information:.4f} ± {self.information_se:.4f} at weight {self.weight:g})"
        )


def information_bound(
    problem: Problem,
    solution: DualSolution | None = None,
    *,
    draws: int = 500,
    seed: int = 1,
    weight: float | None = None,
    pops: int = POPS,
    threads: int | None = None,
    progress: Report | None = None,
) -> InformationBound:
    """Bounds on what any policy earns, estimated from `draws` scenarios.

    solution: whose prices the penalties are taken at; solved here where it is not given. weight:
    of the penalty, 0 to 1; chosen where it is not given. pops: nodes after which the search of a
    scenario is stopped, for a bound that is valid but larger. The scenarios that are reported on
    are the same for every weight.
    """
    check_settings(draws, seed, weight, pops)
    began = time.perf_counter()
    solution = solve(problem) if solution is None else solution
    world = World(problem, draws=CHUNK + draws, per_draw=1, seed=seed)
    workers = threads or os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        clairvoyant = _Clairvoyant(world, solution, pops, pool, workers, progress)
        if weight is None:
            weight = _choose_weight(clairvoyant)
        found = clairvoyant.values(weight, slice(CHUNK, None), "information bound")
    estimated = found.estimate()
    return InformationBound(
        problem=problem,
        lagrangian=solution.upper_bound,
        information=estimated.value,
        information_se=estimated.standard_error,
        weight=weight,
        trivial=world.expected_best,
        scenarios=draws,
        seed=seed,
        stopped_early=float(np.mean(~found.proven)),
        seconds=time.perf_counter() - began,
    )


def check_settings(draws: int, seed: int, weight: float | None, pops: int = POPS) -> None:
    """Refuse settings that make no bound."""
    check_sizes(draws, 1, seed)
    if weight is not None and not 0.0 <= weight <= 1.0:
        raise ValueError(f"weight: {weight} is not allowed; must be 0 to 1")
    if pops < 0:
        raise ValueError(f"pops: {pops} is not allowed; must be zero or more")


def _choose_weight(clairvoyant: _Clairvoyant) -> float:
    """The best weight on the pilot sample: down from 1 until it gets worse, by convexity."""
    best, least = WEIGHTS[0], math.inf
    for weight in WEIGHTS:
        value = clairvoyant.values(weight, slice(0, CHUNK), PILOT).estimate().value
        if value >= least:
            break
        best, least = weight, value
    return best


@dataclass(frozen=True, eq=False)
class _Values:
    """What the clairvoyant gets in some scenarios."""

    bound: Floats  # (S,)
    proven: npt.NDArray[np.bool_]  # (S,)
    controls: Floats  # (S, q) of mean zero

    def estimate(self) -> Estimate:
        x = self.controls
        x = x[:, np.ptp(x, axis=0) > SAME * max(1.0, float(np.abs(self.bound).max()))]
        if self.bound.size < MIN_DRAWS * (x.shape[1] + 1):
            x = x[:, :0]
        return Moments.of(self.bound, x).regress()[1]


class _Clairvoyant:
    """Scenarios of a world, laid out in waves that fit into memory, and solved in threads."""

    def __init__(
        self, world: World, solution: DualSolution, pops: int, pool: ThreadPoolExecutor,
        workers: int, progress: Report | None,
    ) -> None:  # fmt: skip
        problem = world.problem
        groups = problem.groups
        self._world, self._pool, self._progress = world, pool, progress
        self._relaxation = Relaxation(problem, solution.prices)
        self._model = Model(
            alpha=np.array([group.alpha for group in groups]),
            beta=np.array([group.beta for group in groups]),
            reward_good=np.array([group.reward_good for group in groups]),
            reward_bad=np.array([group.reward_bad for group in groups]),
            final=self._relaxation.values(problem.stages),
            group=problem.group_of_arm,
            pulls=problem.pulls.astype(np.int64),
            mu=solution.prices,
        )
        self._workers = workers
        K = problem.number_of_arms
        self._choices = max(math.comb(K, m) for m in {*self._model.pulls.tolist()})
        self._pops = pops if self._choices <= MOST_CHOICES else 0
        self._dense = K == 2 and problem.pulls_per_stage == 1
        self._wave = self._size_of_wave()

    def _size_of_wave(self) -> int:
        """How many scenarios to lay out together."""
        K, stages = self._world.problem.number_of_arms, self._world.problem.stages
        bytes_of_table = 8.0 * K * slab_size(stages)
        size = int(min(CHUNK, max(self._workers, WAVE_BYTES // bytes_of_table)))
        nodes = min(MOST_NODES, self._pops * self._choices)
        refuse_over(
            size * bytes_of_table + self._workers * (2 * bytes_of_table + nodes * (2.0 * K + 50)),
            f"the information bound of {K} arms over {stages} stages",
            "shorten the horizon or use fewer threads",
        )
        return size

    def values(self, weight: float, part: slice, what: str) -> _Values:
        """What the clairvoyant gets in some of the world's scenarios."""
        first, last, _ = part.indices(self._world.draws)
        bound, proven = np.empty(last - first), np.empty(last - first, np.bool_)
        controls = []
        for place, scenarios, parameters in self._waves(first, last):
            games = np.empty((len(parameters), 2))
            fair_games(self._model, scenarios, games)
            controls.append(np.column_stack([self._world.controls(parameters), games]))
            mine = slice(place.start - first, place.stop - first)
            self._solve(scenarios, weight, bound[mine], proven[mine])
            if self._progress is not None:
                self._progress(mine.stop, last - first, what)
        return _Values(bound, proven, np.concatenate(controls))

    def _waves(self, first: int, last: int) -> Iterator[tuple[slice, Scenarios, Floats]]:
        """Scenarios first..last-1, some at a time: which, laid out, and their parameters."""
        while first < last:
            number = first // CHUNK
            stop = min(last, first + self._wave, (number + 1) * CHUNK)
            chunk = self._world.chunk(number)
            own = slice(first - number * CHUNK, stop - number * CHUNK)
            p, keys = chunk.p[own], chunk.keys[own]
            yield slice(first, stop), self._lay_out(p, keys), p
            first = stop

    def _lay_out(self, p: Floats, keys: npt.NDArray[np.uint64]) -> Scenarios:
        stages = self._world.problem.stages
        good = np.empty((*p.shape, stages + 1), np.int32)
        foresee(p, keys, good)
        scenarios = Scenarios(p, good, np.empty((*p.shape, slab_size(stages - 1))))
        parts = [_cut(scenarios, part) for part in self._parts(len(p))]
        for t in reversed(range(stages)):  # values are computed backward: each stage once
            later = self._relaxation.values(t + 1)
            list(self._pool.map(lambda each: lay_out(t, later, self._model, each), parts))  # noqa: B023
        return scenarios

    def _parts(self, size: int) -> list[slice]:
        """Several for each thread: scenarios take different times."""
        pieces = min(size, 4 * self._workers)
        edges = np.linspace(0, size, pieces + 1).round().astype(int)
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]

    def _solve(
        self, scenarios: Scenarios, weight: float, bound: Floats, proven: npt.NDArray[np.bool_]
    ) -> None:
        def solve_part(part: slice) -> None:
            best_allocations(
                self._model, _cut(scenarios, part), weight, self._pops, self._choices,
                self._dense, bound[part], proven[part],
            )  # fmt: skip

        list(self._pool.map(solve_part, self._parts(bound.size)))


def _cut(scenarios: Scenarios, part: slice) -> Scenarios:
    return Scenarios(scenarios.p[part], scenarios.good[part], scenarios.surprise[part])
