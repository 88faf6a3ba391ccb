"""What a run skipped is counted and named at its end, once, however many processes it had."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOME = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_one(number):
    if number:
        pytest.skip("no browser")

@pytest.mark.skip(reason="no compiler")
def test_other():
    raise AssertionError
"""
NONE = "def test_one():\n    pass\n"


def end_of_run(folder: Path, *options: str) -> list[str]:
    """The lines that a run of the tests in `folder` prints; it has nothing of ours but the hook.

    Nor has it other plugins than are asked for: most of a run would be loading them.
    """
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "options", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["one process", "two workers"]
)
def test_skips_are_counted_by_file_and_reason(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_some.py").write_text(SOME, encoding="utf-8")
    lines = end_of_run(tmp_path, *options)
    assert sum("skipped tests: 3" in line for line in lines) == 1
    assert [line.strip() for line in lines if " in test_some.py: " in line] == [
        "2 in test_some.py: no browser",
        "1 in test_some.py: no compiler",
    ]


def test_a_run_without_skips_says_so(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text(NONE, encoding="utf-8")
    assert end_of_run(tmp_path).count("no test was skipped") == 1
