"""
Measurements with known noise
=============================

A farm tries six mixtures of fertiliser on forty plots, one after the other. The yield of a plot is
a number, in tonnes per hectare. Yields of one mixture differ by 0.8 from plot to plot: that is the
noise. On other farms the means of mixtures vary by about 0.5 around 4.

Posterior means are continuous. They are computed on a grid, and both bounds still hold.
"""

import numpy as np
from matplotlib import pyplot as plt

from decobandit import NormalNormal, Problem, State, make_policy, simulate, solve
from decobandit.figures import arm_style, policy_style

PLOTS, NOISE = 40, 0.8
problem = Problem.uniform(arms=6, horizon=PLOTS, prior=NormalNormal(mean=4, sd=0.5), noise_sd=NOISE)
solution = solve(problem)
print(f"no policy earns more than {solution.upper_bound:.2f} tonnes")
print(f"the best prices give no less than {solution.lower_bound:.2f}")
print(f"a prior like this is worth {(NOISE / 0.5) ** 2:.2f} plots")

# %%
# A finer grid brings the bounds together: doubling the points divides the gap by four.

coarse, fine = (solve(problem, grid=grid, tol=1e-5) for grid in (128, 256))
for result in (coarse, fine):
    print(f"{result.grid:4} points: {result.lower_bound:.4f} to {result.upper_bound:.4f}")

# %%
# Policies
# --------

NAMES = ["deco", "fh-gittins", "knowledge-gradient", "thompson", "bayes-ucb", "greedy", "equal"]
simulation = simulate(problem, NAMES, draws=1500, solution=solution, rng=4)
values = {result.policy: result.value for result in simulation.results}
errors = {result.policy: result.value_se for result in simulation.results}
for name in NAMES:
    print(f"{name:18} {values[name]:7.2f} +- {errors[name]:.2f}")

# %%
# The value of information
# ------------------------
# The index of DeCo is the posterior mean plus a value of information. It is largest if the mean
# is near the price of a plot, and falls as a mixture becomes known.

deco = make_policy(problem, "deco", solution=solution)
stage, means = 20, np.linspace(3, 5.5, 101)
figure, (upper, lower) = plt.subplots(2, 1, figsize=(6.4, 6.8), layout="constrained")
for number, pulls in enumerate((1, 4, 12)):
    prior = (NOISE / 0.5) ** 2
    sums = means * (prior + pulls) - 4 * prior  # that lead to these posterior means
    states = [f"{total!r}/{pulls}" + ",0/0" * 5 for total in sums.tolist()]
    index = np.array([deco.indices(stage, State.parse(text, problem))[0] for text in states])
    upper.plot(means, index - means, label=f"{pulls} plots so far", **arm_style(number).line)
price = float(solution.prices[stage])
upper.axvline(price, color="black", linestyle="dotted", label="price of a plot")
upper.set_xlabel("posterior mean, t/ha")
upper.set_ylabel("value of information at stage 20")
upper.legend()
COLOURS = [policy_style(name).colour for name in NAMES[::-1]]
lower.barh(NAMES[::-1], [values[name] for name in NAMES[::-1]], color=COLOURS)
lower.axvline(solution.upper_bound, color="black", linestyle="dashed", label="bound, any policy")
lower.set_xlabel("expected yield of 40 plots, t/ha")
lower.set_xlim(0.99 * min(values.values()), None)
lower.legend(loc="lower right")
plt.show()

# %%
# What to try next
# ----------------
# - Fewer and noisier plots: with ``noise_sd=3`` there is little to learn, and little to lose.
# - Yields that are sold at the end: ``terminal={"deploy": 200}`` keeps one mixture for 200 plots.
