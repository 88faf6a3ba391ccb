"""
A campaign that may be stopped any day
======================================

Two banners, one visitor a day. The campaign runs 30 days on average. Whether the last day is known
makes a difference: exploration pays only if enough days are left to use what was learnt.
"""

import matplotlib.pyplot as plt
import numpy as np

from decobandit import Problem, RandomHorizon, evaluate, optimum, solve

# %%
# Four laws of the same mean
# --------------------------
# The number of days is known, nearly known, spread out, or may end on any day with the same
# probability.

laws = {
    "30 days": 30,
    "Poisson": RandomHorizon(law="poisson", mean=30, most=60),
    "uniform, 1 to 59": RandomHorizon(law="uniform", least=1, most=59),
    "geometric": RandomHorizon(law="geometric", mean=30, most=90),
}
problems = {name: Problem.uniform(arms=2, horizon=law) for name, law in laws.items()}
for name, problem in problems.items():
    print(f"{name}: {problem.survival.sum():.2f} days expected")

# %%
# What it costs not to know the end
# ---------------------------------
# Values are expectations over outcomes and over the end, per expected day. The bound holds for
# every policy, the optimum is exact, and the last column is what the best policy earns if the
# number of days is announced at the start. Long runs pay more per day, since more can be learnt:
# that is why a spread-out law earns more than 30 sure days.

announced = [0.0, *(optimum(Problem.uniform(2, n)).value for n in range(1, 91))]
rows = {}
for name, problem in problems.items():
    days = problem.survival.sum()
    ends = -np.diff(problem.survival, append=0.0)  # probability of 1, 2, ... days
    rows[name] = {
        "bound": solve(problem).upper_bound / days,
        "announced": ends @ announced[1 : problem.horizon + 1] / days,
        "optimum": optimum(problem).value / days,
        "greedy": evaluate(problem, "greedy").value / days,
    }
    print(name, {key: round(float(value), 4) for key, value in rows[name].items()})

# %%
# The picture
# -----------

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for name, problem in problems.items():
    days = np.arange(problem.horizon + 1)
    left.step(days, np.append(problem.survival, 0.0), where="post", label=name)
left.set(xlabel="day", ylabel="probability that it is played", xlim=(0, 92), ylim=(0, 1.05))
left.legend()
places = np.arange(len(rows))
marks = {"announced": "^", "optimum": "o", "greedy": "v"}
for key, mark in marks.items():
    right.plot(places, [row[key] for row in rows.values()], mark, ms=9, label=key)
right.set_xticks(places, [name.replace(", ", "\n") for name in rows])
right.set(
    ylabel="expected reward per expected day", xlim=(-0.5, len(rows) - 0.5), ylim=(0.626, 0.6355)
)
right.legend(loc="upper left")
plt.show()

# %%
# What to try next
# ----------------
# The same from the command line: `deco bound --arms 2 --horizon-law geometric:mean=30,most=90`. In
# a live trial, `deco trial close` is the end; its report says what was planned.
