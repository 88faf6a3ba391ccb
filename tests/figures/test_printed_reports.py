"""Reports on paper: A4, nothing wider than the page, light whatever the screen is."""

import re
from pathlib import Path
from typing import Any

import pytest

from decobandit import Design, Problem, operating_characteristics
from decobandit.cli.selftest import Check, Selftest, installed
from decobandit.figures.charts import new_figure
from decobandit.figures.design_report import design_page
from decobandit.paper import batches, table1
from decobandit.paper.experiments import Section, Verdict, reproduction_page
from decobandit.problem import Arm
from decobandit.trials import create_trial
from decobandit.trials.report_text import trial_page

A4 = (595.3, 841.9)  # points
TEXT_WIDTH = 673  # pixels between margins of 16 mm
TEXT_HEIGHT = 1048  # likewise, of 18 mm
NAMES = [f"dose {i} of a treatment with quite a long name" for i in range(8)]
ARMS = [Arm(name=name) for name in NAMES]


def design_report() -> str:
    truth = [0.3] * len(ARMS)
    design = Design(
        control=NAMES[0],
        policies=["equal"],
        draws=20,
        stop={"superiority": 0.99},
        scenarios=[{"name": f"scenario number {i}", "truth": truth} for i in range(3)],
    )
    found = operating_characteristics(Problem(horizon=16, arms=ARMS), design)
    return design_page(found, again=["deco design trial.toml"], file=("trial.toml", "a = 1\n" * 80))


def trial_report(folder: Path) -> str:
    problem = Problem(horizon=40, arms=ARMS)
    trial = create_trial(problem, policy="equal", name="long", db=folder / "t.db", bound=False)
    for number in range(40):
        slot = trial.ask()
        trial.tell(slot.id, number % 2)
        trial.correct(slot.id, 1, reason="entered wrongly on the ward, as the nurse on duty says")
    return trial_page(trial.report())


def reproduction_report() -> str:
    wide = table1.Row(
        15,
        40,
        None,
        31.63,
        31.54,
        31.634696,
        31.562929,
        31.632883,
        None,
        31.621828,
        31.73723,
        "flat",
        31.5726,
        0.0036,
    )
    numbers = (0.05547, 0.04836, 3e-4, 1.0, 0.04)
    batch = batches.Row("descending", 100, 10, "knowledge-gradient", *numbers)
    figure = new_figure((6.4, 11.0))
    figure.subplots()
    said = [Verdict("DeCo is comparable to FH-Gittins", "in part", "2 arms: 1.58; " * 12)]
    drawn = Section("Figure 3", ["Regret."], figure=figure)
    parts = [table1.section([wide] * 7), drawn, batches.section([batch] * 42)]  # as in use
    return reproduction_page("deco reproduce all --scale paper", parts, said)


def selftest_report() -> str:
    check = Check(
        "dual",
        "upper bound of the dual, 4 arms, 6 stages of 2 pulls",
        "linear program over occupations, HiGHS",
        7.402777778,
        7.402777778,
        1e-9,
        "at least",
    )
    return Selftest((check,) * 30, installed(), "2026-11-17T15:00:00+00:00", 5.0).to_html()


REPORTS = {
    "design": lambda _: design_report(),
    "trial": trial_report,
    "reproduction": lambda _: reproduction_report(),
    "selftest": lambda _: selftest_report(),
}


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("design", 3, 8), ("trial", 3, 6), ("reproduction", 3, 5), ("selftest", 2, 4)],
)
def test_a_report_prints_on_a4_without_cuts(
    chromium: Any, tmp_path: Path, kind: str, least: int, most: int
) -> None:
    text = REPORTS[kind](tmp_path)
    page = chromium.new_page(
        viewport={"width": TEXT_WIDTH, "height": TEXT_HEIGHT}, color_scheme="dark"
    )
    page.set_content(text)
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    # what must not be broken fits on a page
    tallest = "Math.max(...[...document.querySelectorAll('figure, tr')].map(e => e.offsetHeight))"
    assert page.evaluate(tallest) < TEXT_HEIGHT
    printed = page.pdf(prefer_css_page_size=True)
    page.close()
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed)
    assert least <= len(boxes) <= most
    for box in boxes:
        assert tuple(map(float, box)) == pytest.approx(A4, abs=1.5)
