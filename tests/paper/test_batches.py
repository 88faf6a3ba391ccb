"""The benchmark of batches: its cells, its page, and a small run of it."""

import pytest

from decobandit.paper import batches
from decobandit.paper.experiments import published
from decobandit.problem import best_mean_reward


def test_the_cells_are_the_published_ones_and_two_priors() -> None:
    cells = batches.cells("paper")
    assert [(c.arms, c.horizon) for c in cells[:4]] == [(10, 5), (10, 10), (100, 5), (100, 10)]
    assert [c.prior for c in cells[4:]] == ["descending", "top half"]
    assert {c.draws for c in cells} == {10_000}
    assert [row.policies["rho"] for row in published().batches] == [
        0.0242,
        0.01663,
        0.05994,
        0.04991,
    ]
    descending = cells[4].problem(10)
    assert [arm.prior.good for arm in descending.arms] == [100.0 - k for k in range(10)]
    halves = [arm.prior.good for arm in cells[5].problem(10).arms]
    assert halves == [110.0] * 5 + [100.0] * 5


def test_a_small_run_and_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = batches.BatchCell("flat", 10, 5, draws=120)
    monkeypatch.setattr(batches, "cells", lambda scale: [cell])
    rows = batches.run("quick")
    assert [row.policy for row in rows] == [*batches.IN_UNITS, *batches.PUBLISHED]
    best = best_mean_reward(cell.problem(10))
    assert best == pytest.approx(0.5541, abs=2e-4)  # 0.5 + 1.539 standard deviations of 0.0353
    for row in rows:
        assert row.unavoidable < row.regret < 0.05
        if row.published is not None:
            # few draws: published figures within five errors of both, and of a better search
            assert row.regret == pytest.approx(row.published, abs=5 * (row.regret_se + 0.0005))
    page = batches.section(rows).to_markdown("deco reproduce batches")
    assert "## 10 arms, 5 batches, prior flat: no policy has less than 0." in page
    assert all(f"| {row.policy} | " in page for row in rows)
