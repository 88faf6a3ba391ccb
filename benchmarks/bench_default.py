"""What the default policy loses to the best named policy, on random problems of four families.

The families are those where one fixed policy lost most: batches of two or three stages, batches
whose rewards fade by .7 a stage, non-binary outcomes with a deployment, and deployments that are
worth 20 to 100 times a small reward. All problems are small enough for the exact optimum.
`make bench` takes 25 problems of each; DECO_BENCH_PROBLEMS=400 in the environment takes 400.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np

from decobandit import Arm, BetaBernoulli, DirichletCategorical, Problem, Reward, Terminal
from decobandit.evaluation import evaluate

from .rows import Row, at_most

MEAN, MOST = 0.1, 1.0  # percent of the best value
RIVALS = (
    "deco",
    "deco-calibrated",
    "fh-gittins",
    "knowledge-gradient",
    "greedy",
    "optimal",
    "ogi",
    "bayes-ucb",
)
Draw = np.random.Generator


def beta(rng: Draw) -> BetaBernoulli:
    """Draw a prior worth 1 to 10 outcomes."""
    good, bad = rng.uniform(0.3, 5.0, 2).tolist()
    return BetaBernoulli(good, bad)


def short_batches(rng: Draw) -> Problem:
    """Two or three stages, two or three arms."""
    arms = int(rng.integers(2, 4))
    return Problem(
        arms=[Arm(name=f"a{k}", prior=beta(rng)) for k in range(arms)],
        horizon=int(rng.integers(2, 4)),
        pulls_per_stage=int(rng.integers(3, 9 if arms == 2 else 6)),
        repeat=True,
    )


def fading_batches(rng: Draw) -> Problem:
    """Rewards of .7 to the power of the stage."""
    arms, stages = int(rng.integers(2, 4)), int(rng.integers(3, 5))
    reward = Reward(good=[0.7**t for t in range(stages)], bad=[0.0] * stages)
    return Problem(
        arms=[Arm(name=f"a{k}", prior=beta(rng), reward=reward) for k in range(arms)],
        horizon=stages,
        pulls_per_stage=int(rng.integers(2, 6 if arms == 2 else 4)),
        repeat=True,
    )


def deployed_classes(rng: Draw) -> Problem:
    """Three outcomes per arm, and a deployment."""
    arms = int(rng.integers(2, 4))
    return Problem(
        arms=[
            Arm(
                name=f"a{k}",
                prior=DirichletCategorical(rng.uniform(0.3, 3.0, 3).tolist()),
                reward=Reward(values=sorted(rng.uniform(0.0, 1.0, 3).tolist())),
            )
            for k in range(arms)
        ],
        horizon=int(rng.integers(3, 8 if arms == 2 else 6)),
        terminal=Terminal(deploy=float(rng.uniform(1.0, 30.0))),
    )


def large_deployments(rng: Draw) -> Problem:
    """A deployment worth 20 to 100 times a small reward."""
    arms = int(rng.integers(2, 4))
    reward = Reward(good=float(rng.uniform(0.005, 0.05)), bad=0.0)
    return Problem(
        arms=[Arm(name=f"a{k}", prior=beta(rng), reward=reward) for k in range(arms)],
        horizon=int(rng.integers(5, 16 if arms == 2 else 11)),
        terminal=Terminal(deploy=float(rng.uniform(20.0, 100.0))),
    )


FAMILIES: dict[str, Callable[[Draw], Problem]] = {
    "batches of 2 or 3 stages": short_batches,
    "batches, rewards .7^t": fading_batches,
    "classes with a deployment": deployed_classes,
    "large deployments": large_deployments,
}


def losses(family: str, problems: int, seed: int = 1) -> Iterator[float]:
    """Yield how far the default is below the best named policy, in percent of its value."""
    rng = np.random.default_rng(seed)
    for _ in range(problems):
        problem = FAMILIES[family](rng)
        best = max(value for name in RIVALS if (value := _value(problem, name)) is not None)
        yield 100.0 * max(0.0, best - evaluate(problem).value) / abs(best)


def _value(problem: Problem, name: str) -> float | None:
    try:
        return evaluate(problem, name).value
    except ValueError:  # it does not serve this problem
        return None


def run() -> list[Row]:
    """Two rows a family: the mean and the largest loss."""
    problems = int(os.environ.get("DECO_BENCH_PROBLEMS", "25"))
    rows = list[Row]()
    for family in FAMILIES:
        lost = list(losses(family, problems))
        what = f"default below the best named policy, {problems} {family}"
        rows.append(at_most(f"{what}: mean", float(np.mean(lost)), "%", MEAN))
        rows.append(at_most(f"{what}: largest", max(lost), "%", MOST))
    return rows
