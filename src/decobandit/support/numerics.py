"""Arrays that everything is computed on, numbers from text, integrals, random numbers."""

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
    """Return a read-only view, which is a separate type for the compiler.

    A kernel that only reads is compiled once if all its callers hand it this one.
    """
    view = array.view()
    view.flags.writeable = False
    return view


# -- Numbers from text that people write: ASCII digits, no underscores -----------------------------


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


# -- Integrals over one variable: Gauss and Kronrod's rule of 21 points, halved where needed -------

MOST_HALVINGS = 60
ROUNDING = 50.0 * np.finfo(float).eps  # of a panel's own size: no error is smaller
# half of the nodes, from the end to the middle one; every second is one of Gauss's ten
_NODES = np.array(
    [
        0.995657163025808080735527280689003,
        0.973906528517171720077964012084452,
        0.930157491355708226001207180059508,
        0.865063366688984510732096688423493,
        0.780817726586416897063717578345042,
        0.679409568299024406234327365114874,
        0.562757134668604683339000099272694,
        0.433395394129247190799265943165784,
        0.294392862701460198131126603103866,
        0.148874338981631210884826001129720,
        0.0,
    ]
)
_KRONROD = np.array(
    [
        0.011694638867371874278064396062192,
        0.032558162307964727478818972459390,
        0.054755896574351996031381300244580,
        0.075039674810919952767043140916190,
        0.093125454583697605535065465083366,
        0.109387158802297641899210590325805,
        0.123491976262065851077958109831074,
        0.134709217311473325928054001771707,
        0.142775938577060080797094273138717,
        0.147739104901338491374841515972068,
        0.149445554002916905664936468389821,
    ]
)
_GAUSS = np.array(
    [
        0.066671344308688137593568809893332,
        0.149451349150580593145776339657697,
        0.219086362515982043995534934228163,
        0.269266719309996355091226921569469,
        0.295524224714752870173892994651338,
    ]
)


def _mirrored(half: Floats, sign: float = 1.0) -> Floats:
    return np.concatenate([half, sign * half[-2::-1]])


NODES, KRONROD = _mirrored(_NODES, -1.0), _mirrored(_KRONROD)
GAUSS = np.zeros(NODES.size)
GAUSS[1::2] = np.concatenate([_GAUSS, _GAUSS[::-1]])


def integral(function: Callable[[Floats], Floats], edges: Floats, accuracy: float) -> float:
    """Integrate a function of arrays, (M,) to (M,), from the first edge to the last.

    edges: ascending, where it is known to bend. accuracy: of each panel between two of them, or of
    its half and so on: the error, or the error in parts of the panel's integral.
    """
    left, right, total = edges[:-1], edges[1:], 0.0
    for _ in range(MOST_HALVINGS):
        values, errors, rounding = _panels(function, left, right)
        done = errors <= np.maximum(np.maximum(accuracy, accuracy * np.abs(values)), rounding)
        total += float(values[done].sum())
        if done.all():
            return total
        left, right, values = left[~done], right[~done], values[~done]
        middle = 0.5 * (left + right)
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    return total + float(values.sum())  # panels of no width: a jump


def _panels(
    function: Callable[[Floats], Floats], left: Floats, right: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the integral, the error estimate and the rounding error of each panel."""
    half = 0.5 * (right - left)
    x = (0.5 * (left + right))[:, None] + half[:, None] * NODES
    y = function(x.ravel()).reshape(x.shape)
    mean = 0.5 * (y @ KRONROD)
    spread = half * (np.abs(y - mean[:, None]) @ KRONROD)
    apart = np.abs(half * (y @ (KRONROD - GAUSS)))
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = spread * np.minimum(1.0, (200.0 * apart / spread) ** 1.5)
    errors = np.where(spread > 0.0, errors, apart)
    return 2.0 * half * mean, errors, ROUNDING * half * (np.abs(y) @ KRONROD)


# -- Random numbers are handed in as `rng=`: a seed, or a generator, as NumPy does it --------------

Rng: TypeAlias = "int | np.random.Generator | None"
LARGEST_SEED = 2**53  # that every reader of JSON keeps
_RULE = "must be a seed (a whole number, zero or more), a numpy.random.Generator, or None"


def seed_of(rng: Rng) -> int:
    """Return the seed of a simulation.

    A whole number is the seed itself; a generator is asked for one number, which is; None stands
    for a seed that was not chosen, different each time.
    """
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
