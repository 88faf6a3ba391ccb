"""Worlds, one after the other, each struck by faults and then checked."""

import contextlib
import os
import random
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.faults.checker import happened, violations
from helpers.faults.history import WRITES
from helpers.faults.injectors import BELOW_SQLITE, EVERYWHERE, Fault, below_postgresql
from helpers.faults.power import (
    SYNCED,
    cuts,
    postgresql_again,
    read_changes,
    recover,
    sqlite_again,
)
from helpers.faults.rows import stored_trials
from helpers.faults.shim import DiskFaults
from helpers.faults.world import World, open_world
from helpers.faults.zygote import Zygote

if TYPE_CHECKING:
    from helpers.faults.postgres import Cluster

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
WRITE_AHEAD = "SQLite, write-ahead log"
PER_WORLD = 25  # faults
CUTS = {SQLITE: 100, WRITE_AHEAD: 100, POSTGRESQL: 20}  # power cuts of one recorded run
SYNCS = {SQLITE: 100, WRITE_AHEAD: 100, POSTGRESQL: 80}  # after which that run ends
RUN = 20.0  # seconds until it ends anyhow
TWO_AT_ONCE = 0.3  # how often
KEPT = Path(__file__).parents[2] / "artifacts" / "faults"  # histories that were wrong


@dataclass
class Tally:
    """What was done, and what came of it."""

    seed: int
    worlds: int = 0
    seconds: float = 0.0
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)  # database, kind
    late: int = 0  # came when there was nothing to strike
    operations: Counter[tuple[str, str]] = field(default_factory=Counter)  # kind, outcome
    requests: Counter[str] = field(default_factory=Counter)  # by what became of them
    events: int = 0
    damaged: int = 0  # answers that called a sound database damaged
    recovery: dict[str, list[float]] = field(default_factory=dict)  # seconds after power cuts
    wrong: list[str] = field(default_factory=list)
    whole: bool = True  # not interrupted

    @property
    def struck(self) -> int:
        return self.faults.total()


@dataclass
class Stage:
    """What worlds share."""

    zygote: Zygote
    disk: DiskFaults
    cluster: "Cluster | None"


@contextmanager
def open_stage(*, postgresql: bool) -> Iterator[Stage]:
    """Compile the shim, load the package, start PostgreSQL where it is wanted."""
    with ExitStack() as stack:
        places = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"deco-{name}-")))
            for name in ("shim", "pg")
        ]
        disk = DiskFaults(places[0])
        zygote = Zygote(disk.environment)
        stack.callback(zygote.close)
        cluster = None
        if postgresql:
            # late: pytest wants to be the first to import what the tests use as a plugin
            from helpers.faults.postgres import Cluster

            cluster = Cluster(places[1], disk.environment)
            stack.callback(cluster.stop)
        yield Stage(zygote, disk, cluster)


def run_campaign(
    stage: Stage, tally: Tally, *, faults: int, say: Callable[[str], None] = print
) -> Tally:
    """Strike until so many faults have struck; Ctrl-C ends it with what was found so far."""
    began = time.monotonic()
    try:
        while tally.struck < faults:
            run, database = _next_world(stage, tally.worlds)
            seed = f"{tally.seed} {tally.worlds}"
            before = len(tally.wrong)
            try:
                run(stage, tally, database, seed, faults - tally.struck)
            except RuntimeError as error:  # something did not start, end or answer
                tally.wrong.append(f"world {tally.worlds - 1}: failed: {error}")
            tally.seconds = time.monotonic() - began
            say(
                f"world {tally.worlds - 1} ({database}): {tally.struck} of {faults} faults, "
                f"{tally.operations.total()} operations, {tally.requests['acknowledged']} "
                f"acknowledged, {len(tally.wrong)} violations, {tally.seconds:.0f} s"
            )
            for text in tally.wrong[before:]:
                say(f"  {text}")
    except KeyboardInterrupt:
        tally.whole = False
        say("interrupted: this is what was found so far")
    tally.seconds = time.monotonic() - began
    return tally


def _next_world(stage: Stage, number: int) -> tuple[Callable[..., None], str]:
    """Which of the experiments is next, and on which database."""
    kinds = [
        (run_world, SQLITE),
        (run_world, SQLITE),
        (cut_power, SQLITE),
        (run_world, SQLITE),
        (cut_power, WRITE_AHEAD),
        (run_world, POSTGRESQL),
        (run_world, POSTGRESQL),
        (cut_power, POSTGRESQL),
    ]
    kinds = [kind for kind in kinds if stage.cluster or kind[1] != POSTGRESQL]
    return kinds[number % len(kinds)]


def cut_power(stage: Stage, tally: Tally, database: str, seed: str, faults: int) -> None:
    """One world without other faults, recorded; then a power cut at every sync of it in turn."""
    number = tally.worlds
    keep, rng = KEPT / f"{tally.seed}-{number}", random.Random(seed)
    with ExitStack() as stack:
        image = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deco-cut-"))) / "data"
        cluster = stage.cluster if database == POSTGRESQL else None
        db = stack.enter_context(cluster.server.fresh()) if cluster else None
        root = cluster.data if cluster else Path()

        def prepare(place: str) -> None:
            nonlocal root
            if cluster:
                cluster.shut_down()
            else:
                root = Path(place).parent
                _keep_write_ahead_log(place, database == WRITE_AHEAD)
            shutil.copytree(root, image)
            stage.disk.watch(str(root))
            if cluster:
                cluster.start()

        stage.zygote.write_ahead = database == WRITE_AHEAD
        stack.callback(setattr, stage.zygote, "write_ahead", False)
        opened = open_world(db, stage.zygote, stage.disk, seed, keep=keep, prepare=prepare)
        world = stack.enter_context(opened)
        tally.worlds += 1
        world.start()
        give_up = time.monotonic() + RUN
        while time.monotonic() < give_up and _syncs(stage, root) < SYNCS[database]:
            time.sleep(0.2)
            stage.disk.set_clock(rng.randint(-86_400, 86_400))
            if cluster and rng.random() < 0.2:
                cluster.checkpoint()
        world.settle()
        changes = read_changes(stage.disk.changes, root)
        restart = postgresql_again(cluster, world.db) if cluster else sqlite_again
        history, most = world.history(), min(CUTS[database], faults)
        for cut in cuts(image, changes, rng, image.parent, most=most):
            wrong, seconds = recover(restart, cut, history)
            tally.faults[database, f"power cut, unsynced writes {cut.way}"] += 1
            tally.recovery.setdefault(database, []).append(seconds)
            tally.wrong += [f"world {number}: {text}" for text in wrong]
            if wrong:
                shutil.copytree(cut.folder, keep / cut.folder.name, dirs_exist_ok=True)
        _finish(world, tally, number, keep)


def _syncs(stage: Stage, root: Path) -> int:
    return sum(change.kind == SYNCED for change in read_changes(stage.disk.changes, root))


def _keep_write_ahead_log(db: str, wanted: bool) -> None:
    connection = sqlite3.connect(db)
    connection.execute(f"PRAGMA journal_mode={'wal' if wanted else 'truncate'}")
    connection.close()


def run_world(stage: Stage, tally: Tally, database: str, seed: str, faults: int) -> None:
    """One world: clients at work, some faults, and the check."""
    number, faults = tally.worlds, min(PER_WORLD, faults)
    keep = KEPT / f"{tally.seed}-{number}"
    with ExitStack() as stack:
        db = None
        kinds = [*EVERYWHERE, *BELOW_SQLITE]
        if database == POSTGRESQL:
            assert stage.cluster is not None
            db = stack.enter_context(stage.cluster.server.fresh())
            kinds = [*EVERYWHERE, *below_postgresql(stage.cluster)]
        world = stack.enter_context(open_world(db, stage.zygote, stage.disk, seed, keep=keep))
        world.start()
        time.sleep(0.3)
        try:
            _strike(world, tally, database, kinds, random.Random(seed), faults)
        finally:
            tally.worlds += 1
            _finish(world, tally, number, keep)


def _strike(
    world: World, tally: Tally, database: str, kinds: list[Fault], rng: random.Random, faults: int
) -> None:
    """One fault after the other, sometimes two at once; all kinds equally often."""
    struck, deck = 0, _shuffled(kinds, rng)
    with ThreadPoolExecutor(2) as pool:
        while struck < faults:
            chosen = [next(deck)]
            if struck + 2 <= faults and rng.random() < TWO_AT_ONCE:
                chosen.append(next(kind for kind in deck if kind.target != chosen[0].target))
            seeds = [random.Random(rng.random()) for _ in chosen]
            done = list(pool.map(lambda fault, own: fault.strike(world, own), chosen, seeds))
            for fault, hit in zip(chosen, done, strict=True):
                if hit:
                    tally.faults[database, fault.name] += 1
                    struck += 1
                else:
                    tally.late += 1
            time.sleep(rng.uniform(0, 0.1))


def _shuffled(kinds: list[Fault], rng: random.Random) -> Iterator[Fault]:
    """All of them in a random order, again and again."""
    while True:
        yield from rng.sample(kinds, len(kinds))


def _finish(world: World, tally: Tally, number: int, keep: Path) -> None:
    """Let all come to rest, and check."""
    world.settle()
    wrong = [f"silent: no answer by {road} after the faults" for road in world.answers()]
    if said := world.verified():
        wrong.append(f"verify: {said}")
    history, trials = world.history(), stored_trials(world.db)
    wrong += [str(one) for one in violations(history, trials)]
    for one in history:
        tally.operations[one.request.kind, one.answer.outcome] += 1
        tally.damaged += one.answer.code == "damaged"
    tally.requests += happened(history, trials)
    tally.events += sum(len(trial.rows) - 1 for trial in trials)
    tally.wrong += [f"world {number}: {text}" for text in wrong]
    if wrong:
        _keep(world, keep)


def _keep(world: World, keep: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.copytree(world.folder, keep, dirs_exist_ok=True)


def writes(tally: Tally) -> int:
    """Attempts to change a trial."""
    return sum(number for (kind, _), number in tally.operations.items() if kind in WRITES)


def asked_for(default: int) -> int:
    """How many faults the environment asks for."""
    return int(os.environ.get("DECO_FAULTS", default))


def new_seed() -> int:
    """From the environment, to repeat a run; else another one each time."""
    given = os.environ.get("DECO_FAULTS_SEED")
    return int(given) if given else random.SystemRandom().randrange(10**6)
