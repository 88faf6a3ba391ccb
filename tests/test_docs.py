"""The examples in the documentation, run as they are printed."""

import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

import decobandit
from decobandit.policies import make_policy
from helpers.documented import read

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: str) -> list[str]:
    """The Python examples of a page, in order."""
    return re.findall(
        r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S
    )


def figures_of(page: Path) -> set[Path]:
    """Pictures that a page shows, as it names them."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(
        r"!\[[^\]]*\]\(([^)]+\.png)\)|\{image\} (\S+\.png)|src=\"([^\"]+\.png)\"", text
    )
    return {(page.parent / name).resolve() for names in named for name in names if name}


def test_every_figure_of_a_page_has_a_variant_for_dark_pages() -> None:
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    shown = set().union(*(figures_of(page) for page in pages))
    assert len(shown) >= 8
    for light in shown:
        pictures = [imread(light), imread(light.with_stem(f"{light.stem}-dark"))]
        assert pictures[0].shape[:2] == pictures[1].shape[:2], light
        grounds = [picture[0, 0, :3].max() for picture in pictures]
        assert (grounds[0] > 0.95, grounds[1] < 0.2) == (True, True), light


def test_the_policy_of_the_guide_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    check, use = blocks("adding-a-policy.md")
    source = read(DOCS / "adding-a-policy.md").files["spread.py"]
    (tmp_path / "spread.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    exec(check, names)
    exec(use, names)
    exact, sampled = names["exact"], names["sampled"].results[0]
    assert sampled.value == pytest.approx(exact.value, abs=4.5 * sampled.value_se)
    # a width of nothing is the greedy policy, which is written elsewhere
    problem = names["problem"]
    narrow = names["SpreadPolicy"](problem, width=0.0)
    assert decobandit.evaluate(problem, narrow).value == pytest.approx(
        decobandit.evaluate(problem, "greedy").value, abs=1e-12
    )
    # the same by its place
    made = make_policy(problem, "spread:SpreadPolicy")
    assert made.name == "spread"
    assert decobandit.evaluate(problem, made).value == exact.value


def test_the_trial_of_the_guide_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("trials.md")
    names: dict[str, Any] = {}
    exec(example, names)
    status = names["again"].status()
    assert (status.told, status.remaining) == (2, 48)
    # counts, not their order: the arm of the good outcome and that of the bad one
    told = {slot.arm: slot.outcome for slot in names["again"].allocations()}
    assert {arm.name: arm.good for arm in status.arms if arm.good + arm.bad} == told
    names["trial"].store.close()
    names["again"].store.close()
