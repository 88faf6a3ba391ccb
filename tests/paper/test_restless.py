"""Restless arms beside numbers of others: what agrees, and the page."""

import pytest

from decobandit import Chain, solve
from decobandit.paper import restless
from decobandit.paper.reproduction import PARTS, reproduce
from decobandit.paper.restless import chain_problem, dense_chain
from helpers.chain_oracles import dual_minimum


@pytest.mark.parametrize(
    "case", ["circulant", "dense-4-42", "dense-4-2791", "dense-5-2", "dense-8-3"]
)
def test_whittle_indices_are_those_of_others(case):
    rows = restless._rows(case, restless.cells("quick")[case], draws=1)
    assert [row.quantity for row in rows if not row.agrees] == []


def test_references_of_bounds_are_those_of_the_linear_program():
    for case in ("circulant-10", "hard-6"):
        problem, reference = chain_problem(case), restless.cells("quick")[case][0]
        found = dual_minimum(problem) / problem.n_arms
        assert found == pytest.approx(reference.value, rel=1e-9)
        bound = solve(problem, tol=restless.TOLERANCE).upper_bound / problem.n_arms
        assert restless._row(reference, bound).agrees
        assert not restless._row(reference, bound + 0.01).agrees


def test_chains_of_the_other_package_are_drawn_as_there():
    chain = dense_chain(4, 42)
    assert isinstance(chain, Chain)
    expected = [0.08219683, 0.52725178, 0.2306407, 0.15991069]  # printed by its version 0.4
    assert chain.rest[0] == pytest.approx(expected, abs=6e-9)


def test_the_part_writes_a_page_and_a_table(tmp_path, monkeypatch):
    assert "restless" in PARTS
    few = {name: restless.cells("quick")[name] for name in ("circulant", "circulant-10")}
    monkeypatch.setattr(restless, "cells", lambda scale: few)
    monkeypatch.setitem(restless.DRAWS, "quick", 30)
    page = reproduce(["restless"], "quick", tmp_path).page.read_text(encoding="utf-8")
    assert "Restless arms" in page
    text = (tmp_path / "restless.md").read_text(encoding="utf-8")
    assert "`deco reproduce restless --scale quick`" in text
    assert "| circulant-10 | 1.793750 | 9" in text
    assert text.count("| yes |") == 5
    lines = (tmp_path / "restless.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 5 + len(restless.POLICIES)
