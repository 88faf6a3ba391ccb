"""Random problems whose certificates can be checked, of every model with rational probabilities."""

import os
from collections.abc import Callable

import numpy as np

from decobandit import (
    Arm,
    BetaBernoulli,
    Chain,
    DirichletCategorical,
    MarkovArm,
    Problem,
    RandomHorizon,
    Reward,
    Terminal,
)
from helpers.examples import random_table

RANDOM = int(os.environ.get("DECO_CERTIFICATES", "40"))  # problems that a test tries
Make = Callable[[np.random.Generator], Problem]


def _beta(rng: np.random.Generator) -> BetaBernoulli:
    return BetaBernoulli(*(float(x) for x in rng.uniform(0.2, 4.0, 2)))


def _reward(rng: np.random.Generator, horizon: int) -> Reward:
    good = rng.uniform(-0.5, 2.0, horizon).tolist() if rng.random() < 0.5 else 1.0
    return Reward(good=good, bad=float(rng.uniform(-0.5, 0.5)))


def singles(rng: np.random.Generator) -> Problem:
    """Single pulls, with windows, last rewards or a deployment."""
    horizon, K = int(rng.integers(1, 9)), int(rng.integers(2, 5))
    table = rng.random() < 0.25
    arms = []
    for k in range(K):
        window = (0, int(rng.integers(1, horizon + 1))) if k > 1 and rng.random() < 0.5 else None
        last = random_table(rng, horizon) if table and k else None
        reward = _reward(rng, horizon)
        fields = {} if window is None else {"available": window}
        arms.append(Arm(name=f"a{k}", prior=_beta(rng), reward=reward, terminal=last, **fields))
    deployed = not table and rng.random() < 0.4
    terminal = Terminal(deploy=float(rng.uniform(1, 9)), deploy_arms=2) if deployed else None
    pulls = int(rng.integers(1, 3))
    return Problem(horizon=horizon, arms=arms, pulls_per_stage=pulls, terminal=terminal)


def batches(rng: np.random.Generator) -> Problem:
    """Batches of good and bad outcomes."""
    unit, units = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    terminal = Terminal(deploy=10.0) if rng.random() < 0.5 else None
    shared = {"pulls_per_stage": unit * units, "unit": unit, "repeat": True, "terminal": terminal}
    return Problem.uniform(3, int(rng.integers(1, 5)), prior=_beta(rng), **shared)


def classes(rng: np.random.Generator) -> Problem:
    """Arms with classes."""
    values = rng.uniform(-1.0, 3.0, 3).tolist()
    priors = [DirichletCategorical(rng.uniform(0.3, 2.0, 3).tolist()) for _ in range(2)]
    reward = Reward(values=values, factor=float(rng.uniform(0.5, 2.0)))
    arms = [Arm(name=f"a{k}", prior=prior, reward=reward) for k, prior in enumerate(priors)]
    return Problem(horizon=int(rng.integers(1, 6)), arms=arms)


def chains(rng: np.random.Generator) -> Problem:
    """Arms that move at rest."""
    size, K = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    priors = []
    for _ in range(K):
        moves = [rng.dirichlet(np.ones(size), size) for _ in range(2)]
        rewards = rng.uniform(-1.0, 1.0, (2, size))
        priors.append(Chain(*moves, *rewards, first=rng.dirichlet(np.ones(size)).tolist()))
    arms = [Arm(name=f"a{k}", prior=prior) for k, prior in enumerate(priors)]
    pulls = int(rng.integers(1, K + 1))
    return Problem(horizon=int(rng.integers(1, 12)), arms=arms, pulls_per_stage=pulls)


def named_states(rng: np.random.Generator) -> Problem:
    """Arms with states of their own, which stay at rest."""
    p, means = float(rng.uniform(0.1, 0.9)), rng.uniform(0.0, 1.0, 3).tolist()
    states = {
        "new": {"mean": means[0], "next": {"hit": (p, "good"), "miss": (1.0 - p, "bad")}},
        "good": {"mean": means[1], "next": {"any": (1.0, "new")}},
        "bad": {"mean": means[2], "next": {"any": (1.0, "bad")}},
    }
    prior = MarkovArm(first="new", states=states)
    return Problem.uniform(3, int(rng.integers(1, 8)), prior=prior)


def random_ends(rng: np.random.Generator) -> Problem:
    """A random horizon."""
    law = RandomHorizon(law="uniform", least=2, most=int(rng.integers(3, 9)))
    return Problem.uniform(3, law, prior=_beta(rng))


def budgets(rng: np.random.Generator) -> Problem:
    """A budget for the costs of pulls."""
    costs = rng.uniform(0.2, 2.0, 3).tolist()
    arms = [Arm(name=f"a{k}", prior=_beta(rng), cost=cost) for k, cost in enumerate(costs)]
    horizon = int(rng.integers(2, 8))
    return Problem(horizon=horizon, arms=arms, budget=float(rng.uniform(1.0, 5.0)))


MAKERS: dict[str, Make] = {
    make.__name__: make
    for make in (singles, batches, classes, chains, named_states, random_ends, budgets)
}


def random_problems(number: int, seed: int) -> list[Problem]:
    """Problems of all models in turn."""
    makers = list(MAKERS.values())
    return [makers[i % len(makers)](np.random.default_rng([seed, i])) for i in range(number)]
