"""The layers of ARCHITECTURE.md, as the sources import each other."""

import ast
import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import decobandit

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "decobandit"

# From the bottom up. A file or folder imports from lower lines only; within a folder, files may
# import each other as long as they do not go round in a circle.
LAYERS = [
    {"_version"},
    {"kernels", "memory"},
    {"problem"},
    {"state"},
    {"problem_files"},
    {"outcomes"},
    {"threads"},
    {"market", "master"},
    {"search"},
    {"dual"},
    {"flat_tables", "shared_tables"},
    {"relaxation", "calibration", "best_arm"},
    {"nearby"},
    {"joint_states"},
    {"joint_sweep"},
    {"joint_optimum"},
    {"policies"},
    {"forward"},
    {"evaluation"},
    {"estimators", "worlds"},
    {"playing"},
    {"simulation"},
    {"gaps"},
    {"path_search", "information_bounds"},
    {"best_bounds"},
    {"registry"},
    {"recommendation", "solution_files"},
    {"study_files"},
    {"cell_files"},
    {"studies", "study_tables"},
    {"cluster"},
    {"plots", "progress", "paths", "demand"},
    {"path_lines"},
    {"path_figures"},
    {"market_figures"},
    {"path_pages"},
    {"planning", "trials"},
    {"web"},
    {"paper"},
    {"__init__"},  # the public names: cli may use them, nothing below may
    {"cli"},
]
HEIGHT = {unit: height for height, layer in enumerate(LAYERS) for unit in layer}
LONGEST_FILE = 400  # lines


def module_of(path: Path) -> str:
    """kernels/flow.py is kernels.flow, policies/__init__.py is policies."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def unit_of(module: str) -> str:
    """The file or folder right under src/decobandit."""
    return module.split(".", maxsplit=1)[0]


FILES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path: Path) -> set[str]:
    """Absolute dotted names that a file imports, also inside functions, `from` names included."""
    package = ["decobandit", *path.relative_to(PACKAGE).parent.parts]
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            names |= {f"{origin}.{alias.name}" for alias in node.names}
    return names


def own_imports(module: str) -> set[str]:
    """The modules of this package that a module imports."""
    targets = set()
    for name in imports(FILES[module]):
        if unit_of(name) == "decobandit":
            # the longest prefix that is a file; a name of the package itself comes from __init__
            parts = name.split(".")[1:]
            prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
            targets.add(next((p for p in prefixes if p in FILES), "__init__"))
    return targets - {module}


def test_every_module_has_a_layer() -> None:
    assert {unit_of(module) for module in FILES} - set(HEIGHT) == set()


@pytest.mark.parametrize("module", FILES)
def test_imports_go_down_only(module: str) -> None:
    here = unit_of(module)
    others = {unit_of(target) for target in own_imports(module)} - {here}
    assert {unit for unit in others if HEIGHT[unit] >= HEIGHT[here]} == set()


def test_no_imports_in_a_circle() -> None:
    within_folders = {
        module: {target for target in own_imports(module) if target != unit_of(module)}
        for module in FILES
    }
    TopologicalSorter(within_folders).prepare()  # raises CycleError


@pytest.mark.parametrize("module", FILES)
def test_numba_stays_in_kernels(module: str) -> None:
    packages = {unit_of(name) for name in imports(FILES[module])}
    if unit_of(module) == "kernels":
        assert packages <= {"decobandit", "math", "numba", "numpy", "typing"}
    else:
        assert "numba" not in packages


@pytest.mark.parametrize("module", FILES)
def test_files_are_short(module: str) -> None:
    assert len(FILES[module].read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


def test_architecture_page_names_every_module() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = {
        unit for unit in map(unit_of, FILES) if f"{unit}.py" not in page and f"{unit}/" not in page
    }
    assert missing == set()


def test_version_is_written_once() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["dynamic"] == ["version"]
    source = ROOT / pyproject["tool"]["hatch"]["version"]["path"]
    (written,) = re.findall(r'^__version__ = "(.+)"$', source.read_text(encoding="utf-8"), re.M)
    assert decobandit.__version__ == written
