"""
Where the reward is lost
========================

No policy can expect more than the bound from prices. How far below is DeCo, and at which stage
does it fall behind? Theorem 1 of the paper answers exactly. Whenever a pulled arm is worth less
than the price, the difference is lost (*shortfall*). Whenever an arm that is worth more than the
price is not pulled, that difference is lost (*congestion*). In expectation, nothing else is.
"""

import numpy as np

from decobandit import Problem, Workbench, follow, gap
from decobandit.path_figures import path_figure

bench = Workbench(Problem.uniform(arms=5, horizon=20))
solution = bench.solution

# %%
# In expectation
# --------------
# For any policy, upper bound minus value is shortfall plus congestion. For DeCo, which pulls the
# arm of largest index, Theorem 2 says more: at a stage there is shortfall only if no arm is worth
# the price, and congestion only if several are.

NAMES = ("deco", "fh-gittins", "greedy", "equal")
results = {name: gap(bench.policy(name), solution=solution) for name in NAMES}
print(f"upper bound {solution.upper_bound:.4f}")
print(f"{'policy':11} {'value':>8} {'gap':>8} {'shortfall':>10} {'congestion':>11}")
for name, found in results.items():
    print(
        f"{name:11} {found.value:8.4f} {found.gap:8.4f} {found.shortfall:10.4f} "
        f"{found.congestion:11.4f}"
    )

# %%
# On single paths
# ---------------
# One episode loses more or less than that, and its loss can be read off: no expectation is
# needed, only the indices of the arms along the way. The average over many episodes comes back to
# the gap.

deco = bench.policy("deco")
paths = [follow(deco, solution, seed=seed) for seed in range(200)]
losses = np.array([path.running_loss[-1] for path in paths])
error = losses.std(ddof=1) / np.sqrt(losses.size)
print(f"average over {losses.size} episodes: {losses.mean():.3f} ± {error:.3f}")
print(f"expected: {results['deco'].gap:.3f}")
print(
    f"episodes that lose less than 0.1: {np.mean(losses < 0.1):.0%}; most lost: {losses.max():.3f}"
)

# %%
# Most episodes lose next to nothing: a good arm is found, and from then on it is worth the price.
# A few find no such arm, and lose a lot. Below, the episode whose loss is closest to the expected
# one. The green line is the price. Circles are pulls, filled where the outcome was good. Red is
# shortfall and blue congestion. The last panel adds them up, beside what is expected of DeCo.

path = paths[int(np.abs(losses - results["deco"].gap).argmin())]
print(path)
figure = path_figure(path, expected=results["deco"].running)

# %%
# Is it Theorem 2? Count the stages with both kinds of loss at once: there should be none.

both = sum(int(((each.shortfall > 1e-9) & (each.congestion > 1e-9)).sum()) for each in paths)
print(f"stages of all episodes with shortfall and congestion together: {both}")

# %%
# What to try next
# ----------------
# - ``Workbench(Problem.uniform(arms=15, horizon=20))``: with more arms the gap shrinks relative
#   to the bound.
# - ``best_bound``: for few arms there are better bounds than the one from prices.
# - ``deco path --arms 5 --horizon 20 --seed 3 --out path.html``: the same figure as a page to
#   explore.
