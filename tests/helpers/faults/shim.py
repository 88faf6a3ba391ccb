"""Faults of disk and clock for processes that were started with the shim of `shim.c`."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
NO_COMPILER = "no C compiler here: neither cc, gcc nor clang is in PATH"
MODES = ("none", "fail", "full", "short", "torn", "slow")  # as in shim.c
CALLS = {"write": 1, "sync": 2, "read": 4, "truncate": 8}
_NUMBERS = struct.Struct("6i")
_PATH, _WATCH, _SHIFT, _SIZE = 24, 1024, 2024, 2032  # where they are in the plan; its length
EVER = 1_000_000  # calls


def compiler() -> str | None:
    """The C compiler of this machine."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


class DiskFaults:
    """The plan that preloaded processes follow: set it, and they are struck."""

    def __init__(self, folder: Path) -> None:
        self.library, self.file = folder / "shim.so", folder / "plan"
        found = compiler()
        if found is None:
            raise RuntimeError(NO_COMPILER)
        subprocess.run(
            [found, "-O2", "-shared", "-fPIC", "-o", self.library, SOURCE, "-ldl"],
            check=True,
            capture_output=True,
            text=True,
        )
        self.changes = folder / "plan.log"  # of the folder that is watched
        self.file.write_bytes(bytes(_SIZE))
        self.changes.write_bytes(b"")
        for path, mode in ((folder, 0o755), (self.file, 0o666), (self.changes, 0o666)):
            path.chmod(mode)  # PostgreSQL runs as somebody else
        with self.file.open("r+b") as opened:
            self._plan = mmap.mmap(opened.fileno(), _SIZE)

    @property
    def environment(self) -> dict[str, str]:
        """For the process that is to be struck, and its forks."""
        return {"LD_PRELOAD": str(self.library), "DECO_FAULT_PLAN": str(self.file)}

    def aim(self, path: str) -> None:
        """Strike files whose path begins so: a database, its journal."""
        self.clear()
        self._plan[_PATH:_WATCH] = path.encode().ljust(1000, b"\0")

    def watch(self, folder: str) -> None:
        """Record changes of the files of a folder from now on, instead of syncing; "": no more."""
        if folder:
            self.changes.write_bytes(b"")
        self._plan[_WATCH:_SHIFT] = folder.encode().ljust(1000, b"\0")

    def set_clock(self, seconds: int) -> None:
        """Set the clock of the day so many seconds off."""
        self._plan[_SHIFT:_SIZE] = struct.pack("q", seconds)

    def strike(self, mode: str, calls: str, *, skip: int = 0, left: int = EVER) -> None:
        """Let `skip` calls of that sort through, then strike so many."""
        wanted = sum(CALLS[name] for name in calls.split("+"))
        _NUMBERS.pack_into(self._plan, 0, 0, wanted, skip, left, 0, 0)
        self._plan[0:4] = struct.pack("i", MODES.index(mode))

    def clear(self) -> int:
        """The disk is sound again; how many calls were struck."""
        self._plan[0:4] = bytes(4)
        return int(_NUMBERS.unpack_from(self._plan, 0)[4])
