"""
One test, two countries
=======================

A new checkout is tried in two countries. In one of them something is known about it already. Each
country learns from its own visitors; how much can be earned in all, and where?
"""

import matplotlib.pyplot as plt

from decobandit import Arm, BetaBernoulli, Problem, Segment, evaluate, solve

# %%
# The problem
# -----------
# A visitor belongs to a segment with a known probability. Arms may have a prior for each segment.

OLD = Arm(name="old", prior=BetaBernoulli(30, 70))
NEW = Arm(name="new", prior=BetaBernoulli(1, 1), priors={"US": BetaBernoulli(4, 12)})


def shop(share: float, visitors: int = 60) -> Problem:
    segments = (Segment("EU", share), Segment("US", 1.0 - share))
    return Problem(arms=[OLD, NEW], horizon=visitors, segments=segments)


# %%
# Bounds and values
# -----------------
# Two bounds: one for every policy, also those that look at the calendar, and one for policies that
# count the visitors of their own segment only. DeCo is one of the latter.

shares = [0.2, 0.4, 0.6, 0.8]
bounds, values = [], []
for share in shares:
    problem = shop(share)
    bounds.append(solve(problem))
    values.append(evaluate(problem, "deco"))
    print(
        f"EU {share:.0%}: DeCo {values[-1].value:.3f}, own clock {bounds[-1].own_clock_bound:.3f}, "
        f"any policy {bounds[-1].upper_bound:.3f}"
    )

# %%
# The picture
# -----------
# Left, what DeCo earns by country, and the bound. Right, what the bounds leave per visitor.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
eu = [value["EU"].value for value in values]
us = [value["US"].value for value in values]
names = [f"{share:.0%}" for share in shares]
left.bar(names, eu, label="DeCo, EU")
left.bar(names, us, bottom=eu, label="DeCo, US")
left.plot(names, [bound.upper_bound for bound in bounds], "k--", label="no policy is above")
left.set(xlabel="visitors from the EU", ylabel="expected sales", ylim=(0, 42))
left.legend(loc="upper left")
for key, style in (("upper_bound", "k--"), ("own_clock_bound", "k:")):
    gaps = [getattr(b, key) - v.value for b, v in zip(bounds, values, strict=True)]
    right.plot(names, gaps, style, marker="o", label=key)
right.set(xlabel="visitors from the EU", ylabel="bound minus DeCo", ylim=(0, None))
right.legend(loc="lower left")
plt.show()

# %%
# What to try next
# ----------------
# `deco solve site.toml` for a file with `[[segments]]`; `deco trial ask --segment EU` in a trial.
