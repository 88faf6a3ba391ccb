"""Reports as PDF, by WeasyPrint or by a Chromium browser; neither is a dependency."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from ..support import Unsupported, write_whole

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
SECONDS = 120  # for a browser to print a page


def check_pdf() -> None:
    """Refuse PDF where nothing can print it."""
    if find_spec("weasyprint") is None and _browser() is None:
        raise Unsupported(
            "report: PDF needs WeasyPrint (pip install weasyprint) or a Chromium browser; write "
            ".html and print it from a browser",
            field="report",
        )


def write_pdf(page: str, path: Path) -> None:
    """Print a self-contained HTML page to a PDF file, which appears whole or not at all."""
    check_pdf()
    if find_spec("weasyprint") is not None:
        from weasyprint import HTML

        write_whole(path, HTML(string=page).write_pdf())
        return
    browser = _browser()
    assert browser is not None
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "report.html"), Path(folder, "report.pdf")
        write_whole(source, page)
        as_root = hasattr(os, "geteuid") and os.geteuid() == 0
        options = ["--headless", "--disable-gpu", "--no-pdf-header-footer"]
        options += ["--no-sandbox"] * as_root  # browsers refuse their sandbox to root
        options += [f"--user-data-dir={folder}", f"--print-to-pdf={target}", source.as_uri()]
        done = subprocess.run(
            [browser, *options], capture_output=True, timeout=SECONDS, check=False
        )
        if done.returncode or not target.exists():
            raise Unsupported(
                f"report: {Path(browser).name} did not print the page (code {done.returncode}); "
                "write .html and print it from a browser",
                field="report",
            )
        write_whole(path, target.read_bytes())


def _browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)
