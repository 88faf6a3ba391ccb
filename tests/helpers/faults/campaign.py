"""Worlds, one after the other, each struck by faults and then checked."""

import contextlib
import os
import random
import shutil
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
from helpers.faults.rows import stored_trials
from helpers.faults.shim import DiskFaults
from helpers.faults.world import World, open_world
from helpers.faults.zygote import Zygote

if TYPE_CHECKING:
    from helpers.faults.postgres import Cluster

PER_WORLD = 25  # faults
TWO_AT_ONCE = 0.3  # how often
KEPT = Path(__file__).parents[2] / "artifacts" / "faults"  # histories that were wrong
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"


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

            cluster = Cluster(places[1])
            stack.callback(cluster.stop)
        yield Stage(zygote, disk, cluster)


def run_campaign(
    stage: Stage, tally: Tally, *, faults: int, say: Callable[[str], None] = print
) -> Tally:
    """Strike until so many faults have struck; Ctrl-C ends it with what was found so far."""
    began = time.monotonic()
    try:
        while tally.struck < faults:
            kinds = [SQLITE, SQLITE, SQLITE, POSTGRESQL, POSTGRESQL] if stage.cluster else [SQLITE]
            database = kinds[tally.worlds % len(kinds)]
            seed = f"{tally.seed} {tally.worlds}"
            before = len(tally.wrong)
            try:
                run_world(stage, tally, database, seed, min(PER_WORLD, faults - tally.struck))
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


def run_world(stage: Stage, tally: Tally, database: str, seed: str, faults: int) -> None:
    """One world: clients at work, faults, and the check."""
    number = tally.worlds
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
