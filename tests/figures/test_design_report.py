"""The report of a design: every number of the result is on the page, names stay text."""

import re
from typing import Any

import numpy as np
import pytest

from decobandit.bounds import BoundValue
from decobandit.designs.reporting import prior_variants, study_design
from decobandit.designs.results import Calibrated, Characteristics, DesignResult, ScenarioResult
from decobandit.figures.design_report import design_page, study_page
from decobandit.problem import (
    Arm,
    BetaBernoulli,
    Design,
    DirichletCategorical,
    GammaPoisson,
    NormalNormal,
    Problem,
    Reward,
)
from helpers.refusals import refused

EVIL = "<script>alert(1)</script>"
PROBLEM = Problem(
    horizon=120,
    arms=[
        Arm(name="control", prior=BetaBernoulli(12, 28)),
        Arm(name="low", prior=BetaBernoulli(1, 1)),
        Arm(name=EVIL, prior=BetaBernoulli(2, 2)),
    ],
)
DESIGN = Design.model_validate(
    {
        "policies": ["thompson", "equal"],
        "control": "control",
        "burn_in": 5,
        "looks": {"first": 40, "every": 20},
        "stop": {"superiority": 0.99},
        "scenarios": [
            {"name": "null", "truth": [0.3, 0.3, 0.3]},
            {"name": "one good", "truth": [0.3, 0.3, 0.5]},
        ],
    }
)


def characteristics(policy: str, good: float, **more: Any) -> Characteristics:
    usual: dict[str, Any] = {
        "good_sd": 5.25,
        "pulls": (20.5, 30.25, 69.0),
        "pulls_sd": (1.0, 2.0, 3.0),
        "best_share": 0.625,
        "select_best": 0.875,
        "reject": 0.8125,
        "reject_by_arm": (0.0, 0.1, 0.8),
        "reject_best": 0.78125,
        "reject_best_by_arm": (None, None, 0.8),
        "reject_wrong": 0.09375,
        "reject_wrong_by_arm": (None, 0.1, None),
        "size": 101.5,
        "size_sd": 12.5,
        "stopped": 0.375,
        "stopped_by": {"superiority": 0.375},
        "bias": (0.0, 0.0, 0.0),
        "rmse": (0.1, 0.1, 0.1),
        "threshold": 0.99,
        "exact": False,
        "errors": {"good": 0.125, "reject": 0.0625},
        "seconds": 1.0,
    }
    return Characteristics(policy=policy, good=good, **usual | more)


@pytest.fixture(scope="module")
def result() -> DesignResult:
    null = {"best_share": None, "select_best": None, "reject": 0.046875}
    return DesignResult(
        PROBLEM,
        DESIGN,
        "random",
        (
            ScenarioResult(
                "null",
                (0.3, 0.3, 0.3),
                True,
                (characteristics("thompson", 36.0, **null), characteristics("equal", 36.0, **null)),
            ),
            ScenarioResult(
                "one good",
                (0.3, 0.3, 0.5),
                False,
                (characteristics("thompson", 48.75), characteristics("equal", 44.0)),
            ),
        ),
        calibration=(
            Calibrated("thompson", 0.05, "stop.superiority", 0.9876, 0.0478, 0.002, "null", False),
        ),
    )


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of the first table of a section."""
    part = page.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0]
    body = part.partition("<tbody>")[2].partition("</tbody>")[0]
    every = re.findall(r"<tr>(.*?)</tr>", re.sub(r"</?(?:span|svg|line)\b[^>]*>", "", body))
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in every]


def test_the_tables_have_the_numbers_beside_equal_allocation(result: DesignResult) -> None:
    page = design_page(result, bound=BoundValue(70.125, "lagrangian"), again=["deco design a.toml"])
    assert rows(page, "Scenario one good") == [
        [
            "thompson",
            "48.75 ± 0.12",
            "5.25",
            "+4.75",
            "62.5%",
            "87.5%",
            "0.812 ± 0.062",
            "101.5 (12.5)",
            "37.5%",
            "–",
        ],
        [
            "equal",
            "44.00 ± 0.12",
            "5.25",
            "–",
            "62.5%",
            "87.5%",
            "0.812 ± 0.062",
            "101.5 (12.5)",
            "37.5%",
            "–",
        ],
    ]
    declared = page.partition("<h2>Scenario one good</h2>")[2].partition("Probability to declare")
    assert rows(f"<h2>Declared</h2>{declared[2]}", "Declared")[0] == [
        *["thompson", "0.812 ± 0.062", "0.781", "0.094"],
        *["0.000", "0.100", "0.800"],
    ]
    # where nothing works there is no best arm to find
    assert [row[4:6] for row in rows(page, "Scenario null")] == [["–", "–"]] * 2
    assert "Type I error" in page
    assert "Power" in page
    assert rows(page, "Priors") == [
        ["control", "Beta(12, 28)", "0.300", "40"],
        ["low", "Beta(1, 1)", "0.500", "2"],
        ["&lt;script&gt;alert(1)&lt;/script&gt;", "Beta(2, 2)", "0.500", "4"],
    ]
    assert "<dd>posterior, threshold 0.9876 (thompson)</dd>" not in page  # looks are the test
    assert "0.9876 (thompson)" in page.partition("<h2>Priors</h2>")[0]
    assert rows(page, "Calibration")[0][3:5] == ["0.9876", "0.0478 ± 0.0020"]
    assert "70.125" in page
    assert "deco design a.toml" in page
    assert "after 40 outcomes, then every 20" in page


def test_the_page_is_one_file_and_names_stay_text(result: DesignResult) -> None:
    page = design_page(result, sensitivity={"uniform priors": result})
    assert "<script" not in page
    assert "src=" not in page
    assert page.count('class="drawn"') == 5  # priors, and two figures for each scenario
    assert page.count("uniform priors") == 4  # two policies in two scenarios


def test_other_priors_keep_the_means_or_are_uniform() -> None:
    found = prior_variants(PROBLEM)
    assert [arm.prior for arm in found["uniform priors"].arms] == [BetaBernoulli(1, 1)] * 3
    assert found["half the effective sample sizes"].arms[0].prior == BetaBernoulli(6, 14)
    assert found["twice the effective sample sizes"].arms[2].prior == BetaBernoulli(4, 4)
    assert all(each.horizon == 120 for each in found.values())


def test_many_arms_have_a_row_each_and_fit_on_paper() -> None:
    arms = [Arm(name=f"dose {i}") for i in range(12)]
    pulls = tuple(float(i) for i in range(12))
    shape = {"pulls": pulls, "pulls_sd": (0.5,) * 12, "reject": 0.01}
    shape["reject_by_arm"] = (0.001,) * 12
    rates = tuple(i / 20 for i in range(12))
    found = DesignResult(
        Problem(horizon=66, arms=arms),
        Design(policies=["equal"]),
        "random",
        (ScenarioResult("rising", rates, False, (characteristics("equal", 9.0, **shape),)),),
    )
    page = design_page(found)
    assert rows(page, "Scenarios")[3] == ["dose 3", "0.15"]
    below = page.partition("Pulls of each arm: mean (SD)")[2]
    assert rows(f"<h2>Pulls</h2>{below}", "Pulls")[7] == ["dose 7", "7.0 (0.5)"]


# -- other outcomes than good or bad ------------------------------------------------------------

KINDS = Problem(
    horizon=4,
    arms=[
        Arm(name="score", prior=DirichletCategorical([8, 4, 2]), reward=Reward(values=[0, 1, 3])),
        Arm(name="dose", prior=NormalNormal(0.5, 0.5), noise_sd=2.0),
        Arm(name="events", prior=GammaPoisson(3, 2)),
    ],
)


def test_a_report_of_other_outcomes_speaks_of_rewards_and_has_their_priors() -> None:
    design = Design(
        policies=["greedy"],
        draws=50,
        margin=2.5,
        scenarios=[{"name": "one", "truth": [[0.5, 0.25, 0.25], 1.5, 2.0]}],
    )
    study = study_design(KINDS, design)
    page = study_page(study, "kinds.toml", "horizon = 4")
    assert "ood outcomes" not in page
    assert "success probabilit" not in page
    assert "total reward per trial" in page
    assert rows(page, "Priors") == [
        ["score", "classes worth 0, 1, 3", "Dirichlet(8, 4, 2)", "0.714", "14"],
        ["dose", "measurements, noise sd 2", "N(0.5, sd 0.5)", "0.500", "16"],
        ["events", "counts", "Gamma(3, 2)", "1.500", "2"],
    ]
    assert rows(page, "Scenarios") == [["one", "0.5+0.25+0.25, mean 1", "1.5", "2"]]
    drawn = page.partition("<h2>Priors</h2>")[2].partition("</section>")[0]
    assert drawn.count("<polyline") == 3
    assert list(study.sensitivity) == [
        "uniform priors",
        "half the effective sample sizes",
        "twice the effective sample sizes",
    ]
    assert study.bound is not None
    assert f"above {study.bound.value:.3f}" in page


def test_other_priors_of_other_outcomes_keep_their_means_and_change_their_weight() -> None:
    found = prior_variants(KINDS)
    kinds = [group.model for group in found["uniform priors"].groups]
    assert [kind.format.describe(kind.initial()) for kind in kinds] == [
        "Dirichlet(1, 1, 1)",
        "N(0.5, sd 0.5)",
        "Gamma(3, 2)",
    ]
    for said, by in (("half", 0.5), ("twice", 2.0)):
        problem = found[f"{said} the effective sample sizes"]
        for before, after in zip(KINDS.groups, problem.groups, strict=True):
            fresh = np.array(before.model.initial(), dtype=float)
            assert after.model.prior_pulls == pytest.approx(
                by * float(str(before.model.prior_pulls))
            )
            assert after.model.mean(fresh) == pytest.approx(before.model.mean(fresh))


def test_a_margin_may_be_large_where_outcomes_are_numbers_and_not_where_they_are_rates() -> None:
    Design(margin=2.5).check(KINDS)
    with refused("invalid_problem", "design.margin"):
        Design(margin=2.5).check(PROBLEM)
