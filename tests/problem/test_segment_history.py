"""Priors by segment from earlier outcomes, shrunk towards all of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import betabinom, dirichlet_multinomial, nbinom, norm

from decobandit import (
    Arm,
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
    Segment,
    State,
    read_outcomes,
    with_history,
)
from decobandit.problem import ProblemError, model_of
from decobandit.problem.variants import common_strength, log_likelihood, shrunk_stats
from helpers.refusals import refused

EU_US = (Segment("EU", 0.6), Segment("US", 0.4))


def _problem(**arm: object) -> Problem:
    return Problem(horizon=40, arms=[Arm(name="new", **arm)], segments=EU_US)  # type: ignore[arg-type]


def test_equal_segments_have_the_pooled_prior() -> None:
    earlier = {"EU": State.parse("30/100"), "US": State.parse("60/200")}
    priors = with_history(_problem(prior=BetaBernoulli(1, 2)), earlier).arms[0].priors
    assert priors == {"EU": BetaBernoulli(91, 212), "US": BetaBernoulli(91, 212)}


def test_very_different_segments_keep_their_own_outcomes() -> None:
    earlier = {"EU": State.parse("9000/10000"), "US": State.parse("1000/10000")}
    priors = with_history(_problem(), earlier).arms[0].priors
    assert priors is not None
    assert priors["EU"].good == pytest.approx(9001, abs=0.1)
    assert priors["EU"].bad == pytest.approx(1001, abs=1.0)
    assert priors["US"].good == pytest.approx(1001, abs=1.0)


def test_segments_that_differ_somewhat_are_drawn_together() -> None:
    earlier = {"EU": State.parse("30/100"), "US": State.parse("45/100")}
    priors = with_history(_problem(), earlier).arms[0].priors
    assert priors is not None
    means = {name: prior.good / (prior.good + prior.bad) for name, prior in priors.items()}
    assert 0.30 < means["EU"] < 0.375 < means["US"] < 0.45


def test_weights_are_those_of_the_formula() -> None:
    arm, stats = Arm(name="a"), np.array([[30.0, 70.0], [45.0, 55.0], [4.0, 16.0]])
    kappa, pulls = common_strength(arm, stats), stats.sum(axis=1)
    worth = kappa * pulls / (kappa + pulls)
    expected = stats[0] + sum(
        kappa / (kappa + worth[1] + worth[2]) * kappa / (kappa + pulls[r]) * stats[r]
        for r in (1, 2)
    )
    np.testing.assert_allclose(shrunk_stats(arm, stats)[0], expected, rtol=1e-12)


def test_a_segment_without_outcomes_learns_from_the_others() -> None:
    stats = np.array([[30.0, 70.0], [45.0, 55.0], [0.0, 0.0]])
    rows = shrunk_stats(Arm(name="a"), stats)
    kappa = common_strength(Arm(name="a"), stats)
    assert 0.0 < rows[2].sum() < kappa
    assert rows[2][0] / rows[2].sum() == pytest.approx(0.375)


@pytest.mark.parametrize(
    "counts",
    [
        [(30, 70), (45, 55), (20, 80), (33, 67)],
        [(300, 700), (450, 550), (200, 800)],
        [(80, 20), (60, 60), (3, 7), (40, 9)],
    ],
)
def test_strength_is_that_of_the_largest_beta_binomial_likelihood(
    counts: list[tuple[int, int]],
) -> None:
    good, pulls = np.array(counts)[:, 0], np.sum(counts, axis=1)

    def loss(point: np.ndarray) -> float:
        mean, strength = 1.0 / (1.0 + np.exp(-point[0])), np.exp(point[1])
        law = betabinom(pulls, mean * strength, (1.0 - mean) * strength)
        return -float(law.logpmf(good).sum())

    exact = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    best = minimize(loss, [0.0, 2.0], method="Nelder-Mead", options=exact)
    strength = common_strength(Arm(name="a"), np.array(counts, dtype=float))
    # the mean at a given strength is a weighted mean, not the largest likelihood: a part in 100
    assert strength == pytest.approx(np.exp(best.x[1]), rel=0.01)
    assert log_likelihood_of(counts, strength) - -best.fun > -1e-3


def log_likelihood_of(counts: list[tuple[int, int]], strength: float) -> float:
    """Return the likelihood at the weighted mean, by scipy's law."""
    stats = np.array(counts, dtype=float)
    pulls = stats.sum(axis=1)
    weights = strength / (strength + pulls)
    good, bad = weights @ stats + 0.005
    a, b = strength * good / (good + bad), strength * bad / (good + bad)
    exact = float(betabinom(pulls.astype(int), a, b).logpmf(stats[:, 0]).sum())
    ours = [log_likelihood(Arm(name="a"), stats, pulls, k) for k in (strength, 10.0)]
    good, bad = 10.0 / (10.0 + pulls) @ stats + 0.005
    a, b = 10.0 * good / (good + bad), 10.0 * bad / (good + bad)
    other = float(betabinom(pulls.astype(int), a, b).logpmf(stats[:, 0]).sum())
    assert ours[0] - ours[1] == pytest.approx(exact - other, abs=1e-9)
    return exact


CLASSES = {"prior": DirichletCategorical([1, 2, 3]), "reward": Reward(values=[0, 1, 2])}
LAWS: dict[str, tuple[dict[str, object], list[float], Callable[[object], float]]] = {
    "classes": (
        CLASSES,
        [4.0, 5.0, 6.0],
        lambda p: float(dirichlet_multinomial(p.counts, 15).logpmf([4, 5, 6])),  # type: ignore[attr-defined]
    ),
    "normal": (
        {"prior": NormalNormal(1, 2), "noise_sd": 3.0},
        [5.0, 9.0],
        lambda p: float(norm(5 * p.mean, np.sqrt(5 * 9 + 25 * p.sd**2)).logpdf(9.0)),  # type: ignore[attr-defined]
    ),
    "counts": (
        {"prior": GammaPoisson(3, 2)},
        [4.0, 11.0],
        lambda p: float(nbinom(p.shape, p.rate / (p.rate + 4)).logpmf(11)),  # type: ignore[attr-defined]
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_evidence_of_other_outcomes_is_that_of_scipy(name: str) -> None:
    settings, stats, law = LAWS[name]
    first = Arm(name="a", **settings)  # type: ignore[arg-type]
    second = first.model_copy(update={"prior": first.prior.weighted(2.5)})
    ours = [float(model_of(arm).log_evidence(np.array(stats))) for arm in (first, second)]
    expected = law(second.prior) - law(first.prior)
    assert ours[1] - ours[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (CLASSES, "4+5+6"),
        ({"prior": NormalNormal(1, 2), "noise_sd": 3.0}, "9/5"),
        ({"prior": GammaPoisson(3, 2)}, "11/4"),
        ({"prior": GammaExponential(3, 20)}, "31/4"),
    ],
)
def test_every_outcome_model_pools_equal_segments(settings: dict[str, object], text: str) -> None:
    problem = _problem(**settings)
    part = problem.segment("EU")
    state = State.parse(text, part)
    priors = with_history(problem, {"EU": state, "US": state}).arms[0].priors
    assert priors is not None
    pooled = model_of(part.arms[0]).posterior(2.0 * state.stats[0])
    assert priors == {"EU": pooled, "US": pooled}


def test_histories_have_the_form_of_the_problem(tmp_path: Path) -> None:
    with refused("invalid_argument", "history"):
        with_history(_problem(), State.parse("1/2"))
    with refused("invalid_argument", "history"):
        with_history(Problem.uniform(arms=1, horizon=4), {"EU": State.parse("1/2")})
    with refused("invalid_argument", "segment"):
        with_history(_problem(), {"Europe": State.parse("1/2")})


def test_a_table_has_a_column_of_segments(tmp_path: Path) -> None:
    path = tmp_path / "earlier.csv"
    path.write_text("segment,arm,outcome\nEU,new,good\nUS,new,bad\nEU,new,bad\n")
    problem = _problem()
    assert str(read_outcomes(problem, path, segment="EU")) == "1/2"
    assert str(read_outcomes(problem, path, segment="US")) == "0/1"
    with refused("invalid_argument", "segment"):
        read_outcomes(problem, path)
    with refused("invalid_argument", "segment"):
        read_outcomes(Problem(horizon=4, arms=[Arm(name="new")]), path, segment="EU")
    path.write_text("segment,arm,outcome\nEurope,new,good\n")
    with pytest.raises(ProblemError, match="Europe"):
        read_outcomes(problem, path, segment="EU")
    path.write_text("arm,outcome\nnew,good\n")
    with pytest.raises(ProblemError, match="segment"):
        read_outcomes(problem, path, segment="EU")
