"""The article in `paper/`: its citations, and its numbers beside what commands have written."""

import csv
import re
import shlex
import sys

import pytest

from decobandit.cli.app import app as program
from helpers.documented import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import article

TEXT = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
RESULTS = TEXT.partition("# Measured results")[2].partition("\n# ")[0]
LINES = re.findall(r"^- (.*?)(?=\n- |\n\n)", RESULTS, re.M | re.S)


def rows(name: str) -> list[dict[str, str]]:
    with (ROOT / "docs" / "reproduction" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def line(begin: str) -> str:
    (found,) = [each for each in LINES if each.startswith(begin)]
    return found


def test_every_citation_has_its_reference_and_no_other_is_listed() -> None:
    works = article.bibliography((ROOT / "paper" / "paper.bib").read_text(encoding="utf-8"))
    assert set(article.cited(TEXT)) == set(works)
    page = article.page()
    assert re.search(r"(?<!`)@\w", article._CODE.sub("", page)) is None
    for key, work in works.items():
        assert f"(ref-{key})=" in page
        assert f"](#ref-{key})" in page
        assert work.fields["title"] in page


def test_names_of_works_are_short_and_whole() -> None:
    one, two, three = (
        article.Work("k", {"author": authors, "title": "T", "year": "2001"})
        for authors in ("Roe, A.", "Roe, A. and Van Doe, B.", "Roe, A. and Doe, B. and Poe, C.")
    )
    assert [work.short for work in (one, two, three)] == ["Roe", "Roe and Van Doe", "Roe et al."]
    assert two.reference == "Roe, A.; Van Doe, B. (2001). T."


def test_the_sections_are_those_of_the_journal_and_of_the_method() -> None:
    assert re.findall(r"^# (.*)$", TEXT, re.M) == [
        "Summary",
        "Statement of need",
        "State of the field",
        "The market rounds",
        "The calibrated and the re-priced index",
        "Measured results",
        "Acknowledgements",
        "References",
    ]


@pytest.mark.parametrize("text", LINES, ids=lambda text: text[:20])
def test_every_result_names_its_command(text: str) -> None:
    commands = re.findall(r"`((?:deco|make) [^`]*)`", text.replace("\n", " "))
    assert commands
    known = {
        one.name or getattr(one.callback, "__name__", "") for one in program.registered_commands
    }
    for command in commands:
        first, second, *_ = shlex.split(command)
        assert first == "make" or second in known


# -- numbers --------------------------------------------------------------------------------------


def test_losses_are_those_of_table_1() -> None:
    shares = []
    for row in rows("table1.csv"):
        best = float(row["optimum"])
        calibrated, other = (best - float(row[key]) for key in ("deco_calibrated", "fh_gittins"))
        if other > 1e-9:
            shares.append(round(100 * calibrated / other))
    assert f"loses {min(shares)}% to {max(shares)}%" in line("Where the finite-horizon")


def test_total_rewards_are_those_of_the_reproduction() -> None:
    ours = {
        (row["arms"], row["horizon"]): row
        for row in rows("published.csv")
        if row["policy"] == "deco-calibrated"
    }
    ten = ours["10", "500"]
    said = f"{float(ten['value']):.1f}, against {float(ten['best_published']):.1f}"
    assert said in line("Total reward, 10 arms, 500 pulls")
    five = ours["5", "100"]
    said = f"earns {float(five['value']):.2f} ± {float(five['value_se']):.2f}"
    assert said in line("The bound on every policy")


def test_designs_that_agree_are_counted() -> None:
    agree = [row["agrees"] == "True" for row in rows("designs.csv")]
    assert f"{sum(agree)} of {len(agree)}" in line("Designs")


def test_regrets_are_those_of_their_pages() -> None:
    """Rounded from the tables of `regret-check.md` and `batches.md`."""
    page = (ROOT / "docs" / "regret-check.md").read_text(encoding="utf-8")
    for policy in ("deco-calibrated", "ids", "thompson", "kl-ucb"):
        (found,) = re.findall(rf"^\| `{policy}` \|.*\| ([\d.]+) ± ([\d.]+) \|$", page, re.M)
        assert f"{float(found[0]):.1f} ± {float(found[1]):.1f}" in line("Bayesian regret")
    page = (ROOT / "docs" / "batches.md").read_text(encoding="utf-8")
    part = page.partition("## 100 arms, 10 batches")[2].partition("\n## ")[0]
    (found,) = re.findall(r"^\| `deco-repriced` .*?([\d.]+) ± ([\d.]+)", part, re.M)
    (best,) = re.findall(r"^\| `rho` \| ([\d.]+)", part, re.M)
    said = line("Simple regret")
    assert f"{float(found[0]):.4f} ± {float(found[1]):.4f}" in said
    assert f"{float(best):.4f} published" in said
