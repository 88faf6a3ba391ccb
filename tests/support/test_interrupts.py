"""Ctrl-C while a kernel runs is heard when its answer is there, and crashes nothing."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from decobandit.support.workers import heard_between_kernels, obeys_workers, raise_between_kernels

# a record in a tuple: numba calls Python twice to make it, first for the class, then for the record
STRUCK = """
import os, signal, threading
from typing import NamedTuple
import numpy as np
from numba import njit
from decobandit.support.workers import heed_interrupt, obeys_workers

class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray

@njit(nogil=True)
def long(rounds):
    x = np.ones(2)
    for i in range(rounds):
        x[i & 1] = np.sqrt(x[1 - (i & 1)] + 1.0)
    return Pair(x, x), 1

@obeys_workers
def strike():
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    while True:
        long(40_000_000)
        heed_interrupt()

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if started in the background
long(1)
for _ in range(3):
    try:
        strike()
    except KeyboardInterrupt:
        print("heard")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_a_kernel_that_returns_a_record_in_a_tuple_can_be_interrupted() -> None:
    run = [sys.executable, "-c", STRUCK]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["heard"] * 3), done.stderr


@pytest.fixture
def default_handler() -> Iterator[None]:
    """Processes that are started in the background ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_handler")
def test_only_the_default_handler_of_the_main_thread_is_replaced() -> None:
    said: list[object] = []

    @obeys_workers
    def handler() -> object:
        return signal.getsignal(signal.SIGINT)

    with heard_between_kernels():
        assert handler() is raise_between_kernels
    assert handler() is raise_between_kernels
    before = signal.signal(signal.SIGINT, lambda number, frame: said.append(number))
    try:
        assert handler() not in (before, raise_between_kernels)
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert said == [signal.SIGINT]
    thread = threading.Thread(target=lambda: said.append(handler()))
    thread.start()
    thread.join()
    assert said[-1] is before
    with pytest.raises(KeyboardInterrupt), heard_between_kernels():
        signal.raise_signal(signal.SIGINT)
