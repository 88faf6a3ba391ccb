"""
A statistician: from a design to its report
===========================================

A trial compares two new treatments with a control, 60 patients one after the other. The protocol
asks for operating characteristics: power and type I error at the end, patients on the better arm,
successes. This notebook describes the design, computes them, and writes the report.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from decobandit import Arm, BetaBernoulli, Design, Problem, operating_characteristics
from decobandit.figures import characteristics_figure
from decobandit.figures.design_report import design_page

problem = Problem(
    horizon=60,
    arms=[
        Arm(name="control", prior=BetaBernoulli(12, 28)),  # 12 successes in 40 earlier patients
        Arm(name="low dose"),
        Arm(name="high dose"),
    ],
)
problem

# %%
# The design
# ----------
# Every arm gets five patients first. Then the policy allocates, with at least 10% for every arm. At
# the end an arm is declared better than control if the posterior probability is above a threshold,
# which is calibrated below to a type I error of at most 5%.

design = Design(
    policies=["equal", "thompson", "deco"],
    control="control",
    burn_in=5,
    floor=0.1,
    scenarios=[
        {"name": "no effect", "truth": [0.3, 0.3, 0.3]},
        {"name": "high dose works", "truth": [0.3, 0.3, 0.6]},
        {"name": "both work", "truth": [0.3, 0.5, 0.6]},
    ],
    draws=400,  # a protocol would take 10,000 or more
    seed=1,
)
characteristics = operating_characteristics(problem, design, calibrate_to=0.05)
characteristics

# %%
# Figure
# ------
# One row per scenario, one point per policy, with two standard errors on either side.

figure = characteristics_figure(characteristics)

# %%
# Data frames
# -----------
# Every table is also a data frame: here the pulls of every arm in the second scenario.

arms = characteristics.to_frame("arms", kind="pandas")
arms[arms.scenario == "high dose works"][["policy", "arm", "truth", "pulls", "pulls_sd"]]

# %%
# The report
# ----------
# One printable page for a committee. ``deco design FILE --report report.html`` writes
# the same from a file, with the bound and the design under other priors.

page = design_page(characteristics, question="Is one of the doses better than control?")
with TemporaryDirectory() as folder:
    report = Path(folder) / "report.html"
    report.write_text(page, encoding="utf-8")
    print(f"{report.stat().st_size // 1000} kB, {page.count('<table')} tables")
