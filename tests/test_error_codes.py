"""The page of error codes lists the codes of the code, no more and no fewer."""

import ast
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import decobandit
from decobandit import DecoError
from decobandit.server.errors import CODES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
EXCEPTIONS, SERVER = PAGE.split("## Codes of the server only")


def subclasses(kind: type[DecoError]) -> Iterator[type[DecoError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from subclasses(child)


def test_the_page_has_every_exception_by_its_code() -> None:
    for module in pkgutil.walk_packages(decobandit.__path__, "decobandit."):
        if ".migrations" not in module.name:
            import_module(module.name)
    kinds = {kind for kind in subclasses(DecoError) if kind.__module__.startswith("decobandit.")}
    rows = re.findall(r"^\| `(\w+)` \| (`.+?`) \|", EXCEPTIONS, re.M)
    listed = {(code, name) for code, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed == {(kind.code, kind.__name__) for kind in kinds}


def test_the_page_has_every_other_code_of_the_server() -> None:
    codes = set(CODES.values())
    for file in (ROOT / "src" / "decobandit" / "server").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "ApiError":
                codes |= {arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)}
    own = set(re.findall(r"^\| `(\w+)` \|", SERVER, re.M))
    assert own == codes - {kind.code for kind in subclasses(DecoError)}
