"""Simulated cells of the paper's figures: made like those of a study, and kept like them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._version import __version__
from ..cell_files import Tree, collect_study, write_whole
from ..problem import Problem
from ..problem_files import problem_to_dict
from ..studies import here, run_study
from ..study_files import Cell, Study

Report = Callable[[int, int], None]  # cells that are there, and in all


@dataclass(frozen=True)
class Runs:
    """How often the parameters are drawn, and the episodes of each draw."""

    draws: int
    per_draw: int


class Interrupted(Exception):
    """Ctrl-C: what is finished is kept, and the same command goes on."""


def cell(arms: int, horizon: int, policy: str, runs: Runs) -> Cell:
    """One policy on equal arms with uniform priors."""
    settings: dict[str, Any] = {
        "name": f"{arms}-arms-horizon-{horizon}",
        "problem": problem_to_dict(Problem.uniform(arms=arms, horizon=horizon)),
        "policy": policy,
        "seed": 1,
        "draws": runs.draws,
        "per_draw": runs.per_draw,
        "ties": "least-pulled",
        "tol": 1e-4,
        "truth_prior": None,
        "true_horizon": None,
    }
    return Cell(settings)


def compute(name: str, cells: Iterable[Cell], folder: Path, report: Report | None) -> list[Tree]:
    """The cells, those that are not in the folder computed first."""
    study = Study(name, tuple(cells))
    folder.mkdir(parents=True, exist_ok=True)
    outcome = run_study(study, folder, runner=here(), progress=report)
    if outcome.interrupted:
        raise Interrupted(f"{outcome.kept} of {outcome.cells} cells are kept in {folder}")
    if outcome.failed:
        first, reason = next(iter(outcome.failed.items()))
        raise ValueError(f"{first}: {reason}")
    return list(collect_study(study, folder).cells)


def kept(folder: Path | None, name: str, settings: Tree, figures: Callable[[], Tree]) -> Tree:
    """Figures that are not simulated: computed once, and read again where nothing has changed."""
    if folder is None:
        return figures()
    path = folder / f"{name}.json"
    head = {"version": __version__, "settings": settings}
    if path.exists():
        there: Tree = json.loads(path.read_text(encoding="utf-8"))
        if {key: there.get(key) for key in head} == head:
            found: Tree = there["figures"]
            return found
    folder.mkdir(parents=True, exist_ok=True)
    computed = figures()
    write_whole(path, f"{json.dumps({**head, 'figures': computed}, indent=1)}\n".encode())
    return computed
