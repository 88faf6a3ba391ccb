"""
Quiet weeks, busy weeks
=======================

A hotel by the sea tries five welcome offers on its guests. For twelve stages business is quiet,
and a guest who takes the offer is worth 0.1. Then the season begins, and a guest who takes it is
worth 1. The hotel should explore in the quiet weeks, when mistakes are cheap.

The finite-horizon Gittins index is defined for constant rewards, so in its usual form it does not
apply here. decobandit has a natural extension of it: the constant charge per pull at which the
arm is just worth a pull. DeCo needs no extension: it has one price per stage, for any rewards.
"""

import numpy as np
from matplotlib import pyplot as plt

from decobandit import Arm, Problem, Reward, evaluate, optimum, solve
from decobandit.figures import PRICE_COLOUR, policy_style

season = np.repeat([0.1, 1.0], 12)
problem = Problem(
    horizon=season.size,
    arms=tuple(Arm(name=f"offer-{i}", reward=Reward(good=season)) for i in range(1, 6)),
)
solution = solve(problem)

# %%
# Exact values
# ------------
# The problem is small enough for the exact optimum, so the loss of each policy is known exactly.

NAMES = ("deco", "fh-gittins", "greedy", "equal")
results = {name: evaluate(problem, name, solution=solution) for name in NAMES}
best = optimum(problem).value
print(f"bound from prices {solution.upper_bound:.4f}, exact optimum {best:.4f}")
for name, result in results.items():
    lost = best - result.value
    print(f"{name:11} {result.value:.4f}  loses {lost:.4f} ({lost / best:.2%})")

# %%
# Where the difference comes from
# -------------------------------
# The expected reward of a stage divided by the reward of a success is the probability that the
# offer is taken. DeCo tries all five offers before it repeats one. That is worse at first, and
# better during the season. The greedy policy ignores the coming season. The lower panel shows the
# price of a pull. In the quiet weeks it is above 0.1, more than a guest is worth then: a pull is
# paid for by its value of information.

quiet = season < 1.0
for name, result in results.items():
    rate = np.array(result.stage_rewards) / season
    before, during = rate[quiet].mean(), rate[~quiet].mean()
    print(f"{name:11} taken in quiet weeks: {before:.3f}, in busy weeks: {during:.3f}")

print(f"highest price in the quiet weeks: {solution.prices[quiet].max():.3f}")

figure, (upper, lower) = plt.subplots(2, 1, figsize=(6.4, 6.8), sharex=True, layout="constrained")
for name, result in results.items():
    rates = np.array(result.stage_rewards) / season
    upper.plot(rates, label=name, marker="o", markersize=3, **policy_style(name).line)
upper.set_ylabel("how often the offer is taken")
stages = np.arange(season.size)
lower.step(stages, season, where="mid", color="0.5", label="a success")
price_style = {"color": PRICE_COLOUR, "linewidth": 3, "alpha": 0.7}
lower.step(stages, solution.prices, where="mid", label="price of a pull", **price_style)
lower.set_ylabel("reward, price")
lower.set_xlabel("stage")
for axes in (upper, lower):
    axes.grid(alpha=0.25)
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# What to try next
# ----------------
# - Reverse the seasons (``season[::-1]``): late information is worth less, and all policies except
#   equal allocation come close to the optimum.
# - Two groups of arms with opposite seasons: ``Reward(good=1.1 - season)`` for some of them.
# - ``"deco-calibrated"``, which chooses its price path by exact values; it takes some seconds
#   longer.
