"""Seconds that results report are without those of the compiler."""

import gc
import threading
import time

import pytest
from numba import njit

from decobandit.support import Stopwatch, timing
from decobandit.support.kernels import compiled as decorator  # registers the listener

TICK = 0.05


@pytest.fixture
def clock(monkeypatch):
    """A clock of its own: kernels of other tests do not move it."""
    own = timing.CompilingClock()
    monkeypatch.setattr(timing, "COMPILING", own)
    return own


def test_a_stopwatch_stands_still_while_a_kernel_is_compiled(clock):
    watch = Stopwatch()
    clock.begin()
    time.sleep(TICK)
    assert watch.seconds() < TICK / 2  # also before the compiler is done
    clock.end()
    assert watch.seconds() < TICK / 2
    time.sleep(TICK)
    assert watch.seconds() >= TICK


def test_compilers_of_two_threads_are_counted_once(clock):
    begun = threading.Barrier(2)

    def compile_for(seconds):
        clock.begin()
        begun.wait()
        time.sleep(seconds)
        clock.end()

    began = time.perf_counter()
    threads = [threading.Thread(target=compile_for, args=(TICK * k,)) for k in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 2 * TICK <= clock.seconds() <= time.perf_counter() - began


def test_numba_moves_the_clock_and_the_collector_is_back_afterwards(monkeypatch):
    seen = []

    @njit
    def called(x):
        return x + 1

    @njit
    def calls(x):
        return called(x)

    begin = timing.COMPILING.begin
    monkeypatch.setattr(
        decorator.COMPILING, "begin", lambda: (seen.append(gc.isenabled()), begin())[1]
    )
    before = timing.COMPILING.seconds()
    assert calls(1) == 2
    assert seen == [True, False]  # the second is compiled within the first
    assert gc.isenabled()
    assert timing.COMPILING.seconds() > before
