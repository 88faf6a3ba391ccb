"""Workers: the number asked for is the number of threads, from the command down to the tables."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decobandit import make_policy
from decobandit.arm import Calibration, Cones, RowGittins
from decobandit.arm.calibration import SINGLE_THREAD_STAGES, flat_table
from decobandit.bounds import gap
from decobandit.evaluation import evaluate
from decobandit.joint import joint_sweep, optimum
from decobandit.policies import (
    CalibratedPolicy,
    KlUcbPolicy,
    upper_bounds,
)
from decobandit.prices import band_market as market_module
from decobandit.prices import dual_value, solve
from decobandit.problem import Arm, BetaBernoulli, NormalNormal, Problem
from decobandit.simulation import simulate
from decobandit.support import (
    Progress,
    legs,
    limited_workers,
    pool,
    tells_progress,
    worker_count,
    workers,
)
from helpers.values import information_bound

SRC = Path(__file__).parents[2] / "src" / "decobandit"


def several(horizon: int) -> Problem:
    """Three kinds of arms."""
    arms = tuple(Arm(name=f"{k}", prior=BetaBernoulli(good=1 + 0.5 * k, bad=1.5)) for k in range(3))
    return Problem(arms=arms, horizon=horizon)


SMALL = several(6)
LONG = several(SINGLE_THREAD_STAGES + 2)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Sizes of the pools that are made, on a machine that seems to have 4 processors."""
    sizes: list[int] = []
    make = workers._threads

    def counted(number: int, stopped: threading.Event) -> ThreadPoolExecutor:
        sizes.append(number)
        return make(number, stopped)

    monkeypatch.setattr(workers, "_threads", counted)
    monkeypatch.setattr(workers, "available_workers", lambda: 4)
    # small problems are worth threads here
    monkeypatch.setattr(joint_sweep, "SMALL_LEVEL", 0)
    monkeypatch.setattr(joint_sweep, "SHORT_HORIZON", 0)
    monkeypatch.setattr(market_module, "STATES_IN_STEP", 1)
    monkeypatch.setattr(upper_bounds, "STATES_PER_THREAD", 16)
    return sizes


def calibrated_table(number: int | None) -> object:
    base = np.linspace(0.3, 0.1 + 1e-6 * np.random.default_rng().random(), LONG.stages)
    return Calibration(LONG, base, sweeps=64, workers=number).stage_index(0)


def gittins(number: int | None) -> object:
    return flat_table(
        alpha=1.0,
        beta=1.0,
        reward_good=1.0,
        reward_bad=0.0,
        stages=SINGLE_THREAD_STAGES + 1,
        workers=number,
    )


def cones(number: int | None) -> object:
    return Cones(several(20), np.full(20, 0.5), workers=number).terms(0, 0, (0, 0))


def a_curve(number: int | None) -> object:
    def root(a: Any, b: Any, v: float, out: Any) -> None:
        out[:] = v

    with limited_workers(number):
        return upper_bounds.Curve(np.arange(1.0, 41.0), root, lambda n, g: (n, g)).at(30)


def tabled(number: int | None) -> object:
    """Its tables are made in the middle of a simulation, by a policy that was given no number."""
    policies = [KlUcbPolicy(LONG), make_policy(LONG, "fh-gittins")]
    return simulate(LONG, policies, draws=2, per_draw=1, workers=number)


def evaluated(number: int | None) -> object:
    policy = KlUcbPolicy(several(8))
    return evaluate(policy.problem, policy, workers=number)


COMPUTE: dict[str, Callable[[int | None], object]] = {
    "solve": lambda n: solve(SMALL, tol=1e-2, workers=n),
    "dual_value": lambda n: dual_value(SMALL, np.full(6, 0.5), workers=n),
    "optimum": lambda n: optimum(SMALL, workers=n),
    "optimum of two arms": lambda n: optimum(Problem.uniform(arms=2, horizon=20), workers=n),
    "simulate": lambda n: simulate(SMALL, [KlUcbPolicy(SMALL)], draws=2, per_draw=1, workers=n),
    "tables in a simulation": tabled,
    "tables in an evaluation": evaluated,
    "gap": lambda n: gap(SMALL, KlUcbPolicy(SMALL), method="simulated", draws=10, workers=n),
    "information bound": lambda n: information_bound(SMALL, draws=3, workers=n),
    "calibrated table": calibrated_table,
    "gittins table": gittins,
    "cones": cones,
    "curve": a_curve,
}


@pytest.mark.parametrize("name", COMPUTE)
def test_one_worker_starts_no_thread(started: list[int], name: str) -> None:
    before = threading.active_count()
    COMPUTE[name](1)
    assert started == []
    assert threading.active_count() == before


@pytest.mark.parametrize("name", COMPUTE)
def test_workers_are_as_many_as_asked_for_or_all(started: list[int], name: str) -> None:
    COMPUTE[name](2)
    assert set(started) == {2}
    started.clear()
    COMPUTE[name](None)
    assert max(started) in (3, 4)  # no more than there are pieces of work
    started.clear()
    with limited_workers(1):
        COMPUTE[name](None)
        COMPUTE[name](3)  # an inner number does not pass the outer one
    assert started == []


def test_work_in_a_pool_starts_no_threads(started: list[int]) -> None:
    with pool(worker_count(3)) as threads:
        assert threads.map(lambda _: worker_count(), range(5)) == [1] * 5
        assert threads.map(lambda _: worker_count(8), range(5)) == [1] * 5
    assert started == [3]
    assert worker_count() == 4


def test_one_worker_is_the_calling_thread() -> None:
    with pool(1) as threads:
        assert threads.map(lambda _: threading.get_ident(), "ab") == [threading.get_ident()] * 2


@pytest.mark.parametrize("number", [0, -1, "2", 1.5])
def test_other_numbers_are_refused(number: Any) -> None:
    message = f"workers: {number!r} is not allowed; must be a number, 1 or more"
    with pytest.raises(ValueError, match=message):
        solve(SMALL, workers=number)


def test_threads_are_started_in_one_place() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in SRC.rglob("*.py")}
    making = {path.name for path, text in sources.items() if "ThreadPoolExecutor" in text}
    counting = {path.name for path, text in sources.items() if "cpu_count" in text}
    assert making == counting == {"workers.py"}


def test_tables_do_not_depend_on_workers() -> None:
    base = np.linspace(0.31, 0.12, LONG.stages)
    one, more = (
        CalibratedPolicy(LONG, make_policy(LONG, "fh-gittins").path, base, sweeps=64)
        for _ in range(2)
    )
    with limited_workers(1):
        first = one.stage_index(20)
    assert np.array_equal(first, more.stage_index(20))


@pytest.mark.parametrize("number", [1, 2])
def test_steps_are_told_while_items_are_under_way(number: int) -> None:
    """Each item ends only when the calling thread was told of both of its steps."""
    told, heard = list[int](), threading.Event()

    def report(now: Progress) -> None:
        assert (now.what, now.total) == ("long work", 2 * number)
        told.append(now.done)
        if now.done == 2 * number:
            heard.set()

    @tells_progress
    def run(*, progress: Callable[[Progress], None]) -> list[int]:
        def work(item: int, step: Callable[[int], None]) -> int:
            step(1)
            step(1)
            assert heard.wait(60)
            return 10 * item

        with pool(number) as threads:
            return threads.map_in_steps("long work", work, range(number), 2 * number)

    assert run(progress=report) == [0, 10][:number]
    assert (told[0], told[-1]) == (0, 2 * number)
    assert told == sorted(told)


# -- interrupts ---------------------------------------------------------------------------------


def test_threads_end_between_legs_when_the_main_thread_is_interrupted() -> None:
    """A real SIGINT, while the main thread waits and two others have much left to do."""
    begun, ended = threading.Barrier(2), list[int]()

    def work(number: int) -> None:
        begun.wait()
        if number == 0:
            os.kill(os.getpid(), signal.SIGINT)
        for first, _ in legs(0, 10**9, 1e9):
            time.sleep(1e-3)
            if first == 60_000:  # a minute
                break
        ended.append(number)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), pool(2) as threads:
            threads.map(work, range(2))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not ended  # nor has any reached its end


def test_work_on_gittins_tables_is_given_up_when_the_main_thread_leaves() -> None:
    """Of measurements they are made by the threads that play; what waits never begins."""
    arm = Arm(name="a", prior=NormalNormal(mean=0.0, sd=1.0), noise_sd=1.0)
    tables = [RowGittins(Problem(arms=(arm,), horizon=100), 0) for _ in range(4)]
    made: list[Future[Any]] = []

    def begin_and_leave() -> None:
        with pool(2) as threads:
            made.extend(threads.submit(each.table, 0) for each in tables)
            while not all(each.running() for each in made[:2]):
                time.sleep(1e-3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        begin_and_leave()
    assert all(isinstance(each.exception(), KeyboardInterrupt) for each in made[:2])
    assert all(each.cancelled() for each in made[2:])


@pytest.mark.parametrize(("first", "last"), [(0, 10), (10, 0), (3, 3), (7, 1)])
@pytest.mark.parametrize("states", [1.0, 6e7, 1e12])
def test_legs_are_all_stages_in_order(first: int, last: int, states: float) -> None:
    cut = list(legs(first, last, states))
    assert [start for start, _ in cut] == ([first, *(stop for _, stop in cut[:-1])] if cut else [])
    assert (cut[-1][1] if cut else first) == last
    most = max(1, int(2e8 / states))
    assert all(1 <= abs(stop - start) <= most for start, stop in cut)
