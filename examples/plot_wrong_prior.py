"""
A wrong prior
=============

A Bayesian policy assumes a prior for the success probabilities. What if the prior is wrong? Here
the success probabilities of three treatments are drawn from Beta(2, 6), with mean 1/4. The
policies assume other priors, some of them strong.
"""

from matplotlib import pyplot as plt

from decobandit import BetaBernoulli, Problem, make_policy, simulate
from decobandit.figures import policy_style

TRUTH = BetaBernoulli(good=2, bad=6)
BELIEFS = {
    "right": TRUTH,
    "vague": BetaBernoulli(good=1, bad=1),
    "too sure": BetaBernoulli(good=10, bad=30),
    "too hopeful": BetaBernoulli(good=6, bad=2),
    "sure and hopeful": BetaBernoulli(good=30, bad=10),
}
NAMES = ("deco", "fh-gittins", "thompson", "kl-ucb")

# %%
# One truth, five priors
# ----------------------
# The success probabilities are drawn from ``truth_prior``. The policies are built for the problem
# with the assumed prior. The seed is always the same, so all of them get the same success
# probabilities and the same outcomes.


def regrets(belief):
    """Regret and its standard error, by policy."""
    problem = Problem.uniform(arms=3, horizon=30, prior=belief)
    policies = [make_policy(problem, name) for name in NAMES]
    simulation = simulate(problem, policies, draws=2048, per_draw=4, rng=1, truth_prior=TRUTH)
    return {result.policy: (result.regret, result.value_se) for result in simulation.results}


results = {name: regrets(belief) for name, belief in BELIEFS.items()}
print(f"{'regret':16} " + " ".join(f"{name:>14}" for name in NAMES))
for belief, row in results.items():
    print(f"{belief:16} " + " ".join(f"{row[n][0]:6.3f} ± {row[n][1]:5.3f}" for n in NAMES))

# %%
# An optimistic prior costs most. With an expected success probability of 3/4, every treatment is
# disappointing, and the policies keep trying all of them, the longer the stronger the prior. A
# vague prior costs little. A prior that is too strong, but has the right mean, has no visible
# cost for DeCo and FH-Gittins; Thompson sampling, which explores according to posterior
# uncertainty, takes too long to learn that the treatments differ. KL-UCB has no prior. Its first
# row differs only because of the estimator: if the prior is right, the dual upper bound helps to
# reduce standard errors.

figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
for number, name in enumerate(NAMES):
    place = [i + 0.12 * (number - 1.5) for i in range(len(BELIEFS))]
    axes.errorbar(
        [row[name][0] for row in results.values()],
        place,
        xerr=[2 * row[name][1] for row in results.values()],
        linestyle="none",
        markersize=5,
        capsize=2,
        label=name,
        **policy_style(name).point,
    )
labels = [f"{name}\nBeta({b.good:g}, {b.bad:g})" for name, b in BELIEFS.items()]
axes.set_yticks(range(len(BELIEFS)), labels)
axes.invert_yaxis()
axes.set_xlim(0, None)
axes.set_xlabel("expected regret in 30 pulls, ± 2 s.e.")
axes.grid(axis="x", alpha=0.25)
figure.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# What to try next
# ----------------
# - A longer horizon: is the cost smaller, because the data outweigh the prior? (Not necessarily: a
#   strong prior has effects for many stages.)
# - ``true_horizon`` does the same for a wrong number of stages.
# - The page *Wrong priors, wrong horizons* has larger experiments on both.
