"""
Earn now or learn for later
===========================

A pilot trial of 24 patients compares three doses. Afterwards one dose is given to all later
patients. If there are none, only the successes in the pilot count. If there are thousands, the
final choice is almost all that counts. ``deploy`` is the number of later patients. Between the
two extremes the policy balances successes in the pilot against information.
"""

import numpy as np
from matplotlib import pyplot as plt

from decobandit import Problem, State, Terminal, evaluate, make_policy, recommend
from decobandit.figures import policy_style

pilot = Problem.uniform(arms=3, horizon=24)
LATER = (1, 10, 30, 100, 300, 1000, 10000)  # patients after the pilot


def split(policy_name, later):
    """Expected successes in the pilot, and success probability of the deployed dose."""
    problem = pilot.model_copy(update={"terminal": Terminal(deploy=later)})
    result = evaluate(problem, policy_name)
    *during, last = result.stage_rewards  # the deployment is one more stage
    return float(np.sum(during)), last / later


# %%
# More later patients, more exploration
# -------------------------------------
# Exact values under uniform priors. The first column of results is the expected number of successes
# in the pilot, the second the expected success probability of the deployed dose. If the best dose
# were known, the latter would be 0.75, the expected maximum of three uniform random numbers.

results = {later: split("deco", later) for later in LATER}
even = split("equal", 1)  # equal allocation does not depend on deploy
print(f"{'later patients':>14} {'successes in the pilot':>23} {'kept dose succeeds':>19}")
for later, (during, kept) in results.items():
    print(f"{later:14} {during:23.3f} {kept:19.4f}")
print(f"{'equal split':>14} {even[0]:23.3f} {even[1]:19.4f}")

# %%
# With few later patients, DeCo maximises the successes in the pilot. With more of them, it gives up
# successes in the pilot to make a better choice. Equal allocation gives up more successes, and even
# with many later patients it does not choose better: it spends too many pulls on doses that are
# clearly worse. Note the scale of the lower panel: little data is enough for a good choice, and
# further improvement takes much more.

figure, panels = plt.subplots(2, 1, figsize=(6.4, 6.4), sharex=True, layout="constrained")
TITLES = ("successes in the pilot", "kept dose succeeds")
for column, (axes, title) in enumerate(zip(panels, TITLES, strict=True)):
    values = [results[later][column] for later in LATER]
    axes.semilogx(LATER, values, marker="o", label="deco", **policy_style("deco").line)
    axes.axhline(even[column], label="equal", **policy_style("equal").line)
    axes.set_title(title)
    axes.grid(alpha=0.25)
panels[1].set_xlabel("patients after the pilot (deploy)")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# One decision
# ------------
# The same data, two values of ``deploy``. The first dose had 9 successes in 12 patients, the
# second 5 in 8, and the third has not been tried. Which dose is next?

state = State.parse("9/12,5/8,0/0")
choices = {}
for later in (1, 1000):
    problem = pilot.model_copy(update={"terminal": Terminal(deploy=later)})
    policy = make_policy(problem, "deco")
    (arm,) = policy.choose(state)
    choices[later] = problem.arms[arm].name
    terms = recommend(problem, state, policy).arms
    worth = ", ".join(f"{each.value_of_information:.3f}" for each in terms)
    print(f"{later:4} later patients: {choices[later]}; value of information {worth}")

# %%
# What to try next
# ----------------
# - Pure exploration in the pilot: ``Reward(good=0, bad=0)`` for all arms.
# - Terminal tables (``terminal_table``), if the terminal reward is not proportional to the success
#   probability: a licence at 10 successes, for example.
# - ``evaluate(problem, policy, truth=...)`` for the probability that the best dose is deployed.
