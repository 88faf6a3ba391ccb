"""Arrays that everything is computed on, numbers from text, random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import InvalidArgument

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.uint8]
HALVINGS = 80  # of an interval in `bisect`


def read_only(array: Floats) -> Floats:
    """Return a read-only view: kernels that only read are compiled once if all hand them one."""
    view = array.view()
    view.flags.writeable = False
    return view


def int_from(text: str) -> int:
    """Parse an integer of ASCII digits."""
    return int(_without_separators(text))


def float_from(text: str) -> float:
    """Parse a number of ASCII digits, nan or inf."""
    return float(_without_separators(text))


def is_count(text: str) -> bool:
    """Return whether the text is digits only."""
    return text.isascii() and text.isdecimal()


def _without_separators(text: str) -> str:
    if not text.isascii() or "_" in text:
        raise InvalidArgument(f"{text!r} is not a number in ASCII digits")
    return text


Rng: TypeAlias = "int | np.random.Generator | None"
LARGEST_SEED = 2**53  # that every reader of JSON keeps
_RULE = "must be a seed (a whole number, zero or more), a numpy.random.Generator, or None"


def seed_of(rng: Rng) -> int:
    """Return a seed: the number itself, one drawn from the generator, or a new one for None."""
    if rng is None or isinstance(rng, np.random.Generator):
        return int((rng or np.random.default_rng()).integers(LARGEST_SEED))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer):
        from .validation import shown

        raise TypeError(f"rng: {shown(rng)} is not allowed; {_RULE}")
    if rng < 0:
        raise InvalidArgument(f"seed: {rng} is not allowed; must be zero or more", field="seed")
    return int(rng)


def streams_of(seed: np.random.SeedSequence, number: int) -> list[np.random.SeedSequence]:
    """Return child seeds as `spawn` does, but the same at every call."""
    spawn_keys = ((*seed.spawn_key, i) for i in range(number))
    return [np.random.SeedSequence(seed.entropy, spawn_key=key) for key in spawn_keys]


def generator_of(rng: Rng) -> np.random.Generator:
    """Return a generator for a seed or generator."""
    return rng if isinstance(rng, np.random.Generator) else np.random.default_rng(seed_of(rng))


def bisect(rising: Callable[[Floats], Floats], value: Floats, end: float) -> Floats:
    """Return where a rising function has these values, between -end and end."""
    low, high = np.full(np.shape(value), -end), np.full(np.shape(value), end)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        under = rising(middle) < value
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return np.asarray(0.5 * (low + high))


def decay_integral(k: Floats, end: Floats) -> Floats:
    """Return the integral of exp(-k t) over [0, end]."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        usual = -np.expm1(-k * end) / k
    return np.where(np.abs(k) * end < 1e-12, end, usual)
