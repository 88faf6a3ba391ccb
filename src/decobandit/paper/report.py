"""One page that puts the paper's numbers beside ours: self-contained HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from .._version import __version__
from ..figures.plots import small_png
from ..figures.report_page import coded, paragraph, pictures, report_page, section, table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from matplotlib.figure import Figure

EMBEDDED_DPI = 110
CLAIMS = ("the paper", "borne out", "our numbers")


@dataclass(frozen=True)
class Table:
    """Rows as text; columns of `words` hold words rather than numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str] = ()
    caption: str = ""

    def to_markdown(self) -> str:
        """Return the table in Markdown, its caption as a heading."""
        ends = ("|:--" if name in self.words else "|--:" for name in self.header)
        lines = [self.header, *self.rows]
        head, *rows = (f"| {' | '.join(cells)} |" for cells in lines)
        caption = [f"## {self.caption}", ""] if self.caption else []
        return "\n".join([*caption, head, f"{''.join(ends)}|", *rows])


@dataclass(frozen=True)
class Section:
    """A heading, some sentences, tables, a figure; any of them may be missing."""

    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figure: Figure | None = None

    def to_markup(self) -> Markup:
        """Return the markup of a report."""
        parts = [paragraph(coded(line)) for line in self.text]
        parts += [
            table(one.header, one.rows, words=one.words, caption=one.caption) for one in self.tables
        ]
        if self.figure is not None:
            images = (small_png(self.figure, dark=d, dpi=EMBEDDED_DPI) for d in (False, True))
            parts.append(pictures(self.title, *images))
        return section(self.title, *parts)

    def to_markdown(self, command: str) -> str:
        """Return the section as a page in Markdown."""
        written = f"Written by `{command}` (decobandit {__version__})."
        tables = (table.to_markdown() for table in self.tables)
        return "\n\n".join([f"# {self.title}", written, *self.text, *tables]) + "\n"


def reproduction_page(command: str, sections: Iterable[Section]) -> str:
    """Return the page of all sections; all text is escaped."""
    about = (
        "Heymann, De Lara, Chancelier: decomposition-coordination for finite-horizon Bayesian "
        f"bandits. Written by `{command}`. Errors are standard errors."
    )
    parts = [section.to_markup() for section in sections]
    return report_page(
        "The paper, reproduced", parts, about=coded(about), footer=f"decobandit {__version__}"
    )


@dataclass(frozen=True)
class Verdict:
    """A sentence of the paper, whether our numbers bear it out, and which numbers."""

    claim: str
    holds: str  # yes, no, in part
    because: str


@dataclass(frozen=True)
class Part:
    """Result of one part of the reproduction."""

    rows: Sequence[DataclassInstance]  # of its CSV file
    section: Section
    verdicts: Sequence[Verdict] = ()


def share_of(part: Sequence[object], total: Sequence[object]) -> str:
    """Return whether a claim holds in all cases, in none, or in part."""
    return "yes" if len(part) == len(total) else "no" if not part else "in part"


def claims_section(verdicts: Sequence[Verdict]) -> Section:
    """Return the section that compares the paper's statements with our numbers."""
    rows = [(verdict.claim, verdict.holds, verdict.because) for verdict in verdicts]
    return Section(
        "What the paper says of its figures",
        ("The paper prints no numbers for Figures 3 and 4; these are its sentences.",),
        (Table(CLAIMS, rows, words=CLAIMS),),
    )
