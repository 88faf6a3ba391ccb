"""
An engineer: batches, live
==========================

A page has three variants and 200 visitors an hour. Every hour the traffic is reallocated, based
on the outcomes so far. This notebook runs such a test as a trial: every allocation and every
outcome is in a log that can be checked and replayed.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from decobandit import Arm, BetaBernoulli, Problem, read_outcomes
from decobandit.trials import create_trial, open_store

problem = Problem(
    horizon=6,
    arms=[Arm(name=name, prior=BetaBernoulli(2, 18)) for name in ("control", "blue", "green")],
    pulls_per_stage=200,
    repeat=True,
    unit=20,  # variants get visitors in twenties
)
problem

# %%
# Six hours
# ---------
# ``ask`` says how many visitors every variant gets, ``tell`` records what came of it.
# The visitors are simulated here; in production the counts come from your own data.

RATES = {"control": 0.10, "blue": 0.10, "green": 0.16}
visitors = np.random.default_rng(1)
folder = TemporaryDirectory()
store = open_store(Path(folder.name) / "shop.db")
trial = create_trial(problem, policy="thompson", name="landing page", db=store, seed=1)
hours = []
for hour in range(problem.horizon):
    batch = trial.ask()
    counts = {
        arm: (int(visitors.binomial(pulls, RATES[arm])), pulls)
        for arm, pulls in batch.pulls.items()
    }
    trial.tell(batch.id, counts)
    hours.append({"hour": hour} | dict.fromkeys(RATES, 0) | batch.pulls)
pd.DataFrame(hours)

# %%
# Results so far
# --------------

trial

# %%
# Export and import
# -----------------
# The trial and its CSV export are tables of allocations. ``read_outcomes`` reads either.

frame = trial.to_frame(kind="pandas")
state = read_outcomes(problem, frame)
print(state)
frame[["allocation", "stage", "arm", "allotted", "good", "pulls"]].tail(3)

# %%
# The log
# -------
# Its events form a hash chain, and every allocation is recomputed from the outcomes recorded at the
# time.

checked, replayed = trial.verify(), trial.replay()
print(f"log intact: {checked.ok}; allotments the same again: {replayed.ok}")
store.close()
folder.cleanup()
