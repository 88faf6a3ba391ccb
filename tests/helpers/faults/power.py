"""Power cuts: what a disk may hold after one, at every sync of a recorded run in turn.

The shim records all changes of the files of a folder (`shim.c`). On the disk is certainly what was
written to a file before a sync of that file began. Whatever was written since may be there or not,
in any order, and in parts of 512 bytes. Names of files (new, removed, renamed) reach the disk in
their order: all of them by a sync of their folder, that of a new file by a sync of the file. After
a cut, everything acknowledged before it must be in the database, and nothing half.
"""

import random
import shutil
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from decobandit.support import DecoError
from helpers.faults.checker import violations
from helpers.faults.history import UNKNOWN, Answer, Operation
from helpers.faults.rows import stored_trials
from helpers.faults.world import TRIALS

if TYPE_CHECKING:
    from helpers.faults.postgres import Cluster

HEADER = struct.Struct("3q4i")  # as in shim.c
WRITTEN, SIZED, GROWN, SYNCED, CREATED, REMOVED, RENAMED, FOLDER = range(8)
SECTOR = 512
VOLATILE = (" (deleted)", "-shm", "postmaster.pid")  # not on the disk, or written at every start
WAYS = ("dropped", "torn", "reordered", "kept")  # what becomes of writes that were not synced


@dataclass(frozen=True)
class Change:
    """One change of a file; `place`: where it is in the log, `begun`: what a sync covers."""

    place: int
    time: int
    at: int
    begun: int
    kind: int
    path: str
    second: str = ""
    data: bytes = b""


def read_changes(log: Path, root: Path) -> list[Change]:
    """All changes below a folder, with paths from there."""
    content, place, changes = log.read_bytes(), 0, []
    while place < len(content):
        time_, at, begun, kind, *lengths = HEADER.unpack_from(content, place)
        start, parts = place + HEADER.size, []
        for length in lengths:
            parts.append(content[start : start + length])
            start += length
        paths = [part.decode() for part in parts[:2]]
        if not paths[0].endswith(VOLATILE):
            names = [str(PurePosixPath(path).relative_to(root)) if path else "" for path in paths]
            changes.append(Change(place, time_, at, begun, kind, *names, data=parts[2]))
        place = start
    return changes


@dataclass
class Disk:
    """Files that are certainly on it, and changes that may be; `image`: what it held at first."""

    image: Path
    names: dict[str, int] = field(default_factory=dict)  # as programs see them: numbers of files
    stored: dict[str, int] = field(default_factory=dict)  # as they are on the disk
    files: dict[int, bytearray] = field(default_factory=dict)  # those with synced changes
    waiting: dict[int, list[Change]] = field(default_factory=dict)
    moves: list[tuple[Change, int]] = field(default_factory=list)  # of names, with their file

    def __post_init__(self) -> None:
        found = sorted(path for path in self.image.rglob("*") if path.is_file())
        self.first = [str(path.relative_to(self.image)) for path in found]
        self.names = {name: number for number, name in enumerate(self.first)}
        self.stored = dict(self.names)
        self._count = len(self.first)

    def take(self, change: Change) -> None:
        """One more change of the record."""
        if change.kind in (WRITTEN, SIZED, GROWN):
            self.waiting.setdefault(self._file(change.path), []).append(change)
        elif change.kind == SYNCED and change.path in self.names:
            self._sync(self.names[change.path], change.begun)
        elif change.kind == SYNCED:
            inside = [
                change.path in (_folder(move.path), _folder(move.second or move.path))
                and move.place < change.begun
                for move, _ in self.moves
            ]
            self._store_names(max((n + 1 for n, there in enumerate(inside) if there), default=0))
        elif change.kind != FOLDER and (change.kind == CREATED or change.path in self.names):
            if change.kind == CREATED:
                self._count += 1
            number = self._count if change.kind == CREATED else self.names[change.path]
            self.moves.append((change, number))
            _move(self.names, change, number)

    def _file(self, name: str) -> int:
        """The number of a file; one whose beginning was not recorded is on the disk at once."""
        if name not in self.names:
            self._count += 1
            self.names[name] = self.stored[name] = self._count
        return self.names[name]

    def _sync(self, number: int, begun: int) -> None:
        changes = self.waiting.pop(number, [])
        if early := [one for one in changes if one.place < begun]:
            self.files[number] = self._content(number, early)
        if late := [one for one in changes if one.place >= begun]:
            self.waiting[number] = late
        created = (n + 1 for n, (move, of) in enumerate(self.moves) if of == number)
        self._store_names(next(created, 0))

    def _store_names(self, count: int) -> None:
        for move, number in self.moves[:count]:
            _move(self.stored, move, number)
        del self.moves[:count]

    def _content(self, number: int, changes: Sequence[Change]) -> bytearray:
        known = self.files.get(number)
        if known is None and number < len(self.first):
            known = bytearray((self.image / self.first[number]).read_bytes())
        content = bytearray(known or b"")
        for change in changes:
            end = change.at + len(change.data)
            if len(content) < end:
                content.extend(bytes(end - len(content)))
            if change.kind == WRITTEN:
                content[change.at : end] = change.data
            elif change.kind == SIZED:
                del content[change.at :]
        return content

    def cut(self, way: str, rng: random.Random, folder: Path) -> None:
        """Write to a folder what may be left after a power cut now."""
        shutil.copytree(self.image, folder)
        count = {"dropped": 0, "kept": len(self.moves)}.get(way, rng.randint(0, len(self.moves)))
        names = dict(self.stored)
        for move, number in self.moves[:count]:
            _move(names, move, number)
        for name in set(self.first) - set(names):
            (folder / name).unlink()
        for name, number in names.items():
            left = _left(self.waiting.get(number, []), way, rng)
            is_first = number < len(self.first) and self.first[number] == name
            if left or number in self.files or not is_first:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self._content(number, left))


def _folder(name: str) -> str:
    return str(PurePosixPath(name).parent)


def _move(names: dict[str, int], change: Change, number: int) -> None:
    if change.kind == CREATED:
        names[change.path] = number
    elif names.get(change.path) == number:
        del names[change.path]
    if change.kind == RENAMED:
        names[change.second] = number


def _left(changes: Sequence[Change], way: str, rng: random.Random) -> list[Change]:
    """Which of these changes, or which parts of them, reached the disk."""
    if way in ("dropped", "kept"):
        return [] if way == "dropped" else list(changes)
    left = []
    for change in changes:
        if way == "reordered" or change.kind != WRITTEN:
            left += [change] if rng.random() < 0.5 else []
            continue
        edges = range(change.at - change.at % SECTOR, change.at + len(change.data), SECTOR)
        for edge in (edge for edge in edges if rng.random() < 0.5):
            start, end = max(edge - change.at, 0), edge + SECTOR - change.at
            left.append(replace(change, at=change.at + start, data=change.data[start:end]))
    return left


@dataclass(frozen=True)
class Cut:
    """One power cut: when, what became of unsynced writes, and what was left."""

    time: int
    way: str
    folder: Path


def cuts(
    image: Path, changes: Sequence[Change], rng: random.Random, folder: Path, *, most: int
) -> Iterator[Cut]:
    """One cut before the end of every sync in turn, evenly spaced ones if there are too many."""
    disk = Disk(image)
    syncs = [n for n, change in enumerate(changes) if change.kind == SYNCED]
    step = max(-(-len(syncs) // most), 1)
    wanted = set(syncs[rng.randrange(step) :: step])
    done = rng.randrange(len(WAYS))
    for number, change in enumerate(changes):
        if number in wanted:
            place = folder / f"cut-{number}"
            way = WAYS[done % len(WAYS)]
            disk.cut(way, rng, place)
            yield Cut(change.time, way, place)
            shutil.rmtree(place, ignore_errors=True)
            done += 1
        disk.take(change)


def until(history: Sequence[Operation], moment: int) -> list[Operation]:
    """Return the history as clients knew it at a moment."""
    begun = (one for one in history if one.began < moment)
    return [
        one
        if one.ended is not None and one.ended < moment
        else replace(one, ended=None, answer=Answer(UNKNOWN))
        for one in begun
    ]


def wrong_after(db: str, history: Sequence[Operation]) -> list[str]:
    """All that is wrong with a database after a cut; a store is opened, as after any restart."""
    from decobandit.trials import open_store, open_trial

    with open_store(db) as store:
        checks = [open_trial(name, db=store).verify() for name in TRIALS]
    problems = [text for check in checks for text in check.problems]
    wrong = [f"verify: {text}" for text in problems]
    return wrong + [str(one) for one in violations(history, stored_trials(db))]


def asks_again(db: str) -> None:
    """The first request after a restart."""
    from decobandit.trials import open_store, open_trial
    from decobandit.trials.errors import NoFreeSlot

    with open_store(db) as store:
        for name in TRIALS:
            try:
                open_trial(name, db=store).ask()
            except NoFreeSlot:
                continue


Restart = Callable[[Path], AbstractContextManager[str]]  # the database on the files of a folder


@contextmanager
def sqlite_again(folder: Path) -> Iterator[str]:
    """The database of a folder."""
    yield str(folder / "trials.db")


def postgresql_again(cluster: "Cluster", db: str) -> Restart:
    """How a server is started again on a folder; its database."""

    @contextmanager
    def restart(folder: Path) -> Iterator[str]:
        other = cluster.on(folder)
        try:
            other.start()
            yield db.replace(str(cluster.server.folder), str(folder.parent))
        finally:
            other.stop()

    return restart


def recover(restart: Restart, cut: Cut, history: Sequence[Operation]) -> tuple[list[str], float]:
    """Start again after a cut: what is wrong, and the seconds until the first new allocation."""
    began = time.monotonic()
    try:
        with restart(cut.folder) as db:
            started = time.monotonic() - began
            wrong = wrong_after(db, until(history, cut.time))
            began = time.monotonic()
            asks_again(db)
            return wrong, started + time.monotonic() - began
    except (DecoError, RuntimeError) as error:
        return [f"failed: after a power cut ({cut.way}): {error}"], time.monotonic() - began
