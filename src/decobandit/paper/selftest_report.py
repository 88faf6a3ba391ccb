"""Runs the checks of the self-test and writes what was installed, checked, expected and found."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from jinja2 import Environment

from .._version import __version__
from ..support import Check, Progress, Report

# what numbers depend on, besides our own code
PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "highspy", "pydantic", "sqlalchemy")


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
        source = files(__package__).joinpath("selftest.html.j2").read_text(encoding="utf-8")
        template = Environment(autoescape=True).from_string(source)
        return template.render(found=self, version=__version__)


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
