"""What was skipped, counted and named at the end of a run; the examples that Hypothesis makes.

They are the same in every run, and none is too slow: a busy machine is no error of ours.
`--hypothesis-profile=explore` looks for others.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("explore"), derandomize=True)
settings.load_profile("suite")


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
