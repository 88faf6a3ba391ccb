"""The information-relaxation bound: outcomes are known in advance, with a penalty for using them.

A scenario fixes the success probabilities and all outcomes, by pull. With one-arm values at prices
mu, let V^r_t(s) = sum_b V_t^b(s_b) + sum_{u>=t} m_u mu_u: V^r_0 is the Lagrangian bound, V^r_T the
last rewards F. Pulling the arms A at stage t leads from s to s'. The penalty

    pi_t = V^r_{t+1}(s') - E[V^r_{t+1}(s') | s, A]
         = sum over pulled arms of V_{t+1}^a(s'_a) - E[V_{t+1}^a(s'_a) | s_a]

has mean zero under every policy that does not know s' in advance. So has the reward of the outcome
minus its posterior expectation ell, which may therefore replace it. No policy can earn more than
the expectation of

    max over allocations of  sum_t (ell_t(A) - w pi_t) + F,      for every w

(Brown, Smith and Sun, Information relaxations and duality in stochastic dynamic programs, 2010.)
V^r telescopes along an allocation: sum_t V^r_{t+1}(s') = sum_t V^r_t(s) + F - V^r_0. By
V_t = V_{t+1} + (d)^+ with d = index - mu_t, what is maximised is then at w = 1

    V^r_0 - sum_t [ sum_b d_b^+ - sum over pulled arms d_a ]

the Lagrangian bound minus the gap terms of Theorem 1, none of which is negative; and for other w,
w times this plus 1 - w times (sum_t ell_t + F). It is convex in w, a maximum of linear functions.

Why ell, and not outcomes or true means: all three are valid, and ell gives the tightest bound of
the three. Measured at (2, 20), w = .4, on common scenarios (a prototype): 12.63; with the true mean
in place of a fifth of ell 12.66, with the outcome 12.73.

The allocation is found by `kernels.allocation`: exactly, or from above where a search is stopped.
The weight is chosen on a pilot sample, and the bound reported on a fresh one. Its error is reduced
by a regression on controls of mean zero: those of `World`, and two martingales, the penalties and
the true minus posterior rewards of the policy that pulls the arm of largest posterior mean. No
scenario exceeds w V^r_0 plus 1 - w times the largest rewards, which limits what may be missed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..arm import OneArmValues
from ..prices import DualSolution, check_solution, whole_solution
from ..problem import Problem, check_problem, refuse_batches, refuse_kinds
from ..problem.kernels.layout import slab_size
from ..simulation import (
    CHUNK,
    Estimate,
    Missed,
    World,
    check_sizes,
    mean_estimate,
    regression,
)
from ..support import (
    Floats,
    Pool,
    Progress,
    Report,
    Rng,
    Stopwatch,
    obeys_workers,
    pool,
    refuse_over,
    seed_of,
    silent,
    worker_count,
)
from .bound_results import InformationBound
from .kernels.allocation import MOST_NODES, STEPS
from .kernels.scenarios import (
    Model,
    Scenarios,
    best_allocations,
    draw_outcomes,
    fair_games,
)
from .kernels.scenarios import (
    lay_out_surprise as lay_out,
)

WEIGHTS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
MOST_POPS = 5000  # nodes expanded by one search
MOST_CHOICES = 1000  # ways to choose the arms of a stage, above which nothing is searched
WAVE_BYTES = 256 * 2**20  # of the tables of scenarios that are under way together
PILOT = "choosing the weight"
PILOT_STEPS = 20  # bounds that are only compared may be looser


@obeys_workers
def information_bound(
    problem: Problem,
    *,
    solution: DualSolution | None = None,
    tol: float = 1e-4,
    draws: int = 500,
    rng: Rng = 1,
    weight: float | None = None,
    pops: int = MOST_POPS,
    workers: int | None = None,
    progress: Report | None = None,
) -> InformationBound:
    """Bounds on what any policy earns: information relaxation, estimated from scenarios.

    The scenarios that are reported on are the same for every weight.

    Parameters
    ----------
    problem : Problem
        What is bounded.
    solution : DualSolution, optional
        Whose prices the penalties are taken at; the dual is solved here by default, to `tol`.
    draws : int
        Scenarios.
    rng : int or numpy.random.Generator, optional
        A seed, or a generator that gives one; as in `simulate`.
    weight : float, optional
        Of the penalty, 0 to 1; chosen here by default.
    pops : int
        Nodes after which the search of a scenario is stopped, for a bound that is valid but larger.
    tol, workers, progress
        As in `solve`.

    Returns
    -------
    InformationBound

    Raises
    ------
    ValueError
        If a setting is not allowed, or the scenarios need more memory than there is.

    Examples
    --------
    >>> from decobandit import Problem, information_bound
    >>> found = information_bound(Problem.uniform(arms=2, horizon=4), draws=50, rng=1)
    >>> found.scenarios, found.seed
    (50, 1)
    """
    refuse_batches(check_problem(problem), "information bound")
    refuse_kinds(problem, "information bound")
    seed = seed_of(rng)
    check_settings(draws, weight, pops)
    clock = Stopwatch()
    if solution is None:
        solution = whole_solution(problem, tol=tol)
    check_solution(solution, problem)
    world = World(problem, draws=CHUNK + draws, per_draw=1, seed=seed)
    with pool(worker_count(workers)) as threads:
        scenario_bound = _ScenarioBound(world, solution, pops, threads, progress or silent)
        if weight is None:
            weight = _choose_weight(scenario_bound)
        found = scenario_bound.values(weight, slice(CHUNK, None), "information bound")
    estimated = found.estimate()
    return InformationBound(
        problem=problem,
        lagrangian=solution.upper_bound,
        information=estimated.value,
        information_se=estimated.value_se,
        weight=weight,
        trivial=world.expected_best,
        scenarios=draws,
        seed=seed,
        stopped_early=float(np.mean(~found.proven)),
        seconds=clock.seconds(),
    )


def check_settings(draws: int, weight: float | None, pops: int = MOST_POPS) -> None:
    """Refuse settings that make no bound."""
    check_sizes(draws, 1)
    if weight is not None and not 0.0 <= weight <= 1.0:
        raise ValueError(f"weight: {weight} is not allowed; must be 0 to 1")
    if pops < 0:
        raise ValueError(f"pops: {pops} is not allowed; must be zero or more")


def _choose_weight(scenario_bound: _ScenarioBound) -> float:
    """The best weight on the pilot sample: from the middle downhill, by convexity."""

    @functools.cache
    def value(place: int) -> float:
        found = scenario_bound.values(WEIGHTS[place], slice(0, CHUNK), PILOT, pilot=True)
        return found.estimate().value

    place = len(WEIGHTS) // 2
    step = -1 if value(place - 1) < value(place) else 1
    while 0 <= place + step < len(WEIGHTS) and value(place + step) < value(place):
        place += step
    return WEIGHTS[place]


@dataclass(frozen=True, eq=False)
class _Values:
    """Bounds of some scenarios, and their controls."""

    bound: Floats  # (S,)
    proven: npt.NDArray[np.bool_]  # (S,)
    controls: Floats  # (S, q) of mean zero, weighted
    sizes: Floats  # (q,) of the terms that each is the difference of
    weights: Floats  # (S,) of mean 1
    ceiling: float  # on the bound of any scenario
    missed: Missed

    def estimate(self) -> Estimate:
        weighted = self.weights * self.bound
        fitted = regression(weighted, self.controls, self.sizes)
        each = weighted if fitted is None else fitted
        span = float(self.weights.max()) * max(self.ceiling - float(each.mean()), 0.0)
        return mean_estimate(each, replace(self.missed, span=span))


class _ScenarioBound:
    """Scenarios of a world, laid out in waves that fit into memory, and solved in threads."""

    def __init__(
        self, world: World, solution: DualSolution, pops: int, threads: Pool, report: Report
    ) -> None:
        problem = world.problem
        groups = problem.groups
        self._world, self._threads, self._report = world, threads, report
        self._relaxation = OneArmValues(problem, solution.prices)
        self._lagrangian = solution.upper_bound
        self._model = Model(
            alpha=np.array([group.alpha for group in groups]),
            beta=np.array([group.beta for group in groups]),
            reward_good=np.array([group.reward_good for group in groups]),
            reward_bad=np.array([group.reward_bad for group in groups]),
            final=self._relaxation.stage_values(problem.stages),
            group=problem.group_of_arm,
            pulls=problem.pulls.astype(np.int64),
            mu=solution.prices,
        )
        self._workers = threads.workers
        K = problem.n_arms
        self._choices = max(math.comb(K, m) for m in {*self._model.pulls.tolist()})
        self._pops = pops if self._choices <= MOST_CHOICES else 0
        self._dense = K == 2 and problem.pulls_per_stage == 1
        self._wave = self._size_of_wave()

    def _size_of_wave(self) -> int:
        """How many scenarios to lay out together."""
        K, stages = self._world.problem.n_arms, self._world.problem.stages
        bytes_of_table = 8.0 * K * slab_size(stages)
        size = int(min(CHUNK, max(self._workers, WAVE_BYTES // bytes_of_table)))
        nodes = min(MOST_NODES, self._pops * self._choices)
        refuse_over(
            size * bytes_of_table + self._workers * (2 * bytes_of_table + nodes * (2.0 * K + 50)),
            f"the information bound of {K} arms over {stages} stages",
            "shorten the horizon or use fewer workers",
        )
        return size

    def values(self, weight: float, part: slice, what: str, *, pilot: bool = False) -> _Values:
        """Bounds of some of the world's scenarios; of a pilot sample, by less work."""
        world = self._world
        first, last, _ = part.indices(world.draws)
        bound, proven = np.empty(last - first), np.empty(last - first, np.bool_)
        weights, games = np.empty(last - first), np.empty((last - first, 2))
        drawn = []
        for place, scenarios, counts in self._waves(first, last):
            mine = slice(place.start - first, place.stop - first)
            fair_games(self._model, scenarios, games[mine])
            drawn.append(scenarios.p)
            weights[mine] = counts
            self._solve(scenarios, weight, pilot, bound[mine], proven[mine])
            self._report(Progress(what, mine.stop, last - first))
        p = np.concatenate(drawn)
        known, sizes = world.controls(p, weights)
        controls = np.column_stack([known, weights[:, None] * games])
        sizes = np.append(sizes, np.full(games.shape[1], world.size))
        ceiling = weight * self._lagrangian + (1.0 - weight) * world.most
        missed = world.missed(p, weights)
        return _Values(bound, proven, controls, sizes, weights, ceiling, missed)

    def _waves(self, first: int, last: int) -> Iterator[tuple[slice, Scenarios, Floats]]:
        """Scenarios first..last-1, some at a time: which, laid out, and their weights."""
        while first < last:
            number = first // CHUNK
            stop = min(last, first + self._wave, (number + 1) * CHUNK)
            chunk = self._world.chunk(number)
            own = slice(first - number * CHUNK, stop - number * CHUNK)
            p, keys = chunk.means[own], chunk.keys[own]
            yield slice(first, stop), self._lay_out(p, keys), chunk.weights[own]
            first = stop

    def _lay_out(self, p: Floats, keys: npt.NDArray[np.uint64]) -> Scenarios:
        stages = self._world.problem.stages
        good = np.empty((*p.shape, stages + 1), np.int32)
        draw_outcomes(p, keys, good)
        scenarios = Scenarios(p, good, np.empty((*p.shape, slab_size(stages - 1))))
        parts = [_cut(scenarios, part) for part in self._parts(len(p))]
        for t in reversed(range(stages)):  # values are computed backward: each stage once
            later = self._relaxation.stage_values(t + 1)
            self._threads.map(lambda each: lay_out(t, later, self._model, each), parts)  # noqa: B023
        return scenarios

    def _parts(self, size: int) -> list[slice]:
        """Several for each thread: scenarios take different times."""
        pieces = min(size, 4 * self._workers)
        edges = np.linspace(0, size, pieces + 1).round().astype(int)
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]

    def _solve(
        self,
        scenarios: Scenarios,
        weight: float,
        pilot: bool,
        bound: Floats,
        proven: npt.NDArray[np.bool_],
    ) -> None:
        steps, pops = (PILOT_STEPS, 0) if pilot else (STEPS, self._pops)

        def solve_part(part: slice) -> None:
            best_allocations(
                self._model,
                _cut(scenarios, part),
                weight,
                steps,
                pops,
                self._choices,
                self._dense,
                bound[part],
                proven[part],
            )

        self._threads.map(solve_part, self._parts(bound.size))


def _cut(scenarios: Scenarios, part: slice) -> Scenarios:
    return Scenarios(scenarios.p[part], scenarios.good[part], scenarios.surprise[part])
