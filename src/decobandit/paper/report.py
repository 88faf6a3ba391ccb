"""One page that puts the paper's numbers beside ours: self-contained HTML."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING

from jinja2 import Environment

from .._version import __version__
from . import designs, values
from .batches import Row as BatchRow
from .claims import Verdict
from .table1 import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Section:
    """A heading, some sentences, a table, a figure; any of them may be missing."""

    title: str
    text: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    words: bool = False  # the table holds sentences rather than numbers
    figure: str = ""  # PNG in base64


@dataclass
class ReportPage:
    """Sections in order."""

    command: str
    sections: list[Section] = field(default_factory=list)

    def to_html(self) -> str:
        """The page; everything in it is escaped."""
        source = resources.files(__package__).joinpath("report.html.j2")
        template = Environment(autoescape=True).from_string(source.read_text(encoding="utf-8"))
        return template.render(
            command=self.command, version=__version__, sections=self.sections
        )  # fmt: skip


def embedded(figure: Figure) -> str:
    """A figure as PNG in base64."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return base64.b64encode(content.getvalue()).decode("ascii")


def table1_section(rows: Sequence[Row]) -> Section:
    """Values and differences, row by row."""
    header = (
        "arms", "T", "paper: best known", "ours, exact", "difference", "paper: DeCo",
        "ours, exact", "difference", "ours, simulated", "calibrated", "upper bound",
    )  # fmt: skip
    lines = []
    for row in rows:
        paper = row.paper_bf if row.paper_bf is not None else row.paper_fh
        ours = row.optimum if row.paper_bf is not None else row.fh_gittins
        assert paper is not None
        lines.append(
            (
                str(row.arms), str(row.horizon),
                f"{paper:.3f} ({'optimum' if row.paper_bf is not None else 'FH-Gittins'})",
                "-" if ours is None else f"{ours:.6f}",
                "-" if ours is None else f"{ours - paper:+.4f}",
                f"{row.paper_deco:.3f}", f"{row.deco:.6f}", f"{row.deco - row.paper_deco:+.4f}",
                f"{row.deco_simulated:.4f} ± {row.deco_error:.4f}",
                f"{row.deco_calibrated:.6f}", f"{row.upper_bound:.6f}",
            )
        )  # fmt: skip
    return Section(
        "Table 1: expected total reward",
        (
            "The paper's figures are simulated, ours are exact up to rounding. Where they differ "
            "by a few thousandths, that is simulation noise: in the first row the paper's DeCo is "
            "above the optimum.",
            "Our DeCo differs from the paper's by up to 0.12; we have not found the cause. Tighter "
            "prices do not earn more by themselves: with 15 arms and 40 pulls DeCo earns 31.590, "
            "31.565 and 31.560 at prices to 1e-2, 1e-4 and 1e-6 (simulated on common draws; the "
            "last is below the first by 0.030 ± 0.002). Several prices are nearly minimal, and "
            "DeCo's value depends on which of them is found.",
        ),
        header,
        lines,
    )


def batches_section(rows: Sequence[BatchRow]) -> Section:
    """Simple regret in batches, beside published figures."""
    lines = [
        (
            row.prior, str(row.arms), str(row.horizon), row.policy,
            "-" if row.published is None else f"{row.published:.5f}",
            f"{row.regret:.5f} ± {row.regret_se:.5f}", f"{row.unavoidable:.5f}",
        )
        for row in rows
    ]  # fmt: skip
    return Section(
        "Batches: simple regret",
        ("Batches of 100 pulls; published by Che and Namkoong, arXiv 2303.11582.",),
        ("prior", "arms", "batches", "policy", "published", "ours", "no policy has less"),
        lines,
    )


def designs_section(found: designs.Reproduced) -> Section:
    """Operating characteristics beside published numbers."""
    return Section(
        "Designs: operating characteristics",
        (designs.said_of_time(found.timed), *designs.NOTES),
        designs.HEADER,
        [designs.cells(row) for row in found.rows],
        words=True,
    )


def values_section(rows: Sequence[values.Row]) -> Section:
    """Values of policies beside published ones."""
    return Section(
        "Values of policies",
        (values.SOURCE, *values.NOTES),
        values.HEADER,
        [values.texts(row) for row in rows],
    )


def claims_section(verdicts: Sequence[Verdict]) -> Section:
    """The paper's words against our numbers."""
    return Section(
        "What the paper says of its figures",
        ("The paper prints no numbers for Figures 3 and 4; these are its sentences.",),
        ("the paper", "borne out", "our numbers"),
        [(verdict.claim, verdict.holds, verdict.because) for verdict in verdicts],
        words=True,
    )
