"""`deco design`: what each policy of a design does in each scenario."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import designs, figures, support
from .. import problem as problems
from ..problem.ties import DEFAULT_TIES
from . import options, output
from .options import argument, shown
from .output import FIGURES, LATEX, PAGES, print_table, say

FILES = (".toml", ".json")
OF_PAPERS = [  # columns of a LaTeX table
    *("scenario", "policy", "good", "best_share", "select_best"),
    *("reject", "reject_best", "reject_wrong", "size", "stopped"),
]
MAX_ARM_ROWS = 12  # arms whose pulls are shown
OF_FILE = "the file's"


def design(
    file: Annotated[Path, argument("FILE", "Problem file with a design (.toml, .json).")],
    calibrate: Annotated[
        float | None, shown("ALPHA", "Calibrate thresholds to this type I error.")
    ] = None,
    power: Annotated[float | None, shown("P", "Find the smallest horizon with this power.")] = None,
    alpha: Annotated[
        float | None, shown("ALPHA", "Type I error of --power.", show_default="0.05")
    ] = None,
    policy: Annotated[str | None, shown("NAME", "Only this policy.", show_default=OF_FILE)] = None,
    draws: Annotated[
        int | None, shown("N", "Trials to simulate.", min=1, show_default=OF_FILE)
    ] = None,
    seed: Annotated[int | None, shown("N", "Random seed.", min=0, show_default=OF_FILE)] = None,
    ties: options.Ties = DEFAULT_TIES,
    tol: options.Tolerance = 1e-4,
    allow_policy: options.AllowPolicy = None,
    workers: options.Workers = None,
    inference: Annotated[
        bool, typer.Option("--inference", help="Simulate bias and coverage of estimates.")
    ] = False,
    report: Annotated[
        Path | None,
        shown(
            "FILE",
            "Report with bounds and other priors (.html, .pdf).",
            callback=output.check_report,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        shown(
            "FILE",
            "Figure, .tex table, calibrated design (.toml, .json).",
            callback=output.ending_in(*FIGURES, *PAGES, *LATEX, *FILES),
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compute operating characteristics of a design, or its sample size."""
    saved = out if out is not None and out.suffix.lower() in FILES else None
    if power is not None and calibrate is not None:
        raise typer.BadParameter("--power: calibrates to --alpha; leave --calibrate out")
    if alpha is not None and power is None:
        raise typer.BadParameter("--alpha: give --power too, or use --calibrate ALPHA")
    if saved is not None and power is None and calibrate is None:
        why = "gets calibrated thresholds; give --calibrate ALPHA, or --power"
        raise typer.BadParameter(f"--out: {saved} {why}")
    if power is not None and inference:
        raise typer.BadParameter("--inference: use it without --power, at the horizon of the file")
    problem, wanted = designs.load_design(file)
    policies = None if policy is None else (policy,)
    overrides = {"draws": draws, "seed": seed, "policies": policies}
    changes = {key: value for key, value in overrides.items() if value is not None}
    wanted = wanted.model_copy(update=changes)
    designs.check_asked(wanted, file)
    output.refuse_segments(problem, report=report, out=out)
    settings: dict[str, Any] = {"ties": ties, "tol": tol, "calibrate_to": calibrate}
    size = None
    if power is not None:
        with support.show_progress() as progress:
            size = designs.sample_size(
                problem,
                wanted,
                power=power,
                alpha=0.05 if alpha is None else alpha,
                ties=ties,
                tol=tol,
                progress=progress,
            )
        problem, result = size.result.problem, size.result
        settings["calibrate_to"] = size.calibrate_to
        if report is not None:
            _write_report(problem, result.design, settings, file, report, size)
        output.print_result(size, as_json, _print_sample_size)
    else:
        if report is not None:
            result = _write_report(problem, wanted, settings, file, report)
        else:
            with support.show_progress() as progress:
                result = designs.operating_characteristics(
                    problem, wanted, **settings, inference=inference, progress=progress
                )
        for line in result.notes:
            say(line)
        if result.interrupted:
            say("interrupted: these are the policies and scenarios that were finished")
        output.print_result(result, as_json, _print_design)
    if saved is not None:
        problems.save_problem(problem, saved, design=result.calibrated)
        output.written("design with its thresholds", saved)
    elif not problem.segments:
        title = f"Operating characteristics: {problem.described()}"
        figure = partial(figures.characteristics_figure, result)
        columns, names = (result.columns, OF_PAPERS) if size is None else (size.columns, ())
        output.write_out(out, columns, figure, title, names=names)


def _write_report(
    problem: problems.Problem,
    wanted: problems.Design,
    settings: dict[str, Any],
    file: Path,
    report: Path,
    size: designs.SampleSize | None = None,
) -> designs.DesignResult:
    """Compute what a report says and write it; `size`: the search for its horizon."""
    from ..designs.reporting import study_design
    from ..figures.design_report import study_page

    text = file.read_text(encoding="utf-8-sig")  # now: it may have changed when the work is done
    with support.show_progress() as progress:
        study = study_design(problem, wanted, **settings, progress=progress)
    for line in study.left_out:
        say(f"left out of the report: {line}")
    output.write_report(report, study_page(study, file.name, text, size))
    return study.result


def _print_sample_size(size: designs.SampleSize) -> None:
    rows = [
        [
            f"{one.horizon:,}",
            f"{one.power:.4f}" + (f" ± {one.power_se:.4f}" if one.draws else ""),
            "-" if one.type_i_error is None else f"{one.type_i_error:.4f}",
            "-" if one.threshold is None else f"{one.threshold:.6f}",
            "exact" if one.draws is None else f"{one.draws:,}",
        ]
        for one in size.tried
    ]
    titles = ["stages", "power", "type I error", "threshold", "trials"]
    print_table(f"{size.policy}: horizons tried", titles, rows)
    print("power: a best arm is declared, in the scenario where that is least likely")
    print(
        f"{size.horizon} stages: power {size.best.power:.4f}, at least {size.target:g}; "
        f"threshold {size.best.threshold:.6f}"
    )


def _print_design(result: designs.DesignResult) -> None:
    from ..figures.design_report import VALUES

    for scenario in result.scenarios:
        _print_scenario(result, scenario)
    _print_inference(result)
    simulated = any(not row.exact for one in result.scenarios for row in one.policies)
    if simulated:
        print(f"±: one standard error; {result.design.draws:,} trials, seed {result.design.seed}")
        print("numbers without it are exact")
    what = "better than control" if result.design.control is not None else "best"
    by = VALUES[result.design.compare]
    print(f"power, type I error: some arm is declared {what}")
    print(f"best declared: a best arm that is {what}; wrong declared: not so")
    print("select best: P(the best arm of the posterior at the end is a best one)")
    print(f"arms are compared by the {by}")
    print("predictable: share of allocations that are guessed from all earlier outcomes")
    print("--json has bias and RMSE of the estimates too")
    for one in result.calibration:
        error = "exact" if one.exact else f"± {one.type_one_error_se:.4f} on fresh draws"
        sure = "" if one.confidence is None else f" with {one.confidence:.0%} confidence"
        print(
            f"{one.policy}: {one.what} = {one.threshold:.6f}, type I error\n  "
            f"{one.type_one_error:.4f} {error} (scenario {one.scenario!r}; "
            f"at most {one.alpha}{sure})"
        )
    if result.calibration:
        print("a trial uses these thresholds if its file has them: --out FILE.toml")


def _print_scenario(result: designs.DesignResult, scenario: designs.ScenarioResult) -> None:
    truth = problems.described_truth(result.problem, scenario.truth)
    between, earned = (", ", "good") if result.problem.is_binary else ("; ", "reward")
    title = f"{scenario.name}: {between.join(truth)}" + (" (null)" if scenario.null else "")
    kind = "type I error" if scenario.null else "power"
    arms = [arm.name for arm in result.problem.arms[:MAX_ARM_ROWS]]
    columns = [(row.policy, _entries(row, arms, earned, kind)) for row in scenario.policies]
    for group in _fitting(columns):
        titles = ["", *(policy for policy, _ in group)]
        rows = [
            [label, *(entries[label] for _, entries in group)]
            for label in (group[0][1] if group else ())
        ]
        print_table(title, titles, rows, text=[""], narrow=True)
    if result.problem.n_arms > MAX_ARM_ROWS:
        print(f"pulls of the first {MAX_ARM_ROWS} arms; --json has all of them")
    if scenario.policies and scenario.policies[0].select_best is None:
        equal = "all arms are equal: there is no best one to select"
        print(equal if problems.has_unknown_means(result.problem) else problems.NO_UNKNOWN_MEANS)


def _entries(
    row: designs.Characteristics, arms: list[str], earned: str, kind: str
) -> dict[str, str]:
    """Return the entries of a policy by their labels, the pulls of every arm last."""
    errors = row.errors or {}

    def entry(name: str, digits: int) -> str:
        value, error = getattr(row, name), errors.get(name)
        if value is None:
            return "-"
        more = f" ± {error:.{digits}f}" if isinstance(error, float) else ""
        return f"{value:.{digits}f}{more}"

    entries = {
        earned: entry("good", 2),
        f"{earned} sd": f"{row.good_sd:.2f}",
        "best share": entry("best_share", 3),
        "select best": entry("select_best", 3),
        kind: entry("reject", 4),
        "best declared": entry("reject_best", 4),
        "wrong declared": entry("reject_wrong", 4),
    }
    for arm, p in zip(arms, row.reject_by_arm, strict=False):
        entries[f"{arm} declared"] = f"{p:.4f}"
    entries |= {
        "size": entry("size", 1),
        "stopped": entry("stopped", 3),
        "predictable": entry("predictability", 3),
    }
    if row.spent_quantiles is not None:
        low, _, high = row.spent_quantiles
        entries |= {"spent": entry("spent", 2), "spent, 5% to 95%": f"{low:g} to {high:g}"}
    for arm, pulls in zip(arms, row.pulls, strict=False):
        entries[f"pulls of {arm}"] = f"{pulls:.1f}"
    return entries


Column = tuple[str, dict[str, str]]  # a policy, and its entries by label


def _fitting(columns: list[Column]) -> Iterator[list[Column]]:
    """Group the columns of policies so that each table fits the terminal."""
    from rich.console import Console

    room = Console().width - 2 - max((len(label) for _, one in columns for label in one), default=0)
    group, used = list[Column](), 0
    for policy, entries in columns:
        width = max(map(len, [policy, *entries.values()])) + 2
        if group and used + width > room:
            yield group
            group, used = [], 0
        group.append((policy, entries))
        used += width
    yield group


def _print_inference(result: designs.DesignResult) -> None:
    """Print bias and coverage of estimates, if asked for, and what is left out."""
    from ..figures.design_report import INFERENCE, inference_rows

    rows = [(one, row) for one in result.scenarios for row in one.policies]
    for scenario, row in rows:
        if row.inference:
            title = f"{scenario.name}, {row.policy}: estimates and 95% intervals"
            print_table(title, INFERENCE, inference_rows(row), text=INFERENCE[:2], narrow=True)
    reasons = {
        f"{row.policy}: left out: {methods}\n  {reason}": None
        for _, row in rows
        for methods, reason in row.inference_left_out.items()
    }
    for line in reasons:
        print(line)
    if any(row.inference for _, row in rows):
        print("below: share of estimates below the truth; cover: share of intervals around it;")
        print(f"{max(one.trials for _, row in rows for one in row.inference):,} simulated trials")
