"""The market of arms of any kind, stage by stage, against good and bad outcomes and the dual."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    Terminal,
    solve,
)
from decobandit.prices import demand

COLUMNS = ("prices", "fresh_index", "sold_fresh", "sold_touched", "above", "at_price")


@pytest.mark.parametrize("deploy", [None, 4.0])
def test_two_classes_buy_what_good_and_bad_outcomes_buy(deploy: float | None) -> None:
    terminal = None if deploy is None else Terminal(deploy=deploy)
    priors = {"a": (1, 1), "b": (1, 1), "c": (2, 3)}
    binary = Problem(
        horizon=9,
        arms=[Arm(name=name, prior=BetaBernoulli(*own)) for name, own in priors.items()],
        terminal=terminal,
    )
    classes = Problem(
        horizon=9,
        arms=[
            Arm(name=name, prior=DirichletCategorical(own[::-1]), reward=Reward(values=[0, 1]))
            for name, own in priors.items()
        ],
        terminal=terminal,
    )
    solution = solve(binary)
    one = demand(solution)
    at_the_same_prices: Any = SimpleNamespace(problem=classes, prices=solution.prices)
    two = demand(at_the_same_prices)
    for name in COLUMNS:
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=0, atol=1e-9)
    assert two.reward == pytest.approx(one.reward, abs=1e-9)


@pytest.mark.parametrize(
    "prior",
    [
        {"prior": DirichletCategorical([1, 1, 1]), "reward": Reward(values=[0, 1, 3])},
        {"prior": NormalNormal(0, 1), "noise_sd": 1.0},
        {"prior": GammaPoisson(2, 1)},
    ],
)
def test_every_stage_is_sold_out_and_earns_the_minimum_of_the_dual(prior: dict[str, Any]) -> None:
    problem = Problem.uniform(arms=3, horizon=6, **prior)
    solution = solve(problem, tol=1e-6)
    found = demand(solution)
    np.testing.assert_allclose(found.sold_fresh + found.sold_touched, 1.0, atol=1e-9)
    assert found.sold_fresh[0] == pytest.approx(1.0, abs=1e-12)
    assert np.all(found.above <= 1.0 + 1e-6)
    assert found.reward <= solution.upper_bound + 1e-9
    assert found.reward == pytest.approx(solution.upper_bound, rel=5e-4)
