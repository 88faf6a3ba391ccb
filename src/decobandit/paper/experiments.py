"""Shared parts of the reproduction: rows computed once, published numbers, sections."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from markupsafe import Markup
from pydantic import TypeAdapter

from .._version import __version__
from ..figures.charts import small_png
from ..figures.report_page import coded, paragraph, pictures, report_page, section, table
from ..policies import Policy
from ..prices import DualSolution, whole_solution
from ..problem import Problem
from ..simulation import PolicyResult, simulate
from ..support import Progress, Report, silent, write_whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from matplotlib.figure import Figure

R = TypeVar("R")
EMBEDDED_DPI = 110
CLAIMS = ("the paper", "borne out", "our numbers")


# -- Rows that are computed once, and read again if nothing has changed ----------------------------


class Interrupted(Exception):
    """Ctrl-C: finished tasks are kept, and the same command resumes."""


class Task(NamedTuple):
    """Rows of a part: the name of their file, what they depend on, and how they are computed."""

    name: str
    settings: Mapping[str, object]
    compute: Callable[[], object]


def computed(
    part: str,
    tasks: Sequence[Task],
    row: type[R],
    folder: Path | None = None,
    progress: Report | None = None,
) -> list[R]:
    """Return the rows of all tasks; those in `folder` of this version and these settings."""
    reader: TypeAdapter[list[R]] = TypeAdapter(list[row])  # type: ignore[valid-type]
    rows, tell = list[R](), progress or silent
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for number, (name, settings, compute) in enumerate(tasks):
        tell(Progress(part, number, len(tasks)))
        path = None if folder is None else folder / f"{name}.json"
        tree: dict[str, object] = {"version": __version__, "settings": settings}
        there = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}
        if {key: there.get(key) for key in tree} == tree:
            rows += reader.validate_python(there["figures"])
            continue
        try:
            new = reader.validate_python(compute())
        except KeyboardInterrupt:
            raise Interrupted(f"{number} of {len(tasks)} cells are kept in {folder}") from None
        if path is not None:
            tree["figures"] = reader.dump_python(new)
            write_whole(path, f"{json.dumps(tree, indent=1)}\n")
        rows += new
    tell(Progress(part, len(tasks), len(tasks)))
    return rows


@dataclass(frozen=True)
class Runs:
    """How often the parameters are drawn, and the episodes of each draw."""

    draws: int
    per_draw: int = 1


def played(
    problem: Problem,
    policies: Policy | Sequence[str],
    runs: Runs,
    *,
    seed: int = 1,
    solution: DualSolution | None = None,
) -> list[PolicyResult]:
    """Simulate policies, all of them."""
    names = policies if isinstance(policies, Policy) else list(policies)
    sizes = {"draws": runs.draws, "per_draw": runs.per_draw, "rng": seed}
    simulation = simulate(problem, names, solution=solution, **sizes)  # type: ignore[arg-type]
    if simulation.interrupted:
        raise KeyboardInterrupt
    return list(simulation.results)


def cell(
    arms: int, horizon: int, policy: str, runs: Runs, score: Callable[[PolicyResult], object]
) -> Task:
    """Return a simulation of one policy on equal arms with uniform priors, and its rows."""
    settings = {"arms": arms, "horizon": horizon, "policy": policy, **asdict(runs), "seed": 1}

    def compute() -> object:
        problem, solution = _solved(arms, horizon)
        return score(played(problem, [policy], runs, solution=solution)[0])

    return Task(f"{arms}-arms-horizon-{horizon}--{policy}", settings, compute)


@lru_cache(maxsize=8)
def _solved(arms: int, horizon: int) -> tuple[Problem, DualSolution]:
    """Solve the dual once for all policies: its prices also reduce the errors of estimates."""
    problem = Problem.uniform(arms=arms, horizon=horizon)
    return problem, whole_solution(problem)


Regret = tuple[float, float]  # and its standard error


def final_regret(result: PolicyResult) -> Regret:
    """Return the regret at the end."""
    assert result.regret is not None, result.policy
    return result.regret, result.value_se


def regret_by_stage(result: PolicyResult) -> list[Regret]:
    """Return the regret after 1, 2, ... stages."""
    assert result.curve is not None, result.policy
    return list(zip(result.curve.regret.tolist(), result.curve.regret_se.tolist(), strict=True))


# -- Published numbers -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PublishedRow:
    """A row of Table 1; None where the paper has no figure."""

    arms: int
    horizon: int
    deco: float
    bf: float | None = None
    fh: float | None = None


@dataclass(frozen=True)
class PublishedDesign:
    """A number of a design or of restless arms; `error` is 0 where it is exact to `within`."""

    case: str
    source: str
    quantity: str
    value: float
    error: float = 0.0
    within: float = 0.0


@dataclass(frozen=True)
class PublishedValues:
    """A number for each policy, in one cell; `error` is the standard error of each."""

    horizon: int
    arms: int
    error: float
    policies: dict[str, float]


@dataclass(frozen=True)
class Published:
    """The file published.toml."""

    table1: tuple[PublishedRow, ...]
    batches: tuple[PublishedValues, ...]  # simple regret
    designs: tuple[PublishedDesign, ...]
    values: tuple[PublishedValues, ...]  # total reward
    restless: tuple[PublishedDesign, ...]
    claims: dict[str, str]


@cache
def published() -> Published:
    """Return the numbers of published.toml."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return TypeAdapter(Published).validate_python(tomllib.loads(text))


# -- What is written -------------------------------------------------------------------------------


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
        head, *rows = (f"| {' | '.join(cells)} |" for cells in [self.header, *self.rows])
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


def reproduction_page(
    command: str, sections: Iterable[Section], verdicts: Sequence[Verdict] = ()
) -> str:
    """Return the page of all sections, the paper's statements last; all text is escaped."""
    about = (
        "Heymann, De Lara, Chancelier: decomposition-coordination for finite-horizon Bayesian "
        f"bandits. Written by `{command}`. Errors are standard errors."
    )
    parts = [section.to_markup() for section in sections]
    if verdicts:
        rows = [(verdict.claim, verdict.holds, verdict.because) for verdict in verdicts]
        text = "The paper prints no numbers for Figures 3 and 4; these are its sentences."
        claims = Table(CLAIMS, rows, words=CLAIMS)
        parts.append(Section("What the paper says of its figures", (text,), (claims,)).to_markup())
    return report_page(
        "The paper, reproduced", parts, about=coded(about), footer=f"decobandit {__version__}"
    )
