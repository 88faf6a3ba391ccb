"""Files: written whole or not at all; tables as CSV, or Parquet where the name says so."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import InvalidFile
from .frames import Columns, frame_of, frame_rows


def write_whole(
    path: str | Path, content: str | bytes | Iterable[str], *, mode: int = 0o666
) -> None:
    """Write a file atomically, text as UTF-8; a link stays one, a file keeps its permissions."""
    pieces = [content] if isinstance(content, str | bytes) else content
    data = (piece.encode() if isinstance(piece, str) else piece for piece in pieces)
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # a pipe, a device: nothing can take its place
        with target.open("wb") as file:
            file.writelines(data)
        return
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    if os.name == "posix":  # the new name is on disk only when its folder is
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class TableError(InvalidFile):
    """A table that cannot be read."""


@dataclass(frozen=True)
class Rows:
    """Rows of a table: cells as text, with their places."""

    source: str  # a file, or "data"
    names: list[str]
    each: Iterator[tuple[str, Mapping[str, str | None]]]
    escaped: bool = False  # whether texts may have been written by `harmless`


def read_rows(data: object) -> Rows:
    """Read the rows of a file or data frame; TableError for files, TypeError for no table."""
    if not isinstance(data, str | Path):
        return _numbered("data", *frame_rows(data))
    source = str(data)
    if Path(data).suffix.lower() == ".parquet":
        return _numbered(source, *frame_rows(_parquet(source)))
    rows = _csv_rows(source)
    _, header = next(rows)
    return Rows(source, list(header), rows, escaped=True)


def _csv_rows(source: str) -> Iterator[tuple[str, Mapping[str, str | None]]]:
    """Yield the header, then the rows of a CSV file."""
    try:
        with open(source, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            yield source, dict.fromkeys(reader.fieldnames or ())
            for row in reader:
                yield f"{source}: line {reader.line_num}", row
    except FileNotFoundError:
        raise TableError(f"{source}: no such file") from None
    except UnicodeDecodeError as error:
        raise TableError(f"{source}: not UTF-8 text at byte {error.start}") from None
    except (OSError, csv.Error) as error:
        raise TableError(f"{source}: cannot be read: {error}") from None


def _numbered(source: str, names: list[str], rows: Iterator[dict[str, str]]) -> Rows:
    numbered = enumerate(rows, start=1)
    return Rows(source, names, ((f"{source}: row {number}", row) for number, row in numbered))


def check_parquet() -> None:
    """Refuse Parquet where the package that reads and writes it is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise ImportError(
            'Parquet needs pyarrow; install it with: pip install "decobandit[tables]"'
        ) from None


def _parquet(path: str) -> Any:
    check_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path).read()
    except FileNotFoundError:
        raise TableError(f"{path}: no such file") from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise TableError(f"{path}: cannot be read as Parquet: {reason}") from None


def write_table(columns: Columns, path: str | Path) -> None:
    """Write columns as CSV, or as Parquet or LaTeX where the name says so."""
    ending = Path(path).suffix.lower()
    if ending == ".parquet":
        write_parquet(columns, path)
    else:
        write_whole(path, (latex_of if ending == ".tex" else csv_of)(columns).encode())


def write_parquet(columns: Columns, path: str | Path) -> None:
    """Write columns as Parquet."""
    check_parquet()
    import pyarrow.parquet as pq

    content = io.BytesIO()
    pq.write_table(frame_of(columns), content)
    write_whole(path, content.getvalue())


def csv_of(columns: Columns) -> str:
    """Return columns as CSV text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(harmless, columns))
    for row in _rows(columns):
        writer.writerow(map(harmless, row))
    return text.getvalue()


def _rows(columns: Columns) -> Iterator[tuple[object, ...]]:
    values = columns.values()
    return zip(*(x.tolist() if isinstance(x, np.ndarray) else x for x in values), strict=True)


_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)


def latex_of(columns: Columns) -> str:
    """Return columns as a LaTeX table for the package booktabs; numbers have six digits."""

    def cell(value: object) -> str:
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        return "--" if value is None else text.translate(_LATEX)

    sides = ["l" if any(isinstance(x, str) for x in one) else "r" for one in columns.values()]
    rows = [" & ".join(map(cell, row)) + r" \\" for row in _rows(columns)]
    head = " & ".join(map(cell, columns)) + r" \\"
    begin = rf"\begin{{tabular}}{{{''.join(sides)}}}"
    lines = [begin, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


_START = r"(?:^|(?<=[;\t\r\n]))"  # of a cell, for some spreadsheet
_FORMULA = r"(?=['\"\s]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])"
_TO_ESCAPE = re.compile(_START + _FORMULA)
_ESCAPED = re.compile(f"{_START}'{_FORMULA}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def harmless(cell: object) -> object:
    """Return what to write for a value: numbers, also as text, as they are."""
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return cell
    return _TO_ESCAPE.sub("'", cell)


def original(cell: str) -> str:
    """Return the text that `harmless` was given."""
    return _ESCAPED.sub("", cell)
