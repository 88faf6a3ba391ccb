"""
Counts of events: fewer is better
=================================

A ward tries four schedules of night checks, one per week for half a year, and counts the falls in
each week. Fewer falls are better, so a pull earns minus its count. Two of the schedules were used
in another ward, whose data are discounted by half.
"""

import numpy as np
from matplotlib import pyplot as plt

from decobandit import (
    Arm,
    GammaPoisson,
    Problem,
    Reward,
    State,
    make_policy,
    simulate,
    solve,
    with_history,
)
from decobandit.figures import arm_style, policy_style

WEEKS = 26
vague = GammaPoisson(shape=3, rate=1)  # about three falls a week, as if one week had been seen
arms = [
    Arm(name=name, prior=vague, reward=Reward(factor=-1))
    for name in ("hourly", "two-hourly", "by need", "by alarm")
]
blank = Problem(horizon=WEEKS, arms=arms)
other_ward = State.parse("18/8,31/10,0/0,0/0", blank)  # falls in so many weeks
problem = with_history(blank, other_ward, discount=0.5)
for arm in problem.arms:
    print(f"{arm.name:10} {arm.prior.shape / arm.prior.rate:.2f} falls in {arm.prior.rate:g} weeks")

# %%
solution = solve(problem)
print(f"no policy has fewer falls than {-solution.upper_bound:.2f} in {WEEKS} weeks")
NAMES = ["deco", "fh-gittins", "thompson", "greedy", "equal"]
simulation = simulate(problem, NAMES, draws=2000, solution=solution, rng=5)
falls = {result.policy: -result.value for result in simulation.results}
errors = {result.policy: result.value_se for result in simulation.results}
for name in NAMES:
    print(f"{name:11} {falls[name]:6.2f} +- {errors[name]:.2f}")

# %%
# One half-year
# -------------
# The alarm is truly the best schedule, with 1.5 falls a week. A state is sum/pulls of each arm.

truth = np.array([2.4, 3.0, 2.0, 1.5])
policy, rng = make_policy(problem, "deco", solution=solution), np.random.default_rng(4)
sums, pulls, means = np.zeros(4, int), np.zeros(4, int), []
shape = np.array([arm.prior.shape for arm in problem.arms])
rate = np.array([arm.prior.rate for arm in problem.arms])
chosen = []
for _ in range(WEEKS):
    text = ",".join(f"{sums[k]}/{pulls[k]}" for k in range(4))
    (arm,) = policy.choose(State.parse(text, problem))
    sums[arm] += rng.poisson(truth[arm])
    pulls[arm] += 1
    chosen.append(arm)
    means.append((shape + sums) / (rate + pulls))
print("weeks of each schedule:", {arms[k].name: int(pulls[k]) for k in range(4)})

figure, (upper, lower) = plt.subplots(2, 1, figsize=(6.4, 6.8), layout="constrained")
for k, arm in enumerate(problem.arms):
    line = arm_style(k).line
    upper.plot(np.arange(1, WEEKS + 1), np.array(means)[:, k], label=arm.name, **line)
    weeks = [week + 1 for week, own in enumerate(chosen) if own == k]
    upper.plot(weeks, [means[week - 1][k] for week in weeks], "o", color=line["color"])
upper.set_xlabel("week (points: the schedule of the week)")
upper.set_ylabel("expected falls per week")
upper.legend()
COLOURS = [policy_style(name).colour for name in NAMES[::-1]]
lower.barh(NAMES[::-1], [falls[name] for name in NAMES[::-1]], color=COLOURS)
lower.axvline(-solution.upper_bound, color="black", linestyle="dashed", label="bound, any policy")
lower.set_xlabel("expected falls in 26 weeks")
lower.set_xlim(0.9 * -solution.upper_bound, None)
lower.legend(loc="upper right")
plt.show()

# %%
# What to try next
# ----------------
# - More is better, as for orders or clicks: leave the reward out.
# - ``deco index`` prints the index of one schedule in one state, such as ``--state 5/3``.
