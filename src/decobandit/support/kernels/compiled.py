"""The decorator of all kernels: compiled by numba on first use, and kept on disk.

numba looks for changes in the file that a kernel stands in, not in the kernels that it calls. Here
the kernels of a file are kept under a hash of all sources that they can depend on (`machine_code`),
and functions of other packages are left alone. numba asks its locators where to keep the code of a
function; the one below comes first, by numba's setting for that, and answers for this package only.
Where NUMBA_CACHE_LOCATOR_CLASSES names other locators, nothing is kept.
"""

from typing import Any, overload

import numba
import numpy as np
from numba import njit
from numba.core import event

from ..machine_code import PACKAGE, Decorator, Kernel, code_root, content_of_kernels, use_folder
from ..timing import COMPILING

CONTENT = content_of_kernels((numba.__version__, np.__version__))
ROOT = code_root(getattr(numba.config, "CACHE_DIR", ""))
KEEP = ROOT is not None and not getattr(numba.config, "CACHE_LOCATOR_CLASSES", "")


class KernelLocator:
    """Says where numba keeps the machine code of one kernel: in a folder for each file."""

    def __init__(self, function: Any, file: str, root: Any) -> None:
        self._py_file = file  # read by numba for its warnings
        _, room, _, name = function.__module__.split(".")
        self._content = CONTENT[f"{room}.{name}"]
        self._folder = root / f"{room}.{name}" / self._content
        self._line = str(function.__code__.co_firstlineno)
        if self._folder.exists():
            use_folder(self._folder)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return a locator for functions of this package only."""
        return cls(py_func, py_file, ROOT) if KEEP and _is_kernel(py_func) else None

    def ensure_cache_path(self) -> None:
        """Make the folder of the cache."""
        use_folder(self._folder)

    def get_cache_path(self) -> str:
        """Return the folder of the cache."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return a hash of the sources, so that copies of the package share code."""
        return self._content

    def get_disambiguator(self) -> str:
        """Return the line, which separates functions of one name."""
        return self._line


def _is_kernel(function: Any) -> bool:
    parts = function.__module__.split(".")
    return parts[0] == PACKAGE and len(parts) == 4 and parts[2] == "kernels"


if KEEP:  # numba's own locators follow, in numba's order
    locators = (
        f"{__name__}.{KernelLocator.__name__},UserProvidedCacheLocator,InTreeCacheLocator,"
        "UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
    )
    setattr(numba.config, "CACHE_LOCATOR_CLASSES", locators)  # noqa: B010


class CompilingListener(event.Listener):
    """Tells the clock when kernels are compiled."""

    def on_start(self, event: Any) -> None:
        """Start the compiling clock."""
        COMPILING.begin()

    def on_end(self, event: Any) -> None:
        """Stop the compiling clock."""
        COMPILING.end()


event.register("numba:compile", CompilingListener())  # type: ignore[no-untyped-call]


@overload
def compiled(function: Kernel) -> Kernel: ...
@overload
def compiled(**options: Any) -> Decorator: ...
def compiled(function: Any = None, **options: Any) -> Any:
    """Compile a kernel, without Python objects and without the interpreter's lock.

    options: those of numba.njit, such as fastmath and inline.
    """
    # fastmath is explicit: a kernel without it would take that of its first caller
    decorate = njit(cache=KEEP, **{"nogil": True, "fastmath": False, **options})
    return decorate if function is None else decorate(function)
