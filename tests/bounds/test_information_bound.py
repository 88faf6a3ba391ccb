"""The information bound: brute force over allocations and outcomes, and what is known of optima."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from decobandit.bounds import Bounds
from decobandit.bounds import information_bounds as module
from decobandit.bounds.kernels.allocation import lower, row, search
from decobandit.joint import optimum
from decobandit.policies.kernels.episodes import uniform
from decobandit.prices import DualSolution, dual_value, solve
from decobandit.problem import (
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    Terminal,
)
from decobandit.simulation import CHUNK, World, simulate
from helpers.examples import KINDS, random_prices
from helpers.oracles import OneArm, dual, good_chance, one_arms, stage_pulls
from helpers.refusals import refused
from helpers.values import information_bound

FAR = 4.5  # standard errors: one run in 150 000 is further off by chance, and seeds are fixed
FEW = 6  # scenarios, too few for a regression: the bound is then their mean
Floats = npt.NDArray[np.float64]
Outcomes = list[list[int]]  # of each arm, by pull


# -- brute force --------------------------------------------------------------------------------


def allocations(problem: Problem) -> Iterator[tuple[tuple[int, ...], ...]]:
    arms = range(problem.n_arms)
    return itertools.product(*(itertools.combinations(arms, m) for m in stage_pulls(problem)))


class Brute:
    """Every allocation in one scenario, arm by arm and stage by stage."""

    def __init__(self, problem: Problem, prices: Floats) -> None:
        self.problem, self.prices = problem, prices
        self.arms: list[OneArm] = one_arms(problem, prices)

    def penalised(self, outcomes: Outcomes, weight: float) -> float:
        """The largest sum of expected rewards minus weighted surprises, last rewards included."""
        return max(self._earned(each, outcomes, weight) for each in allocations(self.problem))

    def _earned(
        self, allocation: tuple[tuple[int, ...], ...], outcomes: Outcomes, weight: float
    ) -> float:
        n, g = [0] * len(self.arms), [0] * len(self.arms)
        total = 0.0
        for t, pulled in enumerate(allocation):
            for a in pulled:
                V, p = self.arms[a].value, good_chance(self.problem.arms[a], n[a], g[a])
                up, down = V(t + 1, n[a] + 1, g[a] + 1), V(t + 1, n[a] + 1, g[a])
                came = up if outcomes[a][n[a]] else down
                total += self.arms[a].ell(t, n[a], g[a]) - weight * (came - p * up - (1 - p) * down)
                n[a], g[a] = n[a] + 1, g[a] + outcomes[a][n[a]]
        last = len(allocation)
        return total + sum(arm.value(last, i, j) for arm, i, j in zip(self.arms, n, g, strict=True))

    def least_gap(self, outcomes: Outcomes) -> float:
        """The smallest sum of the gap terms of Theorem 1."""
        return min(self._gap(each, outcomes) for each in allocations(self.problem))

    def _gap(self, allocation: tuple[tuple[int, ...], ...], outcomes: Outcomes) -> float:
        n, g = [0] * len(self.arms), [0] * len(self.arms)
        total = 0.0
        for t, pulled in enumerate(allocation):
            d = [arm.index(t, n[a], g[a]) - self.prices[t] for a, arm in enumerate(self.arms)]
            total += sum(max(x, 0.0) for x in d) - sum(d[a] for a in pulled)
            for a in pulled:
                n[a], g[a] = n[a] + 1, g[a] + outcomes[a][n[a]]
        return total


def reported(problem: Problem, draws: int, seed: int = 1) -> Iterator[Outcomes]:
    """The outcomes of the scenarios that a bound is reported on: those after the pilot."""
    chunk = World(problem, draws=CHUNK + draws, per_draw=1, seed=seed).chunk(1)
    for p, keys in zip(chunk.means, chunk.keys, strict=True):
        yield [
            [int(uniform(key, n) < chance) for n in range(problem.stages)]
            for chance, key in zip(p, keys, strict=True)
        ]


def at_prices(problem: Problem, seed: int) -> DualSolution:
    """Some prices, far from the best."""
    prices = np.array(random_prices(problem, seed))
    return replace(
        solve(problem, tol=0.1),
        multipliers=prices[: problem.horizon],
        deployment_price=prices[-1] if problem.stages > problem.horizon else None,
        upper_bound=dual_value(problem, prices).value,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_scenarios_are_solved_as_by_brute_force(kind: str, weight: float) -> None:
    problem = KINDS[kind](3)
    for solution in (solve(problem), at_prices(problem, 3)):
        brute = Brute(problem, solution.prices)
        wanted = [brute.penalised(outcomes, weight) for outcomes in reported(problem, FEW)]
        found = information_bound(problem, solution=solution, draws=FEW, weight=weight)
        assert found.information == pytest.approx(np.mean(wanted), abs=1e-8)
        assert found.stopped_early == 0.0


def test_a_deployment_may_leave_more_to_choose_than_the_pulls_before() -> None:
    problem = KINDS["deployed"](3).model_copy(update={"pulls_per_stage": 3})
    solution = solve(problem)
    brute = Brute(problem, solution.prices)
    for pops in (1, 2, 5000):  # room for nodes is made for the most choices of a stage
        wanted = [brute.penalised(outcomes, 0.5) for outcomes in reported(problem, FEW)]
        found = information_bound(problem, solution=solution, draws=FEW, weight=0.5, pops=pops)
        assert found.information >= np.mean(wanted) - 1e-8
    assert found.information == pytest.approx(np.mean(wanted), abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_at_full_weight_it_is_the_dual_minus_the_least_gap(kind: str) -> None:
    problem = KINDS[kind](3)
    solution = at_prices(problem, 4)
    brute = Brute(problem, solution.prices)
    gaps = [brute.least_gap(outcomes) for outcomes in reported(problem, FEW)]
    assert min(gaps) >= 0.0
    found = information_bound(problem, solution=solution, draws=FEW, weight=1.0)
    upper = dual(problem, solution.prices)
    assert found.lagrangian == pytest.approx(upper, abs=1e-9)
    assert found.information == pytest.approx(upper - np.mean(gaps), abs=1e-8)


def chance_of(problem: Problem, outcomes: Outcomes) -> float:
    """The prior probability of all outcomes."""
    result = 1.0
    for arm, values in zip(problem.arms, outcomes, strict=True):
        for n, y in enumerate(values):
            p = good_chance(arm, n, sum(values[:n]))
            result *= p if y else 1.0 - p
    return result


@pytest.mark.parametrize(
    ("problem", "weight"),
    [
        (KINDS["seasonal"](3), 0.4),
        (KINDS["deployed"](2), 1.0),
        (Problem.uniform(arms=2, horizon=4), 0.2),
    ],
    ids=["seasonal", "deployed", "two arms"],
)
def test_the_estimate_agrees_with_the_sum_over_all_outcomes(
    problem: Problem, weight: float
) -> None:
    # what the regression is for: without bias, and with an error that is smaller and true
    solution = solve(problem)
    brute = Brute(problem, solution.prices)
    rows = list(itertools.product([0, 1], repeat=problem.horizon))
    every = [[[*row, 0] for row in each] for each in itertools.product(rows, repeat=problem.n_arms)]
    known = [[row[: problem.horizon] for row in each] for each in every]
    exact = math.fsum(
        chance_of(problem, seen) * brute.penalised(outcomes, weight)
        for seen, outcomes in zip(known, every, strict=True)
    )
    off = []
    for seed in range(10):
        found = information_bound(problem, solution=solution, draws=400, weight=weight, rng=seed)
        assert found.information_se > 0.0
        off.append((found.information - exact) / found.information_se)
    assert max(map(abs, off)) < FAR
    assert abs(np.mean(off)) < FAR / np.sqrt(10)
    assert 0.5 < np.sqrt(np.mean(np.square(off))) < 1.6  # 10 standard normals: 1 ± 0.2


# -- the best allocation ------------------------------------------------------------------------


def random_allocation_problem(seed: int, K: int, T: int, U: int = 1) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(U, row(T, U), K)), rng.normal(size=(row(T + 1, U), K))


def by_level(gain: Floats, last: Floats, pulls: npt.NDArray[np.int64]) -> float:
    """Forward over all vectors of units; an arm takes at most U at a stage."""
    U, _, K = gain.shape
    best = {(0,) * K: 0.0}
    for t, m in enumerate(pulls):
        after: dict[tuple[int, ...], float] = {}
        for n, value in best.items():
            for units in itertools.product(range(U + 1), repeat=K):
                if sum(units) == m:
                    then = tuple(np.add(n, units).tolist())
                    more = value + sum(
                        gain[u - 1, row(t, U) + n[a], a] for a, u in enumerate(units) if u
                    )
                    after[then] = max(more, after.get(then, -np.inf))
        best = after
    return max(v + sum(last[i, a] for a, i in enumerate(n)) for n, v in best.items())


@pytest.mark.parametrize(
    ("K", "T", "m", "U"),
    [
        (2, 30, 1, 1),
        (3, 9, 1, 1),
        (4, 6, 2, 1),
        (6, 4, 1, 1),
        (3, 4, 3, 1),
        (2, 5, 4, 4),
        (3, 3, 3, 3),
        (4, 3, 2, 2),
    ],
)
def test_the_search_finds_the_best_of_random_allocations(K: int, T: int, m: int, U: int) -> None:
    pulls = np.full(T, m)
    choices = math.comb(K + m - 1, m) if U > 1 else math.comb(K, m)
    for seed in range(10):
        gain, W = random_allocation_problem(seed, K, T, U)
        wanted = by_level(gain, W[row(T, U) :], pulls)
        upper, least, nu = lower(gain, pulls, np.zeros(T), W)
        assert least - 1e-9 <= wanted <= upper + 1e-9
        found, proven = search(gain, pulls, nu, W, least, upper, 100_000, choices)
        assert proven
        assert found == pytest.approx(wanted, abs=1e-7)


def test_a_search_that_is_stopped_gives_a_larger_bound() -> None:
    K, T = 5, 8
    pulls, cut = np.ones(T, np.int64), 0
    for seed in range(20):
        gain, W = random_allocation_problem(seed, K, T)
        upper, least, nu = lower(gain, pulls, np.zeros(T), W)
        wanted = by_level(gain, W[row(T, 1) :], pulls)
        before = upper
        for pops in (0, 1, 3, 10, 100, 100_000):
            found, proven = search(gain, pulls, nu, W, least, upper, pops, K)
            assert wanted - 1e-7 <= found <= before + 1e-7
            assert not proven or found == pytest.approx(wanted, abs=1e-7)
            cut += not proven
            before = found
    assert cut > 20


def test_a_small_budget_gives_a_larger_bound_on_the_same_scenarios() -> None:
    problem = Problem.uniform(arms=5, horizon=20)
    solution = solve(problem)
    few, some, all_ = (
        information_bound(problem, solution=solution, draws=50, weight=1.0, pops=pops)
        for pops in (0, 300, 100_000)
    )
    assert solution.upper_bound > few.information > some.information > all_.information
    assert few.stopped_early > some.stopped_early > all_.stopped_early == 0.0


# -- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_no_bound_is_below_the_optimum(kind: str) -> None:
    problem = KINDS[kind](5)
    exact = optimum(problem).value
    for solution in (solve(problem), at_prices(problem, 2)):
        for weight in (0.4, 1.0):
            found = information_bound(problem, solution=solution, draws=1000, weight=weight)
            assert found.information > exact - 3.0 * found.information_se - 1e-12 * abs(exact)
        assert found.information < solution.upper_bound + 1e-9  # at weight 1, always


@pytest.mark.parametrize(
    ("arms", "weight", "known", "error", "best"),
    [
        (2, 1.0, 12.714, 0.020, 12.431),
        (2, 0.4, 12.584, 0.030, 12.431),
        (3, 1.0, 13.797, 0.028, 13.466),
        (5, 1.0, 14.424, 0.027, 14.287),
    ],
)
def test_bounds_that_were_measured_before(
    arms: int, weight: float, known: float, error: float, best: float
) -> None:
    found = information_bound(Problem.uniform(arms=arms, horizon=20), draws=1500, weight=weight)
    assert found.information_se < error
    assert abs(found.information - known) < 3.0 * math.hypot(error, found.information_se)
    assert best < found.information < found.lagrangian - 10.0 * found.information_se
    assert found.best_is == "information"
    assert found.best == found.information + 3.0 * found.information_se


def test_one_arm_leaves_nothing_to_bound() -> None:
    found = information_bound(Problem.uniform(arms=1, horizon=5), draws=100, weight=1.0)
    assert found.information == pytest.approx(2.5, abs=1e-9)
    assert found.information_se == pytest.approx(0.0, abs=1e-9)


def test_where_the_best_arm_is_not_defined_there_is_no_trivial_bound() -> None:
    found = information_bound(KINDS["tabled"](4), draws=10, weight=1.0)
    assert found.trivial is None
    assert found.best == min(found.lagrangian, found.information + 3.0 * found.information_se)
    known = information_bound(Problem.uniform(arms=2, horizon=20), draws=10, weight=1.0)
    assert known.trivial == pytest.approx(20 * 2 / 3, abs=1e-9)


# -- settings -----------------------------------------------------------------------------------


def test_the_weight_is_chosen_on_other_scenarios() -> None:
    for arms, least, most in ((2, 0.2, 0.6), (5, 1.0, 1.0)):
        problem = Problem.uniform(arms=arms, horizon=20)
        chosen = information_bound(problem, draws=200)
        assert least <= chosen.weight <= most
        given = information_bound(problem, draws=200, weight=chosen.weight)
        assert chosen.information == given.information


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: None,
        lambda patch: patch.setattr(module, "WAVE_BYTES", 1),
    ],
    ids=["threads", "waves"],
)
def test_numbers_do_not_depend_on_how_work_is_cut(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = KINDS["heterogeneous"](8)

    def numbers(workers: int) -> tuple[float, float]:
        found: Bounds = information_bound(problem, draws=150, weight=0.7, workers=workers)
        return found.information, found.information_se

    once = numbers(3)
    change(monkeypatch)
    assert numbers(1) == once


def test_too_many_choices_are_priced_but_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = KINDS["several pulls"](5)
    searched = information_bound(problem, draws=50, weight=1.0)
    monkeypatch.setattr(module, "MAX_CHOICES", 9)  # of the ten
    priced = information_bound(problem, draws=50, weight=1.0)
    assert searched.information < priced.information < priced.lagrangian
    assert priced.stopped_early > 0.0


@pytest.mark.parametrize(
    "setting", [{"draws": 1}, {"weight": 1.5}, {"weight": math.nan}, {"pops": -1}], ids=str
)
def test_settings_that_make_no_sense_are_refused(setting: dict[str, float]) -> None:
    with refused("invalid_argument", *setting):
        information_bound(Problem.uniform(arms=2, horizon=3), **setting)  # type: ignore[arg-type]


# -- every outcome model, every batch size ------------------------------------------------------

CORNERS = {
    "batches": Problem.uniform(arms=3, horizon=3, pulls_per_stage=4, repeat=True, unit=2),
    "classes": Problem.uniform(
        arms=3, horizon=4, prior=DirichletCategorical([1, 1, 1]), reward=Reward(values=[0, 0.5, 1])
    ),
    "batches of classes": Problem.uniform(
        arms=2,
        horizon=2,
        prior=DirichletCategorical([1, 2, 1]),
        reward=Reward(values=[0, 0.5, 1]),
        pulls_per_stage=2,
        repeat=True,
    ),
    "batches, deployed": Problem.uniform(
        arms=3, horizon=2, pulls_per_stage=2, repeat=True, terminal=Terminal(deploy=20)
    ),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_the_optimum_of_every_corner_is_below_the_estimate(corner: str) -> None:
    problem = CORNERS[corner]
    exact, solution = optimum(problem).value, solve(problem)
    for weight in (0.0, 0.5, 1.0):
        found = information_bound(problem, solution=solution, draws=400, weight=weight)
        assert found.information > exact - FAR * found.information_se - 1e-9
        assert found.stopped_early == 0.0
    assert found.information <= solution.upper_bound + 1e-9  # at weight 1


def test_two_classes_are_good_and_bad() -> None:
    """The same beta process, written as classes: other scenarios, the same bound."""
    binary = Problem.uniform(arms=3, horizon=6)
    classes = Problem.uniform(
        arms=3, horizon=6, prior=DirichletCategorical([1, 1]), reward=Reward(values=[0, 1])
    )
    one, two = (information_bound(p, draws=1000, weight=0.6) for p in (binary, classes))
    error = math.hypot(one.information_se, two.information_se)
    assert abs(one.information - two.information) < FAR * error


@pytest.mark.parametrize(
    "prior", [NormalNormal(0, 1), GammaPoisson(2, 2)], ids=["normal", "counts"]
)
def test_values_on_a_grid_bound_what_policies_earn(prior: NormalNormal | GammaPoisson) -> None:
    noise = {"noise_sd": 1.0} if isinstance(prior, NormalNormal) else {}
    problem = Problem.uniform(arms=3, horizon=8, prior=prior, **noise)
    found = information_bound(problem, draws=300, weight=1.0)
    earned = simulate(problem, "deco", draws=2000).results[0]
    error = math.hypot(found.information_se, earned.value_se)
    assert found.information > earned.value - FAR * error
    assert found.information <= found.lagrangian + 1e-9
