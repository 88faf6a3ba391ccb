"""Student's and Welch's t-tests: against scipy, and their type I error in simulated designs."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind

from decobandit import Arm, Design, NormalGamma, NormalNormal, Problem, operating_characteristics
from decobandit.designs.final_tests import mean_p_values
from decobandit.problem import InvalidProblem, Rules

PRIOR = NormalGamma(mean=0, pulls=1, shape=2, rate=2)
ARMS = [Arm(name=name, prior=PRIOR) for name in ("standard", "a", "b")]


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_p_values_are_those_of_scipy(pooled: bool, margin: float) -> None:
    rng = np.random.default_rng(4)
    samples = [rng.normal(mean, sd, n) for mean, sd, n in ((0, 1, 7), (0.8, 2, 5), (-0.2, 1, 12))]
    stats = np.array([[[len(x), x.sum(), (x**2).sum()] for x in samples]])
    rules = Rules(control="standard", margin=margin)
    problem = Problem(arms=ARMS, horizon=24)
    found = mean_p_values(
        problem, stats[..., 0].astype(int), stats, 0, rules, "t" if pooled else "welch"
    )[0]
    assert found[0] == 1.0
    for k in (1, 2):
        test = ttest_ind(samples[k] - margin, samples[0], equal_var=pooled, alternative="greater")
        assert found[k] == pytest.approx(test.pvalue, rel=1e-9)


def test_arms_without_a_variance_are_not_declared() -> None:
    stats = np.array([[[3, 1.0, 0.5], [1, 9.0, 81.0], [0, 0.0, 0.0]]], dtype=float)
    pulls, problem = stats[..., 0].astype(int), Problem(arms=ARMS, horizon=4)
    rules = Rules(control="standard")
    assert mean_p_values(problem, pulls, stats, 0, rules, "welch").tolist() == [[1.0, 1.0, 1.0]]
    assert mean_p_values(problem, pulls, stats, 0, rules, "t")[0, 2] == 1.0


def design(kind: str, sds: tuple[float, float], **more: Any) -> Any:
    scenarios = [{"name": "null", "truth": [[0.0, sd] for sd in sds]}]
    test = {"kind": kind, "alpha": 0.05}
    settings = {"control": "standard", "test": test, "scenarios": scenarios, "seed": 3} | more
    return Design(policies=["equal"], draws=20_000, **settings)


@pytest.mark.parametrize(("kind", "sds"), [("t", (2.0, 2.0)), ("welch", (1.0, 3.0))])
def test_equal_allocation_has_the_level_of_the_test(kind: str, sds: tuple[float, float]) -> None:
    problem = Problem(arms=ARMS[:2], horizon=40)
    row = operating_characteristics(problem, design(kind, sds)).scenarios[0].policies[0]
    assert row.reject == pytest.approx(0.05, abs=0.005)  # three standard errors


@pytest.mark.parametrize("kind", ["t", "welch", "z"])
def test_a_test_of_another_prior_is_refused(kind: str) -> None:
    known = [Arm(name=n, prior=NormalNormal(0, 1), noise_sd=1.0) for n in ("standard", "a")]
    problem = Problem(arms=ARMS[:2] if kind == "z" else known, horizon=10)
    test = {"kind": kind, "alpha": 0.05}
    with pytest.raises(InvalidProblem) as error:
        Design(control="standard", test=test).check(problem)
    assert error.value.field == "design.test.kind"
