"""Steps per second of pymab: `run_pymab.py POLICY ARMS HORIZON SECONDS`, in its own environment.

Two figures: its public experiment, which checks every recorded number in Python afterwards, and its
compiled core alone, reached by the function that the public experiment calls.
"""

import json
import sys
import time
from collections.abc import Callable

import numpy as np
from pymab import BanditEnvironment, BernoulliReward, Experiment, ExperimentConfig
from pymab._backend import run_native_experiment
from pymab.policies import BernoulliThompsonSamplingPolicy, KLUCBPolicy, UCBPolicy

REPLICATES = 20  # episodes per draw of the parameters
NO_LOG_LOG = 1e-12  # weight of log log t: we play without it, and zero is refused


def policy_of(name: str, arms: int) -> object:
    """A fresh policy."""
    if name == "thompson":
        return BernoulliThompsonSamplingPolicy(n_arms=arms)
    if name == "kl-ucb":
        return KLUCBPolicy(n_arms=arms, c=NO_LOG_LOG)
    if name == "ucb1":
        return UCBPolicy(n_arms=arms)
    raise SystemExit(f"pymab is not asked for {name}")


def rate(episodes: Callable[[np.ndarray, int], object], arms: int, seconds: float) -> float:
    """Episodes per second, parameters drawn anew for each call; the first call is not counted."""
    rng = np.random.default_rng(1)
    episodes(rng.random(arms), 0)
    began, calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        calls += 1
        episodes(rng.random(arms), calls)
    return calls * REPLICATES / passed


def main(name: str, arms: int, horizon: int, seconds: float) -> None:
    """Print both figures."""

    def world(p: np.ndarray) -> BanditEnvironment:
        return BanditEnvironment(means=p, reward_model=BernoulliReward())

    def public(p: np.ndarray, seed: int) -> object:
        config = ExperimentConfig(
            horizon=horizon, n_replicates=REPLICATES, seed=seed, backend="rust"
        )
        policies = {name: policy_of(name, arms)}
        return Experiment(environment=world(p), policies=policies, config=config).run()

    def core(p: np.ndarray, seed: int) -> object:
        return run_native_experiment(
            environment=world(p),
            policies={name: policy_of(name, arms)},
            horizon=horizon,
            n_replicates=REPLICATES,
            seed=seed,
            reward_coupling="common",
            record_contexts=False,
        )

    ways = {"": public, "core alone": core}
    print(json.dumps({way: horizon * rate(f, arms, seconds) for way, f in ways.items()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
