"""Studies as processes of their own, caught when some of their cells are there."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from helpers.program import DECO, PATIENCE, PLAIN

TRIES = 5  # a busy machine may look too late, when all cells are there


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def folder_of(path: Path) -> dict[str, bytes]:
    """All files of a folder, by name."""
    return {file.name: file.read_bytes() for file in path.iterdir()}


def half_done(folder: Path, cells: int, *arguments: object) -> "subprocess.Popen[str]":
    """`deco ARGUMENTS`, a study that has some of its cells in the folder and not all."""
    for _ in range(TRIES):
        process = subprocess.Popen(
            [DECO, *map(str, arguments)],
            env={**os.environ, **PLAIN},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if _first_cells(folder, process) < cells:
            return process
        process.communicate(timeout=PATIENCE)
        shutil.rmtree(folder)
    raise AssertionError("all cells are there as soon as the first")


def _first_cells(folder: Path, process: "subprocess.Popen[str]") -> int:
    """How many cells there are, once there is one."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        ended = process.poll() is not None
        if found := len(list(folder.glob("*--*.json"))):
            return found
        if ended:
            break
        time.sleep(0.005)
    process.kill()
    raise AssertionError(f"no cell came: {process.communicate()[1]}")
