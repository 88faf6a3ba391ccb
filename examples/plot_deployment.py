"""
Earn now or learn for later
===========================

A pilot of 24 patients compares three doses. After it, one dose is kept for everybody. If nobody
comes after the pilot, only its own successes count. If thousands come, almost only the choice
counts. The reward ``deploy`` says how many later patients the choice is for. Between the two ends
the policy finds its own mixture of earning and learning.
"""

import numpy as np
from matplotlib import pyplot as plt

from decobandit import Problem, State, Terminal, Workbench, evaluate

pilot = Problem.uniform(arms=3, horizon=24)
LATER = (1, 10, 30, 100, 300, 1000, 10000)  # patients after the pilot


def split(policy_name, later):
    """Expected successes in the pilot, and success probability of the dose that is kept."""
    problem = pilot.model_copy(update={"terminal": Terminal(deploy=later)})
    found = evaluate(Workbench(problem).policy(policy_name))
    *during, last = found.stage_rewards  # the deployment is one more stage
    return float(np.sum(during)), last / later


# %%
# More to come, more to learn
# ---------------------------
# Exact values over a flat prior. In the first column of results are the successes of the pilot
# itself, in the second the success probability that the kept dose is expected to have. If the
# best dose were known, it would be 0.75, the expected largest of three numbers drawn between 0
# and 1.

results = {later: split("deco", later) for later in LATER}
even = split("equal", 1)  # equal allocation does not look at what comes later
print(f"{'later patients':>14} {'successes in the pilot':>23} {'kept dose succeeds':>19}")
for later, (during, kept) in results.items():
    print(f"{later:14} {during:23.3f} {kept:19.4f}")
print(f"{'equal split':>14} {even[0]:23.3f} {even[1]:19.4f}")

# %%
# With few patients to come DeCo earns what it can in the pilot. As more are to come, it gives up
# successes in the pilot to choose better. Equal allocation gives up more of them, whatever comes
# later, and with many patients to come it still does not choose better: it spends too many pulls
# on a dose that has no chance any more. Mind the scale on the right: a good choice is made from
# little data, the last bit takes much.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for axes, column, title in ((left, 0, "successes in the pilot"), (right, 1, "kept dose succeeds")):
    axes.semilogx(LATER, [results[later][column] for later in LATER], marker="o", label="deco")
    axes.axhline(even[column], color="C1", linestyle="dashed", label="equal")
    axes.set_title(title)
    axes.set_xlabel("patients after the pilot (deploy)")
    axes.grid(alpha=0.25)
figure.legend(*left.get_legend_handles_labels(), loc="outside right center")

# %%
# One decision
# ------------
# The same data, two futures. The first dose helped 9 of 12, the second 5 of 8, and the third was
# not tried yet. Which dose is next?

state = State.parse("9/12,5/8,0/0")
choices = {}
for later in (1, 1000):
    problem = pilot.model_copy(update={"terminal": Terminal(deploy=later)})
    policy = Workbench(problem).policy("deco")
    (arm,) = policy.choose(state.total, state)
    choices[later] = problem.arms[arm].name
    terms = policy.terms(state.total, state)
    worth = ", ".join(f"{each.value_of_information:.3f}" for each in terms)
    print(f"{later:4} later patients: {choices[later]}; one pull of each teaches {worth}")

# %%
# What to try next
# ----------------
# - Pulls that are only there to learn: ``Reward(good=0, bad=0)`` for all arms.
# - ``terminal`` tables of single arms (``terminal_table``), where the last reward is not
#   proportional to the success probability: a licence at 10 successes, say.
# - ``evaluate(policy, truth=...)`` for the probability that the best dose is kept.
