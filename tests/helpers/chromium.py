"""A real browser for tests."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CI = os.environ.get("CI") == "true"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def missing(what: str) -> None:
    """Where the tests must run, a browser that is not there is a failure."""
    if CI:
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright for Python is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing(f"no browser is installed: none of {', '.join(PROGRAMS)}")
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"] if as_root else []
        )
        yield browser
        browser.close()
