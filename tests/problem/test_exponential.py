"""Exponential survival times: formulas against quadrature, bounds against what policies earn."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

from decobandit import (
    Arm,
    GammaExponential,
    Problem,
    Reward,
    State,
    load_problem,
    make_policy,
    operating_characteristics,
    recommend,
    save_problem,
    simulate,
    solve,
)
from decobandit.arm import graph_of
from decobandit.problem import Design, ExponentialModel
from decobandit.trials import create_trial
from helpers.refusals import refused

CASES = [(3.0, 2.0, math.inf), (1.6, 2.0, math.inf), (2.0, 1.0, 1.5), (0.7, 3.0, 2.0), (1.0, 2, 5)]
KNOWN = np.array([[0.0, 0.0], [1.0, 0.3], [4.0, 9.0]])


def _posterior(model: ExponentialModel, known: np.ndarray) -> stats.rv_continuous:
    return stats.gamma(model.shape + known[0], scale=1.0 / (model.rate + known[1]))


def _over(model: ExponentialModel, known: np.ndarray, function) -> float:
    """E function(rate), by quadrature in the level of the rate."""
    law = _posterior(model, known)
    return integrate.quad(lambda u: function(law.ppf(u)), 0, 1, limit=500, epsabs=1e-11)[0]


def _capped(model: ExponentialModel, rate: float) -> float:
    """E min(time, cap), by the survival function."""
    return 1.0 / rate if model.cap == math.inf else -math.expm1(-model.cap * rate) / rate


@pytest.mark.parametrize("case", CASES)
def test_moments_of_the_mean_are_those_of_quadrature(case: tuple[float, ...]) -> None:
    model = ExponentialModel(*case)
    for known in KNOWN:
        if model.cap == math.inf and model.shape + known[0] <= 2.5:
            continue  # too heavy a tail for this quadrature
        mean = _over(model, known, lambda rate: _capped(model, rate))
        square = _over(model, known, lambda rate: _capped(model, rate) ** 2)
        assert float(model.mean(known)) == pytest.approx(mean, rel=1e-6)
        assert float(model.sd(known)) == pytest.approx(math.sqrt(square - mean**2), rel=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_the_law_of_the_mean_is_that_of_the_rate(case: tuple[float, ...]) -> None:
    model = ExponentialModel(*case)
    levels = np.array([1e-6, 0.03, 0.5, 0.9, 0.999])
    for known in KNOWN:
        points = model.quantile(known[None], levels)
        rates = _posterior(model, known).isf(levels)
        assert points == pytest.approx([_capped(model, rate) for rate in rates], rel=1e-9)
        assert model.cdf(known[None], points) == pytest.approx(levels, rel=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_the_excess_of_the_next_mean_is_that_of_quadrature(case: tuple[float, ...]) -> None:
    model = ExponentialModel(*case)
    for known in KNOWN:
        a, b = model.shape + known[0], model.rate + known[1]
        for factor in (0.3, 0.9, 1.0, 1.2, 2.0):
            c = min(factor * float(model.mean(known)), 0.999 * model.cap)

            def over(t: float, a: float = a, b: float = b, c: float = c, n=known[0]) -> float:
                later = np.array([n + 1.0, b * math.exp(t) - model.rate])
                return a * math.exp(-a * t) * max(float(model.mean(later)) - c, 0.0)

            end = 60.0 / (a - (model.cap == math.inf))
            oracle = integrate.quad(over, 0, end, limit=2000, epsabs=1e-13)[0]
            found = float(model.excess(known, np.array(c)))
            assert found == pytest.approx(oracle, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_statistics_are_found_from_their_mean(case: tuple[float, ...]) -> None:
    model = ExponentialModel(*case)
    for known in KNOWN:
        back = model.stats_at(known[0], model.mean(known)[None])
        assert back[0] == pytest.approx(known, rel=1e-9, abs=1e-9)


def test_the_capped_total_is_expected_given_the_sum() -> None:
    model, rng = ExponentialModel(2.0, 1.0, 1.5), np.random.default_rng(1)
    times = rng.dirichlet(np.ones(4), 200_000) * 5.0  # given their sum, times are uniform spacings
    capped = np.minimum(times, 1.5).sum(axis=1)
    error = capped.std() / math.sqrt(len(capped))
    assert abs(float(model.total(np.array([4.0, 5.0]))) - capped.mean()) < 4.0 * error
    assert model.total(np.array([[1.0, 5.0], [1.0, 0.4], [0.0, 0.0]])) == pytest.approx(
        [1.5, 0.4, 0]
    )


def test_sums_ahead_have_the_law_of_draws() -> None:
    model, rng = ExponentialModel(3.0, 2.0, 4.0), np.random.default_rng(1)
    known = np.array([2.0, 3.0])
    chances, later = model.ahead(known[None], 3, 100)
    drawn = model.sample_total(
        model.sample(np.tile(known, (200_000, 1)), rng), np.tile(known, (200_000, 1)), 3, rng
    )
    for values in (model.mean, model.sd):
        sample = values(drawn)
        error = sample.std() / math.sqrt(len(sample))
        assert abs(float((chances * values(later)).sum()) - sample.mean()) < 4.0 * error


@pytest.mark.parametrize("cap", [None, 3.0])
def test_laws_on_the_grid_keep_the_mean_and_the_convex_order(cap: float | None) -> None:
    model = ExponentialModel(3.0, 2.0, math.inf if cap is None else cap)
    above = graph_of(model, 3)
    below = above.lower
    assert below is not None
    for graph, sign in ((above, 1.0), (below, -1.0)):
        arrays = graph.arrays
        for row in range(graph.rows):
            later = arrays.mean[arrays.start[row + 1] : arrays.start[row + 2]]
            for s in range(arrays.start[row], arrays.start[row + 1], 37):
                law = arrays.weights[arrays.at[s] : arrays.at[s + 1]]
                points = later[arrays.to[s] : arrays.to[s] + law.size]
                up = arrays.up[s] if arrays.up.size else 0.0
                mean = arrays.mean[s]
                assert law.min() >= 0.0
                assert law.sum() == pytest.approx(1.0, abs=1e-10)
                assert law @ points + up == pytest.approx(mean, rel=1e-9)
                c = np.linspace(0.2 * mean, min(4.0 * mean, 0.999 * model.cap), 301)
                true = model.excess(model.stats_at(row, np.array([mean]))[:, None], c)[0]
                grid = np.maximum(points - c[:, None], 0.0) @ law + up
                assert (sign * (grid - true)).min() > -1e-9 * mean


@pytest.mark.parametrize("reward", [Reward(factor=1.0), Reward(cap=2.0)])
def test_bounds_hold_what_the_best_policy_of_two_stages_earns(reward: Reward) -> None:
    problem = Problem.uniform(2, 2, prior=GammaExponential(3, 2), reward=reward)
    model = problem.groups[0].model
    first = np.array([0.0, 0.0])
    mean = float(model.mean(first))
    optimum = 2.0 * mean + float(model.excess(first, np.array(mean)))
    solution = solve(problem)
    assert solution.lower_bound <= solution.upper_bound
    assert solution.upper_bound >= optimum
    found = simulate(problem, ["greedy"], draws=20_000, per_draw=1, rng=1).results[0]
    assert abs(found.value - optimum) < 4.0 * found.value_se


@pytest.mark.parametrize("reward", [Reward(factor=1.0), Reward(cap=4.0)])
def test_finer_grids_bring_the_bounds_together(reward: Reward) -> None:
    problem = Problem.uniform(3, 5, prior=GammaExponential(2.5, 2), reward=reward)
    coarse, fine = solve(problem, grid=64), solve(problem, grid=256)
    assert coarse.lower_bound <= fine.upper_bound <= coarse.upper_bound * (1.0 + 1e-4)
    assert fine.upper_bound - fine.lower_bound < 0.5 * (coarse.upper_bound - coarse.lower_bound)


def test_a_shape_of_one_or_less_needs_a_cap() -> None:
    with refused("invalid_problem", "prior.shape"):
        Arm(name="a", prior=GammaExponential(1, 2))
    assert Arm(name="a", prior=GammaExponential(1, 2), reward=Reward(cap=1)).reward.cap == 1.0
    with refused("invalid_problem", "reward.cap"):
        Arm(name="a", reward=Reward(cap=1), prior={"kind": "gamma", "shape": 1, "rate": 1})


def test_files_and_states_are_read_back(tmp_path: Path) -> None:
    problem = Problem.uniform(2, 5, prior=GammaExponential(3, 2), reward=Reward(cap=4))
    save_problem(problem, tmp_path / "p.toml")
    assert load_problem(tmp_path / "p.toml") == problem
    assert 'kind = "exponential"' in (tmp_path / "p.toml").read_text()
    state = State.parse("2.5/2,0/0", problem)
    assert str(state) == "2.5/2,0/0"
    assert recommend(problem, state).arms


@pytest.mark.parametrize(
    "policy", ["thompson", "deco", "greedy", "kl-ucb", "bayes-ucb", "ids", "knowledge-gradient"]
)
@pytest.mark.parametrize("cap", [None, 3.0])
def test_policies_play_survival_times(policy: str, cap: float | None) -> None:
    reward = Reward(factor=1.0) if cap is None else Reward(cap=cap)
    problem = Problem.uniform(2, 4, prior=GammaExponential(3, 2), reward=reward)
    found = simulate(problem, [make_policy(problem, policy)], draws=200, per_draw=1, rng=1)
    assert math.isfinite(found.results[0].value)


def test_designs_compare_capped_means() -> None:
    problem = Problem.uniform(2, 20, prior=GammaExponential(3, 2), reward=Reward(cap=4))
    scenarios = [{"name": "better", "truth": [1.0, 4.0]}, {"name": "null", "truth": [1.0, 1.0]}]
    design = Design(
        control="arm-1",
        policies=["thompson"],
        draws=100,
        stop={"superiority": 0.95},
        scenarios=scenarios,
    )
    found = operating_characteristics(problem, design)
    better, null = (each.policies[0].reject for each in found.scenarios)
    assert better > 0.5
    assert null < 0.3


def test_a_trial_asks_is_told_and_reports(tmp_path: Path) -> None:
    problem = Problem.uniform(2, 4, prior=GammaExponential(3, 2), reward=Reward(cap=4))
    trial = create_trial(problem, policy="thompson", db=tmp_path / "t.db", seed=1)
    for time in (2.5, 7.0, 0.5):
        allocation = trial.ask()
        trial.tell(allocation.id, time)
    with refused("invalid", "outcome"):
        trial.tell(trial.ask().id, -1.0)
    assert trial.status().earned == pytest.approx(2.5 + 4.0 + 0.5)
    assert trial.verify().ok


@pytest.mark.parametrize("text", ["0/3", "-1/2"])
def test_sums_of_times_are_positive(text: str) -> None:
    model = GammaExponential(3, 20).arm_model(Arm(name="a", prior=GammaExponential(3, 20)))
    with refused("invalid_argument"):
        model.format.read(text)
