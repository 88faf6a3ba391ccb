"""
A wrong prior
=============

A Bayesian policy is told where success probabilities come from. What if that is not true? Here
three treatments really have success probabilities from Beta(2, 6), one in four on average. The
planners believe something else, and some are very sure of it.
"""

from matplotlib import pyplot as plt

from decobandit import Beta, Problem, Workbench, simulate

TRUTH = Beta(good=2, bad=6)
BELIEFS = {
    "right": TRUTH,
    "vague": Beta(good=1, bad=1),
    "too sure": Beta(good=10, bad=30),
    "too hopeful": Beta(good=6, bad=2),
    "sure and hopeful": Beta(good=30, bad=10),
}
NAMES = ("deco", "fh-gittins", "thompson", "kl-ucb")

# %%
# One world, five beliefs
# -----------------------
# ``truth_prior`` is where the parameters are drawn from. The policies are made for the problem
# that is believed. The seed is the same each time, so all of them meet the same treatments and
# the same outcomes.


def regrets(belief):
    """Regret and its standard error, by policy."""
    problem = Problem.uniform(arms=3, horizon=30, prior=belief)
    bench = Workbench(problem)
    policies = [bench.policy(name) for name in NAMES]
    found = simulate(problem, policies, draws=2048, per_draw=4, seed=1, truth_prior=TRUTH)
    return {each.policy: (each.regret, each.value_se) for each in found.results}


results = {name: regrets(belief) for name, belief in BELIEFS.items()}
print(f"{'regret':16} " + " ".join(f"{name:>14}" for name in NAMES))
for belief, row in results.items():
    print(f"{belief:16} " + " ".join(f"{row[n][0]:6.3f} ± {row[n][1]:5.3f}" for n in NAMES))

# %%
# Hope costs most. Those who expect three successes in four are disappointed by every treatment in
# turn and go on trying all of them, the longer the surer they are. A vague prior costs little. To
# be too sure of the right mean costs the two that plan nothing that could be seen here; Thompson
# sampling, which explores as widely as it doubts, takes too long to believe that the treatments
# differ. KL-UCB has no prior. Its first line differs by estimation only: where beliefs are right,
# a bound helps to make errors smaller.

figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
for number, name in enumerate(NAMES):
    place = [i + 0.12 * (number - 1.5) for i in range(len(BELIEFS))]
    axes.errorbar(
        [row[name][0] for row in results.values()],
        place,
        xerr=[2 * row[name][1] for row in results.values()],
        fmt="osD^"[number],
        markersize=5,
        capsize=2,
        label=name,
    )
labels = [f"{name}\nBeta({b.good:g}, {b.bad:g})" for name, b in BELIEFS.items()]
axes.set_yticks(range(len(BELIEFS)), labels)
axes.invert_yaxis()
axes.set_xlim(0, None)
axes.set_xlabel("expected regret in 30 pulls, ± 2 s.e.")
axes.grid(axis="x", alpha=0.25)
figure.legend(loc="outside right center")

# %%
# What to try next
# ----------------
# - A longer horizon: does it forgive more, because the data overrule the prior? (It need not:
#   what a sure belief costs goes on for long.)
# - ``true_horizon`` asks the same of a wrong number of stages.
# - Larger measurements of both are in the page *Wrong priors, wrong horizons*.
