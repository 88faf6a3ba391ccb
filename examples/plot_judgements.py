"""
Which of five prompts, with 300 judged answers
==============================================

Five prompts for the same task, and people who judge whether an answer is right. Judging is the
expensive part: there is money for 300 judgements, in batches of 50. After the last batch one prompt
goes into production. How should each batch be divided, and when is it safe to stop early?
"""

import csv
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from decobandit import (
    Arm,
    Problem,
    Reward,
    Terminal,
    bound,
    read_outcomes,
    recommend,
    with_history,
)

PROMPTS = ("terse", "stepwise", "examples", "role", "plain")
STOP = 0.01  # stop when more judgements can gain at most one percentage point

# %%
# The problem
# -----------
# Only the prompt that is kept counts: judgements earn nothing, and the deployment earns the success
# rate of the chosen prompt. No prior is needed to start; the default, Beta(1, 1), assumes that any
# success rate is as likely as any other and that judgements are independent.

arms = [Arm(name=name, reward=Reward(good=0)) for name in PROMPTS]
batches = {"pulls_per_stage": 50, "unit": 10, "repeat": True}
problem = Problem(arms=arms, horizon=6, terminal=Terminal(deploy=1), **batches)
ceiling = bound(problem)[0].value
print(f"no way to spend the judgements finds a prompt above {ceiling:.3f} on average")

# %%
# One batch after the other
# -------------------------
# Judgements are rows of a CSV file. After each batch, `recommend` divides the next one, and the
# bound of what is left says what judging on can reach at best. The stopping rule is certified:
# below the threshold, no continuation gains more than that on average.

rng = np.random.default_rng(2)
truth = dict(zip(PROMPTS, (0.62, 0.74, 0.55, 0.66, 0.71), strict=True))
file = Path(tempfile.mkdtemp()) / "judgements.csv"
file.write_text("prompt,right\n")
leader, reach = [], []
for batch in range(problem.horizon + 1):
    state = read_outcomes(problem, file, arm_column="prompt", outcome_column="right")
    left = with_history(problem, state)
    means = [arm.prior.good / (arm.prior.good + arm.prior.bad) for arm in left.arms]
    leader.append(max(means))
    stages = problem.horizon - batch
    reach.append(
        bound(left.model_copy(update={"horizon": stages}))[0].value if stages else max(means)
    )
    print(f"after {50 * batch:3} judgements: leader {leader[-1]:.3f}, at most {reach[-1]:.3f}")
    if reach[-1] - leader[-1] <= STOP:
        break
    advice = recommend(problem, state)
    with file.open("a", newline="") as sheet:
        for arm in advice.arms:
            right = rng.random(arm.pulls) < truth[arm.name]
            csv.writer(sheet).writerows((arm.name, int(answer)) for answer in right)
print(f"keep {PROMPTS[int(np.argmax(means))]!r} after {50 * batch} judgements")

# %%
# What judging on could still gain
# --------------------------------
# The shaded distance is an upper bound on the gain of every way to go on.

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
count = 50 * np.arange(len(leader))
axes.fill_between(count, leader, reach, alpha=0.2, label="what judging on could gain")
axes.plot(count, reach, marker="o", label="certified bound")
axes.plot(count, leader, marker="o", label="posterior mean of the leader")
axes.set(xlabel="judgements", ylabel="success rate", xticks=count)
axes.legend(frameon=False)
plt.show()

# %%
# What to try next
# ----------------
# - Old judgements count half: ``with_history(problem, state, discount=0.5)``.
# - Grades instead of right or wrong: a ``DirichletCategorical`` prior with a value per grade.
# - Several people judge: run the comparison as a trial, with a log that can be checked.
