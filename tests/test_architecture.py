"""The layers of ARCHITECTURE.md, as the sources import each other."""

import ast
import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import decobandit

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "decobandit"

# From the bottom up, one line per layer. A room imports from lower lines only; within a room files
# may import each other as long as they do not go round in a circle.
LAYERS = [
    {"_version", "support"},
    {"problem"},
    {"arm", "joint"},
    {"prices"},
    {"policies"},
    {"evaluation", "simulation"},
    {"bounds"},
    {"designs"},
    {"figures", "studies"},
    {"paper", "trials"},
    {"client", "server"},
    {"__init__", "cli", "testing"},
]
# a policy may be chosen by its value (docs/decisions/0014): these imports go up, inside functions
LATE = {
    ("policies.calibrated", "evaluation"),
    ("policies.calibrated", "simulation"),
}
HEIGHT = {unit: height for height, layer in enumerate(LAYERS) for unit in layer}
MOST_ROOMS = 17
MOST_LAYERS = 12
LONGEST_PAGE = 115  # lines of ARCHITECTURE.md: two screens


def module_of(path: Path) -> str:
    """prices/market.py is prices.market, policies/__init__.py is policies."""
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


def test_every_room_has_a_layer() -> None:
    assert {unit_of(module) for module in FILES} == set(HEIGHT)
    assert len(LAYERS) <= MOST_LAYERS


def test_modules_stand_in_rooms() -> None:
    found = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    loose = {name for name in found if (PACKAGE / name).is_file()}
    assert loose == {"__init__.py", "_version.py", "py.typed", "testing.py"}
    assert len(found - loose) <= MOST_ROOMS


def test_tests_stand_in_the_same_rooms() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    tested = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert tested == rooms - {"__pycache__"}


def test_imports_go_down_only() -> None:
    upward = {
        (module, target)
        for module in FILES
        for target in own_imports(module)
        if unit_of(target) != unit_of(module) and HEIGHT[unit_of(target)] >= HEIGHT[unit_of(module)]
    }
    assert upward == LATE


def test_no_imports_in_a_circle() -> None:
    # a room's __init__ loads what it exports on first use: it imports nothing of the room itself
    within_folders = {
        module: {
            target
            for target in own_imports(module)
            if target != unit_of(module) and (module, target) not in LATE
        }
        for module in FILES
    }
    TopologicalSorter(within_folders).prepare()  # raises CycleError


def test_numba_stays_in_kernels() -> None:
    allowed_in_kernels = {"decobandit", "heapq", "math", "numba", "numpy", "typing"}
    for module, path in FILES.items():
        packages = {unit_of(name) for name in imports(path)}
        if "kernels" in module.split("."):
            assert packages <= allowed_in_kernels, module
        else:
            assert "numba" not in packages, module


def test_kernels_return_and_do_not_yield() -> None:
    # a generator whose machine code comes from disk cannot be called by a kernel compiled later
    for module in (name for name in FILES if ".kernels." in name):
        nodes = ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8")))
        yields = [node.lineno for node in nodes if isinstance(node, ast.Yield | ast.YieldFrom)]
        assert yields == [], module


def test_modules_are_imported_by_name_in_few_places() -> None:
    # names on first use, packages of data frames, policies of other packages
    by_name = {
        module for module, path in FILES.items() if "import_module(" in path.read_text("utf-8")
    }
    assert by_name <= {"support.lazy", "support.frames", "policies.catalogue"}


def counts() -> dict[str, int]:
    """Numbers that say how large the house is, and how often it asks what a problem is."""
    texts = {module: path.read_text(encoding="utf-8") for module, path in FILES.items()}
    policies = (text for module, text in texts.items() if unit_of(module) == "policies")
    everything = "\n".join(texts.values())
    return {
        "lines": everything.count("\n"),
        "files": len(texts),
        "classes of policies": sum(len(re.findall(r"^class ", text, re.M)) for text in policies),
        "is_binary": len(re.findall(r"\.is_binary\b", everything)),
        ".repeat": len(re.findall(r"(?<!np)\.repeat\b(?!\()", everything)),
        "fmt: skip": everything.count("# fmt: skip"),
    }


# while the engines are merged; in the end 45,000 lines, 300 files, 55 classes, 10, 10 and 60
LARGEST = {
    "lines": 72_300,
    "files": 330,
    "classes of policies": 55,
    "is_binary": 100,
    ".repeat": 100,
    "fmt: skip": 0,
}


def test_the_house_does_not_grow() -> None:
    now = counts()
    print(now)
    assert {name: now[name] for name in now if now[name] > LARGEST[name]} == {}


def test_lines_are_as_the_formatter_makes_them() -> None:
    rooms = {"client", "paper", "studies", "support"}
    odd = {
        module
        for module, path in FILES.items()
        if unit_of(module) in rooms and "# fmt: skip" in path.read_text(encoding="utf-8")
    }
    assert odd == set()


def test_architecture_page_is_short_and_names_every_room() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= LONGEST_PAGE, "say it in the room's __init__.py"
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert {room for room in rooms if f"{room}/" not in page} == set()


NAMED = sorted(
    set(
        re.findall(
            r"`([\w/]+(?:\.\w+|/))(?:::(\w+))?`",
            (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## To change")[2],
        )
    )
)


def test_architecture_page_names_what_exists() -> None:
    for path, name in NAMED:
        files = [base / path for base in (PACKAGE, ROOT) if (base / path).exists()]
        assert len(files) == 1, path
        pattern = rf"^(def |class )?{name}\b"
        assert not name or re.search(pattern, files[0].read_text("utf-8"), re.M), (path, name)


def test_version_is_written_once() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["dynamic"] == ["version"]
    source = ROOT / pyproject["tool"]["hatch"]["version"]["path"]
    (written,) = re.findall(r'^__version__ = "(.+)"$', source.read_text(encoding="utf-8"), re.M)
    assert decobandit.__version__ == written
