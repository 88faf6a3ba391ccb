"""The page of verbs by corners says what is so: every verb is tried again in every corner."""

import sys

import pytest

from helpers.documented import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import corners


@pytest.fixture(scope="module")
def cells() -> dict[str, dict[tuple[str, str], str]]:
    return corners.table()


def test_the_page_of_corners_is_true(cells: dict[str, dict[tuple[str, str], str]]) -> None:
    assert corners.page(cells) == corners.PAGE.read_text(encoding="utf-8"), (
        "write it again: python docs/_ext/corners.py"
    )


def test_no_verb_fails_in_a_corner_without_a_reason(
    cells: dict[str, dict[tuple[str, str], str]],
) -> None:
    refusals = {said for row in cells.values() for said in row.values()}
    assert not [said for said in refusals if said.startswith(corners.FAILED)]
    assert all(len(said) < 240 for said in refusals)
