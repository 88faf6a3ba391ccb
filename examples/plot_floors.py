"""
Floors: how to keep every arm in the trial
==========================================

A *floor* guarantees every arm a least allocation probability, so that no arm is starved by an early
run of bad luck and every outcome can be reweighted afterwards. There are two ways to obtain it from
the probabilities :math:`w` of a policy. The additive floor :math:`f + (1 - n f) w` gives every one
of the :math:`n` arms its floor and lets the policy share the rest; it is the default. Clipping
raises smaller probabilities to the floor and scales the others down. This example compares both:
what they do to the probabilities, and what they cost.
"""

import numpy as np
from matplotlib import pyplot as plt

from decobandit import Design, Problem, State, make_policy, operating_characteristics
from decobandit.policies import RuledPolicy
from decobandit.problem import Rules, States

FLOOR = 0.15
KINDS = ("additive", "clip")

# %%
# Allocation probabilities
# ------------------------
# Three arms, ten pulls each. Arms B and C have had 6 and 4 good outcomes, arm A from 0 to 10. As A
# gets ahead, Thompson sampling gives less and less to the others. Clipping makes B and C equal as
# soon as both are below the floor, although B is the better one. The additive floor keeps their
# order and is never flat: its probabilities still say what the policy thinks.

problem = Problem.uniform(arms=3, horizon=60)
thompson = make_policy(problem, "thompson")
good = np.arange(11)
states = [State.parse(f"{g}/10,6/10,4/10") for g in good]


def probabilities(kind: str) -> np.ndarray:
    """Probabilities of the arms in every state, (states, arms)."""
    ruled = RuledPolicy(thompson, Rules(floor=FLOOR, floor_kind=kind))
    return ruled.probabilities(30, States.of(problem, states))


shares = {kind: probabilities(kind) for kind in KINDS}
for kind in KINDS:
    print(f"{kind:9} A 9/10, B 6/10, C 4/10:", np.round(shares[kind][9], 3))

# %%
# What a floor costs
# ------------------
# A trial of 15 patients, computed exactly: expected successes, and the power to declare an arm
# better than control, for floors from 0 to 1/3, where both kinds are equal randomisation. At the
# same floor the additive kind randomises more: it costs more successes and has more power. At the
# same power it earns more successes than clipping (right). So compare kinds at the same power, not
# at the same floor.

trial = Problem.uniform(arms=3, horizon=15)
floors = np.linspace(0.0, 1.0 / 3.0, 6)


def outcome(floor: float, kind: str) -> tuple[float, float]:
    """Expected successes, and the probability of declaring an arm better than control."""
    design = Design(
        policies=["thompson"],
        control="arm-1",
        floor=floor,
        floor_kind=kind,
        test={"kind": "posterior", "threshold": 0.9},
        scenarios=[{"name": "one works", "truth": [0.2, 0.7, 0.4]}],
    )
    row = operating_characteristics(trial, design, exact=True).scenarios[0].policies[0]
    return row.good, row.reject


outcomes = {kind: np.array([outcome(floor, kind) for floor in floors]) for kind in KINDS}
for kind in KINDS:
    cells = ", ".join(
        f"{f:.2f}: {n:.2f}" for f, n in zip(floors, outcomes[kind][:, 0], strict=True)
    )
    print(f"{kind:9} successes by floor {cells}")

figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
lines = {"additive": "-", "clip": "--"}
for kind in KINDS:
    for arm, colour in enumerate(("C0", "C1", "C2")):
        axes[0].plot(good, shares[kind][:, arm], color=colour, ls=lines[kind])
    axes[0].plot([], [], color="0.2", ls=lines[kind], label=kind)
    axes[1].plot(floors, outcomes[kind][:, 0], color="C3", ls=lines[kind], marker="o", label=kind)
    axes[2].plot(*outcomes[kind].T[::-1], color="C3", ls=lines[kind], marker="o", label=kind)
for name, (x, y), colour in (
    ("A", (9.4, 0.62), "C0"),
    ("B", (0.3, 0.55), "C1"),
    ("C", (0.3, 0.22), "C2"),
):
    axes[0].text(x, y, name, color=colour, weight="bold")
axes[0].axhline(FLOOR, color="0.5", lw=0.8)
axes[0].set(xlabel="good outcomes of arm A in 10", ylabel="probability", title=f"Floor {FLOOR}")
axes[1].set(xlabel="floor", ylabel="expected successes of 15", title="Cost of a floor")
axes[2].set(xlabel="power", ylabel="expected successes of 15", title="At the same power")
for axis in axes:
    axis.legend(frameon=False, fontsize="small")
plt.show()

# %%
# What to try next
# ----------------
# - With a deterministic policy (``deco-calibrated``) both kinds are the same: the floor for every
#   other arm, the rest for the best one.
# - ``max_probability`` caps the probability of an arm after the floor.
# - In a live trial, the event of every ``ask`` records the probabilities it was drawn by.
