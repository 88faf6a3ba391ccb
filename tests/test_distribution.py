"""What is built and sent to others: all files that the program reads, one version everywhere."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import decobandit

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "decobandit"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel, built as `make dist` does."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.whl")
    return zipfile.ZipFile(file)


def test_a_wheel_has_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    own = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {name for name in wheel.namelist() if name.startswith("decobandit/")}
    manual = {name for name in held if name.startswith("decobandit/manual/")}
    assert held - manual == own
    assert "decobandit/manual/index.md" in manual  # `deco docs`
    # what the program reads by name, and what would be missed only later
    for ending in (".html.j2", ".css", ".js", ".svg", ".toml", "py.typed"):
        assert any(name.endswith(ending) for name in held), ending
    assert any("/migrations/versions/" in name for name in held)


def test_a_wheel_has_licence_and_program(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    (entry,) = [name for name in names if name.endswith("entry_points.txt")]
    assert "deco = decobandit.cli:main" in wheel.read(entry).decode()


def test_one_version_everywhere() -> None:
    version = decobandit.__version__
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == version
    assert json.loads((ROOT / "codemeta.json").read_text())["version"] == version


def test_the_distribution_of_sources_names_what_is_there() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for pattern in settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]:
        assert list(ROOT.glob(pattern.removeprefix("/"))), pattern
