"""What was skipped, counted and named at the end of a run."""

from collections import Counter

import pytest


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Of several test processes, only the one that reports has this hook called."""
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        terminalreporter.write_line("no test was skipped")
        return
    places = Counter((report.nodeid.partition("::")[0], _reason(report)) for report in skipped)
    terminalreporter.section(f"skipped tests: {len(skipped)}")
    for (file, reason), number in sorted(places.items()):
        terminalreporter.write_line(f"{number:5} in {file}: {reason}")
