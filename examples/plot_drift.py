"""
A headline test over a week, with drift
=======================================

Four headlines, and a new choice every six hours for a week. Clicks per hundred readers depend on
the news: the mean of each headline takes a random step after every shift, shown or not. A
headline that was best on Monday need not be best on Thursday, and nobody observes the change of
one that is not shown. How many clicks can a policy gain, and how many could any policy gain?
"""

import matplotlib.pyplot as plt
import numpy as np

from decobandit import Arm, NormalNormal, Policy, Problem, simulate, solve

prior, drift = NormalNormal(mean=5.0, sd=1.0), 0.4
headlines = [f"headline {k + 1}" for k in range(4)]
arms = [Arm(name=name, prior=prior, noise_sd=1.5, drift_sd=drift) for name in headlines]
problem = Problem(arms=arms, horizon=28)
solution = solve(problem, tol=1e-3)
print(solution)

# %%
# The upper end of this interval is certified: no policy expects more clicks per hundred readers in
# the 28 shifts together.
#
# Discounted Thompson sampling
# ----------------------------
# What many would write: Thompson sampling for means that stay, with outcomes of the past
# discounted by a factor per shift. A factor forgets what was learned of all headlines alike; a
# model of the drift forgets as fast as the means move.


class DiscountedThompson(Policy):
    """Thompson sampling with outcomes that count 10% less after every shift."""

    name = "discounted thompson"
    serves_restless = randomised = True
    discount = 0.9

    def __init__(self, problem):
        self.problem = problem
        self.reset(0)

    def reset(self, episodes):
        """Forget all outcomes."""
        self.count, self.sum, self.before = (np.zeros((episodes, 4)) for _ in range(3))
        self.pulls = np.zeros((episodes, 4))

    def select(self, stage, state, rng=None):
        """Refuse: it remembers the outcomes of many episodes at once."""
        raise NotImplementedError

    def allocate_many(self, stage, states, rng=None):
        """Return the pulls of every episode, (episodes, arms)."""
        pulls, mean, sd = np.moveaxis(states.stats, -1, 0)
        if stage == 0:
            self.reset(len(pulls))
        else:  # the last outcome, from how Kalman's filter moved
            new = pulls > self.pulls
            left = sd**2 - drift**2
            outcome = self.before + (mean - self.before) * 1.5**2 / np.where(new, left, 1.0)
            self.count = self.discount * self.count + new
            self.sum = self.discount * self.sum + np.where(new, outcome, 0.0)
        self.before, self.pulls = mean.copy(), pulls.copy()
        weight = 1.0 / prior.sd**2 + self.count / 1.5**2
        center = (prior.mean / prior.sd**2 + self.sum / 1.5**2) / weight
        drawn = rng.normal(center, 1.0 / np.sqrt(weight))
        return (drawn == drawn.max(axis=1, keepdims=True)).astype(int)


# %%
# All policies on the same weeks
# ------------------------------
# The means of a week, and what every headline would get in every shift, are drawn beforehand.

# the policy above remembers outcomes: a chunk of draws at a time, in one thread
policies = [
    "deco",
    "knowledge-gradient",
    "thompson",
    DiscountedThompson(problem),
    "greedy",
    "equal",
]
results = simulate(problem, policies, draws=2000, per_draw=1, rng=1, solution=solution, workers=1)
print(f"{'policy':20} {'clicks':>16} {'of the bound':>13}")
for result in results.results:
    share = result.value / solution.upper_bound
    print(f"{result.policy:20} {result.value:9.2f} ± {result.value_se:4.2f} {share:13.1%}")

# %%
# Most of the bound is the prior mean, which every policy gets. The figure shows what is gained
# over showing all headlines equally often.

equal = results.results[-1].value
gains = [(result.policy, float(result.value - equal)) for result in results.results[:-1]]
figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
names, heights = zip(*gains[::-1], strict=True)
axes.barh(names, heights, color="#4477aa")
axes.axvline(float(solution.upper_bound - equal), color="#cc3311", linestyle="--")
axes.text(float(solution.upper_bound - equal), -0.35, " bound on\n every policy", color="#cc3311")
axes.set_xlim(0, 1.25 * float(solution.upper_bound - equal))
axes.set_xlabel("clicks per hundred readers gained over equal shares, in a week")
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What to try next
# ----------------
# `deco solve headlines.toml` for a file whose normal arms have a `drift_sd`. A larger one makes old
# outcomes worth less: the gap between policies shrinks, since there is less to learn that lasts.
