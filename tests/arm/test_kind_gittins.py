"""Tables of finite-horizon Gittins indices of other kinds, against recursions of their own."""

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    MarkovArm,
    NormalNormal,
    Problem,
    Reward,
    State,
    Terminal,
    make_policy,
    simulate,
)
from decobandit.arm.gittins import normal_indices
from decobandit.arm.row_gittins import RowGittins
from helpers.exact_index import exact_indices


def index_of_normal(mean: float, sd: float, noise: float, stages: int) -> float:
    """On a fine grid of posterior means; between its points values are on chords, exactly so."""
    x = mean + sd * np.linspace(-8.0, 8.0, 2001)
    step = x[1] - x[0]
    precision = 1.0 / sd**2 + np.arange(stages) / noise**2
    moves = np.sqrt(1.0 / precision[:-1] - 1.0 / precision[1:])

    def gain(price: float) -> float:
        value = np.maximum(x - price, 0.0)
        for move in moves[::-1]:
            n = int(9.0 * move / step) + 2
            u = np.arange(-n - 1, n + 2) * step / move
            weights = np.diff(move * (norm.pdf(u) - u * norm.sf(u)), 2) / step
            beyond = value[-1] + np.arange(1, n + 1) * (value[-1] - value[-2])
            padded = np.concatenate([np.full(n, value[0]), value, beyond])
            pulled = x - price + np.convolve(padded, weights, "valid")
            value = np.maximum(pulled, 0.0)
        return float(pulled[len(x) // 2])

    return float(brentq(gain, mean - sd, mean + 4.0 * sd, xtol=1e-7))


@pytest.mark.parametrize(("sd", "noise", "stages"), [(0.8, 1.3, 8), (1.0, 5.0, 20)])
def test_tables_of_measurements_hold_the_index_to_a_thousandth(
    sd: float, noise: float, stages: int
) -> None:
    problem = Problem.uniform(arms=2, horizon=stages, prior=NormalNormal(0.3, sd), noise_sd=noise)
    table = RowGittins(problem, 0)
    fresh = np.array(problem.groups[0].model.initial(), dtype=float)
    for stage in (0, 2, stages - 4):
        wanted = index_of_normal(0.3, sd, noise, stages - stage)
        assert table.index(stage, fresh[None])[0] == pytest.approx(wanted, abs=1e-3 * sd)


def index_of_classes(
    counts: tuple[float, ...], values: tuple[float, ...], stages: int, deploy: float
) -> float:
    """Largest price at which a pull now is worth more than waiting, by plain recursion."""

    def advantage(price: float) -> float:
        def mean(known: tuple[float, ...]) -> float:
            return sum(c * v for c, v in zip(known, values, strict=True)) / sum(known)

        @cache
        def value(known: tuple[float, ...], left: int) -> float:
            if left == 0:
                return deploy * max(mean(known) - price, 0.0)
            return max(value(known, left - 1), pulled(known, left))

        def pulled(known: tuple[float, ...], left: int) -> float:
            after = (
                (c / sum(known), tuple(d + (i == j) for j, d in enumerate(known)))
                for i, c in enumerate(known)
            )
            return mean(known) - price + sum(p * value(then, left - 1) for p, then in after)

        return pulled(counts, stages) - value(counts, stages - 1)

    low = max(price for price in np.linspace(min(values), max(values), 50) if advantage(price) > 0)
    high = low + (max(values) - min(values)) / 49
    return float(brentq(advantage, low, high, xtol=1e-9))


@pytest.mark.parametrize("deploy", [0.0, 30.0])
def test_tables_of_classes_hold_the_index_with_and_without_a_deployment(deploy: float) -> None:
    counts, values = (0.5, 2.0, 1.5), (0.0, 1.0, -3.0)
    problem = Problem.uniform(
        arms=2,
        horizon=8,
        prior=DirichletCategorical(counts),
        reward=Reward(values=values),
        terminal=Terminal(deploy=deploy) if deploy else None,
    )
    table = RowGittins(problem, 0)
    fresh = np.array(problem.groups[0].model.initial(), dtype=float)
    for stage in (0, 2, 5):
        wanted = index_of_classes(counts, values, 8 - stage, deploy)
        assert table.index(stage, fresh[None])[0] == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize(
    ("prior_pulls", "discount", "published"),
    [
        # R package gittins, to 5e-4
        (1.0, 0.8, {0: 0.50552724}),
        # n sqrt(1 - a) times the index, as we remember the table of Gittins 1989: not looked up
        (1.0, 0.995, {0: 0.12852, 1: 0.17192, 2: 0.20137, 4: 0.24242, 9: 0.30400}),
    ],
)
def test_indices_of_normal_arms_without_end_are_the_published_ones(
    prior_pulls: float, discount: float, published: dict[int, float]
) -> None:
    found = normal_indices(prior_pulls, 9, discount)
    for n, value in published.items():
        scale = (n + 1) * np.sqrt(1.0 - discount) if discount == 0.995 else 1.0
        assert scale * found[n] == pytest.approx(value, abs=6e-4 if discount == 0.8 else 1e-4)


def test_indices_of_normal_arms_without_end_by_a_plain_sum_over_outcomes() -> None:
    """Discounted by a half, 14 pulls are for ever; outcomes on a grid of their own."""
    prior_pulls, discount, stages = 0.3, 0.5, 14
    x = np.linspace(-12.0, 12.0, 4801)
    z = np.linspace(-8.0, 8.0, 801)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    worth = np.maximum(x, 0.0) / (1.0 - discount)
    wanted = []
    for k in range(stages, -1, -1):
        n = prior_pulls + k
        at = x[:, None] + z / np.sqrt(n * (n + 1.0))
        there = np.where(at > x[-1], at / (1.0 - discount), np.interp(at, x, worth))
        gain = x + discount * (there * weights).sum(axis=1)
        wanted.append(-float(np.interp(0.0, gain, x)))
        worth = np.maximum(gain, 0.0)
    assert normal_indices(prior_pulls, 2, discount) == pytest.approx(wanted[::-1][:3], abs=2e-4)


def own_arm(
    means: np.ndarray, chances: np.ndarray, *, factor: object = 1.0, name: str = "a"
) -> Arm:
    """States 0, 1, ... of an arm that begins in the first."""
    states = {
        f"s{i}": {
            "mean": float(mean),
            "next": {f"to_{j}": (float(p), f"s{j}") for j, p in enumerate(row) if p > 0.0},
        }
        for i, (mean, row) in enumerate(zip(means, chances, strict=True))
    }
    prior = MarkovArm(first="s0", states=states)
    return Arm(name=name, prior=prior, reward=Reward(factor=factor))


HOT = own_arm(np.array([1.0, 0.0]), np.array([[0.5, 0.5], [0.0, 1.0]]), name="hot")
FLAT = own_arm(np.array([0.6]), np.array([[1.0]]), name="flat")


def own_index(problem: Problem, stage: int, pulls: int, state: int) -> tuple[float, float]:
    """In the table, and alone."""
    found, stats = RowGittins(problem, 0), np.array([float(pulls), float(state)])
    return float(found.index(stage, stats[None])[0]), found.root(stage, stats)


@pytest.mark.parametrize("seed", range(12))
def test_indices_of_own_states_are_the_exact_ones(seed: int) -> None:
    """With deployments and rewards by stage, many of which make some states cross zero often."""
    rng = np.random.default_rng(seed)
    S, T = int(rng.integers(1, 5)), int(rng.integers(1, 7))
    deploy = float(rng.choice([0, 0, 0.5, 1, 3, 20, 300]))
    means = rng.integers(0, 10, S) / 8.0
    chances = np.zeros((S, S))
    for i in range(S):
        for j in rng.integers(0, S, 2):
            chances[i, j] += 0.5
    ways = [np.ones(T), rng.integers(-1, 5, T) / 4.0, 0.75 ** np.arange(T)]
    factor = ways[seed % 3]
    arm = own_arm(means, chances, factor=factor.tolist())
    terminal = Terminal(deploy=deploy) if deploy else None
    problem = Problem(arms=(arm,), horizon=T, terminal=terminal)
    wanted = exact_indices(
        lambda s: [(Fraction(p), j) for j, p in enumerate(chances[s]) if p > 0.0],
        lambda t, s: Fraction(factor[t]) * Fraction(means[s]),
        T,
        deploy=Fraction(deploy),
        mean=lambda s: Fraction(means[s]),
    )
    reached = {0}
    for n in range(T):
        for stage, state in product(range(n, T), reached):
            index = float(wanted(stage, state))
            assert own_index(problem, stage, n, state) == pytest.approx((index, index), abs=1e-10)
        reached = {j for i in reached for j in range(S) if chances[i, j] > 0.0}


@pytest.mark.parametrize("seed", range(8))
def test_indices_of_classes_and_of_binary_arms_beside_them_are_the_exact_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    L = 2 + seed % 2
    T = int(rng.integers(1, 6 - seed % 2))
    deploy = float(rng.choice([0, 1, 5, 20, 300]))
    counts, values = rng.integers(1, 8, L) / 4.0, rng.integers(-4, 9, L) / 4.0
    factor = [np.full(T, 0.125), rng.integers(-1, 5, T) / 4.0][seed // 2 % 2].tolist()
    classes = Arm(
        name="classes",
        prior=DirichletCategorical(tuple(counts)),
        reward=Reward(values=tuple(values), factor=factor),
    )
    prior = BetaBernoulli(good=counts[0], bad=counts[1])
    binary = Arm(name="binary", prior=prior, reward=Reward(good=factor, bad=0.0))
    terminal = Terminal(deploy=deploy) if deploy else None
    problem = Problem(arms=(classes, binary), horizon=T, terminal=terminal)
    for group, of_outcome in enumerate((values, np.array([1.0, 0.0]))):
        K = len(of_outcome)

        def after(s: tuple[int, ...], K: int = K) -> list[tuple[Fraction, tuple[int, ...]]]:
            total = sum(map(Fraction, counts[:K])) + sum(s)
            return [
                ((Fraction(counts[i]) + s[i]) / total, (*s[:i], s[i] + 1, *s[i + 1 :]))
                for i in range(K)
            ]

        def mean(s: tuple[int, ...], earns: np.ndarray = of_outcome) -> Fraction:
            pairs = zip(after(s, len(earns)), earns, strict=True)
            return sum((p * Fraction(x) for (p, _), x in pairs), Fraction(0))

        wanted = exact_indices(
            after,
            lambda t, s, mean=mean: Fraction(factor[t]) * mean(s),
            T,
            deploy=Fraction(deploy),
            mean=mean,
        )
        table = RowGittins(problem, group)
        for stage, s in product(range(T), product(range(T), repeat=K)):
            if sum(s) <= stage:
                stats, index = np.array(s, dtype=float), float(wanted(stage, s))
                assert table.index(stage, stats[None])[0] == pytest.approx(index, abs=1e-10)
                assert table.root(stage, stats) == pytest.approx(index, abs=1e-10)


def best_ratio(means: np.ndarray, chances: np.ndarray, left: int, state: int) -> float:
    """Largest reward per pull up to a stopping time, by improving it from one time to the next."""
    ratio = float(means[state])
    while True:
        reward, pulls = np.zeros(len(means)), np.zeros(len(means))
        for _ in range(left):
            on = reward - ratio * pulls > 1e-15
            reward = means + chances @ np.where(on, reward, 0.0)
            pulls = 1.0 + chances @ np.where(on, pulls, 0.0)
        better = float(reward[state] / pulls[state])
        if better <= ratio + 1e-14:
            return ratio
        ratio = better


@pytest.mark.parametrize("seed", range(4))
def test_indices_of_own_states_are_the_best_reward_per_pull(seed: int) -> None:
    rng = np.random.default_rng(seed)
    T = int(rng.choice([20, 80]))
    means, chances = rng.random(4), rng.dirichlet(np.full(4, 0.4), size=4)
    table = RowGittins(Problem(arms=(own_arm(means, chances),), horizon=T), 0)
    for stage, state in product((0, 1, T // 2, T - 2, T - 1), range(4)):
        pulls = min(stage, 1)
        if chances[0, state] > 0.0 if pulls else state == 0:
            wanted = best_ratio(means, chances, T - stage, state)
            stats = np.array([float(pulls), float(state)])
            assert table.index(stage, stats[None])[0] == pytest.approx(wanted, abs=1e-8)
            assert table.root(stage, stats) == pytest.approx(wanted, abs=1e-10)


def test_arms_that_leave_their_best_state_are_worth_it() -> None:
    """A pull less a later pull is worth 2^-60: the sign of a difference would be rounding."""
    problem = Problem(arms=(HOT, FLAT), horizon=60)
    assert own_index(problem, 0, 0, 0) == pytest.approx((1.0, 1.0), abs=1e-12)
    assert make_policy(problem, "fh-gittins").choose(State.before(problem)) == (0,)
    # a deployment that a pull spoils: as good as none at a price of 1, and nowhere near
    deployed = Problem(arms=(HOT,), horizon=60, terminal=Terminal(deploy=3))
    assert own_index(deployed, 0, 0, 0) == pytest.approx((1.0, 1.0), abs=1e-12)


def test_arms_that_wear_for_certain_keep_what_they_earn_now() -> None:
    worn = np.array([[0.0, 1.0], [0.0, 1.0]])
    first, second = (own_arm(np.array([m, 0.3]), worn, name=f"{m}") for m in (0.9, 0.8))
    problem = Problem(arms=(first, second, own_arm(np.array([0.7]), np.eye(1))), horizon=2)
    assert own_index(problem, 0, 0, 0) == pytest.approx((0.9, 0.9), abs=1e-12)


def test_the_gittins_policy_of_arms_that_leave_their_best_state_is_optimal() -> None:
    arms = [HOT.model_copy(update={"name": f"hot {i}"}) for i in range(60)]
    problem = Problem(arms=(*arms, FLAT), horizon=150)
    found = simulate(problem, ["fh-gittins", "deco-calibrated"], draws=40, rng=1)
    for result in found.results:  # 60 arms earn 2 each on average and take 120 pulls
        assert result.value > 137.0


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1.0, 1e8, 1e12])
@pytest.mark.parametrize("deploy", [0.0, 2.0])
def test_indices_keep_the_unit_of_rewards(size: float, deploy: float) -> None:
    means, chances = np.array([0.75, 0.25, 1.0]), np.full((3, 3), 1.0 / 3.0)
    terminal = Terminal(deploy=deploy) if deploy else None
    of_unit, of_size = (
        Problem(arms=(own_arm(unit * means, chances),), horizon=5, terminal=terminal)
        for unit in (1.0, size)
    )
    wanted = own_index(of_unit, 1, 0, 0)[0]
    assert np.array(own_index(of_size, 1, 0, 0)) / size == pytest.approx([wanted] * 2, rel=1e-12)


@pytest.mark.parametrize("offset", [1e8, -1e8])
def test_indices_move_with_all_rewards(offset: float) -> None:
    means, chances = np.array([0.75, 0.25, 1.0]), np.full((3, 3), 1.0 / 3.0)
    near, far = (Problem(arms=(own_arm(means + add, chances),), horizon=5) for add in (0.0, offset))
    wanted = own_index(near, 1, 0, 0)[0]
    assert np.array(own_index(far, 1, 0, 0)) - offset == pytest.approx([wanted] * 2, abs=1e-7)


@pytest.mark.parametrize("spread", [0.0, 1e-17, 1e-15, 1e-320])
@pytest.mark.parametrize("deploy", [0.0, 7.0])
@pytest.mark.parametrize("middle", [0.0, 0.1, -1e12])
def test_the_index_of_a_constant_reward_is_that_reward(
    spread: float, deploy: float, middle: float
) -> None:
    means = middle + spread * np.array([0.0, 1.0])
    terminal = Terminal(deploy=deploy) if deploy else None
    chances = np.array([[0.5, 0.5], [0.5, 0.5]])
    problem = Problem(arms=(own_arm(means, chances),), horizon=9, terminal=terminal)
    found = own_index(problem, 0, 0, 0)
    assert found == pytest.approx((middle, middle), rel=1e-15, abs=1e-300 + 10.0 * spread)
    for prior, more in (
        (NormalNormal(middle, 1.0), {"noise_sd": 1.0}),
        (GammaPoisson(2.0, 1.0), {}),
    ):
        arm = Arm(name="a", prior=prior, reward=Reward(factor=0.0), **more)  # type: ignore[arg-type]
        table = RowGittins(Problem(arms=(arm,), horizon=4), 0)
        fresh = np.array(table.problem.groups[0].model.initial(), dtype=float)
        assert table.root(1, fresh) == table.index(1, fresh[None])[0] == 0.0
