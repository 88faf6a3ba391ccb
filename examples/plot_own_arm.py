"""
A Markov arm: advertisements that wear out or catch on
======================================================

Three advertisements run for thirty days. The loud one wears out with use. The odd one catches on:
it earns little at first, and more later. The plain one never changes. The daily reward is known in
every state; the time at which an advertisement moves to the next state is not. Any arm with few
states can be defined like this: the name of each state, its reward, and its transition
probabilities.
"""

import numpy as np
from matplotlib import pyplot as plt

from decobandit import (
    Arm,
    MarkovArm,
    MarkovState,
    Problem,
    State,
    make_policy,
    optimum,
    simulate,
    solve,
)
from decobandit.figures import arm_style, policy_style


def changing(name: str, rewards: list[float], probability: float) -> Arm:
    """Return an advertisement that moves to its next step with a fixed probability per day."""
    states, last = {}, len(rewards) - 1
    for step, reward in enumerate(rewards):
        further = {
            "same": (1 - probability, f"step-{step}"),
            "next": (probability, f"step-{step + 1}"),
        }
        stays = {"same": (1.0, f"step-{step}")}
        states[f"step-{step}"] = MarkovState(mean=reward, next=further if step < last else stays)
    return Arm(name=name, prior=MarkovArm(first="step-0", states=states))


problem = Problem(
    horizon=30,
    arms=[
        changing("odd", [0.2, 0.4, 1.0], 0.3),
        changing("loud", [1.4, 0.9, 0.1], 0.4),
        changing("plain", [0.6], 1.0),
    ],
)

# %%
# Comparison with the exact optimum
# ---------------------------------

solution, best = solve(problem), optimum(problem).value
print(f"bound {solution.upper_bound:.4f}, optimum {best:.4f}")
NAMES = ["deco", "fh-gittins", "greedy", "equal"]
simulation = simulate(problem, NAMES, draws=4000, solution=solution, rng=6)
values = {result.policy: result.value for result in simulation.results}
errors = {result.policy: result.value_se for result in simulation.results}
for name in NAMES:
    print(f"{name:11} {values[name]:.3f} +- {errors[name]:.3f}")

# %%
# Indices
# -------
# The value of an advertisement today depends on its state and on the days left: a pull changes the
# state for all later days.

deco = make_policy(problem, "deco", solution=solution)
days = np.arange(30)
figure, (upper, lower) = plt.subplots(2, 1, figsize=(6.4, 6.8), layout="constrained")
for number, (arm, step) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
    own = ["step-0/0"] * 3
    own[arm] = f"step-{step}/{step}"
    seen = State.parse(",".join(own), problem)
    index = [deco.indices(day, seen)[arm] for day in days[step:]]
    name = f"{problem.arms[arm].name}, step {step}"
    upper.plot(days[step:], index, label=name, **arm_style(number).line)
upper.plot(days, solution.prices, color="black", linestyle="dashed", label="price of a day")
upper.set_xlabel("day")
upper.set_ylabel("index of DeCo")
upper.legend()
COLOURS = [policy_style(name).colour for name in NAMES[::-1]]
lower.barh(NAMES[::-1], [values[name] for name in NAMES[::-1]], color=COLOURS)
lower.axvline(best, color="black", linestyle="dashed", label="exact optimum")
lower.set_xlabel("expected reward of 30 days")
lower.set_xlim(0.8 * min(values.values()), None)
lower.legend(loc="lower right")
plt.show()

# %%
# What to try next
# ----------------
# - Problem files can define states, too: see the guide, *Non-binary outcomes*.
# - Mix it with arms whose mean is learnt: ``Arm(name="new", prior=NormalNormal(0.6, 0.2),
#   noise_sd=1)``.
