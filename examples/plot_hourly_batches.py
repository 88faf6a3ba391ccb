"""
An A/B/n test with hourly batches
=================================

A page has six versions and a hundred visitors an hour for ten hours. Outcomes arrive by the hour,
so a policy decides once an hour how many visitors see which version, and cannot learn within the
hour. The reward is the conversions during the test, plus those of 2,000 later visitors who see the
deployed version.
"""

import tempfile

import numpy as np

from decobandit import (
    BetaBernoulli,
    Problem,
    State,
    Terminal,
    make_policy,
    recommend,
    simulate,
    solve,
)
from decobandit.figures import batch_figure, show_figure
from decobandit.trials import create_trial, open_store

problem = Problem.uniform(
    arms=6,
    horizon=10,
    prior=BetaBernoulli(good=4, bad=36),
    pulls_per_stage=100,
    unit=10,
    repeat=True,
    terminal=Terminal(deploy=2000),
)
solution = solve(problem)
print(solution)

# %%
# The plan
# --------
# With `repeat` one version may take several visitors of an hour, here in units of ten. The upper
# end of the interval above is certified: no policy has more expected conversions. All policies get
# the same conversion rates and the same visitors.

NAMES = ("deco-repriced", "deco", "rho", "thompson", "equal")
policies = [make_policy(problem, name, solution=solution) for name in NAMES]
results = simulate(problem, policies, draws=500, per_draw=1, rng=1, solution=solution)
for result in results.results:
    less = results.difference(NAMES[0], result.policy)
    print(
        f"{result.policy:14} {result.value:8.2f} ± {result.value_se:4.2f} conversions, "
        f"{less.value:6.2f} ± {less.value_se:4.2f} less than {NAMES[0]}"
    )

# %%
# How a batch is shared
# ---------------------
# In the first hour all versions are alike and share the visitors; a better version gets a larger
# share of the later hours. The lower panel shows the dual's price of a visitor in each hour.

figure = batch_figure(solution, policies[0], rng=1)
show_figure(figure)

# %%
# Running it
# ----------
# Each hour, pass in the counts so far and get the number of visitors per version.

state = State.parse("3/20,1/20,2/20,0/20,1/10,2/10")
advice = recommend(problem, state, policies[0])
for arm in advice.arms:
    print(f"{arm.name}: {arm.good}/{arm.good + arm.bad} so far, {arm.pulls} visitors now")

given = policies[0].allocate(state)
print("in Python:", given)

# %%
# As a trial, every batch and every count is an event of a log that can be checked later.
# Counts may be recorded in parts, and late. `deco trial ask NAME` and `deco trial tell NAME
# ALLOCATION --counts` do it from the command line, and the REST API from a web server.

rates = np.array([0.08, 0.11, 0.10, 0.14, 0.09, 0.10])  # nobody knows these
visitors = np.random.default_rng(7)
with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/page.db") as store:
    trial = create_trial(
        problem, name="page", policy="deco-repriced", db=store, seed=1, solution=solution
    )
    for hour in range(problem.horizon):
        batch = trial.ask()
        seen = batch.pulls
        if hour in (0, 3, 9):
            print(f"hour {hour + 1}:", ", ".join(f"{name} {n}" for name, n in seen.items()))
        rate = dict(zip([arm.name for arm in problem.arms], rates, strict=True))
        trial.tell(
            batch.id,
            {name: (int(visitors.binomial(n, rate[name])), n) for name, n in seen.items()},
        )
    checked = trial.verify()
    print(f"log of {checked.events} events, intact: {checked.ok}, replayed: {trial.replay().ok}")

# %%
# What to try next
# ----------------
# - `unit=5`: shares in finer steps, tables twice as large.
# - `horizon=50, pulls_per_stage=20`: the same visitors in shorter batches.
# - `reward=Reward(good=0.0)`: only the deployed version counts; `rho` is designed for that.
