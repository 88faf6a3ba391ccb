"""Designs beside published numbers: each case at few draws, what agrees, and the page."""

from pathlib import Path

import pytest

from decobandit.paper import designs
from decobandit.paper.experiments import PublishedDesign, published
from decobandit.paper.reproduction import PARTS, reproduce


def test_every_case_has_its_published_numbers() -> None:
    cases = dict.fromkeys(each.case for each in published().designs)
    assert list(cases) == [case for case, _ in designs.CASES.values()]
    assert all((each.error > 0.0) != (each.within > 0.0) for each in published().designs)


@pytest.mark.parametrize("name", ["binary-bandit", "adaptr", "flgi", "normal"])
def test_numbers_agree_with_published_ones(name: str) -> None:
    # at 600 trials; "whittle" is in tests/designs, against exact indices
    case, compute = designs.CASES[name]
    known = [each for each in published().designs if each.case == case]
    rows = [designs._row(*pair) for pair in zip(known, compute(600), strict=True)]
    assert [row.quantity for row in rows if not row.agrees] == []
    if name == "binary-bandit":
        assert all(abs(row.ours - row.published) < 1e-9 for row in rows)
    else:
        most = 0.3 if name == "normal" else 0.07  # of which the threshold has its error, too
        assert all(0.0 < row.ours_error < most * row.ours for row in rows if row.ours > 0.1)


def test_a_number_beyond_its_errors_does_not_agree() -> None:
    exact = PublishedDesign("case", "source", "what", 1.0, within=1e-9)
    assert designs._row(exact, (1.0 + 9e-10, 0.0)).agrees
    assert not designs._row(exact, (1.0 + 2e-9, 0.0)).agrees
    simulated = PublishedDesign("case", "source", "what", 1.0, error=0.03)
    assert designs._row(simulated, (1.149, 0.04)).agrees  # three times 0.05
    assert not designs._row(simulated, (1.151, 0.04)).agrees


def test_files_and_page_have_the_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "designs" in PARTS
    cases = {"binary-bandit": (designs.CASES["binary-bandit"][0], lambda draws: NUMBERS)}
    monkeypatch.setattr(designs, "CASES", cases)
    monkeypatch.setattr(designs, "_seconds", lambda draws: [0.25])
    page = reproduce(["designs"], "quick", tmp_path).page
    text = (tmp_path / "designs.md").read_text(encoding="utf-8")
    assert "`deco reproduce designs --scale quick`" in text
    assert text.count("| yes |") == 2
    assert text.count("| no |") == 1
    assert "0.25 CPU s here, 33.1 s on two cores by its README, on another machine: 132" in text
    lines = (tmp_path / "designs.csv").read_text(encoding="utf-8").splitlines()
    assert [line.rsplit(",", maxsplit=1)[1] for line in lines[1:]] == ["True", "False", "True"]
    assert "optimum over the priors" in page.read_text(encoding="utf-8")
    # kept: computed once
    monkeypatch.setattr(designs, "CASES", {"binary-bandit": (cases["binary-bandit"][0], _fails)})
    assert reproduce(["designs"], "quick", tmp_path).page == page


NUMBERS = [(38.562343246635564, 0.0), (27.7, 0.0), (23.650456467947016, 0.0)]


def _fails(draws: int) -> list[tuple[float, float]]:
    raise AssertionError("computed again")
