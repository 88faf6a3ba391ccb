"""The report of a design for a committee: one page, in a statistician's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from .._version import __version__
from ..bounds import MEANINGS, BestBound
from ..designs.results import Characteristics, DesignResult, ScenarioResult
from ..policies import BASELINE_POLICY
from ..problem import Design, Problem
from .report_page import (
    commands,
    drawing,
    facts,
    paragraph,
    report_page,
    section,
    table,
)
from .svg_figures import Interval, density_figure, interval_figure, solid

MAX_PRIORS = 10  # drawn
WIDE = 1.959963984540054  # standard errors of a 95% interval
TITLES = [
    "Policy", "Good outcomes", "SD", "Minus equal", "On best arm", "Selects best", "Declares",
    "Size", "Stops early",
]  # fmt: skip


def design_page(
    found: DesignResult,
    *,
    bound: BestBound | None = None,
    sensitivity: Mapping[str, DesignResult] | None = None,
    again: Sequence[str] = (),
    title: str = "Report of a design",
    question: str = "",
) -> str:
    """The report of a design as one HTML page that needs no other file.

    Parameters
    ----------
    found : DesignResult
        Operating characteristics.
    bound : BestBound, optional
        On the expected total reward of any policy, under the priors.
    sensitivity : mapping, optional
        The same design with other priors, by what is different.
    again : sequence of str
        Commands that compute the report again, and the text of their file.
    title, question : str
        Of the page; what the trial is to find out.

    Returns
    -------
    str
        HTML.
    """
    parts = [
        section("Question", *_question(found, question)),
        section("Design and rules", *_rules(found)),
        section("Priors", *_priors(found.problem)),
        section("Scenarios", *_scenarios(found)),
        *(_scenario(each, found) for each in found.scenarios),
        section("How to read the tables", *_reading(found)),
    ]  # fmt: skip
    if bound is not None:
        parts.append(section("Bound", *_bound(bound)))
    if found.calibration:
        parts.append(section("Calibration", *_calibration(found)))
    if sensitivity:
        parts.append(section("Sensitivity to priors", *_sensitivity(found, sensitivity)))
    parts.append(section("To compute it again", *_again(found, again)))
    problem = found.problem
    return report_page(
        title, parts,
        about=f"{problem.n_arms} arms, {problem.horizon * problem.pulls_per_stage} pulls at most.",
        footer=f"decobandit {__version__}, seed {found.design.seed}.",
    )  # fmt: skip


def _question(found: DesignResult, question: str) -> list[Markup]:
    control = found.design.control
    names = ", ".join(arm.name for arm in found.problem.arms if arm.name != control)
    asked = question or (
        f"Which of the arms {names} has the largest expected reward?"
        if control is None
        else f"Is one of the arms {names} better than {control}?"
    )
    return [paragraph(asked)]


# -- the design ---------------------------------------------------------------------------------


def _rules(found: DesignResult) -> list[Markup]:
    design, problem = found.design, found.problem
    pairs: list[tuple[str, object]] = [
        ("Policies", ", ".join(design.policies) or BASELINE_POLICY),
        ("Stages", f"{problem.horizon}, {_pulls(problem.pulls_per_stage)} each"),
        ("Control", design.control or "none"),
        ("Burn-in", f"{_pulls(design.burn_in)} of every arm"),
        ("Least probability of an arm", f"{design.floor:g}"),
        ("Delay of outcomes", f"{design.delay} stages"),
        ("Looks", _looks(design)),
        ("Margin", f"{design.margin:g}"),
        ("Final test", f"{design.final_test.kind}, {design.final_test.level:g}"),
        ("Ties", found.ties),
    ]
    if design.control_share is not None:
        pairs.insert(5, ("Share of control", f"{design.control_share:g}"))
    stops = [
        [name, f"{value:g}"]
        for name, value in design.stop.model_dump().items()
        if value is not None
    ]
    said = (
        table(["Rule", "Probability"], stops, words=["Rule"], caption="Stopping")
        if stops
        else paragraph("The trial does not stop early.")
    )
    return [facts(pairs), said]


def _looks(design: Design) -> str:
    if not design.stop.any:
        return "none"
    if design.looks is None:
        return "after every outcome"
    return f"after {design.looks.first} outcomes, then every {design.looks.every}"


def _pulls(number: int) -> str:
    return "1 pull" if number == 1 else f"{number} pulls"


def _priors(problem: Problem) -> list[Markup]:
    rows = [
        [
            arm.name, f"Beta({arm.beta.good:g}, {arm.beta.bad:g})",
            f"{arm.beta.good / (arm.beta.good + arm.beta.bad):.3f}",
            f"{arm.beta.good + arm.beta.bad:g}",
        ]
        for arm in problem.arms
    ]  # fmt: skip
    arms = problem.arms[:MAX_PRIORS]
    drawn = density_figure(
        [arm.name for arm in arms], [arm.beta for arm in arms], label="Densities of the priors"
    )
    return [
        table(["Arm", "Prior", "Mean", "Effective sample size"], rows, words=["Arm", "Prior"]),
        drawing(drawn, "Densities of the priors of the success probabilities."),
        paragraph(
            "Effective sample size: the outcomes that a prior is worth, the sum of its "
            "pseudo-counts.",
            soft=True,
        ),
    ]


# -- operating characteristics ------------------------------------------------------------------


def _scenarios(found: DesignResult) -> list[Markup]:
    arms = [arm.name for arm in found.problem.arms]
    rows = [
        [each.name, *(f"{p:g}" for p in each.truth), "null" if each.null else ""]
        for each in found.scenarios
    ]
    notes = [paragraph(f"{note}.", soft=True) for note in found.notes]
    if found.interrupted:
        notes.append(paragraph("The computation was interrupted: some policies are missing."))
    return [table(["Scenario", *arms, ""], rows, words=["Scenario", ""]), *notes]


def _scenario(scenario: ScenarioResult, found: DesignResult) -> Markup:
    return section(f"Scenario {scenario.name}", *_characteristics(scenario, found))


def _characteristics(scenario: ScenarioResult, found: DesignResult) -> list[Markup]:
    if not scenario.policies:
        return [paragraph("No policy was computed in this scenario.")]
    equal = next((each for each in scenario.policies if each.policy == BASELINE_POLICY), None)
    rows = [_row(each, equal) for each in scenario.policies]
    titles = [title if title != "Declares" else _declares(scenario) for title in TITLES]
    drawn = [
        Interval(
            each.policy, each.good, each.good - WIDE * _error(each, "good"),
            each.good + WIDE * _error(each, "good"), colour=solid(i),
        )
        for i, each in enumerate(scenario.policies)
    ]  # fmt: skip
    arms = [arm.name for arm in found.problem.arms]
    pulls = [
        [each.policy, *map("{:.1f} ({:.1f})".format, each.pulls, each.pulls_sd)]
        for each in scenario.policies
    ]  # fmt: skip
    return [
        table(titles, rows, words=["Policy"]),
        drawing(
            interval_figure(
                drawn, label=f"Good outcomes of each policy in scenario {scenario.name}",
                axis="good outcomes per trial", line=None if equal is None else equal.good,
            ),
            "Mean number of good outcomes, with 95% intervals of the simulation where there is "
            "one. Dashed: equal allocation.",
        ),
        table(["Policy", *arms], pulls, words=["Policy"], caption="Pulls of each arm: mean (SD)"),
    ]  # fmt: skip


def _declares(scenario: ScenarioResult) -> str:
    return "Type I error" if scenario.null else "Power"


def _row(each: Characteristics, equal: Characteristics | None) -> list[str]:
    less = "–" if equal is None or each is equal else f"{each.good - equal.good:+.2f}"
    return [
        each.policy,
        _with_error(each.good, _error(each, "good"), 2),
        f"{each.good_sd:.2f}",
        less,
        _share(each.best_share),
        _share(each.select_best),
        _with_error(each.reject, _error(each, "reject"), 3),
        f"{each.size:.1f} ({each.size_sd:.1f})",
        _share(each.stopped),
    ]


def _error(each: Characteristics, name: str) -> float:
    found = (each.errors or {}).get(name)
    return found if isinstance(found, float) else 0.0


def _with_error(value: float, error: float, digits: int) -> str:
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100.0 * value:.1f}%"


def _reading(found: DesignResult) -> list[Markup]:
    against = "control" if found.design.control is not None else "all others"
    return [
        paragraph(
            "Good outcomes: mean per trial, ± one standard error where simulated; SD over trials. "
            "Minus equal: difference from equal allocation. On best arm: share of pulls that a "
            "best arm gets. Selects best: probability that the largest posterior mean at the end "
            "is that of a best arm. Power, type I error: probability to declare some arm better "
            f"than {against}. Size: mean number of pulls (SD). Stops early: before the last stage.",
            soft=True,
        )
    ]  # fmt: skip


# -- bound, calibration, sensitivity ------------------------------------------------------------


def _bound(bound: BestBound) -> list[Markup]:
    return [
        paragraph(
            f"Under the priors, no policy has an expected total reward above {bound.value:.3f} "
            f"({MEANINGS[bound.kind]}). The bound holds for any rule that allocates all pulls; "
            "scenarios fix the success probabilities and may be above or below it."
        )
    ]


def _calibration(found: DesignResult) -> list[Markup]:
    rows = [
        [
            each.policy, each.what, f"{each.alpha:g}", f"{each.threshold:.4f}",
            _with_error(each.type_one_error, each.type_one_error_se, 4), each.scenario,
        ]
        for each in found.calibration
    ]  # fmt: skip
    titles = ["Policy", "Threshold of", "Type I error at most", "Threshold", "Type I error", "In"]
    return [table(titles, rows, words=["Policy", "Threshold of", "In"])]


def _sensitivity(found: DesignResult, others: Mapping[str, DesignResult]) -> list[Markup]:
    every = {"as planned": found, **others}
    parts = []
    for scenario in found.scenarios:
        rows = [
            [
                said, each.policy, _with_error(each.good, _error(each, "good"), 2),
                _share(each.select_best), _with_error(each.reject, _error(each, "reject"), 3),
            ]
            for said, result in every.items()
            for each in _of(result, scenario.name)
        ]  # fmt: skip
        titles = ["Priors", "Policy", "Good outcomes", "Selects best", _declares(scenario)]
        words = ["Priors", "Policy"]
        parts.append(table(titles, rows, words=words, caption=f"Scenario {scenario.name}"))
    return parts


def _of(result: DesignResult, scenario: str) -> Iterable[Characteristics]:
    return next((each.policies for each in result.scenarios if each.name == scenario), ())


def _again(found: DesignResult, again: Sequence[str]) -> list[Markup]:
    exact = {each.exact for scenario in found.scenarios for each in scenario.policies}
    how = (
        "All numbers are exact."
        if exact == {True}
        else f"Simulated numbers are from {found.design.draws} trials each, "
        f"seed {found.design.seed}."
    )
    return [
        paragraph(f"decobandit {__version__}. {how}"),
        commands(again) if again else Markup(""),
    ]
