"""Simulated cells of the paper's figures, computed and stored like those of a study."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter

from .._version import __version__
from ..problem import Problem
from ..studies import Cell, FinishedCell, Study, collect_study, here, run_study
from ..support import DecoError, Progress, Report, write_whole

Regret = tuple[float, float]  # and its standard error


@dataclass(frozen=True)
class Runs:
    """How often the parameters are drawn, and the episodes of each draw."""

    draws: int
    per_draw: int


class Interrupted(Exception):
    """Ctrl-C: finished cells are kept, and the same command resumes."""


def cell(arms: int, horizon: int, policy: str, runs: Runs) -> Cell:
    """One policy on equal arms with uniform priors."""
    return Cell(
        problem_name=f"{arms}-arms-horizon-{horizon}",
        problem=Problem.uniform(arms=arms, horizon=horizon),
        policy=policy,
        seed=1,
        draws=runs.draws,
        per_draw=runs.per_draw,
        ties="least-pulled",
        tol=1e-4,
        truth_prior=None,
        true_horizon=None,
    )


def compute(
    name: str, cells: Iterable[Cell], folder: Path, progress: Report | None
) -> list[FinishedCell]:
    """Compute missing cells and return all."""
    study = Study(name, tuple(cells))
    folder.mkdir(parents=True, exist_ok=True)
    summary = run_study(study, folder, runner=here(), progress=progress)
    if summary.interrupted:
        raise Interrupted(f"{summary.finished} of {summary.cells} cells are kept in {folder}")
    if summary.failed:
        first, reason = next(iter(summary.failed.items()))
        raise DecoError(f"{first}: {reason}")
    return list(collect_study(study, folder).finished)


def regret_of(finished: FinishedCell) -> Regret:
    """Return the regret at the end."""
    result = finished.result
    assert result.regret is not None, finished.cell.name
    assert result.regret_se is not None, finished.cell.name
    return result.regret, result.regret_se


def regret_by_stage(finished: FinishedCell) -> list[Regret]:
    """Return the regret after 1, 2, ... stages."""
    curve = finished.result.curve
    assert curve is not None, finished.cell.name
    return list(zip(curve.regret, curve.regret_se, strict=True))


# -- Numbers that are not simulated: computed once, and read again if nothing has changed ----------

R = TypeVar("R")


class Task(NamedTuple):
    """A record of a part: the name of its file, what it depends on, and how it is computed."""

    name: str
    settings: Mapping[str, object]
    compute: Callable[[], object]


def computed(
    part: str,
    tasks: Sequence[Task],
    kind: type[R],
    folder: Path | None,
    progress: Report | None = None,
) -> list[R]:
    """Return the records of all tasks; those in `folder` of this version and these settings."""
    reader, records = TypeAdapter(kind), []
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for number, (name, settings, compute) in enumerate(tasks, start=1):
        path = None if folder is None else folder / f"{name}.json"
        head = {"version": __version__, "settings": settings}
        there = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else {}
        if {key: there.get(key) for key in head} == head:
            record = reader.validate_python(there["figures"])
        else:
            record = reader.validate_python(compute())
            if path is not None:
                tree = {**head, "figures": reader.dump_python(record)}
                write_whole(path, f"{json.dumps(tree, indent=1)}\n".encode())
        records.append(record)
        if progress is not None:
            progress(Progress(part, number, len(tasks)))
    return records


@dataclass(frozen=True)
class PublishedRow:
    """A row of Table 1; None where the paper has no figure."""

    arms: int
    horizon: int
    deco: float
    bf: float | None = None
    fh: float | None = None


@dataclass(frozen=True)
class PublishedBatches:
    """Simple regret of five policies in batches of 100 pulls, by Che and Namkoong."""

    arms: int
    horizon: int
    uniform: float
    thompson: float
    top_two: float
    myopic: float
    rho: float


@dataclass(frozen=True)
class PublishedDesign:
    """A number of a design or of restless arms.

    `error` is its standard error, 0 where it is exact to `within`.
    """

    case: str
    source: str
    quantity: str
    value: float
    error: float = 0.0
    within: float = 0.0


@dataclass(frozen=True)
class PublishedValues:
    """Total reward of policies with uniform priors; `error` is the standard error of each."""

    horizon: int
    arms: int
    error: float
    policies: dict[str, float]


@dataclass(frozen=True)
class Published:
    """The file published.toml."""

    table1: tuple[PublishedRow, ...]
    batches: tuple[PublishedBatches, ...]
    designs: tuple[PublishedDesign, ...]
    values: tuple[PublishedValues, ...]
    restless: tuple[PublishedDesign, ...]
    claims: dict[str, str]


@cache
def published() -> Published:
    """Return the numbers of published.toml."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return TypeAdapter(Published).validate_python(tomllib.loads(text))
