"""
Nurses and beds
===============

A ward looks after 24 patients. A visit takes a nurse; a stay takes a nurse and a bed, and does
more. Patients change whether they are seen or not. What is one more nurse worth, and one more bed?
"""

import matplotlib.pyplot as plt
import numpy as np

from decobandit import Arm, Chain, Problem, simulate, solve

# %%
# The problem
# -----------
# States are well, unsteady and ill; a patient who is well earns 1 per day, one who is unsteady .4;
# those who are not well earn .1 more on a day on which they are seen.
# The resources are what there is on each day, and an arm says what a pull uses of them.

rest = [[0.85, 0.13, 0.02], [0.10, 0.65, 0.25], [0.02, 0.10, 0.88]]
visit = [[0.88, 0.11, 0.01], [0.25, 0.60, 0.15], [0.04, 0.20, 0.76]]
stay = [[0.95, 0.05, 0.00], [0.70, 0.28, 0.02], [0.30, 0.50, 0.20]]
daily, seen, first = [1.0, 0.4, 0.0], [1.0, 0.5, 0.1], [0.3, 0.4, 0.3]
visited = [
    Arm(name=f"visit-{k}", prior=Chain(rest, visit, daily, seen, first), uses={"nurse": 1})
    for k in range(12)
]
admitted = [
    Arm(name=f"stay-{k}", prior=Chain(rest, stay, daily, seen, first), uses={"nurse": 1, "bed": 1})
    for k in range(12)
]


def ward(nurses: int, beds: int) -> Problem:
    resources = {"nurse": nurses, "bed": beds}
    return Problem(arms=[*visited, *admitted], horizon=30, resources=resources)


# %%
# Bounds, prices and policies
# ---------------------------
# The dual has a price for every day and resource. DeCo takes patients in the order of what a pull
# is worth after the prices of what it uses, as long as they fit; greedy looks one day ahead.

nurses, beds, names = range(1, 15), 3, ("deco", "greedy")
bounds, prices, values = [], [], {name: [] for name in names}
for number in nurses:
    problem = ward(number, beds)
    solution = solve(problem, tol=1e-5)
    bounds.append(solution.upper_bound)
    prices.append(solution.resource_prices.sum(axis=0))
    found = simulate(problem, names, draws=100, per_draw=2, rng=1, solution=solution)
    for result in found.results:
        values[result.policy].append(result.value)
prices = np.array(prices)
print("one more nurse adds at most:", np.round(np.diff(bounds), 2))

# %%
# The picture
# -----------
# With few nurses beds are worth nothing: nobody is there to use them. With many, a bed is worth
# more than a nurse.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(nurses, bounds, "k--", label="no policy is above")
for name, mark in zip(names, "os", strict=True):
    left.plot(nurses, values[name], mark + "-", label=name)
left.set(xlabel="nurses per day", ylabel="expected days well", title=f"{beds} beds")
left.legend(loc="lower right")
for column, (name, mark) in enumerate({"nurse": "o", "bed": "s"}.items()):
    right.plot(nurses, prices[:, column], mark + "-", label=f"one more {name}")
right.set(xlabel="nurses per day", ylabel="price, sum of 30 days", ylim=(0, None))
right.legend()
plt.show()

# %%
# What to try next
# ----------------
# `deco solve ward.toml` for a file with a table `resources` and `uses` per arm; amounts that change
# over the days are lists.
