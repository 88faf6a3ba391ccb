"""States in rows: chances sum to one, means are kept, grids bound the true law in convex order."""

import numpy as np
import pytest
from scipy.stats import nbinom, norm

from decobandit.arm import ArmRows, arm_rows
from decobandit.problem import Binary, Classes, Counted, Kind, Measured

KINDS: list[Kind] = [
    Binary(0.5, 2.0), Classes((0.2, 1.0, 3.0), (0.0, 1.0, 3.0)), Measured(0.0, 1.0, 1.0),
    Measured(-3.0, 0.2, 2.0), Measured(1.0, 5.0, 0.1), Counted(2.0, 1.0), Counted(0.4, 0.05),
    Counted(900.0, 30.0),
]  # fmt: skip


def row(rows: ArmRows, n: int) -> tuple[np.ndarray, np.ndarray, slice]:
    """Chances and means of the successors of the states of row n, (states, successors)."""
    own = slice(rows.start[n], rows.start[n + 1])
    size, wide = own.stop - own.start, int(rows.width[n])
    block = slice(rows.at[n], rows.at[n] + size * wide)
    weights = rows.weights[block].reshape(size, wide)
    if rows.links.size:
        to = rows.links[block].reshape(size, wide)
    else:
        to = rows.first[own][:, None] + np.arange(wide)
    assert to.min() >= 0
    assert to.max() < rows.start[n + 2] - rows.start[n + 1]
    return weights, rows.mean[rows.start[n + 1] + to], own


@pytest.mark.parametrize("kind", KINDS)
def test_chances_sum_to_one_and_keep_the_mean(kind: Kind) -> None:
    rows = arm_rows(kind, 30)
    for each in (rows, rows.lower):
        if each is None:
            continue
        scale = np.abs(each.mean).max()
        for n in range(30):
            weights, means, own = row(each, n)
            np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-11)
            kept = (weights * means).sum(axis=1) + each.up[own] - each.down[own]
            np.testing.assert_allclose(kept, each.mean[own], atol=1e-11 * scale)
            assert weights.min() >= 0.0


def excess(weights: np.ndarray, means: np.ndarray, c: float) -> np.ndarray:
    """E(X - c)^+ of the laws on a grid."""
    return np.asarray((weights * np.maximum(means - c, 0.0)).sum(axis=1))


@pytest.mark.parametrize("kind", [k for k in KINDS if isinstance(k, Measured)])
@pytest.mark.parametrize("n", [0, 1, 7, 29])
def test_grids_of_normal_arms_lie_above_and_below_in_convex_order(kind: Measured, n: int) -> None:
    rows = arm_rows(kind, 30, -2)
    assert rows.lower is not None
    spread, at, own = row(rows, n)
    narrow, _, _ = row(rows.lower, n)
    left = kind.noise_sd**2 / (kind.pulls_of_prior + n)
    sd = np.sqrt(left - kind.noise_sd**2 / (kind.pulls_of_prior + n + 1))
    mean = rows.mean[own]
    for c in np.linspace(rows.mean.min(), rows.mean.max(), 61):
        z = (c - mean) / sd
        true = sd * (norm.pdf(z) - z * norm.sf(z))
        # beyond the ends a line of slope one, which is what the dual of slope one adds
        above = excess(spread, at, c) + rows.up[own]
        assert np.all(excess(narrow, at, c) <= true + 1e-13)
        assert np.all(above >= true - 1e-13)


@pytest.mark.parametrize("kind", [Counted(2.0, 1.0), Counted(0.4, 0.5)])
@pytest.mark.parametrize("n", [0, 3, 11])
def test_grids_of_counts_lie_above_and_below_in_convex_order(kind: Counted, n: int) -> None:
    rows = arm_rows(kind, 12)
    assert rows.lower is not None
    spread, at, own = row(rows, n)
    narrow, _, _ = row(rows.lower, n)
    weight, x = kind.rate + n, np.arange(3000)
    for k in (0, (own.stop - own.start) // 2, own.stop - own.start - 1):
        chances = nbinom.pmf(x, kind.shape + k, weight / (weight + 1.0))
        means = (kind.shape + k + x) / (weight + 1.0)
        for c in np.linspace(0.0, rows.mean.max(), 37):
            true = float(chances @ np.maximum(means - c, 0.0))
            assert excess(narrow, at, c)[k] <= true + 1e-12
            assert excess(spread, at, c)[k] + rows.up[own][k] >= true - 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_found_where_their_mean_stands(kind: Kind) -> None:
    rows = arm_rows(kind, 12)
    rng = np.random.default_rng(5)
    stats = np.array([kind.fresh()] * 200, dtype=float)
    parameters = kind.draw(stats, rng)
    for n in range(13):
        place = rows.locate(stats)
        own = rows.mean[rows.start[n] : rows.start[n + 1]]
        inside = (place >= 0) & (place <= own.size - 1)
        assert inside.mean() > 0.9
        found = np.interp(place, np.arange(own.size), own)
        np.testing.assert_allclose(found[inside], kind.mean(stats)[inside], rtol=1e-12, atol=1e-12)
        stats = kind.after(stats, kind.outcome(parameters, stats, rng))


def test_classes_that_do_not_fit_are_refused_with_what_does() -> None:
    with pytest.raises(ValueError, match=r"500 pulls of an arm with 6 classes.*at most \d+ stages"):
        arm_rows(Classes((1.0,) * 6, (0.0,) * 6), 500)
