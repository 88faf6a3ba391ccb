"""
Calls to patients who drop out
==============================

A health programme follows 300 mothers for half a year. Some stop listening to its messages; a call
by a health worker brings many of them back. There are calls for few of them each week. Whom to
call, and how much could any plan achieve?
"""

import matplotlib.pyplot as plt
import numpy as np

from decobandit import Arm, Chain, Problem, make_policy, simulate, solve

# %%
# Patients as chains
# ------------------
# A patient listens (state 0), is wavering (1) or has dropped out (2). A week counts 1 if she
# listens and 0.4 if she wavers. She changes with a call and without one: these are restless arms.
# Three groups differ in how fast they drop out, and in what a call does.


def patient(leave: float, back: float) -> Chain:
    rest = [[1 - leave, leave, 0], [0.1, 0.6, 0.3], [0, 0.02, 0.98]]
    call = [[1 - leave / 3, leave / 3, 0], [back, 0.9 - back, 0.1], [back / 3, 0.2, 0.8 - back / 3]]
    worth = [1, 0.4, 0]
    return Chain(rest, call, worth, worth, first=[0.6, 0.3, 0.1])


GROUPS = {
    "steady": patient(0.05, 0.6),
    "fragile": patient(0.25, 0.7),
    "distant": patient(0.15, 0.2),
}
PER_GROUP, WEEKS = 100, 26


def programme(calls: int) -> Problem:
    arms = [
        Arm(name=f"{name}-{number}", prior=chain)
        for name, chain in GROUPS.items()
        for number in range(PER_GROUP)
    ]
    return Problem(arms=arms, horizon=WEEKS, pulls_per_stage=calls)


# %%
# Bound and policies
# ------------------
# 300 patients are three groups for the solver: it takes a fraction of a second. `equal` calls
# everybody in turn, which is what many programmes do. The first states are drawn.

calls, names = [10, 20, 30, 45, 60], ("deco", "whittle", "equal")
bounds, values = [], {name: [] for name in names}
for number in calls:
    problem = programme(number)
    solution = solve(problem)
    bounds.append(solution.upper_bound / PER_GROUP / 3)
    policies = [make_policy(problem, name, solution=solution) for name in names]
    played = simulate(problem, policies, draws=20, per_draw=1, rng=1)
    for result in played.results:
        values[result.policy].append(float(result.value) / PER_GROUP / 3)
    weeks = ", ".join(f"{name} {values[name][-1]:.2f}" for name in names)
    print(f"{number} calls a week: {weeks} weeks per patient; at most {bounds[-1]:.2f}")

# %%
# Whom to call
# ------------
# The index of a state: weeks that a call adds, now and later. Whoever wavers in the steady and the
# fragile group is called first, before she is gone; the distant group is not called at all. In
# every group, calls to those who listen are worth least.

problem = programme(30)
policy, listening = make_policy(problem, "deco"), ("listens", "wavers", "gone")
indices = np.array(
    [
        [policy.index(week, group, np.array([[0.0, s] for s in range(3)])) for week in range(WEEKS)]
        for group in range(3)
    ]
)  # (groups, weeks, states)
prices = solve(problem).multipliers

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(calls, bounds, "k--", label="no plan achieves more")
for name, mark in zip(names, "os^", strict=True):
    left.plot(calls, values[name], mark + "-", label=name)
left.set(xlabel="calls per week", ylabel="weeks of listening per patient")
left.legend()
for group, (name, style) in enumerate(zip(GROUPS, ("-", "--", ":"), strict=True)):
    for state, colour in enumerate(("C0", "C1", "C3")):
        label = f"{name}, {listening[state]}"
        right.plot(indices[group, :, state], style, color=colour, linewidth=1.2, label=label)
right.plot(prices, "k", linewidth=2, label="price of a call")
right.set(xlabel="week", ylabel="worth of a call (weeks)")
right.legend(fontsize="x-small", ncols=2)
plt.show()

# %%
# What to try next
# ----------------
# Estimate the transitions of each group from last year's records. `deco-rolling` solves the rest of
# the programme again every week, from the states that were observed.
