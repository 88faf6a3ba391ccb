"""
An ordinal endpoint, and a prior from an earlier trial
======================================================

Forty-five patients are treated one after the other. After a week each patient has not recovered,
has recovered in part, or has recovered fully; these outcomes are worth 0, 0.5 and 1. The standard
treatment was tested in an earlier trial with 120 patients; the two new ones were not.

An earlier trial counts less than its size, because patients and clinics differ. Here each of its
patients counts as a quarter of one of ours.
"""

import numpy as np
from matplotlib import pyplot as plt

from decobandit import (
    Arm,
    DirichletCategorical,
    Problem,
    Reward,
    State,
    make_policy,
    recommend,
    simulate,
    solve,
    with_history,
)
from decobandit.figures import policy_style

CLASSES = ["not recovered", "in part", "fully"]
worth = Reward(values=[0, 0.5, 1])
vague = DirichletCategorical([1, 1, 1])
arms = [Arm(name=name, prior=vague, reward=worth) for name in ("standard", "new-A", "new-B")]
blank = Problem(horizon=45, arms=arms)
earlier = State.parse("60+35+25,0+0+0,0+0+0", blank)
problem = with_history(blank, earlier, discount=0.25)
for arm in problem.arms:
    print(f"{arm.name:9} as if seen before: {arm.prior.counts}")

# %%
# Bounds and policies
# -------------------
# There are finitely many states, so the bounds need no grid.

solution = solve(problem)
print(f"no policy earns more than {solution.upper_bound:.3f} recoveries")
NAMES = ["deco", "fh-gittins", "kl-ucb", "thompson", "greedy", "equal"]
simulation = simulate(problem, NAMES, draws=2000, solution=solution, rng=3)
values = {result.policy: result.value for result in simulation.results}
errors = {result.policy: result.value_se for result in simulation.results}
for name in NAMES:
    print(f"{name:11} {values[name]:6.3f} +- {errors[name]:.3f}")

# %%
# After ten patients
# ------------------
# A state is the count of each class, arm by arm.

recommendation = recommend(problem, "3+1+0,1+1+2,1+1+0", "deco", solution=solution)
for arm in recommendation.arms:
    print(f"{arm.name:9} {arm.seen:6} expected {arm.expected_reward:.3f}, index {arm.index:.3f}")
print("next:", *recommendation.chosen)

# %%
# The value of information
# ------------------------
# Both treatments in the upper figure have the same expected reward, whatever the number of patients
# behind it; the index of DeCo is larger if there are fewer patients.

deco = make_policy(problem, "deco", solution=solution)
patients = np.arange(0, 31, 3)
index = []
for n in patients:
    seen = State.parse(f"0+0+0,{n // 3}+{n // 3}+{n // 3},0+0+0", problem)
    index.append(deco.indices(30, seen)[1])

figure, (upper, lower) = plt.subplots(2, 1, figsize=(6.4, 6.8), layout="constrained")
upper.plot(patients, index, marker="o", label="index of DeCo at stage 30")
upper.axhline(0.5, color="black", linestyle="dotted", label="expected worth")
upper.set_xlabel("patients on new-A, a third in each class")
upper.set_ylabel("worth of one more")
upper.legend()
COLOURS = [policy_style(name).colour for name in NAMES[::-1]]
lower.barh(NAMES[::-1], [values[name] for name in NAMES[::-1]], color=COLOURS)
lower.axvline(solution.upper_bound, color="black", linestyle="dashed", label="bound, any policy")
lower.set_xlabel("expected recoveries of 45 patients")
lower.set_xlim(0.85 * min(values.values()), None)
lower.legend(loc="lower right")
plt.show()

# %%
# What to try next
# ----------------
# - Another discount: 0 forgets the earlier trial, 1 takes it at its full size.
# - More classes: ``DirichletCategorical`` takes up to 20; an error says which horizons fit.
