"""Cell files: the results of a study, one file each, whole or not at all, never overwritten.

A file has the settings, the version and the figures: keys in order, numbers by repr, no times, so
that the same settings give the same bytes. Where the file is there, the cell is finished. Beside
the cells, `study.json` lists those that the study asks for: a folder knows what it lacks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ._version import __version__
from .problem_files import read_tree
from .study_files import Cell, FileName, Study, StudyError

PLAN = "study.json"
Tree = dict[str, Any]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Settings(_Strict):
    name: FileName
    problem: Tree
    policy: str
    seed: int
    draws: int
    per_draw: int
    ties: str
    tol: Finite
    truth_prior: dict[Literal["good", "bad"], Finite] | None
    true_horizon: int | None


class _Curve(_Strict):
    regret: list[Finite]
    regret_se: list[Finite]


class _Figures(_Strict):
    value: Finite
    value_se: Finite
    regret: Finite | None
    regret_se: Finite | None
    upper_bound: Finite | None
    method: str
    estimates: dict[str, dict[str, Finite]]
    curve: _Curve | None  # over the stages; None where regret is not defined


class _CellFile(_Strict):
    format: Literal["decobandit-cell-1"] = "decobandit-cell-1"
    version: str
    settings: _Settings
    figures: _Figures


class _PlanFile(_Strict):
    format: Literal["decobandit-study-1"] = "decobandit-study-1"
    name: str
    cells: list[str]


File = TypeVar("File", bound=BaseModel)


@dataclass(frozen=True, eq=False)
class Collected:
    """What there is of a study."""

    name: str
    cells: tuple[Tree, ...]  # as their files have them
    missing: tuple[str, ...]  # names of cells


# -- writing ------------------------------------------------------------------------------------


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all, also if the machine goes down."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    if os.name == "posix":  # the new name is on disk only when its folder is
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_cell(cell: Cell, figures: Tree, folder: Path) -> None:
    """Write a finished cell."""
    tree = {"version": __version__, "settings": cell.settings, "figures": figures}
    path = folder / cell.file
    if path.exists() and read_cell(path)["settings"] != cell.settings:  # written by another run
        raise StudyError(
            f"{path}: has been written by another run with other settings; choose another folder "
            "with --out"
        )
    _write(_CellFile.model_validate(tree), path)


def write_plan(study: Study, folder: Path) -> None:
    """Write what the study asks for; a folder that belongs to another study is refused."""
    path = folder / PLAN
    if path.exists() and (there := _read(_PlanFile, path).name) != study.name:
        raise StudyError(
            f"{path}: belongs to the study {there!r}, not to {study.name!r}; "
            "choose another folder with --out"
        )
    _write(_PlanFile(name=study.name, cells=[cell.name for cell in study.cells]), path)


def _write(tree: BaseModel, path: Path) -> None:
    text = json.dumps(
        tree.model_dump(), sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False
    )
    write_whole(path, f"{text}\n".encode())


# -- reading ------------------------------------------------------------------------------------


def read_cell(path: Path) -> Tree:
    """What a cell file has."""
    return _read(_CellFile, path).model_dump()


def finished(study: Study, folder: Path) -> dict[str, Tree]:
    """The cells of a study that are there, by name; a file with other settings is refused."""
    found = {}
    for cell in study.cells:
        path = folder / cell.file
        if path.exists():
            tree = read_cell(path)
            wanted = {"settings": cell.settings, "version": __version__}
            _refuse_other({key: tree[key] for key in wanted}, wanted, path)
            found[cell.name] = tree
    return found


def collect_study(study: Study, folder: Path) -> Collected:
    """What there is of the cells that a study asks for."""
    found = finished(study, folder)
    missing = tuple(cell.name for cell in study.cells if cell.name not in found)
    return Collected(study.name, tuple(found.values()), missing)


def collect_folder(folder: Path) -> Collected:
    """All cells in a folder, in the order of its study, and those that it lacks."""
    paths = {path.stem: path for path in sorted(folder.glob("*--*.json"))}
    plan = folder / PLAN
    if not paths and not plan.exists():
        raise StudyError(f"{folder}: holds no cells of a study")
    asked = _read(_PlanFile, plan) if plan.exists() else _PlanFile(name=folder.name, cells=[])
    order = dict.fromkeys([*(name for name in asked.cells if name in paths), *paths])
    missing = tuple(name for name in asked.cells if name not in paths)
    return Collected(asked.name, tuple(read_cell(paths[name]) for name in order), missing)


def _read(kind: type[File], path: Path) -> File:
    try:
        return kind.model_validate(read_tree(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "file"
        raise StudyError(f"{path}: not a file of a study: {key}: {first['msg']}") from None


def _refuse_other(there: Tree, here: Tree, path: Path) -> None:
    different = _difference(there, here, ())
    if different is not None:
        place, old, new = different
        raise StudyError(
            f"{path}: is there with other settings: {'.'.join(place)} is {_shown(old)} in it, "
            f"{_shown(new)} now; choose another folder with --out, or move the file away"
        )


def _difference(
    there: Any, here: Any, place: Sequence[str]
) -> tuple[Sequence[str], Any, Any] | None:
    """The first place at which two trees differ, and what they have there."""
    if isinstance(there, dict) and isinstance(here, dict):
        keys = sorted(there.keys() | here.keys())
        pairs = [(key, there.get(key), here.get(key)) for key in keys]
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = [(str(i), *pair) for i, pair in enumerate(zip(there, here, strict=True))]
    else:
        return None if there == here else (place, there, here)
    found = (_difference(old, new, [*place, key]) for key, old, new in pairs)
    return next((each for each in found if each is not None), None)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
