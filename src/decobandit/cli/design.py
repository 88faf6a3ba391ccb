"""`deco design`: what each policy of a design does in each scenario."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from .. import designs, figures, support
from .. import problem as problems
from ..problem.tie_rules import DEFAULT_TIES
from .options import AllowPolicy, AsJson, OutDrawing, Ties, Tolerance, Workers, argument, shown
from .output import draw_either, ending_in, print_result, say, title_of, written
from .tables import print_table

File = Annotated[Path, argument("FILE", "Problem file with a design (.toml, .json).")]
Calibrate = Annotated[float | None, shown("ALPHA", "Calibrate thresholds to this type I error.")]
Trials = Annotated[int | None, shown("N", "Trials to simulate.", min=1, show_default="the file's")]

MAX_ARM_ROWS = 12  # arms whose pulls are shown

OutReport = Annotated[
    Path | None,
    shown(
        "FILE", "Report with bound and sensitivity to priors (.html).", callback=ending_in(".html")
    ),
]


def design(
    file: File,
    calibrate: Calibrate = None,
    draws: Trials = None,
    seed: Annotated[
        int | None, shown("N", "Random seed.", min=0, show_default="the file's")
    ] = None,
    ties: Ties = DEFAULT_TIES,
    tol: Tolerance = 1e-4,
    allow_policy: AllowPolicy = None,
    workers: Workers = None,
    report: OutReport = None,
    out: OutDrawing = None,
    as_json: AsJson = False,
) -> None:
    """Compute the operating characteristics of a design."""
    problem, asked = designs.load_design(file)
    designs.check_asked(asked, file)
    given = {"draws": draws, "seed": seed}
    changes = {key: value for key, value in given.items() if value is not None}
    asked = asked.model_copy(update=changes)
    settings = {"calibrate_to": calibrate, "ties": ties, "tol": tol}
    found = _computed(problem, asked, settings, file, report)
    for line in found.notes:
        say(line)
    if found.interrupted:
        say("interrupted: these are the policies and scenarios that were finished")
    print_result(found, as_json, print_design)
    title = f"Operating characteristics: {title_of(problem)}"
    draw_either(out, partial(figures.characteristics_figure, found), title)


def _computed(
    problem: problems.Problem,
    asked: problems.Design,
    settings: dict[str, Any],
    file: Path,
    report: Path | None,
) -> designs.DesignResult:
    """Compute the characteristics and write the report, if requested."""
    if report is None:
        with support.show_progress() as told:
            return designs.operating_characteristics(problem, asked, **settings, progress=told)
    from ..designs.reporting import study_design
    from ..figures.design_report import study_page

    text = file.read_text(encoding="utf-8-sig")  # now: it may have changed when the work is done
    with support.show_progress() as told:
        study = study_design(problem, asked, **settings, progress=told)
    for line in study.left_out:
        say(f"left out of the report: {line}")
    support.write_whole(report, study_page(study, file.name, text))
    written("report", report)
    return study.result


def print_design(found: designs.DesignResult) -> None:
    """One table per scenario."""
    from ..figures.design_report import VALUES

    for scenario in found.scenarios:
        _print_scenario(found, scenario)
    simulated = any(not each.exact for one in found.scenarios for each in one.policies)
    if simulated:
        print(
            f"±: one standard error; {found.design.draws:,} trials, seed {found.design.seed}; "
            "numbers without it are exact"
        )
    what = "better than control" if found.design.control is not None else "best"
    by = VALUES[found.design.compare]
    print(f"power, type I error: some arm is declared {what}, by the {by}")
    print(f"select best: a best arm has the largest posterior {by} at the end")
    print("--json has bias and RMSE of the estimates too")
    for each in found.calibration:
        error = "exact" if each.exact else f"± {each.type_one_error_se:.4f} on fresh draws"
        sure = "" if each.confidence is None else f" with {each.confidence:.0%} confidence"
        print(
            f"{each.policy}: {each.what} = {each.threshold:.6f}, type I error "
            f"{each.type_one_error:.4f} {error} (scenario {each.scenario!r}; "
            f"at most {each.alpha}{sure})"
        )
    if found.calibration:
        print("a trial uses these thresholds only if its file has them")


def _print_scenario(found: designs.DesignResult, scenario: designs.ScenarioResult) -> None:

    between = ", " if found.problem.is_binary else "; "
    truth = between.join(problems.described_truth(found.problem, scenario.truth))
    earned = "good" if found.problem.is_binary else "reward"
    kind = "type I error" if scenario.null else "power"
    title = f"{scenario.name}: {truth}" + (" (null)" if scenario.null else "")
    names = [f"pulls of {arm.name}" for arm in found.problem.arms[:MAX_ARM_ROWS]]
    labels = [earned, f"{earned} sd", "best share", "select best", kind, "size", "stopped", *names]
    for columns in _fitting(labels, [_column(each) for each in scenario.policies]):
        titles = ["", *(policy for policy, *_ in columns)]
        cells = [values[: len(labels)] for _, *values in columns]
        print_table(title, titles, zip(labels, *cells, strict=True), text=[""], narrow=True)
    if found.problem.n_arms > MAX_ARM_ROWS:
        print(f"pulls of the first {MAX_ARM_ROWS} arms; --json has all of them")
    if scenario.policies and scenario.policies[0].select_best is None:
        equal = "all arms are equal: there is no best one to select"
        print(equal if problems.has_unknown_means(found.problem) else problems.NO_UNKNOWN_MEANS)


def _fitting(labels: list[str], columns: list[list[str]]) -> Iterator[list[list[str]]]:
    """Group the columns of policies so that each table fits the terminal."""
    from rich.console import Console

    room = Console().width - max(map(len, labels)) - 2
    widths = [max(map(len, column)) + 2 for column in columns]
    group: list[list[str]] = []
    for column, width in zip(columns, widths, strict=True):
        if group and sum(widths[: len(group)]) + width > room:
            yield group
            widths, group = widths[len(group) :], []
        group.append(column)
    yield group


def _column(each: designs.Characteristics) -> list[str]:
    """Return the policy's name and its entries, the pulls of every arm last."""
    errors = each.errors or {}

    def with_error(name: str, digits: int) -> str:
        value = getattr(each, name)
        if value is None:
            return "-"
        error = errors.get(name)
        more = f" ± {error:.{digits}f}" if isinstance(error, float) else ""
        return f"{value:.{digits}f}{more}"

    return [
        each.policy,
        with_error("good", 2),
        f"{each.good_sd:.2f}",
        with_error("best_share", 3),
        with_error("select_best", 3),
        with_error("reject", 4),
        with_error("size", 1),
        with_error("stopped", 3),
        *(f"{n:.1f}" for n in each.pulls),
    ]
