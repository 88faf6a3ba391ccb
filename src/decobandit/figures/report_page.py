"""Reports: one HTML page that holds everything it needs, for the screen and for A4 paper.

A report is a list of sections, and a section is made of the parts below: paragraphs, facts, tables,
figures, commands. Whatever comes from users is text and is escaped; only `Markup` is taken as it
stands. The server puts the same parts into its own pages: both style sheets know their classes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from .page_head import HEAD

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
PAGE = HEAD + Markup("""<body>
<main>
<header>
<h1>{title}</h1>
<p class="soft">{about}</p>
</header>
{parts}
</main>
<footer>{footer}</footer>
</body>
</html>
""")
Cell = str | Markup


@cache
def _style() -> Markup:
    return Markup((files("decobandit.figures") / "report.css").read_text(encoding="utf-8"))


def report_page(title: str, parts: Iterable[Markup], *, about: str = "", footer: str = "") -> str:
    """A whole page.

    Parameters
    ----------
    title : str
        Of the page, and its heading.
    parts : iterable of Markup
        Its sections.
    about : str
        One line under the heading.
    footer : str
        One line at the end: version and time.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> from decobandit.figures.report_page import paragraph, report_page, section
    >>> page = report_page("a < b", [section("Question", paragraph("Which arm?"))])
    >>> "<title>a &lt; b</title>" in page, "<script" in page
    (True, False)
    """
    return str(
        PAGE.format(
            policy=POLICY, title=title, style=_style(), about=about, footer=footer,
            parts=Markup("\n").join(parts),
        )
    )  # fmt: skip


def section(title: str, *parts: Markup, whole: bool = False) -> Markup:
    """A heading and what belongs under it; empty parts are left out.

    `whole`: on paper it is on one page, if it fits on one.
    """
    inside = Markup("\n").join(part for part in parts if part)
    kind = "card whole" if whole else "card"
    return Markup('<section class="{}">\n<h2>{}</h2>\n{}\n</section>').format(kind, title, inside)


def paragraph(text: str, *, soft: bool = False) -> Markup:
    """Text; `soft` for what explains rather than tells."""
    return Markup('<p class="soft">{}</p>' if soft else "<p>{}</p>").format(text)


def coded(text: str) -> Markup:
    """A text whose names between backticks are set as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one of them has no partner
        return Markup.escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts)
    )


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Names and values, side by side."""
    each = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
    inside = Markup("\n").join(each.format(name, value) for name, value in pairs)
    return Markup('<dl class="facts">\n{}\n</dl>').format(inside)


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    words: Sequence[str] = (),
    caption: str = "",
) -> Markup:
    """A table. Columns have numbers, right-aligned, but for those in `words`.

    Examples
    --------
    >>> from decobandit.figures.report_page import table
    >>> str(table(["arm", "good"], [["<b>", "3"]], words=["arm"])).count("&lt;b&gt;")
    1
    """
    kinds = ["word" if title in words else "number" for title in titles]
    head = Markup("").join(
        Markup('<th scope="col" class="{}">{}</th>').format(kind, title)
        for kind, title in zip(kinds, titles, strict=True)
    )
    body = Markup("\n").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup('<td class="{}">{}</td>').format(kind, cell)
                for kind, cell in zip(kinds, row, strict=True)
            )
        )
        for row in rows
    )
    said = Markup("<caption>{}</caption>").format(caption) if caption else ""
    return Markup(
        '<div class="scroll" tabindex="0"><table>{}<thead><tr>{}</tr></thead>\n'
        "<tbody>\n{}\n</tbody></table></div>"
    ).format(said, head, body)


def drawing(svg: Markup, caption: str = "") -> Markup:
    """A figure, and what it shows."""
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(svg, caption)


def pictures(alt: str, light: bytes, dark: bytes) -> Markup:
    """A figure in two PNG files, one for white pages and paper, one for dark pages."""
    white, black = (f"data:image/png;base64,{b64encode(each).decode()}" for each in (light, dark))
    return Markup(
        '<figure><picture><source media="screen and (prefers-color-scheme: dark)" srcset="{}">'
        '<img alt="{}" src="{}"></picture></figure>'
    ).format(black, alt, white)


def commands(lines: Iterable[str]) -> Markup:
    """What to type, one command per line."""
    return Markup('<pre tabindex="0"><code>{}</code></pre>').format("\n".join(lines))


def bullets(items: Iterable[str]) -> Markup:
    """A list; nothing where there are no items."""
    inside = Markup("\n").join(Markup("<li>{}</li>").format(item) for item in items)
    return Markup("<ul>\n{}\n</ul>").format(inside) if inside else Markup("")
