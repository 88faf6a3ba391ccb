"""
Screening applicants: whom to interview again
=============================================

Twelve applicants, and in each of five rounds three can be interviewed. An interview goes well with
a probability that is the quality of the applicant. Three are admitted at the end. Who should be
interviewed again, and how good can the admitted be?
"""

import matplotlib.pyplot as plt

from decobandit import Problem, Reward, Terminal, simulate, solve

# %%
# The problem
# -----------
# Interviews earn nothing by themselves; the admitted earn their quality.

rounds = range(1, 8)
problems = [
    Problem.uniform(
        12,
        horizon,
        pulls_per_stage=3,
        reward=Reward(good=0.0),
        terminal=Terminal(deploy=1.0, deploy_arms=3),
    )
    for horizon in rounds
]

# %%
# Bounds and policies
# -------------------
# The bound says what no way of interviewing can exceed. Interviewing everybody about equally often
# is the plain way; DeCo goes back to those who may still change the list.

names = ("deco", "equal")
bounds, values = [], {name: [] for name in names}
for problem in problems:
    solution = solve(problem)
    bounds.append(solution.upper_bound / 3)
    found = simulate(problem, names, draws=2000, per_draw=1, rng=1, solution=solution)
    for result in found.results:
        values[result.policy].append(result.estimates.best.value / 3)
for horizon, ceiling, deco, equal in zip(rounds, bounds, *values.values(), strict=True):
    print(f"{horizon} round(s): bound {ceiling:.3f}, deco {deco:.3f}, equal {equal:.3f}")

# %%
# The picture
# -----------
# The mean quality of the admitted; .5 is that of applicants who were never interviewed.

figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
axis.plot(rounds, bounds, "k--", label="no policy is above")
for name, mark in zip(names, "os", strict=True):
    axis.plot(rounds, values[name], mark + "-", label=name)
axis.set(xlabel="rounds of three interviews", ylabel="mean quality of the admitted")
axis.set_xticks(list(rounds))
axis.legend()
plt.show()

# %%
# What to try next
# ----------------
# `deco bound --arms 12 --horizon 5 --deploy 1 --deploy-arms 3 --reward-good 0` for single
# interviews, or priors from earlier years for every applicant.
