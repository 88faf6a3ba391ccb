"""
Grades, measurements, counts
============================

Outcomes need not be binary. A shop tries three ways to recommend goods and measures each
differently: the class of purchase for the first, the margin per visit (a noisy number) for the
second, and the number of items bought per visit for the third. One problem can have all three.
"""

from matplotlib import pyplot as plt

from decobandit import (
    Arm,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    recommend,
    simulate,
    solve,
)
from decobandit.figures import policy_style

classes = Arm(
    name="classes", prior=DirichletCategorical([4, 2, 1]), reward=Reward(values=[0, 1, 3])
)
margin = Arm(name="margin", prior=NormalNormal(mean=0.8, sd=0.5), noise_sd=1)
counts = Arm(name="counts", prior=GammaPoisson(shape=1.6, rate=2))
problem = Problem(horizon=30, arms=[classes, margin, counts])

# %%
# The bound holds for every policy, although the margin is continuous: values on the grid are never
# too small. The lower bound uses values that are never too large.

solution = solve(problem)
print(f"no policy earns more than {solution.upper_bound:.3f}")
print(f"the best prices give no less than {solution.lower_bound:.3f}")

# %%
# A state has the statistics of each arm: class counts, or sum/pulls of the numbers.

recommendation = recommend(problem, "2+1+1,1.9/2,5/3", "deco", solution=solution)
for arm in recommendation.arms:
    print(f"{arm.name:8} {arm.seen:7} {arm.posterior:20} index {arm.index:.3f}")
print("pull:", *recommendation.chosen)

# %%
# Every policy that supports such outcomes can be simulated on the same draws.

NAMES = ["deco", "fh-gittins", "knowledge-gradient", "thompson", "greedy", "equal"]
simulation = simulate(problem, NAMES, draws=1500, solution=solution, rng=2)
values = {result.policy: result.value for result in simulation.results}
errors = {result.policy: result.value_se for result in simulation.results}
for name in NAMES:
    print(f"{name:18} {values[name]:7.3f} +- {errors[name]:.3f}")

# %%

figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
COLOURS = [policy_style(name).colour for name in NAMES[::-1]]
axes.barh(NAMES[::-1], [values[name] for name in NAMES[::-1]], color=COLOURS)
axes.axvline(solution.upper_bound, color="black", linestyle="dashed", label="bound, any policy")
axes.set_xlabel("expected reward of 30 visits")
axes.set_xlim(0.8 * min(values.values()), None)
figure.legend(loc="outside upper right")
plt.show()

# %%
# What to try next
# ----------------
# - Rewards that are discounted: ``Reward(factor=[0.95**t for t in range(30)])``.
# - A finer grid: ``solve(problem, grid=2048)`` brings the two bounds together.
# - A Markov arm, as a table of states: see the guide, *Non-binary outcomes*.
