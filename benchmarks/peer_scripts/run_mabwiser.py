"""Steps per second of MABWiser: `run_mabwiser.py POLICY ARMS HORIZON SECONDS`.

It learns from a first batch before it can be asked: one pull of every arm, which counts as steps.
After that every step is a `predict` and a `partial_fit`, as in its own examples of online use.
"""

import json
import sys
import time

import numpy as np
from mabwiser.mab import MAB, LearningPolicy

POLICIES = {
    "thompson": LearningPolicy.ThompsonSampling(),
    "ucb1": LearningPolicy.UCB1(alpha=1.0),  # g/n + sqrt(2 log t / n)
}


def main(name: str, arms: int, horizon: int, seconds: float) -> None:
    """Print the figure."""
    if name not in POLICIES:
        raise SystemExit(f"MABWiser is not asked for {name}")
    rng, every = np.random.default_rng(1), list(range(arms))
    began, steps = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        p, u = rng.random(arms), rng.random(horizon)
        policy = MAB(every, POLICIES[name], seed=steps)
        policy.fit(every, (u[:arms] < p).astype(int))
        for t in range(arms, horizon):
            arm = policy.predict()
            policy.partial_fit([arm], [int(u[t] < p[arm])])
        steps += horizon
    print(json.dumps({"": steps / passed}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
