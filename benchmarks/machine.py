"""Where and with what the figures were made."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from decobandit import __version__

PACKAGES = ("highspy", "numba", "numpy", "scipy")


def facts() -> dict[str, object]:
    """The machine: processor, cores, memory, system."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Python, the packages that do the work, and the C compiler."""
    packages = {name: version(name) for name in PACKAGES}
    ours = {"python": platform.python_version(), "decobandit": __version__}
    return {**ours, **packages, "cc": _compiler()}


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _compiler() -> str:
    if shutil.which("cc") is None:
        return "none"
    shown = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True)
    return shown.stdout.partition("\n")[0]
