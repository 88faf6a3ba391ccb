"""Indices that are roots in a posterior, their slopes by level, and interpolation over levels.

    S(x) = P(p > x) = I_{1-x}(b, a)         p ~ Beta(a, b), I the regularised incomplete beta
                                            function
    w(x) = x^a (1-x)^b / B(a, b)            = x (1-x) times the density

I_x(a, b) is w(x) over a continued fraction: Didonato and Morris, Significant digit computation of
the incomplete beta function ratios, ACM TOMS 18, 1992. The smaller tail converges fast and keeps
all digits.

The optimistic Gittins index, one step of lookahead, with exp(v) = gamma / (1 - gamma):

    x - m = exp(v) E (p - x)^+              m = a / (a+b)
    E (p - x)^+ = w(x) / (a+b) - (x - m) S(x)

The largest success probability that n outcomes with g good ones do not rule out, for KL-UCB:

    max q  with  n kl(g/n, q) <= v,         kl(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q))

Between levels v_0 and v_0 + h: the polynomial of fifth degree that has x, x', x'' in common with
x(v) at both. Its error is s^3 (1-s)^3 h^6 / 720 times a sixth derivative of x, v = v_0 + s h.

Notations
    v       level
    D       1 + exp(v) S(x), minus the derivative of exp(v) E (p - x)^+ - (x - m)
"""

import math

from ...support.kernels.compiled import compiled

ROUNDING = 1e-16
MAX_TERMS = 100_000  # about the square root of a + b is needed at worst
MAX_STEPS = 200
LAST_STEP = 1e-5  # steps are of third order: one this small against the shape is the last
BELOW_ONE = 1.0 - ROUNDING
ACCURACY = 1e-12  # of the bound; the last step of Newton's method is far below it
NEAR_ONE = 1e-14  # bounds closer to 1 cannot be distinguished
MAX_KL_STEPS = 100


@compiled
def fraction(a, b, x):
    """w(x) / I_x(a, b), by Lentz's method; for x up to about (a+1) / (a+b+2)."""
    below = 1.0 / (a + 1.0)
    value = a * (a - (a + b) * x + 1.0) * below
    c, d = value, 0.0
    for m in range(1, MAX_TERMS):
        part = m * (b - m) * x * below
        top = (a + m - 1.0) * (a + b + m - 1.0) * x * below * part
        below_next = 1.0 / (a + 2.0 * m + 1.0)
        bottom = m + part + (a + m) * (a - (a + b) * x + 1.0 + m * (2.0 - x)) * below_next
        d = 1.0 / (bottom + top * d)
        c = bottom + top / c
        value *= c * d
        if abs(c * d - 1.0) <= 2.0 * ROUNDING:
            break
        below = below_next
    return value


@compiled
def upper_tail(a, b, x, rest, w):
    """S(x), from rest = 1 - x and w(x)."""
    if w == 0.0:
        return 1.0 if x * (a + b) < a else 0.0
    if rest * (a + b + 2.0) <= b + 1.0:
        return w / fraction(b, a, rest)
    return 1.0 - w / fraction(a, b, x)


@compiled(inline="always")
def normal_start(v):
    """Index of a standard normal p, a start for the general case. Newton's method climbs to it."""
    z, odds = 0.0, math.exp(v)
    for _ in range(MAX_STEPS):
        tail = 0.5 * math.erfc(z / math.sqrt(2.0))
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        step = (odds * (density - z * tail) - z) / (1.0 + odds * tail)
        z += step
        if step <= LAST_STEP:
            break
    return z


@compiled(inline="always")
def optimistic_index(a, b, log_b, v, z):
    """x, then its first and second derivative by v; z = normal_start(v).

    exp(v) E (p - x)^+ - (x - m) falls and is convex: Newton's steps from below stay below. Halley's
    are taken where they stay in the bracket.
    """
    m, odds = a / (a + b), math.exp(v)
    low, high = m, BELOW_ONE
    x = min(m + z * math.sqrt(m * (1.0 - m) / (a + b + 1.0)), high)
    for _ in range(MAX_STEPS):
        w = math.exp(a * math.log(x) + b * math.log1p(-x) - log_b)
        tail = upper_tail(a, b, x, 1.0 - x, w)
        D, around = 1.0 + odds * tail, x * (1.0 - x)
        excess = odds * w / (a + b) - (x - m) * D
        low, high = (x, high) if excess > 0.0 else (low, x)
        newton = excess / D
        # kept near that of Newton: far out it would creep
        step = newton / min(max(1.0 - 0.5 * newton * odds * w / (around * D), 0.5), 2.0)
        rate = abs(a - (a + b) * x) + math.sqrt((a + b) * around) + 1.0
        last = abs(step) * rate <= LAST_STEP * around or high - low <= ROUNDING
        if not low <= x + step <= high:
            step = newton if low <= x + newton <= high else 0.5 * (low + high) - x
        x += step
        if last:
            break
    if x >= BELOW_ONE or x <= m:
        return x, 0.0, 0.0
    w = math.exp(a * math.log(x) + b * math.log1p(-x) - log_b)
    D = odds * w / ((a + b) * (x - m))  # the equation: no need of the tail
    first = (x - m) / D
    D_slope = D - 1.0 - odds * w / (x * (1.0 - x)) * first
    return x, first, first * (1.0 - D_slope) / D


@compiled
def optimistic_indices(a, b, log_b, v, out):
    """Index and slopes of every Beta(a[i], b[i]); log_b (states,) of log B, out (states, 3)."""
    z = normal_start(v)
    for i in range(a.size):
        out[i, 0], out[i, 1], out[i, 2] = optimistic_index(a[i], b[i], log_b[i], v, z)


@compiled(inline="always")
def kl_upper_bound(p, level):
    """The largest q with kl(p, q) <= level: Newton's method from above.

    kl(p, .) is convex and grows to the right of p, so that steps from above stay above. Above are
    Pinsker's bound p + sqrt(level / 2), and what is left when p log q is dropped from kl.
    """
    if p >= 1.0 or level <= 0.0:
        return p
    other = 1.0 - p
    negentropy = other * math.log(other) + (p * math.log(p) if p > 0.0 else 0.0)
    dropped = -math.expm1((negentropy - level) / other)
    if p == 0.0 or dropped >= 1.0 - NEAR_ONE:
        return dropped
    q = min(p + math.sqrt(level / 2.0), dropped)
    for _ in range(MAX_KL_STEPS):
        gap = q - p
        excess = -p * math.log1p(gap / p) - other * math.log1p(-gap / other) - level
        step = excess * q * (1.0 - q) / gap
        q -= step
        if abs(step) <= ACCURACY:
            break
    return q


@compiled
def kl_upper_bounds(n, g, v, out):
    """Bound, then its first and second derivative by v, of every state; out (states, 3)."""
    for i in range(n.size):
        p = g[i] / n[i] if n[i] > 0.0 else 1.0
        q = kl_upper_bound(p, v / n[i]) if n[i] > 0.0 else 1.0
        out[i, 0], out[i, 1], out[i, 2] = q, 0.0, 0.0
        if p < q < 1.0:
            first = q * (1.0 - q) / (q - p)
            out[i, 1] = first / n[i]
            out[i, 2] = out[i, 1] * (1.0 - 2.0 * q - first) / (q - p) / n[i]


@compiled
def interpolate(left, right, s, h, out):
    """out (states,): states of left and right (at least as many, 3) at v_0 + s h."""
    u, cube = 1.0 - s, s * s * s
    w_0 = cube * (1.0 + u * (3.0 + 6.0 * u))  # that of the left value is 1 - w_0
    w_1 = u * u * u * s * (1.0 + 3.0 * s) * h
    w_2 = u * u * u * s * s * 0.5 * h * h
    w_3 = -cube * u * (1.0 + 3.0 * u) * h
    w_4 = cube * u * u * 0.5 * h * h
    for i in range(out.size):
        out[i] = (
            left[i, 0]
            + w_0 * (right[i, 0] - left[i, 0])  # exact where they are equal: no index above 1
            + (w_1 * left[i, 1] + w_3 * right[i, 1])
            + (w_2 * left[i, 2] + w_4 * right[i, 2])
        )
