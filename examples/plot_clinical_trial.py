"""
A two-arm clinical trial
========================

Forty patients are allocated one after the other to a standard treatment (the control) or a new
one. The prior of the control comes from an earlier group of 20 patients with 12 successes. The
prior of the new treatment is uniform. Response-adaptive allocation puts fewer patients on the
worse arm. What does that cost: how often does the trial end with the wrong arm ahead? This
example computes the *operating characteristics* of three allocation rules, at fixed true success
probabilities.
"""

from matplotlib import pyplot as plt

from decobandit import Arm, BetaBernoulli, Problem, evaluate, make_policy, optimum
from decobandit.figures import policy_style

problem = Problem(
    horizon=40,
    arms=(
        Arm(name="standard", prior=BetaBernoulli(good=12, bad=8)),  # 12 successes in 20
        Arm(name="new", prior=BetaBernoulli(good=1, bad=1)),  # uniform
    ),
)
NAMES = ("equal", "deco", "fh-gittins")
policies = {name: make_policy(problem, name) for name in NAMES}

# %%
# Averaged over the prior
# -----------------------
# First the expected number of successes under the prior. With two arms the optimal policy can be
# computed exactly. No policy can do better. ``equal`` is equal allocation.

best = optimum(problem).value
prior_values = {name: evaluate(problem, policies[name]).value for name in NAMES}
print(f"expected successes among {problem.horizon} patients")
print(f"{'any policy, at best':20} {best:.3f}")
for name, value in prior_values.items():
    print(f"{name:20} {value:.3f}  ({best - value:.3f} less)")

# %%
# Operating characteristics
# -------------------------
# Now at fixed true success probabilities: the new treatment is worse, a little better, or much
# better than the control. These values are exact too: the probabilities of all states that the
# policy can reach are computed, so there is no simulation error. *Right* is the probability that
# the better arm has the larger posterior mean at the end of the trial.

TRUTHS = ((0.6, 0.4), (0.6, 0.7), (0.6, 0.8))  # standard, new
results = {
    (name, truth): evaluate(problem, policies[name], truth=truth)
    for truth in TRUTHS
    for name in NAMES
}
print(f"{'standard, new':14} {'policy':11} {'successes':>16} {'on better arm':>14} {'right':>6}")
for (name, truth), found in results.items():
    spread = found.variance**0.5
    better = found.arm_pulls[truth.index(max(truth))]
    print(
        f"{truth!s:14} {name:11} {found.value:8.2f} ± {spread:5.2f} {better:14.1f} "
        f"{found.best_arm_probability:6.3f}"
    )

# %%
# The number after ± is the standard deviation from trial to trial, not a numerical error.
#
# Benefit and cost of adaptive allocation
# ---------------------------------------
# The figure varies the true success probability of the new arm. Unless the arms hardly differ,
# adaptive trials put more patients on the better arm, and so have more successes. The third panel
# shows the cost. If the new arm is better, an adaptive trial may stop using it after a bad start
# and never correct this: equal allocation is right more often. If the new arm is worse, the
# adaptive trials are right more often: they stay with the control, whose prior mean equals its true
# success probability.

new_truths = ([0.2, 0.3, 0.4, 0.5, 0.55], [0.65, 0.7, 0.8, 0.9])  # worse, better than the standard
figure, panels = plt.subplots(3, 1, figsize=(6.4, 8.6), sharex=True, layout="constrained")
for better, truths in enumerate(new_truths):
    found = {
        name: [evaluate(problem, policies[name], truth=(0.6, p)) for p in truths] for name in NAMES
    }
    for name, row in found.items():
        style = {**policy_style(name).line, "marker": "o", "markersize": 4}
        gains = [each.value - even.value for each, even in zip(row, found["equal"], strict=True)]
        panels[0].plot(truths, [each.arm_pulls[better] for each in row], **style)
        panels[1].plot(truths, gains, **style)
        chances = [each.best_arm_probability for each in row]
        panels[2].plot(truths, chances, label=None if better else name, **style)
titles = ("patients on the better arm", "successes gained on equal", "better arm ahead at the end")
for axes, title in zip(panels, titles, strict=True):
    axes.set_title(title, fontsize="medium")
    axes.axvline(0.6, color="black", linewidth=1, linestyle="dashed")
    axes.grid(alpha=0.25)
panels[-1].set_xlabel("true success probability, new arm")
figure.legend(loc="outside lower center", ncols=3)
figure.suptitle("standard arm: 0.6 (dashed)", fontsize="medium")
plt.show()

# %%
# What to try next
# ----------------
# - A weaker prior for the control, ``BetaBernoulli(good=3, bad=2)``: which curves move?
# - ``terminal=Terminal(deploy=100)``: 100 later patients will get the arm chosen at the end. The
#   trial then explores more, and chooses better at the end: see *Earn now or learn for later*.
# - ``"thompson"``, which randomises the allocation: each arm has its posterior probability of being
#   the better one.
# - The same from the command line: ``deco evaluate trial.toml --policy deco,equal --truth
#   0.6,0.7``.
