"""`deco selftest`: checks of this installation against numbers that are not ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .files import check_writable, written
from .options import AsJson
from .output import print_json, say

if TYPE_CHECKING:
    from ..paper.selftest_report import Selftest
    from ..support import Check

FAILED = 1


def selftest(
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=check_writable,
            help="Write what was checked, expected and found, as one page of HTML.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check this installation: published numbers, slow and obvious versions, a trial's log.

    Takes a minute or two, most of it for compiling. Ends with code 1 where a check fails.
    """
    from ..paper.selftest import CHECKS
    from ..paper.selftest_report import run_checks
    from ..support import show_progress, write_whole

    checks = [*CHECKS, *_checks_of_the_log()]
    with show_progress() as told:
        found = run_checks(checks, told)
    if report is not None:
        write_whole(report, found.to_html())
        written("report", report)
    if as_json:
        print_json(found.to_dict())
    else:
        _show(found)
    if not found.ok:
        raise typer.Exit(FAILED)


def _checks_of_the_log() -> list[Callable[[], Iterator[Check]]]:
    if find_spec("sqlalchemy") is not None:
        from ..trials.selftest import check_log

        return [check_log]
    say("the log of trials is not checked: the extra 'trials' is not installed")
    return []


def _show(found: Selftest) -> None:
    from .tables import print_table

    rows = [
        (area, str(len(checks)), str(sum(not check.ok for check in checks)))
        for area, checks in found.by_area().items()
    ]
    print_table("Self-test", ["area", "checks", "failed"], rows, text=["area"])
    for check in found.failed:
        print(
            f"FAILED {check.area}: {check.what}: found {check.found!r}, expected {check.rule} "
            f"{check.expected!r} within {check.tolerance:.2g} ({check.oracle})"
        )
    verdict = "all checks hold" if found.ok else f"{len(found.failed)} checks failed"
    print(f"{verdict}; {found.seconds:.0f} s")
