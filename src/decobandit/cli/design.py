"""`deco design`: what each policy of a design does in each scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from .. import designs, figures, support
from .. import problem as problems
from ..problem.tie_rules import DEFAULT_TIES
from .options import AllowPolicy, AsJson, OutDrawing, Ties, Tolerance, Workers, argument, shown
from .output import draw_either, ending_in, print_result, refuse_segments, say, title_of, written
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
    problem, wanted = designs.load_design(file)
    designs.check_asked(wanted, file)
    overrides = {"draws": draws, "seed": seed}
    changes = {key: value for key, value in overrides.items() if value is not None}
    wanted = wanted.model_copy(update=changes)
    settings = {"calibrate_to": calibrate, "ties": ties, "tol": tol}
    refuse_segments(problem, report=report, out=out)
    result = _computed(problem, wanted, settings, file, report)
    for line in result.notes:
        say(line)
    if result.interrupted:
        say("interrupted: these are the policies and scenarios that were finished")
    print_result(result, as_json, print_design)
    if problem.segments:
        return
    title = f"Operating characteristics: {title_of(problem)}"
    draw_either(out, partial(figures.characteristics_figure, result), title)


def _computed(
    problem: problems.Problem,
    wanted: problems.Design,
    settings: dict[str, Any],
    file: Path,
    report: Path | None,
) -> designs.DesignResult:
    """Compute the characteristics and write the report, if requested."""
    if report is None:
        with support.show_progress() as report_progress:
            return designs.operating_characteristics(
                problem, wanted, **settings, progress=report_progress
            )
    from ..designs.reporting import study_design
    from ..figures.design_report import study_page

    text = file.read_text(encoding="utf-8-sig")  # now: it may have changed when the work is done
    with support.show_progress() as report_progress:
        study = study_design(problem, wanted, **settings, progress=report_progress)
    for line in study.left_out:
        say(f"left out of the report: {line}")
    support.write_whole(report, study_page(study, file.name, text))
    written("report", report)
    return study.result


def print_design(result: designs.DesignResult) -> None:
    """One table per scenario."""
    from ..figures.design_report import VALUES

    for scenario in result.scenarios:
        _print_scenario(result, scenario)
    simulated = any(not row.exact for one in result.scenarios for row in one.policies)
    if simulated:
        print(
            f"±: one standard error; {result.design.draws:,} trials, seed {result.design.seed}; "
            "numbers without it are exact"
        )
    what = "better than control" if result.design.control is not None else "best"
    by = VALUES[result.design.compare]
    print(f"power, type I error: some arm is declared {what}, by the {by}")
    print(f"select best: a best arm has the largest posterior {by} at the end")
    print("--json has bias and RMSE of the estimates too")
    for threshold in result.calibration:
        error = (
            "exact" if threshold.exact else f"± {threshold.type_one_error_se:.4f} on fresh draws"
        )
        sure = (
            "" if threshold.confidence is None else f" with {threshold.confidence:.0%} confidence"
        )
        print(
            f"{threshold.policy}: {threshold.what} = {threshold.threshold:.6f}, type I error "
            f"{threshold.type_one_error:.4f} {error} (scenario {threshold.scenario!r}; "
            f"at most {threshold.alpha}{sure})"
        )
    if result.calibration:
        print("a trial uses these thresholds only if its file has them")


def _print_scenario(result: designs.DesignResult, scenario: designs.ScenarioResult) -> None:

    between = ", " if result.problem.is_binary else "; "
    truth = between.join(problems.described_truth(result.problem, scenario.truth))
    earned = "good" if result.problem.is_binary else "reward"
    kind = "type I error" if scenario.null else "power"
    title = f"{scenario.name}: {truth}" + (" (null)" if scenario.null else "")
    names = [f"pulls of {arm.name}" for arm in result.problem.arms[:MAX_ARM_ROWS]]
    labels = [earned, f"{earned} sd", "best share", "select best", kind, "size", "stopped"]
    labels += [] if result.problem.budget is None else ["spent", "spent, 5% to 95%"]
    labels += names
    for columns in _fitting(labels, [_column(row) for row in scenario.policies]):
        titles = ["", *(policy for policy, *_ in columns)]
        cells = [values[: len(labels)] for _, *values in columns]
        print_table(title, titles, zip(labels, *cells, strict=True), text=[""], narrow=True)
    if result.problem.n_arms > MAX_ARM_ROWS:
        print(f"pulls of the first {MAX_ARM_ROWS} arms; --json has all of them")
    if scenario.policies and scenario.policies[0].select_best is None:
        equal = "all arms are equal: there is no best one to select"
        print(equal if problems.has_unknown_means(result.problem) else problems.NO_UNKNOWN_MEANS)


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


def _money(row: designs.Characteristics, with_error: Callable[[str, int], str]) -> tuple[str, ...]:
    """Return the entries of the money spent; none without a budget."""
    if row.spent_quantiles is None:
        return ()
    low, _, high = row.spent_quantiles
    return with_error("spent", 2), f"{low:g} to {high:g}"


def _column(row: designs.Characteristics) -> list[str]:
    """Return the policy's name and its entries, the pulls of every arm last."""
    errors = row.errors or {}

    def with_error(name: str, digits: int) -> str:
        value = getattr(row, name)
        if value is None:
            return "-"
        error = errors.get(name)
        more = f" ± {error:.{digits}f}" if isinstance(error, float) else ""
        return f"{value:.{digits}f}{more}"

    return [
        row.policy,
        with_error("good", 2),
        f"{row.good_sd:.2f}",
        with_error("best_share", 3),
        with_error("select_best", 3),
        with_error("reject", 4),
        with_error("size", 1),
        with_error("stopped", 3),
        *_money(row, with_error),
        *(f"{n:.1f}" for n in row.pulls),
    ]
