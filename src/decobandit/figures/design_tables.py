"""Tables and figures of operating characteristics: parts of reports and of the server's pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from markupsafe import Markup

from ..designs.results import Characteristics, DesignResult, ScenarioResult
from ..policies import BASELINE_POLICY
from ..problem import described_truth
from .palette import policy_styles
from .report_page import Cell, drawing, paragraph, section, table
from .rule_facts import VALUES
from .svg_figures import Interval, interval_figure, marked_policy

MAX_COLUMNS = 6  # of numbers that fit on paper side by side
WIDE = 1.959963984540054  # standard errors of a 95% interval
TITLES = [
    "Policy", "Earned", "SD", "Minus equal", "On best arm", "Selects best", "Declares",
    "Size", "Stops early",
]  # fmt: skip


def characteristics(found: DesignResult) -> list[Markup]:
    """Scenarios, what policies do in each, and how to read it: sections of a page."""
    return [
        section("Scenarios", *_scenario_list(found)),
        *(_scenario_section(each, found) for each in found.scenarios),
        section("How to read the tables", *_reading(found)),
    ]


def _scenario_list(found: DesignResult) -> list[Markup]:
    """The truth of all scenarios, and what was left out."""
    arms = [arm.name for arm in found.problem.arms]
    names = [each.name + (" (null)" if each.null else "") for each in found.scenarios]
    truths = [described_truth(found.problem, each.truth) for each in found.scenarios]
    notes = [paragraph(f"{note}.", soft=True) for note in found.notes]
    if found.interrupted:
        notes.append(paragraph("The computation was interrupted: some policies are missing."))
    return [_by_arm("Scenario", names, arms, truths), *notes]


def _scenario_section(scenario: ScenarioResult, found: DesignResult) -> Markup:
    """What policies do in a scenario."""
    return section(f"Scenario {scenario.name}", *_characteristics(scenario, found), whole=True)


def _characteristics(scenario: ScenarioResult, found: DesignResult) -> list[Markup]:
    if not scenario.policies:
        return [paragraph("No policy was computed in this scenario.")]
    equal = next((each for each in scenario.policies if each.policy == BASELINE_POLICY), None)
    rows = [_row(each, equal) for each in scenario.policies]
    declares = _declares(scenario)
    said = {"Declares": declares, "Earned": found.earned.capitalize()}
    titles = [said.get(title, title) for title in TITLES]
    arms = [arm.name for arm in found.problem.arms]
    names = [each.policy for each in scenario.policies]
    pulls = [
        list(map("{:.1f} ({:.1f})".format, each.pulls, each.pulls_sd)) for each in scenario.policies
    ]
    return [
        table(titles, rows, words=["Policy"]),
        drawing(
            _figure(scenario, "good", f"{found.earned} per trial", equal),
            f"{found.earned.capitalize()} of a trial, mean, with 95% intervals of the simulation "
            "where there is one. Dashed: equal allocation.",
        ),
        drawing(
            _figure(scenario, "reject", declares[0].lower() + declares[1:], equal),
            f"{declares}, likewise.",
        ),
        _by_arm("Policy", names, arms, pulls, caption="Pulls of each arm: mean (SD)"),
    ]  # fmt: skip


def _by_arm(
    what: str, names: list[str], arms: list[str], cells: list[list[str]], caption: str = ""
) -> Markup:
    """Cells of names by arms; with one row per arm where the arms would not fit side by side."""
    if len(arms) > MAX_COLUMNS > len(names):
        what, names, arms, cells = (
            "Arm",
            arms,
            names,
            [list(each) for each in zip(*cells, strict=True)],
        )
    rows = [[name, *row] for name, row in zip(names, cells, strict=True)]
    return table([what, *arms], rows, words=[what], caption=caption)


def _figure(
    scenario: ScenarioResult, name: str, axis: str, equal: Characteristics | None
) -> Markup:
    """One characteristic of all policies, with intervals."""
    drawn, (least, most) = [], (0.0, 1.0) if name == "reject" else (-inf, inf)
    styles = policy_styles(each.policy for each in scenario.policies)
    for each in scenario.policies:
        value, wide = getattr(each, name), WIDE * _error(each, name)
        low, high = max(value - wide, least), min(value + wide, most)
        drawn.append(Interval(each.policy, value, low, high, colour=styles[each.policy].colour))
    label = f"{axis} of each policy in scenario {scenario.name}"
    line = None if equal is None else getattr(equal, name)
    return interval_figure(drawn, label=label, axis=axis, line=line)


def _declares(scenario: ScenarioResult) -> str:
    return "Type I error" if scenario.null else "Power"


def _row(each: Characteristics, equal: Characteristics | None) -> list[Cell]:
    less = "–" if equal is None or each is equal else f"{each.good - equal.good:+.2f}"
    return [
        marked_policy(each.policy),
        with_error(each.good, _error(each, "good"), 2),
        f"{each.good_sd:.2f}",
        less,
        _share(each.best_share),
        _share(each.select_best),
        with_error(each.reject, _error(each, "reject"), 3),
        f"{each.size:.1f} ({each.size_sd:.1f})",
        _share(each.stopped),
    ]


def _error(each: Characteristics, name: str) -> float:
    found = (each.errors or {}).get(name)
    return found if isinstance(found, float) else 0.0


def with_error(value: float, error: float, digits: int) -> str:
    """A number, ± its standard error where there is one."""
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100.0 * value:.1f}%"


def _reading(found: DesignResult) -> list[Markup]:
    """What the columns mean."""
    against = "control" if found.design.control is not None else "all others"
    by = VALUES[found.design.compare]
    fewer = (
        "has fewer outcomes, good ones too" if found.problem.is_binary else "earns in fewer pulls"
    )
    return [
        paragraph(
            f"{found.earned.capitalize()}: mean per trial, ± one standard error where simulated; "
            "SD over trials. Minus equal: difference from equal allocation. On best arm: share of "
            "pulls that a best arm gets. Selects best: probability that the largest posterior "
            f"{by} at the end is that of a best arm. Power, type I error: probability to declare "
            f"some arm better than {against}, by the {by}. Size: mean number of pulls (SD). Stops "
            f"early: before the last stage; such a trial {fewer}.",
            soft=True,
        )
    ]  # fmt: skip


def sensitivity_tables(found: DesignResult, others: Mapping[str, DesignResult]) -> list[Markup]:
    """The same design with other priors, scenario by scenario."""
    every = {"as planned": found, **others}
    parts = []
    for scenario in found.scenarios:
        rows = [
            [
                said, each.policy, with_error(each.good, _error(each, "good"), 2),
                _share(each.select_best), with_error(each.reject, _error(each, "reject"), 3),
            ]
            for said, result in every.items()
            for each in _of(result, scenario.name)
        ]  # fmt: skip
        earned = found.earned.capitalize()
        titles = ["Priors", "Policy", earned, "Selects best", _declares(scenario)]
        words = ["Priors", "Policy"]
        parts.append(table(titles, rows, words=words, caption=f"Scenario {scenario.name}"))
    return parts


def _of(result: DesignResult, scenario: str) -> Iterable[Characteristics]:
    return next((each.policies for each in result.scenarios if each.name == scenario), ())
