"""
A two-arm clinical trial
========================

Forty patients, one after the other, get the standard treatment or a new one. Of the standard we
know something: in an earlier group of 20 patients it helped 12. Of the new one we know nothing.
We want few patients on the worse arm, and we want to know what that costs: how often does the
trial end with the wrong arm ahead? Statisticians call such figures *operating characteristics*.
They are computed at fixed true success probabilities, which the policy does not know.
"""

from matplotlib import pyplot as plt

from decobandit import Arm, Beta, Problem, Workbench, evaluate, optimum

problem = Problem(
    horizon=40,
    arms=(
        Arm(name="standard", prior=Beta(good=12, bad=8)),  # as if 12 of 20 had gone well
        Arm(name="new", prior=Beta(good=1, bad=1)),  # anything is possible
    ),
)
NAMES = ("equal", "deco", "fh-gittins")
bench = Workbench(problem)
policies = {name: bench.policy(name) for name in NAMES}

# %%
# If the priors are right
# -----------------------
# First the view from before the trial, averaged over the priors. Two arms are few enough for the
# best policy of all to be computed. No policy can do better.

best = optimum(problem).value
prior_values = {name: evaluate(policies[name]).value for name in NAMES}
print(f"expected successes among {problem.horizon} patients")
print(f"{'any policy, at best':20} {best:.3f}")
for name, value in prior_values.items():
    print(f"{name:20} {value:.3f}  ({best - value:.3f} less)")

# %%
# Operating characteristics
# -------------------------
# Now at fixed truths: the new treatment is worse, a little better, or much better than the
# standard. These figures are exact too. The policy is followed over all the states that it can
# reach, so there is no simulation error. *Right* is the probability that the better arm has the
# larger posterior mean when the trial ends.

TRUTHS = ((0.6, 0.4), (0.6, 0.7), (0.6, 0.8))  # standard, new
results = {
    (name, truth): evaluate(policies[name], truth=truth) for truth in TRUTHS for name in NAMES
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
# The number after ± is the standard deviation from trial to trial, not an error of the
# computation.
#
# What adapting buys, and what it costs
# -------------------------------------
# The same over many truths of the new arm. Unless the arms hardly differ, adaptive trials put
# more patients on the better arm, and so more patients are helped. The third figure has the
# price. Where the new arm is better, an adaptive trial may drop it after a bad start, and nobody
# finds out that it was only unlucky: equal allocation is right more often. Where the new arm is
# worse, the adaptive trials are right more often. They stay with the standard, of which the prior
# says the truth.

new_truths = ([0.2, 0.3, 0.4, 0.5, 0.55], [0.65, 0.7, 0.8, 0.9])  # worse, better than the standard
figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for better, truths in enumerate(new_truths):
    found = {name: [evaluate(policies[name], truth=(0.6, p)) for p in truths] for name in NAMES}
    for number, (name, row) in enumerate(found.items()):
        style = {"color": f"C{number}", "marker": "o", "markersize": 4}
        gains = [each.value - even.value for each, even in zip(row, found["equal"], strict=True)]
        panels[0].plot(truths, [each.arm_pulls[better] for each in row], **style)
        panels[1].plot(truths, gains, **style)
        chances = [each.best_arm_probability for each in row]
        panels[2].plot(truths, chances, label=None if better else name, **style)
titles = ("patients on the better arm", "successes gained on equal", "better arm ahead at the end")
for axes, title in zip(panels, titles, strict=True):
    axes.set_title(title, fontsize="medium")
    axes.axvline(0.6, color="0.7", linewidth=1, linestyle="dashed")
    axes.set_xlabel("true success probability, new arm")
    axes.grid(alpha=0.25)
figure.legend(loc="outside right center")
figure.suptitle("standard arm: 0.6 (dashed)", fontsize="medium")

# %%
# What to try next
# ----------------
# - A more careful prior for the standard arm, ``Beta(good=3, bad=2)``: which curves move?
# - ``terminal=Terminal(deploy=100)`` says that 100 later patients will get the arm that wins. The
#   trial then learns more, and decides better at the end: see *Earn now or learn for later*.
# - The same from the command line: ``deco evaluate trial.toml --policy deco,equal --truth
#   0.6,0.7``.
