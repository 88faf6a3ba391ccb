"""Tables of finite-horizon Gittins indices of other kinds, against recursions of their own."""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from decobandit import Categorical, Normal, Payoff, Problem, Terminal
from decobandit.arm.kinds.gittins import RowGittins, crossing
from decobandit.arm.kinds.normal_gittins import normal_indices


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
    problem = Problem.uniform(arms=2, horizon=stages, prior=Normal(0.3, sd), noise_sd=noise)
    table = RowGittins(problem, 0)
    fresh = np.array(problem.groups[0].kind.fresh(), dtype=float)
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
        arms=2, horizon=8, prior=Categorical(counts), reward=Payoff(values=values),
        terminal=Terminal(deploy=deploy) if deploy else None,
    )  # fmt: skip
    table = RowGittins(problem, 0)
    fresh = np.array(problem.groups[0].kind.fresh(), dtype=float)
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


@pytest.mark.filterwarnings("error")
def test_a_crossing_is_between_its_prices_however_flat_the_gains() -> None:
    prices = np.array([0.0, 1.0, 2.0])
    # a parabola without slope where its chord crosses, and a line
    gains = [np.array([5.75e10, 4.0]), np.array([0.75e10, 1.0]), np.array([-0.25e10, -2.0])]
    flat, plain = crossing(prices, gains)
    assert 1.0 <= flat <= 2.0
    assert plain == pytest.approx(4.0 / 3.0)
