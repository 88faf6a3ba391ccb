"""Bounds that are roots: kernels against scipy, whole tables against the equations they solve."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import bdtr, betaincc, betainccinv, rel_entr
from scipy.stats import beta as beta_law

from decobandit.policies import IndexPolicy, KlUcbPolicy
from decobandit.policies.index_policy import pulls_and_good
from decobandit.policies.kernels.index_roots import (
    interpolate,
    kl_upper_bounds,
    upper_tail,
)
from decobandit.policies.upper_bounds import (
    BayesUcbPolicy,
    OgiPolicy,
    Solve,
    optimistic_roots,
    upper_quantiles,
)
from decobandit.problem import Arm, BetaBernoulli, Problem, Reward

Floats = np.ndarray
NEAR = 1e-11  # roots must lie this close to where the equation changes sign
POLICIES: list[type[IndexPolicy]] = [KlUcbPolicy, BayesUcbPolicy, OgiPolicy]
PRIORS = [(1.0, 1.0), (0.5, 0.5), (3.7, 0.4), (0.001, 0.1), (0.01, 3.7), (0.002, 0.003), (150, 800)]
STAGES = (1, 2, 3, 10, 57, 400, 5000)


def solution(solve: Solve, a: Floats, b: Floats, v: float) -> Floats:
    out = np.full((a.size, 3), np.nan)
    solve(a, b, v, out)
    return out


def shapes(seed: int, count: int = 3000) -> tuple[Floats, Floats]:
    """Parameters from 0.001 to 10^4, among them equal ones and posteriors of long records."""
    rng = np.random.default_rng(seed)
    a, b = 10 ** rng.uniform(-3, 4, (2, count))
    n = rng.integers(0, 5000, count)
    g = np.where(
        rng.random(count) < 0.3, np.where(rng.random(count) < 0.5, 0, n), rng.binomial(n, 0.4)
    )
    return np.concatenate([a, a, 0.5 + g, 3.7 + g]), np.concatenate(
        [b, a, 0.5 + n - g, 0.01 + n - g]
    )


# -- what is positive to the left of the root and negative to its right -------------------------


def bayes_excess(a: Floats, b: Floats, v: float, x: Floats) -> Floats:
    return betaincc(a, b, x) - math.exp(-v)


def ogi_excess(a: Floats, b: Floats, v: float, x: Floats) -> Floats:
    gamma = math.exp(v) / (1 + math.exp(v))
    mean = a / (a + b)
    gain = mean * betaincc(a + 1, b, x) - x * betaincc(a, b, x)  # E (p - x)^+
    return (1 - gamma) * mean + gamma * (x + gain) - x


def kl_excess(n: Floats, g: Floats, v: float, x: Floats) -> Floats:
    return v - n * (rel_entr(g / n, x) + rel_entr(1 - g / n, 1 - x))


EXCESS = {KlUcbPolicy: kl_excess, BayesUcbPolicy: bayes_excess, OgiPolicy: ogi_excess}


def changes_sign(policy: type[IndexPolicy], a: Floats, b: Floats, v: float, x: Floats) -> Floats:
    """Whether the root of the equation is within NEAR of x; at 0 and 1 there is one side only."""
    excess, low, high = EXCESS[policy], x - NEAR, x + NEAR
    least = b / a if policy is KlUcbPolicy else 0.0 * a  # the bound is not below the mean
    left = (low <= least) | (excess(a, b, v, np.maximum(low, least)) >= 0)
    right = (high >= 1) | (excess(a, b, v, np.minimum(high, 1)) <= 0)
    return (x >= 0) & (x <= 1) & left & right


# -- kernels ------------------------------------------------------------------------------------


def tail(a: float, b: float, x: float) -> float:
    w = x * (1 - x) * float(beta_law.pdf(x, a, b))
    return float(upper_tail(a, b, x, 1 - x, w))


def test_tails_agree_with_scipy_where_they_are_small_too() -> None:
    a, b = shapes(2)
    rng = np.random.default_rng(3)
    chance = 10 ** rng.uniform(-12, -0.01, a.size)
    x = betainccinv(a, b, chance)
    inside = (x > 1e-8) & (x < 1 - 1e-8)
    found = [tail(*of) for of in zip(a[inside], b[inside], x[inside], strict=True)]
    expected = betaincc(a, b, x)[inside]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    small = (a[inside] > 0.1) & (expected < 0.1)  # no difference from 1 in these
    np.testing.assert_allclose(np.array(found)[small], expected[small], rtol=1e-9)


def test_tail_of_integers_is_a_binomial_sum() -> None:
    for n, g in [(3, 1), (40, 17), (900, 0), (900, 899), (5000, 1200)]:
        for x in (0.01, 0.24, 0.5, 0.97):
            # more than g of n+1 uniforms are below x just if the g+1-th smallest is
            assert tail(g + 1, n - g + 1, x) == pytest.approx(
                bdtr(g, n + 1, x), rel=1e-10, abs=1e-290
            )


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("policy", "solve"), [(BayesUcbPolicy, upper_quantiles), (OgiPolicy, optimistic_roots)]
)
def test_roots_lie_where_the_equation_changes_sign(
    policy: type[IndexPolicy], solve: Solve, stage: int
) -> None:
    a, b = shapes(stage)
    v = math.log(stage + 1)
    x = solution(solve, a, b, v)[:, 0]
    assert changes_sign(policy, a, b, v, x).all()


@pytest.mark.parametrize("v", [1e-3, 0.05, 0.5])
def test_quantiles_below_the_median_are_found(v: float) -> None:
    a, b = shapes(4)
    x = solution(upper_quantiles, a, b, v)[:, 0]
    assert changes_sign(BayesUcbPolicy, a, b, v, x).all()
    assert not solution(upper_quantiles, a, b, 0.0).any()


@pytest.mark.parametrize("stage", STAGES)
def test_kl_bounds_lie_where_the_divergence_reaches_the_level(stage: int) -> None:
    rng = np.random.default_rng(stage)
    n = rng.integers(1, stage + 1, 3000).astype(float)
    g = np.where(
        rng.random(n.size) < 0.3, rng.choice([0, 1], n.size) * n, np.floor(rng.random(n.size) * n)
    )
    v = math.log(stage + 1)
    x = solution(kl_upper_bounds, n, g, v)[:, 0]
    assert changes_sign(KlUcbPolicy, n, g, v, x).all()
    np.testing.assert_allclose(x[g == 0], -np.expm1(-v / n[g == 0]), rtol=1e-14)
    assert (x[g == n] == 1).all()


@pytest.mark.parametrize("solve", [upper_quantiles, optimistic_roots, kl_upper_bounds])
def test_derivatives_are_those_of_the_root(solve: Solve) -> None:
    rng = np.random.default_rng(5)
    b = np.floor(10 ** rng.uniform(0, 3, 500))
    a = b + np.floor(10 ** rng.uniform(0, 3, 500))  # for the bounds: a pulls, b good
    h = 1e-3
    for v in (2.0, 4.0, 8.0):
        below, at, above = (solution(solve, a, b, v + k * h) for k in (-1, 0, 1))
        for order in (0, 1):
            slope = (above[:, order] - below[:, order]) / (2 * h)
            np.testing.assert_allclose(slope, at[:, order + 1], rtol=1e-4, atol=1e-7)


def test_interpolation_reproduces_polynomials_of_degree_five() -> None:
    rng = np.random.default_rng(6)
    curves = [np.polynomial.Polynomial(c) for c in rng.normal(size=(20, 6))]
    low, h = 1.3, 0.7

    def at(v: float) -> Floats:
        return np.array([[c(v), c.deriv()(v), c.deriv(2)(v)] for c in curves])

    for s in (0.0, 0.2, 0.5, 0.9, 1.0):
        out = np.empty(len(curves))
        interpolate(at(low), at(low + h), s, h, out)
        np.testing.assert_allclose(out, at(low + s * h)[:, 0], rtol=0, atol=1e-12)


def test_positions_give_back_their_states() -> None:
    n = np.repeat(np.arange(1500), np.arange(1, 1501))
    g = np.concatenate([np.arange(k + 1) for k in range(1500)])
    found = pulls_and_good(n * (n + 1) // 2 + g)
    assert (found[0] == n).all()
    assert (found[1] == g).all()
    rows = np.arange(2_000_000)
    ends = np.concatenate([rows * (rows + 1) // 2, rows * (rows + 3) // 2])
    found = pulls_and_good(ends)
    assert (found[0] == np.tile(rows, 2)).all()


# -- tables -------------------------------------------------------------------------------------


def one_arm(prior: tuple[float, float], horizon: int) -> Problem:
    return Problem.uniform(
        arms=1, horizon=horizon, prior=BetaBernoulli(good=prior[0], bad=prior[1])
    )


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("policy", POLICIES)
def test_tables_solve_their_equations_at_every_stage(
    policy: type[IndexPolicy], prior: tuple[float, float]
) -> None:
    made, rng = policy(one_arm(prior, 140)), np.random.default_rng(7)
    for stage in range(1, 140):
        n = rng.integers(1, stage + 1, 60)
        g = np.where(rng.random(60) < 0.3, rng.choice([0, 1], 60) * n, rng.integers(0, n + 1))
        n[-1], g[-1] = stage, 0
        x = made.stage_index(stage)[0, n * (n + 1) // 2 + g]
        a, b = (n, g) if policy is KlUcbPolicy else (prior[0] + g, prior[1] + n - g)
        assert changes_sign(policy, a, b, math.log(stage + 1), x).all(), stage


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.5, 0.5), (0.5, 20.0), (150.0, 0.5), (0.002, 0.1)])
def test_interpolated_tables_are_those_of_the_direct_solution(
    policy: type[IndexPolicy], prior: tuple[float, float]
) -> None:
    problem = one_arm(prior, 300)
    made = policy(problem)
    for stage in (40, 41, 77, 130, 201, 255, 299):
        n, g = pulls_and_good(np.arange((stage + 1) * (stage + 2) // 2))
        direct = made.index(stage, 0, np.stack([g, n - g], axis=1))
        np.testing.assert_allclose(made.stage_index(stage)[0], direct, rtol=0, atol=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_tables_do_not_depend_on_the_order_of_asking(policy: type[IndexPolicy]) -> None:
    problem = one_arm((0.4, 1.3), 90)
    forward, backward, alone = policy(problem), policy(problem), range(0, 90, 19)
    tables = [forward.stage_index(stage) for stage in range(90)]
    for stage in reversed(range(90)):
        np.testing.assert_array_equal(backward.stage_index(stage), tables[stage])
    for stage in alone:
        np.testing.assert_array_equal(policy(problem).stage_index(stage), tables[stage])
    with ThreadPoolExecutor(4) as pool:  # asked by several threads in any order
        order = np.random.default_rng(8).permutation(90)
        for stage, table in zip(order, pool.map(forward.stage_index, order), strict=True):
            np.testing.assert_array_equal(table, tables[stage])


@pytest.mark.parametrize("policy", [BayesUcbPolicy, OgiPolicy])
def test_equal_posteriors_have_equal_indices_whatever_the_prior(policy: type[IndexPolicy]) -> None:
    pairs = [((1, 1), (1, 0)), ((3, 2), (1, 0)), ((2, 3), (0, 1))]
    arms = tuple(
        Arm(name=str(i), prior=BetaBernoulli(good=a, bad=b), reward=Reward(good=good, bad=bad))
        for i, ((a, b), (good, bad)) in enumerate(pairs)
    )
    made = policy(Problem(arms=arms, horizon=120))
    for stage in (3, 30, 60, 119):
        for good in range(stage - 2):
            n = stage - 3
            # good and bad outcomes change places in the last arm
            states = [(n + 3, good + 2), (n, good), (n, n - good)]
            table = made.stage_index(stage)
            first, *others = (table[i, k * (k + 1) // 2 + g] for i, (k, g) in enumerate(states))
            assert others == [first, first]
