"""Reports on paper: A4, nothing wider than the page, light whatever the screen is."""

import re
from pathlib import Path
from typing import Any

import pytest

from decobandit import Design, Problem, operating_characteristics
from decobandit.figures.design_report import design_page
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
        control=NAMES[0], policies=["equal"], draws=20, stop={"superiority": 0.99},
        scenarios=[{"name": f"scenario number {i}", "truth": truth} for i in range(3)],
    )  # fmt: skip
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


@pytest.mark.parametrize(("kind", "least", "most"), [("design", 3, 8), ("trial", 3, 6)])
def test_a_report_prints_on_a4_without_cuts(
    chromium: Any, tmp_path: Path, kind: str, least: int, most: int
) -> None:
    text = design_report() if kind == "design" else trial_report(tmp_path)
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
