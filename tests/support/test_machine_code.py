"""Machine code on disk: never that of other sources, shared by equal ones, old ones removed."""

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import decobandit
from decobandit.support import machine_code
from decobandit.support.machine_code import IN_USE, KEPT, code_root, use_folder

SOURCES = Path(decobandit.__file__).parent
# `lay_out` stands in policies/kernels and calls `spot` of problem/kernels: where (0, 0) is put
LAY_OUT = """
import json, sys
import numpy as np
from decobandit.policies.kernels.index_play import lay_out
from decobandit.support.kernels.compiled import CONTENT, ROOT
table = np.zeros((1, 8, 1))
lay_out(np.ones((1, 1)), 0, 0, 1, table)
hits = sum(lay_out.stats.cache_hits.values())
kept = str(ROOT), CONTENT["policies.index_play"], CONTENT["policies.index_roots"]
print(json.dumps([int(table[0, :, 0].argmax()), hits, *kept]))
"""
OF_A_USER = """
import json
from numba import njit
import numba
from decobandit.support.kernels import compiled
@njit(cache=True)
def double(x):
    return 2 * x
print(json.dumps([double(2), double._cache.cache_path, numba.config.CACHE_DIR]))
"""
Run = Callable[..., list[object]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a script with one copy of the package; all runs of a test keep code in one place."""

    def run(copy: Path, script: str = LAY_OUT, **more: str) -> list[object]:
        # Python's own cache of bytecode does not see edits within a second
        env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        env |= {"DECO_CACHE": str(tmp_path / "cache"), **more}
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        found: list[object] = json.loads(done.stdout)
        return found

    return run


def copy_package(to: Path) -> Path:
    """The sources, as a checkout would have them, to be put on the path."""
    shutil.copytree(SOURCES, to / "decobandit", ignore=shutil.ignore_patterns("__pycache__"))
    return to


def test_an_edit_in_a_called_kernel_is_seen_and_equal_sources_share_code(
    tmp_path: Path, run: Run
) -> None:
    copy = copy_package(tmp_path / "one")
    before = run(copy)
    assert before[:2] == [0, 0]
    layout = copy / "decobandit" / "problem" / "kernels" / "layout.py"
    text = layout.read_text(encoding="utf-8")
    edited = text.replace("(bad - 1) // 2 + good", "(bad - 1) // 2 + good + 3")
    assert edited != text
    layout.write_text(edited, encoding="utf-8")
    after = run(copy)
    assert after[:2] == [3, 0]
    assert after[3] != before[3]
    with (layout.parent / "ties.py").open("a", encoding="utf-8") as file:
        file.write("# called by index_play.py, not by index_roots.py, which keeps its code\n")
    later = run(copy)
    assert later[3] != after[3]
    assert later[4] == after[4]
    assert run(copy_package(tmp_path / "two"))[:2] == [0, 1]


def test_a_zipped_package_keeps_code_too(tmp_path: Path, run: Run) -> None:
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in copy_package(tmp_path / "plain").rglob("*.py"):
            file.write(path, path.relative_to(tmp_path / "plain"))
    kept = run(tmp_path / "plain")[2:]
    assert run(archive) == [0, 1, *kept]


def test_functions_of_others_are_kept_where_numba_keeps_them(tmp_path: Path, run: Run) -> None:
    script = tmp_path / "script.py"
    script.write_text(OF_A_USER, encoding="utf-8")
    start = f"import runpy; runpy.run_path({str(script)!r})"
    path = [str(tmp_path / "__pycache__"), ""]
    assert run(SOURCES.parent, start, NUMBA_CACHE_DIR="") == [4, *path]


def test_numbas_folder_is_used_where_it_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(machine_code.ENVIRONMENT, raising=False)
    assert code_root(str(tmp_path / "numba")) == tmp_path / "numba" / "decobandit" / "kernels"
    monkeypatch.setenv(machine_code.ENVIRONMENT, str(tmp_path / "own"))
    assert code_root(str(tmp_path / "numba")) == tmp_path / "own/kernels"


def test_the_next_folder_is_used_where_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "a file"
    taken.write_text("", encoding="utf-8")
    monkeypatch.setenv(machine_code.ENVIRONMENT, str(taken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(taken))
    assert code_root(str(tmp_path)) == tmp_path / "decobandit/kernels"
    monkeypatch.setattr(machine_code, "_roots", lambda told: [taken, taken / "below"])
    assert code_root() is None


def test_read_only_code_is_used_and_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    # a service may not write to its image; root may write anywhere, so the check is replaced
    generic = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    assert run(SOURCES.parent, **generic)[:2] == [0, 0]
    kept = tmp_path / "cache" / "kernels"
    refuse = (
        "import tempfile; real = tempfile.TemporaryFile\n"
        "def fake(dir=None, **more):\n"
        f"    if str(dir) == {str(kept)!r}: raise PermissionError(13, 'read-only', str(dir))\n"
        "    return real(dir=dir, **more)\n"
        "tempfile.TemporaryFile = fake\n"
    )
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    copy = run(SOURCES.parent, refuse + LAY_OUT, **generic)
    assert copy[:2] == [0, 1]
    assert copy[2] != str(kept)
    assert not Path(str(copy[2])).exists()  # gone with its process
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == before


def test_without_a_folder_kernels_are_compiled_in_memory(tmp_path: Path, run: Run) -> None:
    copy = copy_package(tmp_path / "one")
    source = copy / "decobandit" / "support" / "machine_code.py"
    text = source.read_text(encoding="utf-8")
    source.write_text(f"{text}\n\ndef _roots(told):\n    return []\n", encoding="utf-8")
    assert run(copy)[:3] == [0, 0, "None"]
    assert not (tmp_path / "cache").exists()


def test_records_that_kernels_take_belong_to_the_content_of_all_of_them(
    tmp_path: Path, run: Run
) -> None:
    copy = copy_package(tmp_path / "one")
    before = run(copy)
    with (copy / "decobandit" / "prices" / "kernels" / "bands.py").open("a") as file:
        file.write("# the order of fields is part of the code\n")
    assert all(one != two for one, two in zip(before[3:], run(copy)[3:], strict=True))


def test_the_last_used_folders_stay(tmp_path: Path) -> None:
    root, now = tmp_path / "arm.backward", time.time()
    ages = {f"old-{i}": IN_USE * (i + 2) for i in range(KEPT + 1)} | {"running": IN_USE / 2}
    for name, age in ages.items():
        (root / name).mkdir(parents=True)
        os.utime(root / name, (now - age, now - age))
    use_folder(root / "old-0")  # not new: nothing is removed
    assert {path.name for path in root.iterdir()} == set(ages)
    use_folder(root / "new")
    left = {path.name for path in root.iterdir()}
    assert left == {"new", "old-0", "running", *(f"old-{i}" for i in range(1, KEPT - 2))}
