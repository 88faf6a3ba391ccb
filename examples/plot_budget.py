"""
Three channels, one advertising budget
======================================

A click through search costs 1, a video 2 and a banner one half. There are 40 days and money for
fewer pulls than that. How should the money be spent while learning which channel sells?
"""

import matplotlib.pyplot as plt
import numpy as np

from decobandit import Arm, BetaBernoulli, Problem, simulate, solve

# %%
# The problem
# -----------
# Every arm has a cost, and the problem a budget. At a stage a policy may also wait.

COSTS = {"search": 1.0, "video": 2.0, "banner": 0.5}
PRIORS = {"search": (2, 2), "video": (4, 2), "banner": (1, 2)}


def campaign(budget: float) -> Problem:
    arms = [
        Arm(name=name, prior=BetaBernoulli(*PRIORS[name]), cost=cost)
        for name, cost in COSTS.items()
    ]
    return Problem(arms=arms, horizon=40, budget=budget)


# %%
# Bounds and policies for several budgets
# ---------------------------------------
# The bound is certified for every policy that never overspends. DeCo charges each pull its cost at
# the price of money; greedy and Thompson sampling compare rewards per cost.

budgets, names = [8, 15, 25, 40, 60, 80], ("deco", "greedy", "thompson")
bounds, prices, values = [], [], {name: [] for name in names}
for budget in budgets:
    problem = campaign(budget)
    solution = solve(problem)
    bounds.append(solution.upper_bound)
    prices.append(solution.budget_price)
    found = simulate(problem, names, draws=400, per_draw=2, rng=1, solution=solution)
    for result in found.results:
        values[result.policy].append(result.estimates.best.value)
    print(f"budget {budget}: bound {bounds[-1]:.2f}, price of money {prices[-1]:.3f}")

# %%
# The picture
# -----------
# On the right the price of money: what one unit more would add to the bound. It is zero once every
# day can be paid for.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(budgets, bounds, "k--", label="no policy is above")
for name, mark in zip(names, "os^", strict=True):
    left.plot(budgets, values[name], mark + "-", label=name)
left.set(xlabel="budget", ylabel="expected sales", ylim=(0, None))
left.legend(loc="lower right")
right.plot(budgets, prices, "o-", color="C3")
right.set(xlabel="budget", ylabel="price of money", ylim=(0, None))
plt.show()
print("slope of the bound:", np.round(np.diff(bounds) / np.diff(budgets), 3))

# %%
# What to try next
# ----------------
# `deco solve budget.toml` for a file with `budget` and a `cost` per arm; costs that change over the
# stages are lists.
