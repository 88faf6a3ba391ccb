"""Memory and processors that a process may use: those of the machine, and of its control groups."""

from pathlib import Path

import pytest

from decobandit.support import available_bytes, limit_bytes, machine, refuse_over, workers
from helpers.refusals import refused

GB = 10**9


def tree(folder: Path, membership: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Made-up /proc/self/cgroup and /sys/fs/cgroup."""
    (folder / "cgroup").write_text(membership)
    for name, text in files.items():
        path = folder / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder / "cgroup", folder / "fs"


@pytest.mark.parametrize(
    ("membership", "files", "left"),
    [
        # version 2: the group's own limit
        ("0::/a/b\n", {"a/b/memory.max": "5000", "a/b/memory.current": "2000"}, 3000),
        # a group above it leaves less
        (
            "0::/a/b\n",
            {
                "a/b/memory.max": "5000",
                "a/b/memory.current": "2000",
                "a/memory.max": "6000",
                "a/memory.current": "5500",
            },
            500,
        ),
        # files in memory give way
        (
            "0::/a\n",
            {
                "a/memory.max": "5000",
                "a/memory.current": "4000",
                "a/memory.stat": "anon 100\ninactive_file 1500\nactive_file 9",
            },
            2500,
        ),
        ("0::/a\n", {"a/memory.max": "max", "a/memory.current": "4000"}, None),
        ("0::/a\n", {"a/memory.max": "3000", "a/memory.current": "4000"}, 0),
        ("0::/\n", {"memory.max": "3000", "memory.current": "1000"}, 2000),
        ("0::/a\n", {}, None),
        ("", {}, None),
        ("nonsense\n\n:\n", {"memory.max": "nonsense", "memory.current": "1"}, None),
    ],
)
def test_memory_that_control_groups_leave(
    tmp_path: Path, membership: str, files: dict[str, str], left: int | None
) -> None:
    assert machine.memory_left(*tree(tmp_path, membership, files)) == left


@pytest.mark.parametrize(
    ("membership", "files", "processors"),
    [
        ("0::/a\n", {"a/cpu.max": "200000 100000"}, 2),
        ("0::/a\n", {"a/cpu.max": "150000 100000"}, 2),
        ("0::/a\n", {"a/cpu.max": "1000 100000"}, 1),
        ("0::/a\n", {"a/cpu.max": "max 100000"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
        ("0::/a\n", {"a/cpu.max": "100000 0"}, None),
        ("0::/a\n", {"a/cpu.max": "nonsense"}, None),
        ("0::/a\n", {}, None),
    ],
)
def test_processors_that_control_groups_leave(
    tmp_path: Path, membership: str, files: dict[str, str], processors: int | None
) -> None:
    assert machine.cpu_limit(*tree(tmp_path, membership, files)) == processors


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert machine.memory_left(tmp_path / "none", tmp_path) is None
    assert machine.cpu_limit(tmp_path / "none", tmp_path) is None


def test_the_smaller_of_machine_and_group_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_left", lambda: None)
    everything = available_bytes()
    assert everything > 10**7
    monkeypatch.setattr(machine, "memory_left", lambda: 10**6)
    assert available_bytes() == 10**6
    assert limit_bytes() == 700_000
    monkeypatch.setattr(machine, "memory_left", lambda: 2**62)
    assert available_bytes() <= 2**50


def test_what_is_left_is_read_anew_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"a/memory.max": "5000", "a/memory.current": "2000"}
    place = tree(tmp_path, "0::/a\n", files)
    monkeypatch.setattr(machine.memory_left, "__defaults__", place)
    assert available_bytes() == 3000
    tree(tmp_path, "0::/a\n", {"a/memory.current": "4500"})
    assert available_bytes() == 500


def test_what_needs_more_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_bytes", lambda: 10 * GB)
    refuse_over(6.9 * GB, "a table", "make it smaller")
    with refused("too_large"):
        refuse_over(7.1 * GB, "a table", "make it smaller")


def test_processors_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    monkeypatch.setattr(workers, "cpu_limit", lambda: None)
    assert workers.available_workers() == 3
    monkeypatch.setattr(workers, "cpu_limit", lambda: 2)
    assert workers.available_workers() == 2
    monkeypatch.setattr(workers, "cpu_limit", lambda: 8)
    assert workers.available_workers() == 3
