"""Ctrl-C while kernels answer.

A signal that comes while a kernel runs is handled by the first line of Python after it. Where a
kernel returns arrays or records that line is numba's own, which makes the objects of the answer:
numba does not expect an exception there, and the process crashes. Here those lines end first.
"""

import _thread
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")
PAUSE = 0.002  # seconds until an interrupt that came at a bad moment is told again
OBJECTS = "numba/core/serialize.py"  # reads the classes of what a kernel returns
RECORD = ("<string>", "<lambda>")  # file and name of the code that makes a named tuple
_put_off = threading.Event()


def raise_between_kernels(number: int, frame: FrameType | None) -> None:
    """A handler of SIGINT: KeyboardInterrupt, but not while numba makes the answer of a kernel.

    It is then raised by `raise_put_off`, or a moment later where that is between kernels.
    """
    if not _makes_an_answer(frame):
        _put_off.clear()
        signal.default_int_handler(number, frame)
    _put_off.set()
    again = threading.Timer(PAUSE, _tell_again)
    again.daemon = True
    again.start()


def raise_put_off() -> None:
    """Between kernels that follow each other closely: KeyboardInterrupt where one was put off."""
    if _put_off.is_set() and threading.current_thread() is threading.main_thread():
        _put_off.clear()
        raise KeyboardInterrupt


@contextmanager
def heard_between_kernels() -> Iterator[None]:
    """Interrupts of this block come between kernels; in programs without a handler of their own."""
    own = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not own:
        yield
        return
    signal.signal(signal.SIGINT, raise_between_kernels)
    try:
        yield
        raise_put_off()
    finally:
        _put_off.clear()
        signal.signal(signal.SIGINT, own)


def until_interrupted(work: Callable[[S], T], items: Iterable[S]) -> tuple[list[T], bool]:
    """What work makes of the items in their order, and whether Ctrl-C ended it before the last.

    KeyboardInterrupt where it came before the first result.
    """
    results: list[T] = []
    try:
        for item in items:
            results.append(work(item))
    except KeyboardInterrupt:
        if not results:
            raise
        return results, True
    return results, False


def _tell_again() -> None:
    if _put_off.is_set():
        _thread.interrupt_main()


def _makes_an_answer(frame: FrameType | None) -> bool:
    if frame is not None and (frame.f_code.co_filename, frame.f_code.co_name) == RECORD:
        return True
    while frame is not None:
        if frame.f_code.co_filename.replace("\\", "/").endswith(OBJECTS):
            return True
        frame = frame.f_back
    return False
