"""
Several pulls per stage
=======================

A laboratory has 24 assays for six compounds. A robot can run several compounds side by side: with
three at a time the work is done in eight days instead of 24. But then each day is planned with
the results of fewer assays, and uses three different compounds, although the second and third
best may not be worth an assay. What does the parallel work cost?
"""

from matplotlib import pyplot as plt

from decobandit import Problem, State, evaluate, make_policy, solve
from decobandit.figures import policy_style

ASSAYS, COMPOUNDS = 24, 6
AT_ONCE = (1, 2, 3, 4, 6)
problems = {
    m: Problem.uniform(arms=COMPOUNDS, horizon=ASSAYS // m, pulls_per_stage=m) for m in AT_ONCE
}

# %%
# A policy chooses as many arms as the stage has pulls, the arm with the largest index first:

policy = make_policy(problems[3], "deco")
state = State.parse("1/1,0/1,1/1,1/1,0/1,0/1")
first, second, third = policy.choose(state)
print(f"day {state.stage(3) + 1}, after {state}: compounds {first + 1}, {second + 1}, {third + 1}")

# %%
# The cost of parallel work
# -------------------------
# The value of each policy is exact. The bound holds for every policy with that many compounds at
# once. With six compounds at once there is nothing to decide, and all policies are equal
# allocation.

NAMES = ("deco", "greedy", "equal")
results = {
    (name, m): evaluate(problem, name).value for m, problem in problems.items() for name in NAMES
}
bounds = {m: solve(problem).upper_bound for m, problem in problems.items()}
print("at once  days " + " ".join(f"{name:>8}" for name in NAMES) + "    bound")
for m in AT_ONCE:
    row = " ".join(f"{results[name, m]:8.3f}" for name in NAMES)
    print(f"{m:7} {ASSAYS // m:5} {row} {bounds[m]:8.3f}")

# %%
# The bound falls too, because pulling many different arms at once leaves little choice: that part
# of the loss is unavoidable. A better policy could gain at most the difference between DeCo and
# the bound. From three at once on, the greedy policy is as good as DeCo: enough results arrive
# without exploration.

figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
axes.plot(
    AT_ONCE, list(bounds.values()), color="black", linestyle="dashed", label="bound, any policy"
)
for name in NAMES:
    values = [results[name, m] for m in AT_ONCE]
    axes.plot(AT_ONCE, values, marker="o", label=name, **policy_style(name).line)
axes.set_xticks(AT_ONCE, [f"{m}\n{ASSAYS // m} days" for m in AT_ONCE])
axes.set_xlabel("compounds at once, and days that it takes")
axes.set_ylabel("expected successes in 24 assays")
axes.set_ylim(10, None)
axes.grid(alpha=0.25)
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# A day is worth something too. If a day costs as much as half a success, how many at once is best?

DAY = 0.5
net = {m: results["deco", m] - DAY * (ASSAYS // m) for m in AT_ONCE}
fastest = max(net, key=net.get)
print({m: round(value, 2) for m, value in net.items()}, "best:", fastest, "at once")

# %%
# What to try next
# ----------------
# - More compounds: with 30 of them, DeCo comes much closer to its bound.
# - ``"fh-gittins"``, another index policy, also works with several pulls; ``"thompson"`` has to be
#   simulated.
# - Results that arrive late and one by one, instead of day by day: see *A live trial*.
