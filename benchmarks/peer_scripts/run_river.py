"""Steps per second of river: `run_river.py POLICY ARMS HORIZON SECONDS`, in its own environment.

Its policies are asked and told directly, without an environment of gymnasium between.
"""

import json
import sys
import time

import numpy as np
from river import bandit, proba

POLICIES = {
    "thompson": lambda seed: bandit.ThompsonSampling(reward_obj=proba.Beta(1, 1), seed=seed),
    "ucb1": lambda seed: bandit.UCB(delta=1.0, seed=seed),  # g/n + sqrt(2 log t / n)
    "bayes-ucb": lambda seed: bandit.BayesUCB(seed=seed),
}


def main(name: str, arms: int, horizon: int, seconds: float) -> None:
    """Print the figure."""
    if name not in POLICIES:
        raise SystemExit(f"river is not asked for {name}")
    rng, every = np.random.default_rng(1), list(range(arms))
    began, steps = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        p, u = rng.random(arms).tolist(), rng.random(horizon).tolist()
        policy = POLICIES[name](steps)
        for t in range(horizon):
            arm = policy.pull(every)
            policy.update(arm, int(u[t] < p[arm]))
        steps += horizon
    print(json.dumps({"": steps / passed}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
