"""Reports: one HTML page that holds everything it needs, for the screen and for A4 paper.

A report has a template of its own, or is a list of sections that are made of the parts below. The
HTML of all parts is in `templates/`. Whatever comes from users is text and is escaped; only
`Markup` is taken as it stands.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..support import Unsupported, write_whole

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
SECONDS = 120  # for a browser to print a page
Cell = str | Markup


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("decobandit.figures"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )


def render_page(template: str, **values: object) -> str:
    """Render a template as a page."""
    return _templates().get_template(template).render(**values) + "\n"


def render_parts(template: str, **values: object) -> Markup:
    """Render a template as parts of a page."""
    return Markup(_templates().get_template(template).render(**values).strip())


def render_part(name: str, *values: object) -> Markup:
    """Render a macro of `parts.html.j2`."""
    return Markup(getattr(_templates().get_template("parts.html.j2").module, name)(*values).strip())


def report_page(title: str, parts: Iterable[Markup], *, about: str = "", footer: str = "") -> str:
    """Return a report as a page; about: one line under the heading, footer: one at the end."""
    return render_page(
        "report.html.j2", policy=POLICY, title=title, parts=parts, about=about, footer=footer
    )


def section(title: str, *parts: Markup, whole: bool = False) -> Markup:
    """Return a section without empty parts; `whole`: on one page of paper, if it fits."""
    return render_part("section", title, parts, whole)


def paragraph(text: str, *, soft: bool = False) -> Markup:
    """Return a paragraph; `soft` for explanations."""
    return render_part("paragraph", text, soft)


def coded(text: str) -> Markup:
    """Set text between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one of them has no partner
        return Markup.escape(text)
    return render_part("coded", parts)


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    words: Sequence[str] = (),
    caption: str = "",
) -> Markup:
    """Return a table; columns are right-aligned except those in `words`."""
    return render_part("table", titles, rows, words, caption)


def drawing(svg: Markup, caption: str = "") -> Markup:
    """Return a figure with its caption."""
    return render_part("drawing", svg, caption)


def pictures(alt: str, light: bytes, dark: bytes) -> Markup:
    """Return a figure from two PNG files, for light and dark pages."""
    white, black = (f"data:image/png;base64,{b64encode(image).decode()}" for image in (light, dark))
    return render_part("pictures", alt, white, black)


def _browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


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
    browser = str(_browser())
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
