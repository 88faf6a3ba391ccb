"""
Where the reward is lost
========================

No policy can earn more than the dual upper bound. How far below is DeCo, and at which stages is the
difference lost? Theorem 1 of the paper answers exactly. Whenever the index of a pulled arm is below
the price, the difference is lost (*shortfall*). Whenever an arm whose index is above the price is
not pulled, that difference is lost (*congestion*). In expectation, there is no other loss.
"""

import numpy as np

from decobandit import Problem, follow, gap, make_policy, solve
from decobandit.figures import episode_figure, show_figure

problem = Problem.uniform(arms=5, horizon=20)
solution = solve(problem)

# %%
# In expectation
# --------------
# For any policy, upper bound minus value is expected shortfall plus congestion. For DeCo, which
# pulls the arm with the largest index, Theorem 2 says more: at a stage there is shortfall only if
# no arm is worth the price, and congestion only if several are.

NAMES = ("deco", "fh-gittins", "greedy", "equal")
results = {name: gap(problem, name, solution=solution) for name in NAMES}
print(f"upper bound {solution.upper_bound:.4f}")
print(f"{'policy':11} {'value':>8} {'gap':>8} {'shortfall':>10} {'congestion':>11}")
for name, result in results.items():
    print(
        f"{name:11} {result.value:8.4f} {result.gap:8.4f} {result.shortfall:10.4f} "
        f"{result.congestion:11.4f}"
    )

# %%
# In single episodes
# ------------------
# The loss of one episode can be larger or smaller. It follows from the indices of the arms in that
# episode. The average over many episodes is the gap.

deco = make_policy(problem, "deco", solution=solution)
episodes = [follow(problem, deco, solution=solution, rng=seed) for seed in range(200)]
losses = np.array([episode.running_loss[-1] for episode in episodes])
error = losses.std(ddof=1) / np.sqrt(losses.size)
print(f"average over {losses.size} episodes: {losses.mean():.3f} ± {error:.3f}")
print(f"expected: {results['deco'].gap:.3f}")
print(
    f"episodes that lose less than 0.1: {np.mean(losses < 0.1):.0%}; most lost: {losses.max():.3f}"
)

# %%
# Most episodes lose almost nothing: DeCo finds a good arm, which stays worth the price. In a few
# episodes there is no such arm, and the loss is large. Below, the episode whose loss is closest
# to the expected one. The green line is the price. Circles are pulls, filled where the outcome
# was good. Red is shortfall and blue congestion. The last panel shows their running total, and
# the expected one.

episode = episodes[int(np.abs(losses - results["deco"].gap).argmin())]
print(episode)
figure = episode_figure(episode, expected=results["deco"].running_loss)
show_figure(figure)

# %%
# A check of Theorem 2: no stage should have both types of loss.

both = sum(
    int(((episode.shortfall > 1e-9) & (episode.congestion > 1e-9)).sum()) for episode in episodes
)
print(f"stages of all episodes with shortfall and congestion together: {both}")

# %%
# What to try next
# ----------------
# - ``Problem.uniform(arms=15, horizon=20)``: with more arms the gap shrinks relative
#   to the bound.
# - ``bound``: for few arms there are better bounds than the one from prices.
# - ``deco path --arms 5 --horizon 20 --seed 3 --out path.html``: the same figure as an
#   interactive page.
