"""
A platform trial: one arm leaves, another joins
===============================================

A trial of 120 patients starts with a control and one new treatment. Supply of the first treatment
ends at patient 80, and a second one joins at patient 60. How should patients be allocated, and what
does the plan gain by knowing these dates?
"""

import matplotlib.pyplot as plt
import numpy as np

from decobandit import Arm, BetaBernoulli, Problem, simulate, solve

# %%
# The problem
# -----------
# Windows are part of the arms. The bound holds for every policy that respects them.

control = BetaBernoulli(6, 9)
arms = [
    Arm(name="control", prior=control),
    Arm(name="early", available=[0, 80]),
    Arm(name="late", available=[60, 120]),
]
problem = Problem(arms=arms, horizon=120)
solution = solve(problem)
print(f"no policy expects more than {solution.upper_bound:.2f} recoveries")

# %%
# Policies
# --------
# All policies are simulated on the same draws of the success probabilities and the same outcomes.

names = ("deco", "thompson", "equal")
found = simulate(
    problem, names, draws=1000, per_draw=1, rng=1, solution=solution, keep_episodes=True
)
for result in found.results:
    best = result.estimates.best
    print(f"{result.policy}: {best.value:.2f} ± {best.value_se:.2f}")

# %%
# The picture
# -----------
# Shares of the patients over time. Equal allocation gives every arm that is there the same share;
# DeCo gives the late arm a trial when it arrives, and keeps to it only where it does well.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
for axis, result in zip(axes, found.results, strict=True):
    episodes = result.episodes
    shares = np.zeros((3, problem.horizon))
    np.add.at(shares, (episodes["arm"], episodes["stage"]), 1.0 / 1000)
    smooth = np.array([np.convolve(row, np.ones(6) / 6, "valid") for row in shares])
    axis.stackplot(np.arange(3, 118), smooth, labels=[arm.name for arm in arms], alpha=0.85)
    axis.set(title=result.policy, xlabel="patient", xlim=(3, 117), ylim=(0, 1))
axes[0].set_ylabel("share of patients")
axes[0].legend(loc="lower left")
plt.show()

# %%
# What to try next
# ----------------
# `deco bound platform.toml` for a file with `available = [60, 120]`; in a running trial,
# `deco trial arm add` lets an arm join that nobody had planned.
