"""Faults: what is done to a world, each for a moment."""

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.faults.world import World

if TYPE_CHECKING:
    from helpers.faults.postgres import Cluster

LONGEST = 0.4  # seconds of a stall, or of a bad disk


@dataclass(frozen=True)
class Fault:
    """A kind of fault: what it strikes, and how; False where it came too late to strike."""

    name: str
    target: str  # two faults at once have different ones
    strike: Callable[[World, random.Random], bool]


def _moment(rng: random.Random) -> None:
    time.sleep(rng.uniform(0.02, LONGEST))


def _kill_server(world: World, rng: random.Random) -> bool:
    server = rng.choice(world.servers)
    server.end(signal.SIGKILL)
    _moment(rng)
    server.start()
    return True


def _restart_server(world: World, rng: random.Random) -> bool:
    server = rng.choice(world.servers)
    server.end(signal.SIGTERM)
    server.start()
    return True


def _stall_server(world: World, rng: random.Random) -> bool:
    server = rng.choice(world.servers)
    server.process.signal(signal.SIGSTOP)
    _moment(rng)
    server.process.signal(signal.SIGCONT)
    return True


def _kill_client(world: World, rng: random.Random) -> bool:
    process = world.processes.pop(rng.randrange(len(world.processes)))
    process.signal(signal.SIGKILL)
    process.wait()
    world.add_process()
    _moment(rng)
    return True


def _stall_client(world: World, rng: random.Random) -> bool:
    process = rng.choice(world.processes)
    process.signal(signal.SIGSTOP)
    _moment(rng)
    process.signal(signal.SIGCONT)
    return True


def _kill_program(world: World, rng: random.Random) -> bool:
    last, give_up = world.program.running, time.monotonic() + 5
    while world.program.running is last and time.monotonic() < give_up:
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.25))
    process = world.program.running
    if process is None or process is last or process.ended:
        return False
    process.signal(signal.SIGKILL)
    return True


def _disk(mode: str, calls: str, most: int) -> Callable[[World, random.Random], bool]:
    """A bad disk: after some calls, so many others are struck."""

    def strike(world: World, rng: random.Random) -> bool:
        world.disk.strike(mode, calls, skip=rng.randrange(12), left=rng.randint(1, most))
        time.sleep(LONGEST)
        return world.disk.clear() > 0

    return strike


def _set_clock(world: World, rng: random.Random) -> bool:
    """Back or forth, by a second to ten years; mostly it stays so until it is set again."""
    seconds = rng.choice([1, 60, 3600, 86_400, 366 * 86_400, 3660 * 86_400])
    world.disk.set_clock(rng.choice([-1, 1]) * rng.randint(1, seconds))
    _moment(rng)
    if rng.random() < 0.3:
        world.disk.set_clock(0)
    return True


EVERYWHERE = (
    Fault("clock set back or forth", "clock", _set_clock),
    Fault("server killed (SIGKILL)", "server", _kill_server),
    Fault("server restarted (SIGTERM)", "server", _restart_server),
    Fault("server stalled (SIGSTOP)", "server", _stall_server),
    Fault("client killed (SIGKILL)", "client", _kill_client),
    Fault("client stalled (SIGSTOP)", "client", _stall_client),
    Fault("command line killed (SIGKILL)", "program", _kill_program),
)
BELOW_SQLITE = (
    Fault("disk full (ENOSPC)", "database", _disk("full", "write", 200)),
    Fault("write fails (EIO)", "database", _disk("fail", "write", 6)),
    Fault("write fails half-way (EIO)", "database", _disk("torn", "write", 3)),
    Fault("short writes", "database", _disk("short", "write", 200)),
    Fault("sync fails (EIO)", "database", _disk("fail", "sync", 3)),
    Fault("truncation fails (EIO)", "database", _disk("fail", "truncate", 3)),
    Fault("read fails (EIO)", "database", _disk("fail", "read", 6)),
    Fault("disk stalls", "database", _disk("slow", "write+sync", 8)),
)


def below_postgresql(cluster: "Cluster") -> tuple[Fault, ...]:
    """What can happen to that server."""

    def restart(world: World, rng: random.Random) -> bool:
        cluster.stop()
        _moment(rng)
        cluster.start()
        return True

    def stall(world: World, rng: random.Random) -> bool:
        cluster.stall(rng.uniform(0.02, LONGEST))
        return True

    def terminate(world: World, rng: random.Random) -> bool:
        time.sleep(rng.uniform(0, 0.1))
        return cluster.terminate(world.db) > 0

    def kill_backend(world: World, rng: random.Random) -> bool:
        return cluster.kill_backend(world.db, rng)

    return (
        Fault("PostgreSQL restarted (immediate)", "database", restart),
        Fault("PostgreSQL stalled (SIGSTOP)", "database", stall),
        Fault("backends terminated", "database", terminate),
        Fault("backend killed (SIGKILL)", "database", kill_backend),
    )
