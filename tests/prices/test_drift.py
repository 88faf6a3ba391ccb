"""Drifting arms: Kalman's filter by hand, values by quadrature, bounds from both sides."""

from typing import NamedTuple

import numpy as np
import pytest

from decobandit import (
    Arm,
    NormalNormal,
    Problem,
    TooLarge,
    TwoLevel,
    bound,
    evaluate,
    load_problem,
    make_policy,
    optimum,
    recommend,
    save_problem,
    simulate,
    solve,
)
from decobandit.arm import OneArmValues, chains
from decobandit.problem import DriftModel, State, problem_from_dict, problem_to_dict
from helpers.refusals import refused

Z, WEIGHTS = np.polynomial.hermite_e.hermegauss(181)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def problem_of(priors, horizon, noise=1.0, factor=1.0):
    arms = [
        Arm(name=f"a{k}", **arm_fields(walk, noise), reward={"factor": factor})
        for k, walk in enumerate(priors)
    ]
    return Problem(arms=arms, horizon=horizon)


class Walk(NamedTuple):
    mean: float = 0.0
    sd: float = 1.0
    drift_sd: float | None = 0.2


def arm_fields(walk, noise):
    prior = NormalNormal(walk.mean, walk.sd)
    return {"prior": prior, "noise_sd": noise, "drift_sd": walk.drift_sd}


def one_arm_value(prior, noise, prices, t, mean, variance):
    """V of an arm at prices, by dense quadrature over its outcomes; mean (...)."""
    if t == len(prices):
        return np.zeros(np.shape(mean))
    q = prior.drift_sd**2
    rest = one_arm_value(prior, noise, prices, t + 1, mean, variance + q)
    spread = variance / np.sqrt(variance + noise**2)
    left = variance * noise**2 / (variance + noise**2) + q
    later = np.asarray(mean)[..., None] + spread * Z
    pull = one_arm_value(prior, noise, prices, t + 1, later, left) @ WEIGHTS
    return np.maximum(rest, mean - prices[t] + pull)


def joint_value(priors, noise, horizon):
    """The optimum of two arms by quadrature: (mean, variance) of either, one pull per stage."""
    z, w = np.polynomial.hermite_e.hermegauss(61)
    w = w / w.sum()

    def value(t, means, variances):
        if t == horizon:
            return np.zeros(np.broadcast(*means).shape)
        worths = []
        for pulled in (0, 1):
            v, q = variances[pulled], priors[pulled].drift_sd ** 2
            later, left = (
                list(means),
                [x + p.drift_sd**2 for x, p in zip(variances, priors, strict=True)],
            )
            left[pulled] = v * noise**2 / (v + noise**2) + q
            later = [np.asarray(m)[..., None] for m in later]
            later[pulled] = later[pulled] + v / np.sqrt(v + noise**2) * z
            after = np.broadcast_to(
                value(t + 1, later, left), np.broadcast(*later, np.zeros(z.size)).shape
            )
            worths.append(means[pulled] + after @ w)
        return np.maximum(*worths)

    means = [np.asarray(p.mean) for p in priors]
    return float(value(0, means, [p.sd**2 for p in priors]))


# -- beliefs ------------------------------------------------------------------------------------


def test_beliefs_are_those_of_the_joint_normal_law_of_all_means_and_outcomes():
    noise, drift = 0.7, 0.3
    model = DriftModel(0.4, 0.9, noise, drift)
    outcomes = [1.2, None, -0.3, 0.8]
    stats = np.array(model.initial(), dtype=float)
    for outcome in outcomes:
        rested = model.rested(np.array(0.0), stats)
        stats = rested if outcome is None else model.update(stats, np.array(outcome))
    # theta_t = theta_0 + steps; condition theta_4 on what was measured
    walk = 0.81 + drift**2 * np.minimum.outer(np.arange(5.0), np.arange(5.0))
    seen = [t for t, outcome in enumerate(outcomes) if outcome is not None]
    inner = walk[np.ix_(seen, seen)] + noise**2 * np.eye(len(seen))
    gain = walk[4, seen] @ np.linalg.inv(inner)
    away = np.array([outcomes[t] - 0.4 for t in seen])
    assert stats[1] == pytest.approx(0.4 + gain @ away, rel=1e-12)
    assert stats[2] ** 2 == pytest.approx(walk[4, 4] - gain @ walk[4, seen], rel=1e-12)
    assert stats[0] == 3


def test_streams_have_the_covariance_of_a_walk():
    model = DriftModel(0.5, 1.0, 0.7, 0.4)
    rng = np.random.default_rng(5)
    start = model.sample(np.broadcast_to(np.array(model.initial()), (200_000, 3)), rng)
    drawn = model.stream(start, 3, rng)
    walk = 1.0 + 0.16 * np.minimum.outer(np.arange(3.0), np.arange(3.0)) + 0.49 * np.eye(3)
    np.testing.assert_allclose(np.cov(drawn.T), walk, atol=0.05)  # ten standard errors
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=0.03)


def test_no_drift_is_the_normal_model():
    still = problem_of([Walk(0, 1, 0.0)] * 2, 5)
    assert still.groups[0].model == problem_of([Walk(0, 1, None)] * 2, 5).groups[0].model
    assert not still.is_restless
    nearly = problem_of([Walk(0, 1, 1e-3)] * 2, 5)
    assert nearly.is_restless
    one, other = solve(still), solve(nearly)
    assert other.upper_bound == pytest.approx(one.upper_bound, rel=0.01)
    assert other.lower_bound <= one.upper_bound * 1.001
    assert other.upper_bound >= one.lower_bound


# -- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("drift", "noise"), [(0.1, 1.0), (0.5, 1.0), (0.2, 0.4), (1.0, 2.0)])
def test_values_on_grids_are_above_and_below_those_by_quadrature(drift, noise):
    prior = Walk(0.1, 1.0, drift)
    problem = problem_of([prior], 3, noise)
    prices = np.array([0.5, 0.35, 0.2])
    value = float(one_arm_value(prior, noise, prices, 0, np.array(prior.mean), 1.0))
    tables = [OneArmValues(problem, prices).value() - prices.sum()]
    chain = chains.drift_chain(problem.groups[0].model, 3, 0, below=True)
    later = np.zeros(chain.reward.size)
    for price in prices[::-1]:
        ends = np.cumsum(chain.pull[0])
        pull = np.add.reduceat(chain.pull[2] * later[chain.pull[1]], ends - chain.pull[0])
        later = np.maximum(later[chain.rest[1]], chain.reward - price + pull)
    tables.append(float(chain.first @ later))
    above, below = tables
    assert below <= value + 1e-3  # quadrature over kinks
    assert value <= above + 1e-3
    assert above - below < 0.03


def test_bounds_bracket_the_dual_and_lie_above_the_optimum():
    priors = [Walk(0.0, 1.0, 0.3), Walk(0.2, 0.7, 0.3)]
    problem = problem_of(priors, 3)
    solution = solve(problem)
    best = joint_value(priors, 1.0, 3)
    assert solution.upper_bound >= best - 1e-6
    assert solution.upper_bound < 1.1 * best
    assert solution.lower_bound <= solution.upper_bound
    kinds = [one.kind for one in bound(problem)]
    assert kinds == ["lagrangian"]


def test_default_grid_brackets_the_dual_to_one_per_cent():
    solution = solve(problem_of([Walk(0, 1, 0.1)] * 5, 20), tol=1e-3)
    assert solution.grid == 512
    assert solution.lower_bound < solution.upper_bound
    assert solution.upper_bound - solution.lower_bound < 0.01 * solution.upper_bound


def test_laws_above_and_below_keep_the_mean():
    model = DriftModel(0.0, 1.0, 1.0, 0.3)
    chain = chains.drift_chain(model, 5, -2)
    for one in (chain, chain.contract()):
        ends = np.cumsum(one.pull[0])
        starts = ends - one.pull[0]
        mean = one.reward - one.rest_reward
        np.testing.assert_allclose(np.add.reduceat(one.pull[2], starts), 1.0, atol=1e-12)
        after = np.add.reduceat(one.pull[2] * mean[one.pull[1]], starts)
        np.testing.assert_allclose(after, mean, atol=1e-9)
        np.testing.assert_allclose(mean[one.rest[1]], mean, atol=1e-12)


# -- policies -----------------------------------------------------------------------------------


def test_policies_play_drifting_arms_within_the_bound():
    problem = problem_of([Walk(0, 1, 0.2)] * 3, 8)
    names = ["deco", "thompson", "greedy", "knowledge-gradient", "equal"]
    played = simulate(problem, names, draws=1500, rng=1)
    value = {result.policy: float(result.value) for result in played.results}
    most = solve(problem).upper_bound
    assert max(value.values()) < most
    assert value["deco"] > 0.84 * most
    assert value["deco"] > value["thompson"] > value["equal"]
    assert value["knowledge-gradient"] > value["thompson"]
    assert played.results[0].regret is None


def test_two_stages_of_deco_are_worth_what_quadrature_says():
    """Greedy at the last stage, any arm at the first: the mean of the larger posterior mean."""
    problem = problem_of([Walk(0, 1, 0.5)] * 2, 2)
    played = simulate(problem, ["deco", "greedy"], draws=20_000, rng=2)
    spread = 1.0 / np.sqrt(2.0)
    worth = float(np.maximum(spread * Z, 0.0) @ WEIGHTS)
    for result in played.results:
        plain = result.estimates.by_method["plain"]
        assert abs(plain.value - worth) < 8 * plain.value_se + 1e-3


def test_rolling_looks_ahead_from_the_beliefs_of_now():
    problem = problem_of([Walk(0, 1, 0.3)] * 2, 3)
    policy = make_policy(problem, "deco-rolling")
    state = State.parse("0.9~0.76/1,0~1.04/0", problem)
    assert policy.select(1, state) == (0,)
    assert policy.select(1, State.parse("-0.9~0.76/1,0~1.04/0", problem)) == (1,)


def test_recommendations_name_beliefs():
    problem = problem_of([Walk(0, 1, 0.3)] * 2, 3)
    said = recommend(problem, State.parse("0.9~0.76/1,0~1.04/0", problem))
    assert said.arms[0].seen == "0.9~0.76/1"
    assert said.arms[0].index > said.arms[1].index
    for text in ("0.9/1,0~1/0", "0.9~0/1,0~1/0", "x~1/1,0~1/0"):
        with pytest.raises(ValueError, match="mean"):
            State.parse(text, problem)


# -- descriptions and refusals ------------------------------------------------------------------


def test_files_have_the_drift(tmp_path):
    problem = problem_of([Walk(), Walk(0.3, 0.5, 0.1)], 6)
    for path in (tmp_path / "p.toml", tmp_path / "p.json"):
        save_problem(problem, path)
        assert load_problem(path) == problem
    assert problem_from_dict(problem_to_dict(problem)) == problem


def test_what_does_not_go_with_drift_is_refused():
    problem = problem_of([Walk()] * 2, 3)
    for name in ("fh-gittins", "kl-ucb", "ids", "whittle"):
        with refused("unsupported", "policy"):
            make_policy(problem, name)
    for verb in (optimum, lambda p: evaluate(p, "greedy")):
        with refused("unsupported"):
            verb(problem)
    with refused("invalid_problem", "arms.1.prior.kind"):
        problem_of([Walk(), Walk(0, 1, None)], 3)
    with refused("invalid_problem", "arms.0.reward.factor"):
        problem_of([Walk()], 3, factor=-1.0)
    with refused("invalid_problem", "drift_sd"):
        Arm(name="a", **arm_fields(Walk(0, 1, -0.1), 1.0))
    with refused("invalid_problem", "drift_sd"):
        Arm(name="a", drift_sd=0.1)
    with pytest.raises(TooLarge):
        solve(problem_of([Walk(0, 1, 1e-4)], 400))


def test_two_level_and_drifting_arms_go_together():
    channel = TwoLevel(low=0.2, high=0.6, up=0.05, down=0.1, start=0.5)
    arms = [Arm(name="a", **arm_fields(Walk(0.3, 0.2, 0.1), 0.5)), Arm(name="b", prior=channel)]
    problem = Problem(arms=arms, horizon=4)
    solution = solve(problem)
    played = simulate(problem, ["deco", "greedy"], draws=500, rng=1)
    assert all(float(result.value) < solution.upper_bound for result in played.results)
