"""Seconds that results report are without those of the compiler."""

import gc
import io

import pytest
from numba import njit

from decobandit.support import Stopwatch, timing
from decobandit.support.kernels import compiled as decorator  # registers the listener


class Hands:
    """Time that passes when it is told to."""

    now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def hands(monkeypatch):
    made = Hands()
    monkeypatch.setattr(timing, "time", made)
    return made


@pytest.fixture
def clock(monkeypatch, hands):
    """A clock of its own: kernels of other tests do not move it."""
    own = timing.CompilingClock()
    monkeypatch.setattr(timing, "COMPILING", own)
    return own


def test_a_stopwatch_stands_still_while_a_kernel_is_compiled(clock, hands):
    watch = Stopwatch()
    hands.now = 1.0
    clock.begin()
    hands.now = 4.0
    assert watch.seconds() == 1.0  # also before the compiler is done
    clock.end()
    assert watch.seconds() == 1.0
    hands.now = 6.0
    assert watch.seconds() == 3.0


def test_compilers_of_two_threads_are_counted_once(clock, hands):
    clock.begin()
    hands.now = 1.0
    clock.begin()
    hands.now = 3.0
    clock.end()
    assert clock.seconds() == 3.0
    hands.now = 7.0
    clock.end()
    hands.now = 8.0
    assert clock.seconds() == 7.0


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


def test_a_terminal_shows_that_kernels_are_compiled_and_how_many(clock):
    terminal = io.StringIO()
    timing.show_compiling(terminal)
    clock.begin()
    clock.begin()  # a kernel that the first one calls
    clock.end()
    assert terminal.getvalue().endswith("compiling kernels, first use only: 2")
    clock.end()
    assert terminal.getvalue().endswith("\r\x1b[K")  # what follows begins on an empty line
