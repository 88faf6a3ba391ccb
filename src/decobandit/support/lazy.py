"""Names of a package that are imported on first use, by its `if TYPE_CHECKING` list of imports."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import get_data
from typing import Any


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, by the list in its `__init__.py`."""
    # through the loader, which finds a file in a zipped package too
    source = (get_data(package, os.path.basename(file)) or b"").decode()
    homes = {  # relative modules of the names that are imported for type checkers
        alias.name: "." * node.level + (node.module or "")
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = sorted(homes)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with explain_missing_extras():
            return getattr(import_module(homes[name], package), name)

    return load, lambda: names, names


EXTRAS = {  # top-level modules of optional dependencies: the extra that installs them
    "alembic": "trials",
    "cryptography": "trials",
    "sqlalchemy": "trials",
    "httpx": "client",
    "fastapi": "server",
    "httptools": "server",
    "prometheus_client": "server",
    "starlette": "server",
    "uvicorn": "server",
}


@contextmanager
def explain_missing_extras() -> Iterator[None]:
    """Replace the error for a missing optional dependency by one that names its extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        how = f"pip install 'decobandit[{EXTRAS[module]}]'"
        message = f"{module} is not installed; install it with: {how}"
        raise ModuleNotFoundError(message, name=error.name) from None
