"""`deco trial report`: results, deviations and the state of the log, as a page or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import AsJson, shown
from .output import ending_in, print_json, written
from .tables import MOST_ROWS, print_table
from .trial_access import By, takes_trial, user
from .trial_records import on_record

if TYPE_CHECKING:
    from ..trials import Trial
    from ..trials.report import TrialReport

OutPage = Annotated[
    Path | None,
    shown("FILE", "Write the report as one page, .html, to read and to print.",
          callback=ending_in(".html")),
]  # fmt: skip
Control = Annotated[
    str | None,
    typer.Option(
        metavar="ARM", show_default="the first arm", help="The arm that others are compared with."
    ),
]
LateAfter = Annotated[
    float, typer.Option(metavar="HOURS", min=0.01, help="Outcomes that take longer are late.")
]


@takes_trial
def report(
    here: Trial,
    out: OutPage = None,
    control: Control = None,
    late_after: LateAfter = 72.0,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Report a trial: rates, intervals, P(best), shares over time, deviations, the log's state."""
    from ..support import write_whole
    from ..trials.report_text import trial_page

    found = here.report(control=control, late_after=late_after)
    on_record(here, "report", False, user(by))
    if out is not None:
        write_whole(out, trial_page(found))
        written("report", out)
    if as_json:
        print_json(found.to_dict())
    elif out is None:
        _print_report(found)


def _print_report(found: TrialReport) -> None:
    from ..problem.models.base import rounded
    from ..trials.report_looks import look_columns
    from ..trials.report_numbers import digits, interval, probability
    from ..trials.report_text import declared, state_of

    observed = [
        [
            arm.name, rounded(arm.seen), str(arm.pending or ""), digits(arm.rate, 3),
            interval(arm.exact_interval), interval(arm.wilson_interval),
        ]
        for arm in found.arms
    ]  # fmt: skip
    binary = all(arm.good is not None for arm in found.arms)
    counts = ["good/told", "open", "rate"] if binary else ["on record", "open", "mean"]
    intervals = any(arm.exact_interval is not None for arm in found.arms)
    titles = ["arm", *counts] + ["95% exact", "95% Wilson"] * intervals
    rows = (row[: len(titles)] for row in observed[:MOST_ROWS])
    print_table(f"{found.name}: observed", titles, rows, text=["arm"])
    posterior = [
        [
            arm.name, digits(arm.posterior_mean, 3), interval(arm.credible_interval),
            probability(arm.best), probability(arm.better_than_control),
        ]
        for arm in found.arms
    ]  # fmt: skip
    titles = ["arm", "mean", "95% credible", "P(best)", f"P(better than {found.control})"]
    print_table("posterior", titles, posterior[:MOST_ROWS], text=["arm"])
    if len(found.arms) > MOST_ROWS:
        print(f"({len(found.arms) - MOST_ROWS} more arms)")
    print(state_of(found))
    if found.declared is not None:
        print(declared(found))
    if found.dropped:
        print(f"Dropped at looks: {', '.join(found.dropped)}.")
    if found.looks:
        arms, looks = look_columns(found)
        print_table("looks", ["outcomes", *arms, "came to"], looks[-MOST_ROWS:], text=["came to"])
    print(
        f"cancelled {found.cancelled}, corrected {len(found.corrections)}, late "
        f"{len(found.late)}, refused {found.refused}"
    )
    state = "intact" if found.audit.ok else "NOT INTACT"
    print(f"log: {found.audit.events} events, {state}, head {found.audit.head}")
