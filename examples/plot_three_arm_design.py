"""
Three arms, 120 patients: from a design to a report to a trial
==============================================================

A control treatment has cured 12 of 40 patients in an earlier trial; nothing is known of two new
ones. Before the trial starts, a committee wants to know what it will do: how many patients are
cured, how often a useless treatment is declared better than control, how often a good one is
missed, and how long it takes. This example describes the design, computes its *operating
characteristics*, calibrates its threshold, writes the report, and starts the trial.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib import pyplot as plt

from decobandit import Arm, BetaBernoulli, Design, Problem, bound, operating_characteristics
from decobandit.figures import policy_style
from decobandit.figures.design_report import design_page
from decobandit.trials import create_trial

problem = Problem(
    horizon=120,
    arms=(
        Arm(name="control", prior=BetaBernoulli(good=12, bad=28)),
        Arm(name="new-1"),
        Arm(name="new-2"),
    ),
)
design = Design(
    policies=["fh-gittins", "thompson", "equal"],
    control="control",
    burn_in=5,  # patients of every arm first
    floor=0.1,  # least probability of every arm
    delay=10,  # an outcome is known ten patients later
    looks={"first": 40, "every": 20},
    stop={"superiority": 0.995, "inferiority": 0.01},
    test={"kind": "posterior", "threshold": 0.975},
    draws=2000,
    scenarios=[
        {"name": "nothing works", "truth": [0.3, 0.3, 0.3]},
        {"name": "one works", "truth": [0.3, 0.5, 0.3]},
        {"name": "both work", "truth": [0.3, 0.5, 0.45]},
    ],
)

# %%
# Operating characteristics
# -------------------------
# Every policy in every scenario, simulated on the same outcomes. With the calibration, the
# threshold of each policy's final test is the smallest whose type I error is at most 5% under
# the null. The same from the command line: ``deco design FILE --calibrate 0.05``.

characteristics = operating_characteristics(problem, design, calibrate_to=0.05)
for level in characteristics.calibration:
    error, se = level.type_one_error, level.type_one_error_se
    print(f"{level.policy:12} threshold {level.threshold:.4f}, type I error {error:.3f} ± {se:.3f}")
for scenario in characteristics.scenarios:
    print(f"\n{scenario.name}: {scenario.truth}")
    for row in scenario.policies:
        pulls = " ".join(f"{n:5.1f}" for n in row.pulls)
        print(
            f"  {row.policy:12} cured {row.good:5.1f} (sd {row.good_sd:4.1f})  patients {pulls}  "
            f"declared {row.reject:.3f}  size {row.size:5.1f}"
        )

# %%
# Benefit and cost of adaptive allocation
# ---------------------------------------
# Cures per patient against power, if one treatment works.

one_works = characteristics.scenarios[1]
figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
for row in one_works.policies:
    style = policy_style(row.policy).point
    axis.plot(row.reject, row.good / row.size, linestyle="none", label=row.policy, **style)
axis.set(xlabel="power", ylabel="cured, share of patients", title="One treatment works")
axis.legend()
plt.show()

# %%
# The report for the committee
# ----------------------------
# ``deco design FILE --calibrate 0.05 --report report.html`` writes one printable page: question,
# rules, priors, all tables with figures, a bound on every policy, the same design with other
# priors, and how to reproduce it. In Python, the analysis with other priors is
# ``designs.reporting.study_design``.
page = design_page(
    characteristics, bound=bound(problem)[0], question="Does a new treatment cure more?"
)
with TemporaryDirectory() as folder:
    report = Path(folder, "report.html")
    print(f"{report.name}: {report.write_text(page, encoding='utf-8') // 1000} thousand characters")

# %%
# The trial
# ---------
# The trial follows the rules of the design: burn-in, floor, looks, stopping. The log records the
# result of every look. From the command line: ``deco trial new FILE``.

with TemporaryDirectory() as folder:
    trial = create_trial(
        problem, policy="fh-gittins", design=design, db=Path(folder, "ward.db"), seed=1
    )
    allocation = trial.ask()
    print(allocation.arm, "-", allocation.reason)
    trial.tell(allocation.id, 1)
    trial.close()

# %%
# What to try next
# ----------------
# Leave out the delay, or make it longer; ``test={"kind": "fisher"}``; ``control_share=0.33``.
# All keys: the guide, *Designs for statisticians*.
