"""The figures of a run: printed, and written into docs/reliability.md."""

import os
import platform
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from helpers.faults.campaign import POSTGRESQL, SQLITE, WRITE_AHEAD, Tally
from helpers.faults.history import OK, READS, REFUSED, UNKNOWN, WRITES

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: written by make test-faults -->", "<!-- end of figures -->"
KINDS = (
    "lost",
    "doubled",
    "unasked",
    "order",
    "stale",
    "answer",
    "cap",
    "log",
    "chain",
    "error",
    "silent",
    "verify",
    "failed",
)


def figures(tally: Tally) -> str:
    """The run as Markdown."""
    every = (SQLITE, WRITE_AHEAD, POSTGRESQL)
    databases = [name for name in every if any(d == name for d, _ in tally.faults)]
    names = sorted({kind for _, kind in tally.faults})
    faults = [
        [name, *(f"{tally.faults[database, name]:,}" for database in databases)] for name in names
    ]
    faults.append(["**all**", *(f"{_of(tally, database):,}" for database in databases)])
    operations = [
        [kind, *(f"{tally.operations[kind, outcome]:,}" for outcome in (OK, REFUSED, UNKNOWN))]
        for kind in (*WRITES, *READS)
    ]
    return "\n\n".join(
        [
            _summary(tally),
            _table(["fault", *databases], faults),
            _table(["operation", "answered", "refused", "unknown"], operations),
            _table(["violation", "found"], [[kind, str(_found(tally, kind))] for kind in KINDS]),
        ]
    )


def _summary(tally: Tally) -> str:
    requests, whole = tally.requests, "" if tally.whole else " (interrupted)"
    machine = (
        f"{os.cpu_count()} cores ({platform.system()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version})"
    )
    return (
        f"Run of {datetime.now(UTC):%d %B %Y}{whole}, seed {tally.seed}: {tally.struck:,} faults "
        f"in {tally.worlds} databases, one after the other, in {tally.seconds / 60:.0f} minutes on "
        f"{machine}. {tally.operations.total():,} operations, {tally.events:,} events. "
        f"{requests['acknowledged']:,} requests to change a trial were acknowledged: "
        f"**{_found(tally, 'lost')} lost, {_found(tally, 'doubled')} doubled**. Of "
        f"{requests['unknown']:,} whose fate no client learned, {requests['unknown, done']:,} are "
        "in the log and the others are not. "
        f"{tally.damaged:,} answers called the database damaged, as SQLite does where a read fails."
        f"{_recoveries(tally)}"
    )


def _recoveries(tally: Tally) -> str:
    if not tally.recovery:
        return ""
    times = "; ".join(
        f"{database} {median(seconds):.2f} s, at most {max(seconds):.1f} s, {len(seconds):,} cuts"
        for database, seconds in tally.recovery.items()
    )
    return (
        f"\n\nPower cuts lost {_found(tally, 'lost')} acknowledged requests (RPO 0). "
        "Time from the restart to the first new allocation (RTO, median, with all logs checked): "
        f"{times}."
    )


def _of(tally: Tally, database: str) -> int:
    return sum(number for (of, _), number in tally.faults.items() if of == database)


def _found(tally: Tally, kind: str) -> int:
    return sum(re.match(rf"world \d+: {kind}: ", text) is not None for text in tally.wrong)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in titles[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in (titles, rule, *rows))


def write_page(text: str) -> None:
    """Put the figures where the page has room for them."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
