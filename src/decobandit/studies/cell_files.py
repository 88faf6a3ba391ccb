"""Cell files: the results of a study, one file each, written atomically, never overwritten.

A file has the settings, the version and the result: keys in order, numbers by repr, no times, so
that the same settings give the same bytes. If the file exists, the cell is finished. Beside
the cells, the cell list `study.json` names all cells of the study, so that missing ones are known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from .._version import __version__
from ..problem import read_tree
from ..support import Tables, Tabular, columns_of, dotted, one_line, write_whole
from .records import CELL, Cell, CellResult, FinishedCell, Record, Study
from .study_files import StudyError
from .study_tables import rows_of

CELL_LIST = "study.json"


@dataclass(frozen=True, kw_only=True)
class _CellFile(Record):
    format: Literal["decobandit-cell-1"] = "decobandit-cell-1"
    version: str
    settings: Cell
    figures: CellResult


@dataclass(frozen=True, kw_only=True)
class _CellListFile(Record):
    format: Literal["decobandit-study-1"] = "decobandit-study-1"
    name: str
    cells: list[str]


File = TypeVar("File")
_CELL_FILE = TypeAdapter(_CellFile)
_CELL_LIST_FILE = TypeAdapter(_CellListFile)


@dataclass(frozen=True)
class Collected(Tabular):
    """What there is of a study; the table of `to_frame` is `cells`, one row each."""

    name: str
    finished: tuple[FinishedCell, ...]
    missing: tuple[str, ...]  # names of cells

    def tables(self) -> Tables:
        """`cells`, one row each."""
        return {"cells": lambda: columns_of(map(asdict, rows_of(self.finished)))}


# -- writing ------------------------------------------------------------------------------------


def write_cell(cell: Cell, result: CellResult, folder: Path) -> None:
    """Write a finished cell."""
    path = folder / cell.file
    if path.exists() and read_cell(path).cell != cell:  # written by another run
        raise StudyError(
            f"{path}: has been written by another run with other settings; choose another folder "
            "with --out"
        )
    _write(_CELL_FILE, _CellFile(version=__version__, settings=cell, figures=result), path)


def write_cell_list(study: Study, folder: Path) -> None:
    """Write the cell list; a folder that belongs to another study is an error."""
    path = folder / CELL_LIST
    if path.exists() and (there := _read(_CELL_LIST_FILE, path).name) != study.name:
        raise StudyError(
            f"{path}: belongs to the study {there!r}, not to {study.name!r}; "
            "choose another folder with --out"
        )
    asked = _CellListFile(name=study.name, cells=[cell.name for cell in study.cells])
    _write(_CELL_LIST_FILE, asked, path)


def _write(kind: TypeAdapter[File], file: File, path: Path) -> None:
    tree = kind.dump_python(file, by_alias=True)
    text = json.dumps(tree, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n".encode())


# -- reading ------------------------------------------------------------------------------------


def read_cell(path: Path) -> FinishedCell:
    """What a cell file has."""
    file = _read(_CELL_FILE, path)
    return FinishedCell(file.settings, file.figures, file.version)


def finished_cells(study: Study, folder: Path) -> dict[str, FinishedCell]:
    """The cells of a study that are there, by name; a file with other settings is refused."""
    found = {}
    for cell in study.cells:
        path = folder / cell.file
        if path.exists():
            there = read_cell(path)
            if (there.cell, there.version) != (cell, __version__):
                raise _other_settings(there, cell, path)
            found[cell.name] = there
    return found


def collect_study(study: Study, folder: Path) -> Collected:
    """What there is of the cells that a study asks for."""
    found = finished_cells(study, folder)
    missing = tuple(cell.name for cell in study.cells if cell.name not in found)
    return Collected(study.name, tuple(found.values()), missing)


def collect_folder(folder: Path) -> Collected:
    """All cells in a folder, in the order of its study, and those that it lacks."""
    paths = {path.stem: path for path in sorted(folder.glob("*--*.json"))}
    listed = folder / CELL_LIST
    if not paths and not listed.exists():
        raise StudyError(f"{folder}: holds no cells of a study")
    if listed.exists():
        asked = _read(_CELL_LIST_FILE, listed)
    else:
        asked = _CellListFile(name=folder.name, cells=[])
    order = dict.fromkeys([*(name for name in asked.cells if name in paths), *paths])
    missing = tuple(name for name in asked.cells if name not in paths)
    return Collected(asked.name, tuple(read_cell(paths[name]) for name in order), missing)


def _read(kind: TypeAdapter[File], path: Path) -> File:
    try:
        return kind.validate_python(read_tree(path))
    except ValidationError as error:
        said = one_line(error, where=dotted)
        raise StudyError(f"{path}: not a file of a study: {said}") from None


def _other_settings(there: FinishedCell, cell: Cell, path: Path) -> StudyError:
    """What to say of a file that stands where `cell` would go: the first difference."""
    old, new = (
        {"settings": CELL.dump_python(each, by_alias=True), "version": version}
        for each, version in ((there.cell, there.version), (cell, __version__))
    )
    different = _difference(old, new, ())
    assert different is not None
    place, was, now = different
    return StudyError(
        f"{path}: is there with other settings: {'.'.join(place)} is {_shown(was)} in it, "
        f"{_shown(now)} now; choose another folder with --out, or move the file away"
    )


def _difference(
    there: object, here: object, place: Sequence[str]
) -> tuple[Sequence[str], object, object] | None:
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


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
