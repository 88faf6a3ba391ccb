"""The report of a design for a committee: one page, in a statistician's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from platform import python_version

import numpy as np
from markupsafe import Markup

from .._version import __version__
from ..bounds import MEANINGS, BestBound
from ..designs.reporting import DesignStudy
from ..designs.results import DesignResult
from ..policies import BASELINE_POLICY
from ..problem import ArmModel, Problem
from .design_tables import characteristics, sensitivity_tables, with_error
from .report_page import (
    bullets,
    commands,
    drawing,
    facts,
    paragraph,
    report_page,
    section,
    table,
)
from .rule_facts import number_of_pulls, rule_facts, stopping
from .svg_figures import density_figure

MAX_PRIORS = 10  # drawn
LIBRARIES = ("numpy", "scipy", "numba")
REPORT = "report.html"  # as the commands of a report call it


def study_page(found: DesignStudy, name: str, text: str) -> str:
    """The report of a design that was computed for it.

    Parameters
    ----------
    found : DesignStudy
        What it says.
    name, text : str
        Of the problem file with the design, which is printed.

    Returns
    -------
    str
        HTML.
    """
    return design_page(
        found.result, bound=found.bound, sensitivity=found.sensitivity, left_out=found.left_out,
        again=["deco --version", found.command(name, REPORT)], file=(name, text),
        question=found.result.design.question,
    )  # fmt: skip


def design_page(
    found: DesignResult,
    *,
    bound: BestBound | None = None,
    sensitivity: Mapping[str, DesignResult] | None = None,
    again: Sequence[str] = (),
    file: tuple[str, str] | None = None,
    left_out: Sequence[str] = (),
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
        section("Question", *_question(found, question)),
        section("Design and rules", *_rules(found)),
        section("Priors", *_priors(found.problem), whole=True),
        *characteristics(found),
    ]  # fmt: skip
    if bound is not None:
        parts.append(section("Bound", *_bound(bound)))
    if found.calibration:
        parts.append(section("Calibration", *_calibration(found)))
    if sensitivity:
        parts.append(section("Sensitivity to priors", *_sensitivity(found, sensitivity)))
    if left_out:
        parts.append(section("Left out", bullets(left_out)))
    parts.append(section("To compute it again", *_again(found, again, file)))
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
        ("Stages", f"{problem.horizon}, {number_of_pulls(problem.pulls_per_stage)} each"),
        *rule_facts(design),
        ("Ties", found.ties),
    ]
    parts = [facts(pairs), stopping(design)]
    if found.calibration:
        keys = ", ".join(dict.fromkeys(each.what for each in found.calibration))
        said = f"The results use calibrated values of {keys}, in the section Calibration."
        parts.append(paragraph(f"{said} A trial uses them only if its file has them."))
    return parts


def _priors(problem: Problem) -> list[Markup]:
    kinds = [problem.groups[k].model for k in problem.group_of_arm]
    binary = problem.is_binary
    rows = [
        [arm.name, *([] if binary else [kind.outcomes]), kind.describe(kind.initial()),
         f"{float(kind.mean(np.array(kind.initial(), dtype=float))):.3f}", _pulls_of_prior(kind)]
        for arm, kind in zip(problem.arms, kinds, strict=True)
    ]  # fmt: skip
    titles = ["Arm", "Outcomes", "Prior", "Mean", "Effective sample size"]
    titles = [title for title in titles if title != "Outcomes" or not binary]
    names = [arm.name for arm in problem.arms[:MAX_PRIORS]]
    what = "success probability" if binary else "mean outcome"
    drawn = density_figure(names, kinds[:MAX_PRIORS], label="Densities of the priors", axis=what)
    several = "success probabilities" if binary else "mean outcomes"
    return [
        table(titles, rows, words=["Arm", "Outcomes", "Prior"]),
        drawing(drawn, f"Densities of the priors of the {several}."),
        paragraph(
            "Effective sample size: the outcomes that a prior is worth"
            + (", the sum of its pseudo-counts." if binary else "."),
            soft=True,
        ),
    ]


def _pulls_of_prior(kind: ArmModel) -> str:
    return "–" if kind.prior_pulls is None else f"{kind.prior_pulls:.4g}"


# -- bound, calibration, sensitivity ------------------------------------------------------------


def _bound(bound: BestBound) -> list[Markup]:
    return [
        paragraph(
            f"Under the priors, no policy has an expected total reward above {bound.value:.3f} "
            f"({MEANINGS[bound.kind]}). The bound holds for any rule that allocates all pulls; "
            "scenarios fix what is true and may be above or below it."
        )
    ]


def _calibration(found: DesignResult) -> list[Markup]:
    rows = [
        [
            each.policy, each.what, f"{each.alpha:g}", f"{each.threshold:.4f}",
            with_error(each.type_one_error, each.type_one_error_se, 4), each.scenario,
        ]
        for each in found.calibration
    ]  # fmt: skip
    titles = ["Policy", "Threshold of", "Type I error at most", "Threshold", "Type I error", "In"]
    parts = [table(titles, rows, words=["Policy", "Threshold of", "In"])]
    sure = [each.confidence for each in found.calibration if each.confidence is not None]
    if sure:
        said = (
            "Thresholds are fitted on simulated trials of their own, so that the true type I error "
            f"is at most the level with {max(sure):.0%} confidence; the "
            "type I error shown is of other trials, ± one standard error."
        )
        parts.append(paragraph(said, soft=True))
    return parts


def _sensitivity(found: DesignResult, others: Mapping[str, DesignResult]) -> list[Markup]:
    said = (
        "The truth of the scenarios stays; policies, looks and test start from other priors. "
        "Half and twice the effective sample sizes keep the means."
    )
    fewer = {each.design.draws for each in others.values()}
    if not _all_exact([found, *others.values()]):
        said += f" Simulated: {found.design.draws:,} trials as planned, " + ", ".join(
            f"{draws:,} with each of the other priors." for draws in fewer
        )
    if found.calibration:
        said += " Thresholds are calibrated for each prior."
    return [paragraph(said, soft=True), *sensitivity_tables(found, others)]


def _all_exact(results: Sequence[DesignResult]) -> bool:
    return all(
        each.exact for one in results for scenario in one.scenarios for each in scenario.policies
    )


def _again(found: DesignResult, again: Sequence[str], file: tuple[str, str] | None) -> list[Markup]:
    how = (
        "All numbers are exact."
        if _all_exact([found])
        else f"Numbers with ± are simulated: {found.design.draws:,} trials for each policy and "
        f"scenario, seed {found.design.seed}. The others are exact."
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
    """Versions that numbers may depend on."""
    named = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return f"Python {python_version()}, {named}"
