"""Runs the checks of the self-test and writes what was installed, checked, expected and found."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from markupsafe import Markup

from .._version import __version__
from ..figures.report_page import Cell, paragraph, report_page, section, table
from ..support import Check, Progress, Report

# what numbers depend on, besides our own code
PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "highspy", "pydantic", "sqlalchemy")
TITLES = ("checked", "against", "expected", "found", "within", "verdict")
WORD_TITLES = ("checked", "against", "verdict")
ABOUT = (
    "Each number below was computed on this machine and compared with one that decobandit did not "
    "compute: published by others, found by a slow version in plain Python, by a linear program, "
    "or by another library. Estimates may be off by four standard errors."
)


@dataclass(frozen=True)
class Selftest:
    """The checks of one run, and where it was made."""

    checks: tuple[Check, ...]
    installed: dict[str, str]
    made_at: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether there are checks and all hold."""
        return bool(self.checks) and not self.failed

    @property
    def failed(self) -> list[Check]:
        """Those that do not hold."""
        return [check for check in self.checks if not check.ok]

    def by_area(self) -> dict[str, list[Check]]:
        """Checks of each part of the program, in order."""
        found: dict[str, list[Check]] = {}
        for check in self.checks:
            found.setdefault(check.area, []).append(check)
        return found

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "ok": self.ok,
            "version": __version__,
            "made_at": self.made_at,
            "seconds": self.seconds,
            "installed": self.installed,
            "checks": [check.to_dict() for check in self.checks],
        }

    def to_html(self) -> str:
        """One page without anything from outside."""
        number, failed = len(self.checks), len(self.failed)
        found = f"All {number} checks hold" if self.ok else f"{failed} of {number} checks failed"
        title = f"decobandit {__version__}: self-test"
        about = f"{self.made_at[:19].replace('T', ' ')} UTC, in {self.seconds:.0f} s"
        areas = (
            section(
                area[0].upper() + area[1:], table(TITLES, map(_cells, checks), words=WORD_TITLES)
            )
            for area, checks in self.by_area().items()
        )
        parts = [section(found, paragraph(ABOUT)), *areas, section("Installed", self._installed())]
        return report_page(title, parts, about=about, footer="deco selftest --report FILE")

    def _installed(self) -> Markup:
        return table(("package", "version"), self.installed.items(), words=("package", "version"))


def _cells(check: Check) -> tuple[Cell, ...]:
    """A check as a row; one that failed is seen at once."""
    rule = "" if check.rule == "equal" else f"{check.rule} "
    cells: tuple[Cell, ...] = (
        check.what, check.oracle, f"{rule}{check.expected:.10g}", f"{check.found:.10g}",
        f"{check.tolerance:.1g}", "holds" if check.ok else "FAILED",
    )  # fmt: skip
    return cells if check.ok else tuple(map(Markup("<strong>{}</strong>").format, cells))


def run_checks(
    groups: Sequence[Callable[[], Iterator[Check]]], progress: Report | None = None
) -> Selftest:
    """Run all checks, one group after the other."""
    began, checks = time.perf_counter(), list[Check]()
    for done, group in enumerate(groups):
        if progress is not None:
            progress(Progress("selftest", done, len(groups)))
        checks.extend(group())
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return Selftest(tuple(checks), installed(), at, time.perf_counter() - began)


def installed() -> dict[str, str]:
    """What the numbers were computed with."""
    found = {
        "decobandit": __version__,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
    }
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
