"""States in rows: chances sum to one, means are kept, grids bound the true law in convex order."""

import numpy as np
import pytest
from scipy.stats import nbinom, norm

from decobandit.arm import ArmGraph, Grid, OneArmValues, graph_of
from decobandit.arm.grids import contracted_sd
from decobandit.arm.kernels.graph import row_ahead, row_back
from decobandit.problem import (
    Arm,
    ArmModel,
    BernoulliModel,
    CategoricalModel,
    MarkovArm,
    NormalModel,
    PoissonModel,
    Problem,
    normal_excess,
)
from helpers.refusals import refused

KINDS: list[ArmModel] = [
    BernoulliModel(0.5, 2.0),
    CategoricalModel((0.2, 1.0, 3.0), (0.0, 1.0, 3.0)),
    NormalModel(0.0, 1.0, 1.0),
    NormalModel(-3.0, 0.2, 2.0),
    NormalModel(1.0, 5.0, 0.1),
    PoissonModel(2.0, 1.0),
    PoissonModel(0.4, 0.05),
    PoissonModel(900.0, 30.0),
]


def chances(rows: ArmGraph, n: int) -> tuple[np.ndarray, np.ndarray, slice]:
    """Chances of the states of row n + 1 after a pull in each state of row n; their means."""
    own = slice(rows.start[n], rows.start[n + 1])
    later = slice(rows.start[n + 1], rows.start[n + 2])
    found = np.zeros((own.stop - own.start, later.stop - later.start))
    for k, law in enumerate(found):
        mass = np.zeros(len(found))
        mass[k] = 1.0
        row_ahead(rows.arrays, n, mass, law)
    return found, rows.mean[later], own


def expected(rows: ArmGraph, n: int, after: np.ndarray, rise: float, fall: float) -> np.ndarray:
    """E[after] one pull later, with lines of these slopes beyond the ends."""
    before = np.empty(rows.start[n + 1] - rows.start[n])
    row_back(rows.arrays, n, 0, before.size, rise, fall, after, before)
    return before


@pytest.mark.parametrize("unit", [1, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_chances_sum_to_one_and_keep_the_mean(kind: ArmModel, unit: int) -> None:
    rows = graph_of(kind, 30, unit=unit, grid=Grid(refine=-1))
    for each in (rows, rows.lower):
        if each is None:
            continue
        scale = np.abs(each.mean).max()
        for n in (0, 1, 2, 7, 19, 29):
            weights, means, own = chances(each, n)
            assert weights.min() >= 0.0
            np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-11)
            kept = expected(each, n, means, 1.0, -1.0)
            np.testing.assert_allclose(kept, each.mean[own], atol=1e-11 * scale)


@pytest.mark.parametrize("unit", [1, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_values_go_back_by_the_chances_that_masses_go_ahead_by(kind: ArmModel, unit: int) -> None:
    rng = np.random.default_rng(4)
    rows = graph_of(kind, 30, unit=unit, grid=Grid(refine=-2))
    for each in (rows, rows.lower):
        for n in (0, 1, 5, 29) if each is not None else ():
            weights, means, _ = chances(each, n)
            after = rng.normal(size=means.size)
            found = expected(each, n, after, 0.0, 0.0)
            np.testing.assert_allclose(found, weights @ after, atol=1e-11)


@pytest.mark.parametrize("kind", [k for k in KINDS if isinstance(k, NormalModel)])
@pytest.mark.parametrize("n", [0, 1, 7, 29])
def test_grids_of_normal_arms_lie_above_and_below_in_convex_order(
    kind: NormalModel, n: int
) -> None:
    rows = graph_of(kind, 30, grid=Grid(refine=-2))
    assert rows.lower is not None
    _, at, own = chances(rows, n)
    left = kind.noise_sd**2 / (kind.prior_pulls + n)
    sd = np.sqrt(left - kind.noise_sd**2 / (kind.prior_pulls + n + 1))
    mean = rows.mean[own]
    for c in np.linspace(rows.mean.min(), rows.mean.max(), 61):
        z = (c - mean) / sd
        true = sd * (norm.pdf(z) - z * norm.sf(z))
        # beyond the ends a line of slope one, which is what the dual of slope one adds
        beyond = np.maximum(at - c, 0.0)
        assert np.all(expected(rows.lower, n, beyond, 1.0, 0.0) <= true + 1e-13)
        assert np.all(expected(rows, n, beyond, 1.0, 0.0) >= true - 1e-13)


@pytest.mark.parametrize("spacing", [0.3, 0.45, 0.5, 0.7, 1.0, 2.0, 7.0])
def test_contractions_lose_no_more_than_they_must(spacing: float) -> None:
    """Half a per cent more spread, or a thousandth of the spacing, is no longer below."""
    h, sd = 1.0, spacing
    reach = int(np.ceil(7 * sd))
    s = contracted_sd(h, sd, reach)

    def worst(s: float) -> float:
        edges = h * np.arange(reach + 2)
        fine = np.linspace(0.0, edges[-1], 400 * (reach + 1) + 1)
        chord = np.interp(fine, edges, normal_excess(edges, s))
        return float((chord - normal_excess(fine, sd)).max())

    assert worst(s) <= 1e-15
    assert worst(1.005 * s + 1e-3) > 0.0


@pytest.mark.parametrize("kind", [PoissonModel(2.0, 1.0), PoissonModel(0.4, 0.5)])
@pytest.mark.parametrize("n", [0, 3, 11])
def test_grids_of_counts_lie_above_and_below_in_convex_order(kind: PoissonModel, n: int) -> None:
    rows = graph_of(kind, 12)
    assert rows.lower is not None
    _, at, own = chances(rows, n)
    weight, x = kind.rate + n, np.arange(3000)
    for k in (0, (own.stop - own.start) // 2, own.stop - own.start - 1):
        law = nbinom.pmf(x, kind.shape + k, weight / (weight + 1.0))
        means = (kind.shape + k + x) / (weight + 1.0)
        for c in np.linspace(0.0, rows.mean.max(), 37):
            true = float(law @ np.maximum(means - c, 0.0))
            beyond = np.maximum(at - c, 0.0)
            assert expected(rows.lower, n, beyond, 1.0, 0.0)[k] <= true + 1e-12
            assert expected(rows, n, beyond, 1.0, 0.0)[k] >= true - 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_states_are_found_where_their_mean_stands(kind: ArmModel) -> None:
    rows = graph_of(kind, 12)
    rng = np.random.default_rng(5)
    stats = np.array([kind.initial()] * 200, dtype=float)
    parameters = kind.sample(stats, rng)
    for n in range(13):
        row, place = rows.locate(stats)
        assert np.all(row == n)
        own = rows.mean[rows.start[n] : rows.start[n + 1]]
        inside = (place >= 0) & (place <= own.size - 1)
        assert inside.mean() > 0.9
        found = np.interp(place, np.arange(own.size), own)
        np.testing.assert_allclose(found[inside], kind.mean(stats)[inside], rtol=1e-12, atol=1e-12)
        stats = kind.update(stats, kind.sample_outcome(parameters, stats, rng))


def test_classes_that_do_not_fit_are_refused_with_what_does() -> None:
    with refused("too_large"):
        graph_of(CategoricalModel((1.0,) * 6, (0.0,) * 6), 500)


def test_an_arm_may_have_more_states_of_its_own_than_stages() -> None:
    """Values at all stages against a recursion over the states, by name."""
    rng, number = np.random.default_rng(0), 12
    names, means = [f"s{i}" for i in range(number)], rng.random(number).tolist()
    chances = (0.5, 0.25, 0.25)
    after = [rng.choice(number, len(chances), replace=False).tolist() for _ in range(number)]
    states = {
        names[i]: {
            "mean": means[i],
            "next": {f"o{j}": (chances[j], names[k]) for j, k in enumerate(after[i])},
        }
        for i in range(number)
    }
    arms = [Arm(name="own", prior=MarkovArm(first="s0", states=states)), Arm(name="other")]
    problem, prices = Problem(arms=arms, horizon=5), [0.4, 0.45, 0.5, 0.5, 0.3]
    values = OneArmValues(problem, prices)

    def value(stage: int, i: int) -> float:
        if stage == 5:
            return 0.0
        later = [value(stage + 1, k) for k in after[i]]
        pull = means[i] - prices[stage] + float(np.dot(chances, later))
        return max(value(stage + 1, i), pull)

    reached = {0}
    for pulls in range(5):
        for i in reached:
            found = values.values_of(pulls, 0, np.array([float(pulls), float(i)]))
            assert found == pytest.approx(value(pulls, i), abs=1e-12)
        reached = {k for i in reached for k in after[i]}
