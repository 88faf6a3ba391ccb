"""
A researcher: bounds and policies
=================================

How far are index policies from the optimum? On a problem small enough for the exact optimum, this
notebook compares the dual bound, DeCo, the finite-horizon Gittins index and other policies, and
shows where each loses reward.
"""

from decobandit import Problem, bound, gap, optimum, simulate, solve
from decobandit.figures import gap_figure, regret_figure

problem = Problem.uniform(arms=3, horizon=25)
solution = solve(problem)
solution

# %%
# Bounds
# ------
# The dual bound is the value of the relaxed problem at these prices; the optimum is exact dynamic
# programming over all joint states.

best = optimum(problem)
tightest = bound(problem, solution=solution)[0]
print(f"dual bound {solution.upper_bound:.4f}, best bound known {tightest.value:.4f}")
print(f"optimum    {best.value:.4f}, {best.states:,} states")

# %%
# Policies, exactly
# -----------------
# Theorem 1 splits the distance between a policy and the dual bound, stage by stage, into shortfall
# (pulled arms that were not worth the price) and congestion (arms worth it that were not pulled).

NAMES = ("deco", "fh-gittins", "greedy", "kl-ucb")
gaps = [gap(problem, name, solution=solution) for name in NAMES]
for result in gaps:
    print(
        f"{result.policy:11} {result.value:.4f}: {best.value - result.value:.4f} below the optimum"
    )
figure = gap_figure(gaps)

# %%
# The numbers behind the figure are a data frame.

gaps[0].to_frame(kind="pandas").head(4)

# %%
# Policies, simulated
# -------------------
# All policies use the same draws and outcomes, so differences have small standard errors.

simulation = simulate(problem, [*NAMES, "thompson"], draws=300, rng=1, solution=solution)
simulation

# %%
# Policies keep their colours and lines in every figure.

regrets = regret_figure(simulation)
