"""The report of a design for a committee: rules, operating characteristics, one page.

Rules in words are also in the report of a trial; the tables of characteristics are on the server's
page that plans a trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from ..designs.sizing import SampleSize
from ..policies import BASELINE_POLICY, RULES
from ..problem import NO_UNKNOWN_MEANS, Problem, Rules, described_truth, has_unknown_means
from .palette import policy_style, policy_styles
from .report_page import POLICY, Cell, paragraph, render_page, render_parts, table
from .svg_figures import Interval, Plot, density_figure, interval_figure, marked_policy

STOPS = {rule.setting: rule.stops for rule in RULES if rule.stops}
VALUES = {"reward": "expected reward of a pull", "outcome": "mean outcome"}  # arms are compared by
MAX_COLUMNS = 6  # of numbers that fit on paper side by side
MAX_PRIORS = 10  # drawn
WIDE = 1.959963984540054  # standard errors of a 95% interval
INFERENCE = ["Method", "Arm", "Bias", "Below", "Cover", "Width"]
LIBRARIES = ("numpy", "scipy", "numba")  # numbers may depend on their versions
REPORT = "report.html"  # as the commands of a report call it

# -- rules, also of trials ------------------------------------------------------------------------


def rule_facts(rules: Rules, *, tested: bool = True) -> list[tuple[str, object]]:
    """Return names and values of the rules, without stopping."""
    test = rules.final_test
    level = "threshold" if test.kind == "posterior" else "alpha"
    by_policy = {} if rules.threshold_key == "stop.superiority" else rules.thresholds
    levels = _levels(by_policy) if by_policy else f"{test.level:.6g}"
    looks = "none"
    if rules.stop.any and rules.looks is None:
        looks = "after every outcome"
    elif rules.stop.any and rules.looks is not None:
        looks = f"after {rules.looks.first} outcomes, then every {rules.looks.every}"
    concurrent = [("Controls of the test", "concurrent with the arm")]
    return [
        ("Control", rules.control or "none"),
        *(fact for rule in RULES if (fact := rule.fact(rules)) is not None),
        *(concurrent if rules.controls == "concurrent" else []),
        ("Delay of outcomes", "1 stage" if rules.delay == 1 else f"{rules.delay} stages"),
        ("Looks", looks),
        ("Arms are compared by", VALUES[rules.compare]),
        ("Margin", f"{rules.margin:g}"),
        ("Final test", f"{test.kind}, {level} {levels}" if tested else "none"),
    ]


def _levels(thresholds: Mapping[str, float]) -> str:
    return ", ".join(f"{level:.6g} ({policy})" for policy, level in thresholds.items())


def stopping(rules: Rules) -> Markup:
    """Return the table of stopping rules."""
    levels = {name: f"{x:.6g}" for name, x in rules.stop.model_dump().items() if x is not None}
    if not levels:
        return paragraph("The trial does not stop early.")
    if rules.thresholds and rules.threshold_key == "stop.superiority":
        levels["superiority"] = _levels(rules.thresholds)
    what = "better than control by the margin" if rules.control is not None else "best"
    return table(
        ["Rule", "Probability", "What happens"],
        [[name, level, STOPS[name]] for name, level in levels.items()],
        words=["Rule", "What happens"],
        caption=f"Stopping, by the posterior probability that an arm is {what} "
        f"({VALUES[rules.compare]})",
    )


# -- operating characteristics --------------------------------------------------------------------


def characteristics(result: DesignResult) -> Markup:
    """Return the sections on scenarios and operating characteristics."""
    arms = [arm.name for arm in result.problem.arms]
    names = [scenario.name + (" (null)" if scenario.null else "") for scenario in result.scenarios]
    truths = [described_truth(result.problem, scenario.truth) for scenario in result.scenarios]
    return render_parts(
        "design_characteristics.html.j2",
        result=result,
        truths=_by_arm("Scenario", names, arms, truths),
        earned=result.earned.capitalize(),
        by=VALUES[result.design.compare],
        scenarios=[_scenario(scenario, result, arms) for scenario in result.scenarios],
        known_means=None if has_unknown_means(result.problem) else NO_UNKNOWN_MEANS,
    )


def _scenario(scenario: ScenarioResult, result: DesignResult, arms: list[str]) -> dict[str, object]:
    """Return what the section of a scenario shows: rows, figures, pulls by arm."""
    rows, declares = scenario.policies, _declares(scenario)
    if not rows:
        return {"name": scenario.name, "rows": []}
    equal = next((row for row in rows if row.policy == BASELINE_POLICY), None)
    names = [row.policy for row in rows]
    declared = {declares: "reject", "A best arm": "reject_best", "A wrong arm": "reject_wrong"}
    chances = [
        [_cell(row, name, 3) for name in declared.values()]
        + [f"{p:.3f}" for p in row.reject_by_arm]
        for row in rows
    ]
    caption = "Probability to declare: in the trial, then in each comparison"
    pulls = [list(map("{:.1f} ({:.1f})".format, row.pulls, row.pulls_sd)) for row in rows]
    return {
        "name": scenario.name,
        "declares": declares,
        "rows": [_row(row, equal) for row in rows],
        "good": _figure(scenario, "good", f"{result.earned} per trial", equal),
        "reject": _figure(scenario, "reject", declares[0].lower() + declares[1:], equal),
        "declared": _by_arm("Policy", names, [*declared, *arms], chances, caption),
        "pulls": _by_arm("Policy", names, arms, pulls, "Pulls of each arm: mean (SD)"),
    }


def _by_arm(
    what: str, names: list[str], arms: list[str], cells: list[list[str]], caption: str = ""
) -> Markup:
    """Return a table of names by arms, transposed if the arms do not fit."""
    if len(arms) > MAX_COLUMNS > len(names):
        what, names, arms = "Arm", arms, names
        cells = [list(column) for column in zip(*cells, strict=True)]
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
        ends = max(value - wide, least), min(value + wide, most)
        style = styles[row.policy]._replace(dashes="solid")
        drawn.append(Interval(row.policy, value, *ends, style=style))
    label = f"{axis} of each policy in scenario {scenario.name}"
    line = None if equal is None else getattr(equal, name)
    return interval_figure(drawn, label=label, axis=axis, line=line)


def _declares(scenario: ScenarioResult) -> str:
    return "Type I error" if scenario.null else "Power"


def _row(row: Characteristics, equal: Characteristics | None) -> list[Cell]:
    less = "–" if equal is None or row is equal else f"{row.good - equal.good:+.2f}"
    return [
        marked_policy(row.policy),
        _cell(row, "good", 2),
        f"{row.good_sd:.2f}",
        less,
        _share(row.best_share),
        _share(row.select_best),
        _cell(row, "reject", 3),
        f"{row.size:.1f} ({row.size_sd:.1f})",
        _share(row.stopped),
        _share(row.predictability),
    ]


def _error(row: Characteristics, name: str) -> float:
    error = (row.errors or {}).get(name)
    return error if isinstance(error, float) else 0.0


def with_error(value: float | None, error: float | None, digits: int) -> str:
    """Format a number, ± its standard error if there is one."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")


def _cell(row: Characteristics, name: str, digits: int) -> str:
    return with_error(getattr(row, name), _error(row, name), digits)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100.0 * value:.1f}%"


def inference_rows(row: Characteristics) -> list[list[str]]:
    """Return a row for each method and arm: bias, median bias, coverage and width."""
    rows = []
    for one in row.inference:
        numbers = (one.bias, one.bias_se), (one.below, None), (one.coverage, one.coverage_se)
        cells = [with_error(*pair, 3) for pair in (*numbers, (one.width, None))]
        rows.append([one.method, one.arm, *cells])
    return rows


# -- the page -------------------------------------------------------------------------------------


def study_page(study: DesignStudy, name: str, text: str, size: SampleSize | None = None) -> str:
    """Return the report of a computed design study; the file of name and text is printed in it.

    `size`: the search that found the horizon.
    """
    return design_page(
        study.result,
        bound=study.bound,
        sensitivity=study.sensitivity,
        left_out=study.left_out,
        again=["deco --version", study.command(name, REPORT, size)],
        size=size,
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
    size: SampleSize | None = None,
    title: str = "Report of a design",
    question: str = "",
) -> str:
    """Return the report of a design as one self-contained HTML page.

    `bound`: on any policy, under the priors. `sensitivity`: the same design with other priors, by
    what is different. `again`: commands that compute the report again, `file`: name and text of the
    file that they read. `left_out`: what is missing, and why. `size`: the search that found the
    horizon. `question`: what the trial asks.
    """
    problem, design, variants = result.problem, result.design, sensitivity or {}
    tested, pulls = has_unknown_means(problem), problem.pulls_per_stage
    sure = [one.confidence for one in result.calibration if one.confidence is not None]
    every = [row for scenario in result.scenarios for row in scenario.policies]
    exact = all(row.exact for row in every)
    simulated = not exact or not all(map(_is_exact, variants.values()))
    no_inference = [
        f"{row.policy}: {methods}: {reason}"
        for row in every
        for methods, reason in row.inference_left_out.items()
    ]
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return render_page(
        "design_report.html.j2",
        policy=POLICY,
        title=title,
        about=f"{problem.n_arms} arms, {problem.horizon * pulls} pulls at most.",
        footer=f"decobandit {__version__}, seed {design.seed}.",
        result=result,
        question=question or _question(result),
        rules=[
            ("Policies", ", ".join(design.policies) or BASELINE_POLICY),
            ("Stages", f"{problem.horizon}, {pulls} pull{'s' * (pulls > 1)} each"),
            *rule_facts(result.calibrated, tested=tested),
            ("Ties", result.ties),
        ],
        stopping=stopping(result.calibrated),
        binary=problem.is_binary,
        priors=_priors(problem),
        densities=_densities(problem),
        size=size,
        power_curve=None if size is None else _power_curve(size),
        characteristics=characteristics(result),
        bound=bound,
        bound_meaning=None if bound is None else MEANINGS[bound.kind],
        thresholds=_thresholds(result),
        confidence=f"{max(sure):.0%}" if sure else None,
        sensitivity=_sensitivity(result, variants) if variants else [],
        fewer_draws={one.design.draws for one in variants.values()} if simulated else (),
        inference=_inference(result),
        inference_titles=["Policy", *INFERENCE],
        no_inference=list(dict.fromkeys(no_inference)),
        left_out=left_out,
        software=f"decobandit {__version__}, Python {python_version()}, {libraries}",
        exact=exact,
        again=again,
        file=None if file is None else (file[0], file[1].rstrip("\n")),
        digest=None if file is None else sha256(file[1].encode()).hexdigest(),
    )


def _is_exact(result: DesignResult) -> bool:
    return all(row.exact for scenario in result.scenarios for row in scenario.policies)


def _question(result: DesignResult) -> str:
    control = result.design.control
    names = ", ".join(arm.name for arm in result.problem.arms if arm.name != control)
    if control is None:
        return f"Which of the arms {names} has the largest expected reward?"
    return f"Is one of the arms {names} better than {control}?"


def _priors(problem: Problem) -> list[list[str]]:
    """Return the rows of the table of priors; outcomes only where they are not good or bad."""
    rows = []
    for arm, group in zip(problem.arms, problem.arm_groups, strict=True):
        model, written = group.model, group.model.format
        pulls = "–" if model.prior_pulls is None else f"{model.prior_pulls:.4g}"
        mean = float(model.mean(np.array(model.initial(), dtype=float)))
        outcomes = [] if problem.is_binary else [written.outcomes]
        rows.append([arm.name, *outcomes, written.describe(model.initial()), f"{mean:.3f}", pulls])
    return rows


def _densities(problem: Problem) -> Markup | None:
    models = [group.model for group in problem.arm_groups]
    pairs = zip(problem.arms, models, strict=True)
    with_law = [(arm.name, model) for arm, model in pairs if model.has_law][:MAX_PRIORS]
    if not with_law:
        return None
    names, laws = map(list, zip(*with_law, strict=True))
    axis = "success probability" if problem.is_binary else "mean outcome"
    return density_figure(names, laws, label="Densities of the priors", axis=axis)


def _power_curve(size: SampleSize) -> Markup:
    """Draw the power at every horizon that was tried, and the required power."""
    full = size.result.design.draws
    points = [(one.horizon, one.power) for one in size.tried if one.draws in (None, full)]
    horizons, powers = map(list, zip(*sorted(points), strict=True))
    plot = Plot((0.0, 1.05 * horizons[-1]), (0.0, 1.0))
    plot.axis_left("power")
    style = policy_style(size.policy)._replace(dashes="solid")
    plot.rule((0.0, size.target), (plot.x[1], size.target), stroke_dasharray="4 3")
    plot.line(horizons, powers, style)
    for horizon, power in zip(horizons, powers, strict=True):
        plot.dot(horizon, power, style.colour, radius=3.0)
    plot.axis_below("stages")
    return plot.svg(f"Power by the number of stages; {size.target:g} at {size.horizon}")


def _thresholds(result: DesignResult) -> list[list[str]]:
    rows = []
    for one in result.calibration:
        error = with_error(one.type_one_error, one.type_one_error_se, 4)
        levels = [f"{one.alpha:g}", f"{one.threshold:.4f}", error]
        rows.append([one.policy, one.what, *levels, one.scenario])
    return rows


def _inference(result: DesignResult) -> list[tuple[str, list[list[str]]]]:
    """Return tables of estimates by scenario."""
    tables = []
    for scenario in result.scenarios:
        rows = [[row.policy, *cells] for row in scenario.policies for cells in inference_rows(row)]
        if rows:
            tables.append((f"Scenario {scenario.name}", rows))
    return tables


def _sensitivity(
    base: DesignResult, variants: Mapping[str, DesignResult]
) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return scenario, titles and rows of the tables of the design under other priors."""
    tables = []
    for scenario in base.scenarios:
        rows = [
            [
                label,
                row.policy,
                _cell(row, "good", 2),
                _share(row.select_best),
                _cell(row, "reject", 3),
            ]
            for label, result in {"as planned": base, **variants}.items()
            for one in result.scenarios
            if one.name == scenario.name
            for row in one.policies
        ]
        earned = base.earned.capitalize()
        titles = ["Priors", "Policy", earned, "Selects best", _declares(scenario)]
        tables.append((scenario.name, titles, rows))
    return tables
