"""Steps per second of SMPyBandits: `run_smpybandits.py POLICY ARMS HORIZON SECONDS`.

Its policies are asked and told directly: its own evaluator would store and rank besides.
"""

import contextlib
import io
import json
import sys
import time

import numpy as np

with contextlib.redirect_stdout(io.StringIO()):  # it greets
    from SMPyBandits.Policies import UCB, Thompson, klUCB

POLICIES = {"thompson": Thompson, "kl-ucb": klUCB, "ucb1": UCB}


def main(name: str, arms: int, horizon: int, seconds: float) -> None:
    """Print the figure."""
    if name not in POLICIES:
        raise SystemExit(f"SMPyBandits is not asked for {name}")
    policy, rng = POLICIES[name](arms), np.random.default_rng(1)
    began, steps = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        p, u = rng.random(arms).tolist(), rng.random(horizon).tolist()
        policy.startGame()
        for t in range(horizon):
            arm = policy.choice()
            policy.getReward(arm, int(u[t] < p[arm]))
        steps += horizon
    print(json.dumps({"": steps / passed}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
