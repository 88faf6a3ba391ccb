"""Pairs of ask and tell per second of Optuna: `run_optuna.py POLICY ARMS HORIZON SECONDS`.

Its database storage on an SQLite file with the defaults, which sync every commit, and its cheapest
sampler: what is measured is the storage. One thread, then 16.
"""

import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import optuna

THREADS = 16


def pairs(study: optuna.Study, arms: int, until: float) -> int:
    """Ask and tell in turn; how often."""
    choices = {"arm": optuna.distributions.CategoricalDistribution(list(range(arms)))}
    done = 0
    while time.perf_counter() < until:
        trial = study.ask(choices)
        study.tell(trial, float(done % 2))
        done += 1
    return done


def rate(arms: int, seconds: float, threads: int) -> float:
    """Pairs per second of threads that share a study."""
    with tempfile.TemporaryDirectory() as folder:
        study = optuna.create_study(
            storage=f"sqlite:///{Path(folder) / 'study.db'}",
            sampler=optuna.samplers.RandomSampler(seed=1),
        )
        pairs(study, arms, time.perf_counter() + 0.2)
        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            jobs = [pool.submit(pairs, study, arms, began + seconds) for _ in range(threads)]
            done = sum(job.result() for job in jobs)
        return done / (time.perf_counter() - began)


def main(arms: int, seconds: float) -> None:
    """Print both figures."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    ways = {"1 thread": 1, f"{THREADS} threads": THREADS}
    print(json.dumps({way: rate(arms, seconds, threads) for way, threads in ways.items()}))


if __name__ == "__main__":
    main(int(sys.argv[2]), float(sys.argv[4]))
