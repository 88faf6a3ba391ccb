"""Indices per second of markovianbandit: `run_markovianbandit.py POLICY ARMS HORIZON SECONDS`.

It knows chains with a discount and no horizon. An arm that is pulled at every stage is such a
chain: states (n, g), n < HORIZON, then a state that earns nothing for ever. With a discount near 1
its Gittins indices are the finite-horizon ones of the states with n = t; nearer than this, its
elimination loses all digits. Prints the rate and the first indices, to compare.
"""

import json
import sys
import time

import markovianbandit
import numpy as np

DISCOUNT = 1.0 - 1e-6
SHOWN = 10  # indices: the states of the first four stages


def chain(horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Transitions and rewards of an arm with a flat prior; (n, g) at n(n+1)/2 + g."""
    size = horizon * (horizon + 1) // 2 + 1
    moves, rewards = np.zeros((size, size)), np.zeros(size)
    moves[-1, -1] = 1.0
    for n in range(horizon):
        for g in range(n + 1):
            own, after = n * (n + 1) // 2 + g, (n + 1) * (n + 2) // 2 + g
            p = rewards[own] = (1 + g) / (2 + n)
            if n + 1 < horizon:
                moves[own, after], moves[own, after + 1] = 1.0 - p, p
            else:
                moves[own, -1] = 1.0
    return moves, rewards


def main(horizon: int, seconds: float) -> None:
    """Print the figures; making the matrices is not counted, nor is the first time."""
    moves, rewards = chain(horizon)
    best, until = float("inf"), 0.0
    while not until or time.perf_counter() < until:
        arm = markovianbandit.rested_bandit_from_P1_R1(moves, rewards)
        began = time.perf_counter()
        found = arm.gittins_indices(discount=DISCOUNT)
        best = min(best, time.perf_counter() - began) if until else best
        until = until or time.perf_counter() + seconds
    shown = {f"index {k}": float(index) for k, index in enumerate(found[:SHOWN])}
    print(json.dumps({"rate": (len(rewards) - 1) / best, **shown}))


if __name__ == "__main__":
    main(int(sys.argv[3]), float(sys.argv[4]))
