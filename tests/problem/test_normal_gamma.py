"""Normal outcomes of unknown variance: posteriors against integrals, text, refusals."""

import numpy as np
import pytest

from decobandit import Arm, NormalGamma, Problem, ProblemError, State, with_history
from decobandit.problem import ArmModel, model_of, problem_from_dict
from helpers.refusals import refused

PRIOR = NormalGamma(mean=0.5, pulls=2, shape=1.5, rate=2.5)
DATA = np.array([1.2, -0.4, 2.0, 0.9])
STATS = np.array([4.0, DATA.sum(), (DATA**2).sum()])


def model() -> ArmModel:
    return model_of(Arm(name="a", prior=PRIOR))


def posterior_grid(outcomes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, log standard deviations and weights of the posterior, on a grid, by Bayes' rule."""
    mean, log_sd = np.meshgrid(np.linspace(-60, 60, 24001), np.linspace(-2.5, 5, 151))
    sd = np.exp(log_sd)
    log = -2.0 * (PRIOR.shape - 1.0) * log_sd - PRIOR.rate / sd**2 - 2.0 * log_sd  # d precision
    log += -log_sd - 0.5 * PRIOR.pulls * (mean - PRIOR.mean) ** 2 / sd**2
    for x in outcomes:
        log += -log_sd - 0.5 * (x - mean) ** 2 / sd**2
    weight = np.exp(log - log.max())
    return mean, sd, weight / weight.sum()


def test_the_posterior_of_the_mean_is_that_of_bayes_rule() -> None:
    mean, _, weight = posterior_grid(DATA)
    assert float(model().mean(STATS)) == pytest.approx(float((weight * mean).sum()), abs=1e-6)
    second = float((weight * (mean - float(model().mean(STATS))) ** 2).sum())
    assert float(model().sd(STATS)) ** 2 == pytest.approx(second, rel=1e-3)
    for x in (-0.5, 0.7, 1.6):
        below = float(weight[mean < x - 1e-9].sum() + 0.5 * weight[abs(mean - x) < 1e-9].sum())
        assert float(model().cdf(STATS, np.array(x))) == pytest.approx(below, abs=1e-5)
        level = model().cdf(STATS, np.array(x))
        assert float(model().quantile(STATS, level)) == pytest.approx(x, abs=1e-9)


def test_the_value_of_one_more_outcome_is_its_integral() -> None:
    mean, sd, weight = posterior_grid(DATA)
    k, now = PRIOR.pulls + 4.0, float(model().mean(STATS))
    nodes, shares = np.polynomial.hermite_e.hermegauss(41)
    for c in (0.2, 0.9, 2.0):
        gain = sum(
            share * np.maximum((k * now + mean + sd * node) / (k + 1.0) - c, 0.0)
            for node, share in zip(nodes, shares / shares.sum(), strict=True)
        )
        expected = float((weight * gain).sum())
        assert float(model().excess(STATS, np.array(c))) == pytest.approx(expected, rel=2e-3)


def test_the_posterior_is_the_prior_of_what_follows() -> None:
    after = model_of(Arm(name="b", prior=model().posterior(STATS)))
    later = np.array([3.1, 0.2])
    added = np.array([2.0, later.sum(), (later**2).sum()])
    for x in (-1.0, 0.5, 2.0):
        joint = float(model().cdf(STATS + added, np.array(x)))
        assert float(after.cdf(added, np.array(x))) == pytest.approx(joint, abs=1e-12)


def test_the_evidence_of_one_outcome_is_its_density() -> None:
    mean, sd, weight = posterior_grid(np.empty(0))
    densities = [
        float((weight * np.exp(-0.5 * ((x - mean) / sd) ** 2) / sd).sum()) for x in (0.0, 3.0)
    ]
    stats = np.array([[1.0, 0.0, 0.0], [1.0, 3.0, 9.0]])
    logs = model().log_evidence(stats)
    assert logs[1] - logs[0] == pytest.approx(np.log(densities[1] / densities[0]), abs=2e-3)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_pending_outcomes_keep_the_mean_and_have_the_right_spread(count: int) -> None:
    prior = NormalGamma(mean=0.5, pulls=2, shape=4, rate=6)
    arm = model_of(Arm(name="a", prior=prior))
    law = arm.ahead(np.zeros((1, 3)), count, 10**6)
    assert law is not None
    chances, later = law
    means = arm.mean(later)
    assert float((chances * means).sum()) == pytest.approx(0.5, abs=1e-12)
    spread = float((chances * (means - 0.5) ** 2).sum())
    variance = prior.rate / (prior.shape - 1.0)  # of an outcome around its mean
    exact = variance * count / (prior.pulls * (prior.pulls + count))
    assert spread == pytest.approx(exact, rel=2e-3)


def test_draws_have_the_law_of_the_posterior() -> None:
    drawn = model().sample(np.tile(STATS, (200_000, 1)), np.random.default_rng(1))
    for level in (0.1, 0.5, 0.9):
        share = float((drawn[:, 0] <= float(model().quantile(STATS, level))).mean())
        assert share == pytest.approx(level, abs=0.004)
    _, _, shape, rate = model().updated(STATS)  # type: ignore[attr-defined]
    assert float((drawn[:, 1] ** -2).mean()) == pytest.approx(float(shape / rate), rel=0.01)


def test_states_are_written_and_read_again() -> None:
    problem = Problem(horizon=5, arms=[Arm(name="a", prior=PRIOR)])
    state = State.of_stats(problem, [(2, 0.1 + 0.2, 0.05)])
    assert State.parse(str(state), problem) == state
    assert str(state) == "0.30000000000000004~0.05/2"
    for text in ("1.2/2", "2~1/2", "0~1/0"):
        with refused("invalid_argument"):
            State.parse(text, problem)


def test_earlier_data_count_by_their_discount() -> None:
    problem = Problem(horizon=5, arms=[Arm(name="a", prior=PRIOR)])
    prior = with_history(problem, State.of_stats(problem, [(4, 3.7, 6.41)]), discount=0.5).arms[0]
    assert isinstance(prior.prior, NormalGamma)
    assert prior.prior.pulls == 4.0
    assert prior.prior.shape == 2.5
    assert prior.prior.mean == pytest.approx((2 * 0.5 + 0.5 * 3.7) / 4.0)


@pytest.mark.parametrize(
    ("arm", "place"),
    [
        ({"prior": {"shape": 0.5}}, "arms.0.prior.shape"),
        ({"prior": {"rate": 0}}, "arms.0.prior.rate"),
        ({"prior": {"pulls": -1}}, "arms.0.prior.pulls"),
        ({"noise_sd": 1.0}, "arms.0.noise_sd"),
        ({"drift_sd": 1.0}, "arms.0.drift_sd"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is(arm: dict[str, object], place: str) -> None:
    prior = {"kind": "normal-gamma", **dict(PRIOR)} | dict(arm.pop("prior", {}))  # type: ignore[call-overload]
    with pytest.raises(ProblemError) as error:
        problem_from_dict({"horizon": 2, "arms": [{"name": "a", "prior": prior, **arm}]})
    assert error.value.field == place
