"""C functions beside ours, compiled for this very machine."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def there_is_a_compiler() -> bool:
    """Whether C can be compiled here."""
    return shutil.which("cc") is not None


def compiled(name: str, folder: Path) -> ctypes.CDLL:
    """The library of the file `name`.c of this folder, built in `folder`."""
    library, source = folder / f"{name}.so", HERE / f"{name}.c"
    command = ["cc", "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run([*command, "-lm"], check=True)
    return ctypes.CDLL(str(library))
