"""The report of a design for a committee: rules, operating characteristics, one page.

Rules in words are also in the report of a trial; the tables of characteristics are on the server's
page that plans a trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from math import inf
from platform import python_version

import numpy as np
from markupsafe import Markup

from .._version import __version__
from ..bounds import MEANINGS, BoundValue
from ..designs.reporting import DesignStudy
from ..designs.results import Characteristics, DesignResult, ScenarioResult
from ..policies import BASELINE_POLICY, RULES
from ..problem import NO_UNKNOWN_MEANS, ArmModel, Problem, Rules, described_truth, has_unknown_means
from .palette import policy_styles
from .report_page import (
    Cell,
    bullets,
    commands,
    drawing,
    facts,
    paragraph,
    report_page,
    section,
    table,
)
from .svg_figures import Interval, density_figure, interval_figure, marked_policy

STOPS = {
    "superiority": "at least: the trial stops, the arm is declared",
    "inferiority": "at most: the arm is dropped",
    "futility": "at most for every arm: the trial stops",
    "equivalence": "at least, that the arms differ by less than the margin: the trial stops",
}
VALUES = {"reward": "expected reward of a pull", "outcome": "mean outcome"}  # arms are compared by


def rule_facts(rules: Rules, *, tested: bool = True) -> list[tuple[str, object]]:
    """Return names and values of the rules, without stopping."""
    test = rules.final_test
    level = "threshold" if test.kind == "posterior" else "alpha"
    stated = (rule.fact(rules) for rule in RULES)
    return [
        ("Control", rules.control or "none"),
        *(fact for fact in stated if fact is not None),
        ("Delay of outcomes", "1 stage" if rules.delay == 1 else f"{rules.delay} stages"),
        ("Looks", _looks(rules)),
        ("Arms are compared by", VALUES[rules.compare]),
        ("Margin", f"{rules.margin:g}"),
        ("Final test", f"{test.kind}, {level} {test.level:g}" if tested else "none"),
    ]


def stopping(rules: Rules) -> Markup:
    """Return the table of stopping rules."""
    rows = [
        [name, f"{value:g}", STOPS[name]]
        for name, value in rules.stop.model_dump().items()
        if value is not None
    ]
    if not rows:
        return paragraph("The trial does not stop early.")
    what = "better than control by the margin" if rules.control is not None else "best"
    return table(
        ["Rule", "Probability", "What happens"],
        rows,
        words=["Rule", "What happens"],
        caption=f"Stopping, by the posterior probability that an arm is {what} "
        f"({VALUES[rules.compare]})",
    )


def _looks(rules: Rules) -> str:
    if not rules.stop.any:
        return "none"
    if rules.looks is None:
        return "after every outcome"
    return f"after {rules.looks.first} outcomes, then every {rules.looks.every}"


def number_of_pulls(number: int) -> str:
    """Return "1 pull" or "3 pulls"."""
    return "1 pull" if number == 1 else f"{number} pulls"


MAX_COLUMNS = 6  # of numbers that fit on paper side by side
WIDE = 1.959963984540054  # standard errors of a 95% interval
TITLES = [
    "Policy",
    "Earned",
    "SD",
    "Minus equal",
    "On best arm",
    "Selects best",
    "Declares",
    "Size",
    "Stops early",
]


def characteristics(result: DesignResult) -> list[Markup]:
    """Return the sections on scenarios and operating characteristics."""
    return [
        section("Scenarios", *_scenario_list(result)),
        *(_scenario_section(scenario, result) for scenario in result.scenarios),
        section("How to read the tables", *_reading(result)),
    ]


def _scenario_list(result: DesignResult) -> list[Markup]:
    """Return a table of true parameters by scenario, and the notes."""
    arms = [arm.name for arm in result.problem.arms]
    names = [scenario.name + (" (null)" if scenario.null else "") for scenario in result.scenarios]
    truths = [described_truth(result.problem, scenario.truth) for scenario in result.scenarios]
    notes = [paragraph(f"{note}.", soft=True) for note in result.notes]
    if result.interrupted:
        notes.append(paragraph("The computation was interrupted: some policies are missing."))
    return [_by_arm("Scenario", names, arms, truths), *notes]


def _scenario_section(scenario: ScenarioResult, result: DesignResult) -> Markup:
    """Return the section of one scenario."""
    return section(f"Scenario {scenario.name}", *_characteristics(scenario, result), whole=True)


def _characteristics(scenario: ScenarioResult, result: DesignResult) -> list[Markup]:
    if not scenario.policies:
        return [paragraph("No policy was computed in this scenario.")]
    equal = next((row for row in scenario.policies if row.policy == BASELINE_POLICY), None)
    rows = [_row(row, equal) for row in scenario.policies]
    declares = _declares(scenario)
    labels = {"Declares": declares, "Earned": result.earned.capitalize()}
    titles = [labels.get(title, title) for title in TITLES]
    arms = [arm.name for arm in result.problem.arms]
    names = [row.policy for row in scenario.policies]
    pulls = [
        list(map("{:.1f} ({:.1f})".format, row.pulls, row.pulls_sd)) for row in scenario.policies
    ]
    return [
        table(titles, rows, words=["Policy"]),
        drawing(
            _figure(scenario, "good", f"{result.earned} per trial", equal),
            f"{result.earned.capitalize()} of a trial, mean, with 95% intervals of the simulation "
            "where there is one. Dashed: equal allocation.",
        ),
        drawing(
            _figure(scenario, "reject", declares[0].lower() + declares[1:], equal),
            f"{declares}, likewise.",
        ),
        _by_arm("Policy", names, arms, pulls, caption="Pulls of each arm: mean (SD)"),
    ]


def _by_arm(
    what: str, names: list[str], arms: list[str], cells: list[list[str]], caption: str = ""
) -> Markup:
    """Return a table of names by arms, transposed if the arms do not fit."""
    if len(arms) > MAX_COLUMNS > len(names):
        what, names, arms, cells = (
            "Arm",
            arms,
            names,
            [list(column) for column in zip(*cells, strict=True)],
        )
    rows = [[name, *row] for name, row in zip(names, cells, strict=True)]
    return table([what, *arms], rows, words=[what], caption=caption)


def _figure(
    scenario: ScenarioResult, name: str, axis: str, equal: Characteristics | None
) -> Markup:
    """Draw one characteristic of all policies, with intervals."""
    drawn, (least, most) = [], (0.0, 1.0) if name == "reject" else (-inf, inf)
    styles = policy_styles(one.policy for one in scenario.policies)
    for row in scenario.policies:
        value, wide = getattr(row, name), WIDE * _error(row, name)
        low, high = max(value - wide, least), min(value + wide, most)
        drawn.append(Interval(row.policy, value, low, high, colour=styles[row.policy].colour))
    label = f"{axis} of each policy in scenario {scenario.name}"
    line = None if equal is None else getattr(equal, name)
    return interval_figure(drawn, label=label, axis=axis, line=line)


def _declares(scenario: ScenarioResult) -> str:
    return "Type I error" if scenario.null else "Power"


def _row(row: Characteristics, equal: Characteristics | None) -> list[Cell]:
    less = "–" if equal is None or row is equal else f"{row.good - equal.good:+.2f}"
    return [
        marked_policy(row.policy),
        with_error(row.good, _error(row, "good"), 2),
        f"{row.good_sd:.2f}",
        less,
        _share(row.best_share),
        _share(row.select_best),
        with_error(row.reject, _error(row, "reject"), 3),
        f"{row.size:.1f} ({row.size_sd:.1f})",
        _share(row.stopped),
    ]


def _error(row: Characteristics, name: str) -> float:
    error = (row.errors or {}).get(name)
    return error if isinstance(error, float) else 0.0


def with_error(value: float, error: float, digits: int) -> str:
    """Format a number, ± its standard error if there is one."""
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100.0 * value:.1f}%"


def _reading(result: DesignResult) -> list[Markup]:
    """Explain the columns of the table."""
    against = "control" if result.design.control is not None else "all others"
    by = VALUES[result.design.compare]
    fewer = (
        "has fewer outcomes, good ones too" if result.problem.is_binary else "earns in fewer pulls"
    )
    return [
        paragraph(
            f"{result.earned.capitalize()}: mean per trial, ± one standard error where simulated; "
            "SD over trials. Minus equal: difference from equal allocation. On best arm: share of "
            "pulls that a best arm gets. Selects best: probability that the largest posterior "
            f"{by} at the end is that of a best arm. Power, type I error: probability to declare "
            f"some arm better than {against}, by the {by}. Size: mean number of pulls (SD). Stops "
            f"early: before the last stage; such a trial {fewer}.",
            soft=True,
        ),
        *([] if has_unknown_means(result.problem) else [paragraph(f"Here {NO_UNKNOWN_MEANS}.")]),
    ]


def sensitivity_tables(base: DesignResult, variants: Mapping[str, DesignResult]) -> list[Markup]:
    """Return tables of the design under other priors, by scenario."""
    every = {"as planned": base, **variants}
    parts = []
    for scenario in base.scenarios:
        rows = [
            [
                label,
                row.policy,
                with_error(row.good, _error(row, "good"), 2),
                _share(row.select_best),
                with_error(row.reject, _error(row, "reject"), 3),
            ]
            for label, result in every.items()
            for row in _of(result, scenario.name)
        ]
        earned = base.earned.capitalize()
        titles = ["Priors", "Policy", earned, "Selects best", _declares(scenario)]
        words = ["Priors", "Policy"]
        parts.append(table(titles, rows, words=words, caption=f"Scenario {scenario.name}"))
    return parts


def _of(result: DesignResult, scenario: str) -> Iterable[Characteristics]:
    return next((one.policies for one in result.scenarios if one.name == scenario), ())


MAX_PRIORS = 10  # drawn
LIBRARIES = ("numpy", "scipy", "numba")
REPORT = "report.html"  # as the commands of a report call it


def study_page(study: DesignStudy, name: str, text: str) -> str:
    """Return the report of a computed design study.

    Parameters
    ----------
    study : DesignStudy
        What it says.
    name, text : str
        Of the problem file with the design, which is printed.

    Returns
    -------
    str
        HTML.
    """
    return design_page(
        study.result,
        bound=study.bound,
        sensitivity=study.sensitivity,
        left_out=study.left_out,
        again=["deco --version", study.command(name, REPORT)],
        file=(name, text),
        question=study.result.design.question,
    )


def design_page(
    result: DesignResult,
    *,
    bound: BoundValue | None = None,
    sensitivity: Mapping[str, DesignResult] | None = None,
    again: Sequence[str] = (),
    file: tuple[str, str] | None = None,
    left_out: Sequence[str] = (),
    title: str = "Report of a design",
    question: str = "",
) -> str:
    """Return the report of a design as one self-contained HTML page.

    Parameters
    ----------
    result : DesignResult
        Operating characteristics.
    bound : BoundValue, optional
        On the expected total reward of any policy, under the priors.
    sensitivity : mapping, optional
        The same design with other priors, by what is different.
    again : sequence of str
        Commands that compute the report again.
    file : tuple of str, optional
        Name and text of the file that they read.
    left_out : sequence of str
        What is missing, and why.
    title, question : str
        Of the page; what the trial is to find out.

    Returns
    -------
    str
        HTML.
    """
    parts = [
        section("Question", *_question(result, question)),
        section("Design and rules", *_rules(result)),
        section("Priors", *_priors(result.problem), whole=True),
        *characteristics(result),
    ]
    if bound is not None:
        parts.append(section("Bound", *_bound(bound)))
    if result.calibration:
        parts.append(section("Calibration", *_calibration(result)))
    if sensitivity:
        parts.append(section("Sensitivity to priors", *_sensitivity(result, sensitivity)))
    if left_out:
        parts.append(section("Left out", bullets(left_out)))
    parts.append(section("To compute it again", *_again(result, again, file)))
    problem = result.problem
    return report_page(
        title,
        parts,
        about=f"{problem.n_arms} arms, {problem.horizon * problem.pulls_per_stage} pulls at most.",
        footer=f"decobandit {__version__}, seed {result.design.seed}.",
    )


def _question(result: DesignResult, question: str) -> list[Markup]:
    control = result.design.control
    names = ", ".join(arm.name for arm in result.problem.arms if arm.name != control)
    question_text = question or (
        f"Which of the arms {names} has the largest expected reward?"
        if control is None
        else f"Is one of the arms {names} better than {control}?"
    )
    return [paragraph(question_text)]


# -- the design ---------------------------------------------------------------------------------


def _rules(result: DesignResult) -> list[Markup]:
    design, problem = result.design, result.problem
    pairs: list[tuple[str, object]] = [
        ("Policies", ", ".join(design.policies) or BASELINE_POLICY),
        ("Stages", f"{problem.horizon}, {number_of_pulls(problem.pulls_per_stage)} each"),
        *rule_facts(design, tested=has_unknown_means(result.problem)),
        ("Ties", result.ties),
    ]
    parts = [facts(pairs), stopping(design)]
    if result.calibration:
        keys = ", ".join(dict.fromkeys(threshold.what for threshold in result.calibration))
        text = f"The results use calibrated values of {keys}, in the section Calibration."
        parts.append(paragraph(f"{text} A trial uses them only if its file has them."))
    return parts


def _priors(problem: Problem) -> list[Markup]:
    kinds = [problem.groups[k].model for k in problem.group_of_arm]
    binary = problem.is_binary
    rows = [
        [
            arm.name,
            *([] if binary else [kind.format.outcomes]),
            kind.format.describe(kind.initial()),
            f"{float(kind.mean(np.array(kind.initial(), dtype=float))):.3f}",
            _pulls_of_prior(kind),
        ]
        for arm, kind in zip(problem.arms, kinds, strict=True)
    ]
    titles = ["Arm", "Outcomes", "Prior", "Mean", "Effective sample size"]
    titles = [title for title in titles if title != "Outcomes" or not binary]
    pairs = zip(problem.arms, kinds, strict=True)
    with_law = [(arm.name, kind) for arm, kind in pairs if kind.has_law][:MAX_PRIORS]
    what = "success probability" if binary else "mean outcome"
    several = "success probabilities" if binary else "mean outcomes"
    drawings = []
    if with_law:
        names, laws = map(list, zip(*with_law, strict=True))
        drawn = density_figure(names, laws, label="Densities of the priors", axis=what)
        drawings.append(drawing(drawn, f"Densities of the priors of the {several}."))
    return [
        table(titles, rows, words=["Arm", "Outcomes", "Prior"]),
        *drawings,
        paragraph(
            "Effective sample size: the outcomes that a prior is worth"
            + (", the sum of its pseudo-counts." if binary else "."),
            soft=True,
        ),
    ]


def _pulls_of_prior(kind: ArmModel) -> str:
    return "–" if kind.prior_pulls is None else f"{kind.prior_pulls:.4g}"


# -- bound, calibration, sensitivity ------------------------------------------------------------


def _bound(bound: BoundValue) -> list[Markup]:
    return [
        paragraph(
            f"Under the priors, no policy has an expected total reward above {bound.value:.3f} "
            f"({MEANINGS[bound.kind]}). The bound holds for any rule that allocates all pulls; "
            "scenarios fix what is true and may be above or below it."
        )
    ]


def _calibration(result: DesignResult) -> list[Markup]:
    rows = [
        [
            threshold.policy,
            threshold.what,
            f"{threshold.alpha:g}",
            f"{threshold.threshold:.4f}",
            with_error(threshold.type_one_error, threshold.type_one_error_se, 4),
            threshold.scenario,
        ]
        for threshold in result.calibration
    ]
    titles = ["Policy", "Threshold of", "Type I error at most", "Threshold", "Type I error", "In"]
    parts = [table(titles, rows, words=["Policy", "Threshold of", "In"])]
    sure = [
        threshold.confidence for threshold in result.calibration if threshold.confidence is not None
    ]
    if sure:
        text = (
            "Thresholds are fitted on simulated trials of their own, so that the true type I error "
            f"is at most the level with {max(sure):.0%} confidence; the "
            "type I error shown is of other trials, ± one standard error."
        )
        parts.append(paragraph(text, soft=True))
    return parts


def _sensitivity(result: DesignResult, variants: Mapping[str, DesignResult]) -> list[Markup]:
    text = (
        "The truth of the scenarios stays; policies, looks and test start from other priors. "
        "Half and twice the effective sample sizes keep the means."
    )
    fewer = {variant.design.draws for variant in variants.values()}
    if not _all_exact([result, *variants.values()]):
        text += f" Simulated: {result.design.draws:,} trials as planned, " + ", ".join(
            f"{draws:,} with each of the other priors." for draws in fewer
        )
    if result.calibration:
        text += " Thresholds are calibrated for each prior."
    return [paragraph(text, soft=True), *sensitivity_tables(result, variants)]


def _all_exact(results: Sequence[DesignResult]) -> bool:
    return all(
        row.exact for one in results for scenario in one.scenarios for row in scenario.policies
    )


def _again(
    result: DesignResult, again: Sequence[str], file: tuple[str, str] | None
) -> list[Markup]:
    how = (
        "All numbers are exact."
        if _all_exact([result])
        else f"Numbers with ± are simulated: {result.design.draws:,} trials for each policy and "
        f"scenario, seed {result.design.seed}. The others are exact."
    )
    parts = [
        paragraph(f"decobandit {__version__}, {_libraries()}. {how}"),
        commands(again) if again else Markup(""),
    ]
    if file is not None:
        name, text = file
        digest = sha256(text.encode()).hexdigest()
        parts += [paragraph(f"The file {name}, SHA-256 {digest}:"), commands([text.rstrip("\n")])]
    return parts


def _libraries() -> str:
    """Return the versions that numbers may depend on."""
    named = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return f"Python {python_version()}, {named}"
