"""
A live trial
============

Other examples evaluate or simulate. Here a trial is run: ask for an allocation, treat a patient,
record the outcome when it is known. Outcomes arrive late and out of order, one patient does not
turn up, and one outcome is entered wrongly. Each event is written to a database before the call
returns, and the log can be verified afterwards.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from decobandit import Arm, BetaBernoulli, Problem
from decobandit.figures import episode_figure, show_figure
from decobandit.trials import Conflict, create_trial, open_trial

problem = Problem(
    horizon=30,
    arms=(
        Arm(name="standard", prior=BetaBernoulli(good=6, bad=4)),
        Arm(name="low dose"),
        Arm(name="high dose"),
    ),
)
folder = TemporaryDirectory()
database = Path(folder.name, "ward.db")
trial = create_trial(problem, name="ward-7", db=database, seed=1)

# %%
# The first patients
# ------------------
# Three patients arrive before any outcome is recorded. The policy averages over the pending
# outcomes. The reason is stored with the decision.

first, second, third = trial.ask(), trial.ask(), trial.ask()
for slot in (first, second, third):
    print(f"patient {slot.stage + 1}: {slot.arm}. {slot.reason}")

# %%
# The third outcome is known first. The second patient did not turn up: the allocation is cancelled,
# and its slot is free again. The first outcome is recorded by two people, which does no harm. A
# contradicting outcome is rejected; it has to be recorded as a correction.

trial.tell(third.id, 1)
trial.cancel(second.id, reason="did not turn up")
trial.tell(first.id, 1, by="nurse")
trial.tell(first.id, 1, by="doctor")  # already recorded: nothing is written
try:
    trial.tell(first.id, 0, by="doctor")
except Conflict as refusal:
    print("refused:", refusal)
trial.correct(first.id, 0, reason="entered wrongly", by="doctor")
print(
    "recorded so far:",
    {arm.name: f"{arm.good}/{arm.good + arm.bad}" for arm in trial.status().arms},
)

# %%
# The rest of the trial
# ---------------------
# From here on the outcomes are simulated. Some are pending at any time, and any of them may be the
# next to be known. Meanwhile another process can open the trial by name.

truth = {"standard": 0.55, "low dose": 0.35, "high dose": 0.75}
rng = np.random.default_rng(7)
waiting = []
while trial.status().remaining:
    waiting.append(open_trial("ward-7", db=trial.store).ask())
    if len(waiting) > 3:
        slot = waiting.pop(rng.integers(len(waiting)))  # out of order
        trial.tell(slot.id, rng.random() < truth[slot.arm])
for slot in waiting:
    trial.tell(slot.id, rng.random() < truth[slot.arm])

status = trial.status()
for arm in status.arms:
    mean = arm.posterior_good / (arm.posterior_good + arm.posterior_bad)
    print(f"{arm.name:10} {arm.good:2} good of {arm.good + arm.bad:2}, posterior mean {mean:.3f}")
print(f"earned {status.earned:g}; upper bound on every policy: {status.upper_bound:.2f}")

# %%
# The log, checked
# ----------------
# ``verify`` detects events that were changed, moved or removed. ``replay`` recomputes every
# decision, with the prices that the trial was created with.

kinds = [event.kind for event in trial.events()]
print({kind: kinds.count(kind) for kind in dict.fromkeys(kinds)})
verification, replay = trial.verify(), trial.replay()
print(f"chain of {verification.events} events is intact: {verification.ok}")
print(f"{replay.decisions} decisions repeated, all the same: {replay.ok}")

# %%
# The trial as the paper's Figure 2
# ---------------------------------
# Recorded outcomes in the order of their allocations. There is a loss (``loss so far``) if the
# index of the pulled arm is below the price, or that of another arm above it.

path = trial.episode()
figure = episode_figure(path)
show_figure(figure)

# %%
# The whole trial can be exported from the database. Then the database is closed.

results = {"status": status, "path": path, "export": trial.export(), "replay": replay}
trial.store.close()
folder.cleanup()

# %%
# What to try next
# ----------------
# - The same from a shell: ``deco trial new``, ``ask``, ``tell``, ``status``; or in a browser:
#   ``deco serve``.
# - ``trial.ask(key="patient-17")``: a request that is sent twice gets the same answer.
# - ``trial.export()`` returns the whole trial in plain values; ``verify_export`` checks it without
#   the database.
