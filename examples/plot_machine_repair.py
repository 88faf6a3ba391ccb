"""
Twenty machines and a few repair crews
======================================

Machines wear while they run. A crew can service one machine a week; a worn machine is back at
work at once, a broken one often takes longer. How many crews pay, and which machines come first?
"""

import matplotlib.pyplot as plt
import numpy as np

from decobandit import MarkovArm, Problem, make_policy, simulate, solve

# %%
# The machine
# -----------
# A pull is a service. A state says what the machine earns in a week with a service (`mean`) and
# without one (`rest_reward`), and where it goes in either case. States are observed every Monday.

MACHINE = MarkovArm(
    first="new",
    states={
        "new": {
            "mean": 0.5,
            "next": {"serviced": (1.0, "new")},
            "rest": {"new": 0.8, "worn": 0.2},
            "rest_reward": 1.0,
        },
        "worn": {
            "mean": 0.3,
            "next": {"renewed": (0.9, "new"), "no-better": (0.1, "worn")},
            "rest": {"worn": 0.7, "broken": 0.3},
            "rest_reward": 0.6,
        },
        "broken": {
            "mean": -0.2,
            "next": {"repaired": (0.6, "new"), "parts-missing": (0.4, "broken")},
            "rest": {"broken": 0.95, "new": 0.05},  # at times replaced
            "rest_reward": 0.0,
        },
    },
)
MACHINES, WEEKS = 20, 50


def plant(crews: int) -> Problem:
    return Problem.uniform(arms=MACHINES, horizon=WEEKS, prior=MACHINE, pulls_per_stage=crews)


# %%
# How many crews pay?
# -------------------
# The bound is certified: no plan, however clever, earns more. `greedy` compares gains of the same
# week. No service pays at once, and one of a broken machine costs least: these it serves first.

crews, names = [1, 2, 3, 4, 5, 6], ("deco", "whittle", "greedy")
bounds, prices, values = [], {}, {name: [] for name in names}
for number in crews:
    solution = solve(plant(number), tol=1e-6)
    bounds.append(solution.upper_bound / WEEKS)
    prices[number] = solution.multipliers
    policies = [make_policy(plant(number), name, solution=solution) for name in names]
    played = simulate(plant(number), policies, draws=200, per_draw=1, rng=1)
    for result in played.results:
        values[result.policy].append(float(result.value) / WEEKS)
    earned = ", ".join(f"{name} {values[name][-1]:.2f}" for name in names)
    print(f"{number} crews: {earned}; at most {bounds[-1]:.2f} a week")

# %%
# The picture
# -----------
# A crew is hired while it adds more than its wage. The prices on the right say what one more
# service would add in each week: little at first, when machines are new, and at the end, when
# nothing is left to save. With four crews the price is negative: they must serve some machine
# every week, and do it more often than needed.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(crews, bounds, "k--", label="no plan earns more")
for name, mark in zip(names, "os^", strict=True):
    left.plot(crews, values[name], mark + "-", label=name)
left.set(xlabel="crews", ylabel="earned per week by 20 machines")
left.legend()
for number in (2, 3, 4):
    right.plot(np.arange(WEEKS), prices[number], label=f"{number} crews")
right.axhline(0.0, color="0.6", linewidth=0.8)
right.set(xlabel="week", ylabel="price of a service")
right.legend()
plt.show()

# %%
# Which machines first?
# ---------------------
# The index of a state is what a service is worth there. With three crews worn machines come first
# and broken ones second: a worn machine is nearly always saved, and it earns until it breaks.

policy = make_policy(plant(3), "deco")
index = policy.index(20, 0, np.array([[0.0, state] for state in range(3)]))
print({name: round(float(value), 2) for name, value in zip(MACHINE.states, index, strict=True)})

# %%
# What to try next
# ----------------
# `gap(plant(4), "deco")` splits what is missing at four crews into services of machines that did
# not need one and machines that waited. Machines of several kinds are several arms.
