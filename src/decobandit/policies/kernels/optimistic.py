"""The optimistic Gittins index of a Beta distribution, one step of lookahead.

    x - m = exp(v) E (p - x)^+,        p ~ Beta(a, b), m = a / (a+b), exp(v) = gamma / (1 - gamma)

With S and w of kernels/beta.py, E (p - x)^+ = w(x) / (a+b) - (x - m) S(x): one tail will do.

Notations
    D       1 + exp(v) S(x), minus the derivative of exp(v) E (p - x)^+ - (x - m)
"""

import math

from ...support.kernels.compiled import compiled
from .beta import CLOSE, MOST_STEPS, ROUNDING, curved, log_beta, upper_tail

BELOW_ONE = 1.0 - ROUNDING


@compiled(inline="always")
def normal_start(v):
    """The same index of a standard normal p: a start for others. Newton's method climbs to it."""
    z, odds = 0.0, math.exp(v)
    for _ in range(MOST_STEPS):
        tail = 0.5 * math.erfc(z / math.sqrt(2.0))
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        step = (odds * (density - z * tail) - z) / (1.0 + odds * tail)
        z += step
        if step <= CLOSE:
            break
    return z


@compiled(inline="always")
def optimistic_index(a, b, v, z):
    """x, then its first and second derivative by v; z = normal_start(v).

    exp(v) E (p - x)^+ - (x - m) falls and is convex: Newton's steps from below stay below. Halley's
    are taken where they stay in the bracket.
    """
    m, odds, log_b = a / (a + b), math.exp(v), log_beta(a, b)
    low, high = m, BELOW_ONE
    x = min(m + z * math.sqrt(m * (1.0 - m) / (a + b + 1.0)), high)
    for _ in range(MOST_STEPS):
        w = math.exp(a * math.log(x) + b * math.log1p(-x) - log_b)
        tail = upper_tail(a, b, x, 1.0 - x, w)
        D, around = 1.0 + odds * tail, x * (1.0 - x)
        excess = odds * w / (a + b) - (x - m) * D
        low, high = (x, high) if excess > 0.0 else (low, x)
        newton = excess / D
        step = newton / curved(-0.5 * newton * odds * w / (around * D))
        rate = abs(a - (a + b) * x) + math.sqrt((a + b) * around) + 1.0
        last = abs(step) * rate <= CLOSE * around or high - low <= ROUNDING
        if not low <= x + step <= high:
            step = newton if low <= x + newton <= high else 0.5 * (low + high) - x
        x += step
        if last:
            break
    return _with_slopes(a, b, x, m, odds, log_b)


@compiled(inline="always")
def _with_slopes(a, b, x, m, odds, log_b):
    """x, dx/dv = (x - m) / D, d2x/dv2 at the solution x."""
    if x >= BELOW_ONE or x <= m:
        return x, 0.0, 0.0
    w = math.exp(a * math.log(x) + b * math.log1p(-x) - log_b)
    D = odds * w / ((a + b) * (x - m))  # the equation: no need of the tail
    first = (x - m) / D
    D_slope = D - 1.0 - odds * w / (x * (1.0 - x)) * first
    return x, first, first * (1.0 - D_slope) / D


@compiled
def optimistic_indices(a, b, v, out):
    """Index and slopes of every Beta(a[i], b[i]); out (states, 3)."""
    z = normal_start(v)
    for i in range(a.size):
        out[i, 0], out[i, 1], out[i, 2] = optimistic_index(a[i], b[i], v, z)
